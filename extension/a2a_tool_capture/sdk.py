"""The same few things in both generations of a2a-sdk: 1.x has protobuf messages, 0.3 pydantic models."""

from __future__ import annotations

from typing import Any, TypeVar

from a2a.types import Artifact, Part, Task, TaskState

from .wire import normalize_state

M = TypeVar("M")

LEGACY: bool = hasattr(Task, "model_copy")
"""Whether a2a-sdk 0.3 is installed."""

CHUNKS_CARRY_METADATA = not LEGACY
"""Whether servers merge the metadata of later chunks into a stored artifact; those of 0.3 drop it."""


def copied(message: M) -> M:
    """A deep copy of a message of the SDK."""
    if LEGACY:
        copy: M = message.model_copy(deep=True)  # type: ignore[attr-defined]  # of the SDK that is installed, one has it
        return copy
    fresh = type(message)()
    fresh.CopyFrom(message)  # type: ignore[attr-defined]  # of the SDK that is installed, one has it
    return fresh


def state_name(status: Any) -> str:
    """The state of a `TaskStatus` as 1.0 names it: `TASK_STATE_COMPLETED`."""
    name = status.state.value if LEGACY else TaskState.Name(status.state)
    return normalize_state(name) or ""


def artifacts_of(task: Task) -> list[Artifact]:
    """The artifacts of a task, in order; those of the task itself, not copies."""
    return list(task.artifacts or ())


def set_artifacts(task: Task, artifacts: list[Artifact]) -> None:
    """Give a task these artifacts, some of which may be its own."""
    kept = [copied(artifact) for artifact in artifacts]
    if LEGACY:
        task.artifacts = kept
    else:
        del task.artifacts[:]
        task.artifacts.extend(kept)


def extensions_of(artifact: Artifact) -> list[str]:
    """URIs that an artifact lists."""
    return list(artifact.extensions or ())


def set_extensions(artifact: Artifact, uris: list[str]) -> None:
    """Give an artifact this list of URIs."""
    if LEGACY:
        artifact.extensions = uris or None
    else:
        artifact.extensions[:] = uris


def metadata_of(artifact: Artifact) -> dict[str, Any]:
    """The metadata of an artifact as plain values, {} for none: a copy where the SDK has no dictionaries."""
    if LEGACY:
        return artifact.metadata or {}
    from google.protobuf.json_format import MessageToDict

    plain: dict[str, Any] = MessageToDict(artifact.metadata)
    return plain


def metadata_keys(artifact: Artifact) -> list[str]:
    """What `metadata_of` has keys for, without converting the values."""
    return list(artifact.metadata or ())


def set_metadata(artifact: Artifact, key: str, value: Any) -> None:
    """Put `value`, plain JSON, under a key of an artifact's metadata."""
    if LEGACY:
        artifact.metadata = {**(artifact.metadata or {}), key: value}
    else:
        artifact.metadata.update({key: value})


def drop_metadata(artifact: Artifact, keys: list[str]) -> None:
    """Take keys out of an artifact's metadata, and the metadata if nothing else is in it."""
    for key in keys:
        del artifact.metadata[key]
    if not artifact.metadata:
        if LEGACY:
            artifact.metadata = None
        else:
            artifact.ClearField("metadata")


def text_part(text: str) -> Part:
    """A part that holds `text`."""
    if LEGACY:
        from a2a.types import TextPart  # type: ignore[attr-defined]  # of the SDK that is installed, one has it

        return Part(root=TextPart(text=text))  # type: ignore[call-arg]  # as above
    return Part(text=text)


def holds_text(artifact: Artifact) -> bool:
    """Whether any part of an artifact is a text that is not empty."""
    return any(getattr(getattr(part, "root", part), "text", "") for part in artifact.parts)
