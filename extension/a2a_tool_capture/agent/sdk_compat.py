"""One interface to the messages of both generations of a2a-sdk: protobuf in 1.x, pydantic models in 0.3."""

from __future__ import annotations

from typing import Any, TypeVar

from a2a.types import Artifact, Message, Part, Task, TaskState

from ..wire import normalize_state

M = TypeVar("M")

LEGACY: bool = hasattr(Task, "model_copy")
"""Whether a2a-sdk 0.3 is installed."""


def copied(message: M) -> M:
    """A deep copy of a message of the SDK."""
    if LEGACY:
        copy: M = message.model_copy(deep=True)  # type: ignore[attr-defined]  # depends on the installed SDK
        return copy
    fresh = type(message)()
    fresh.CopyFrom(message)  # type: ignore[attr-defined]  # depends on the installed SDK
    return fresh


def state_name(status: Any) -> str:
    """The state of a `TaskStatus` as 1.0 names it: `TASK_STATE_COMPLETED`."""
    return normalize_state(status.state.value if LEGACY else TaskState.Name(status.state)) or ""


def entries(message: Any, field: str) -> list[Any]:
    """The entries of a list in a message, not copies; [] if the message has no such list."""
    return list(getattr(message, field, None) or ())


def set_entries(message: Any, field: str, wanted: list[Any]) -> None:
    """Replace the entries of a list in a message; `wanted` may contain some of them."""
    if LEGACY:
        setattr(message, field, wanted or None)
        return
    kept = [entry if isinstance(entry, str) else copied(entry) for entry in wanted]
    del getattr(message, field)[:]
    getattr(message, field).extend(kept)


def as_json(message: Any) -> Any:
    """A message of the SDK as JSON values."""
    if LEGACY:
        return message.model_dump(mode="json", by_alias=True, exclude_none=True)
    from google.protobuf.json_format import MessageToDict

    return MessageToDict(message)


def from_json(kind: type[M], content: Any) -> M:
    """The message of the SDK of which `content` is `as_json`."""
    message: M
    if LEGACY:
        message = kind.model_validate(content)  # type: ignore[attr-defined]  # depends on the installed SDK
    else:
        from google.protobuf.json_format import ParseDict

        message = ParseDict(content, kind())
    return message


def contains_text(message: Any, text: str) -> bool:
    """Whether `text` (ASCII) is anywhere in a message of the SDK."""
    content = message.model_dump_json().encode() if LEGACY else message.SerializeToString()
    return text.encode("ascii") in content


def set_metadata(holder: Artifact | Message, key: str, value: Any) -> None:
    """Set a key of an artifact's or a message's metadata to `value`, plain JSON."""
    if LEGACY:
        holder.metadata = {**(holder.metadata or {}), key: value}
    else:
        holder.metadata.update({key: value})


def text_part(text: str) -> Part:
    """A part that holds `text`."""
    if LEGACY:
        from a2a.types import TextPart  # type: ignore[attr-defined]  # depends on the installed SDK

        return Part(root=TextPart(text=text))  # type: ignore[call-arg]  # as above
    return Part(text=text)
