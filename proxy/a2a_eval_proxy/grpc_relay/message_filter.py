"""Removes the extension from encoded A2A messages of a client that did not ask for it. Pure.

What is removed is what `a2a_tool_capture.extension_filter` removes from JSON: it filters the Structs in a message, and
what exists for its calls alone is found by its rules. Fields that the proxy does not know stay; of a field that is
there twice, what was looked at.
"""

from __future__ import annotations

from typing import Any

from a2a_tool_capture.extension_filter import (
    ENTRY_LISTS,
    EXTENSIONS,
    MARKER,
    METADATA,
    PARTS,
    ExtensionFilter,
    KeepTask,
    Shown,
    holds_nothing,
    shown_update,
)
from a2a_tool_capture.spec import is_capture_uri
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import ListValue

from .messages import as_json, decoded, value_content

_TASK_IDS = ("id", "task_id")
_JSON = frozenset({"google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue"})


class MessageFilter:
    """Filters the responses of one call, in order."""

    def __init__(self, message_type: type[Message], keep_task: KeepTask) -> None:
        self._type = message_type
        self._keep_task = keep_task
        self._withheld: set[str] = set()
        """Ids of the artifacts that this client has not received."""
        self._json = ExtensionFilter(keep_task, self._withheld)

    def shown(self, data: bytes) -> bytes | None:
        """What the client gets of an encoded message, `data` itself where it is not named; None: nothing.

        Raises ValueError where `data` is no message.
        """
        is_named = MARKER in data  # strings are encoded as they are
        if not (is_named or self._withheld):
            return data
        message: Any = decoded(self._type, data)
        outcome = self._shown_update(getattr(message, "artifact_update", None))
        if outcome is Shown.NOT:
            return None
        if outcome is Shown.WHOLE and not is_named:
            return data
        self._cut(message, kept=False)
        return bytes(message.SerializeToString())

    def _shown_update(self, update: Any) -> Shown:
        """Cut an artifact update, if the message has one."""
        if update is None or not update.HasField("artifact") or self._keeps(update, kept=False):
            return Shown.WHOLE
        calls = self._json.calls
        self._cut(update.artifact, kept=False)
        outcome = shown_update(
            self._withheld,
            update.artifact.artifact_id,
            is_empty=_holds_nothing(update.artifact),
            has_calls=self._json.calls > calls,
            appends=update.append,
            ends=update.last_chunk,
        )
        if outcome is Shown.AS_FIRST:
            update.ClearField("append")
        return outcome

    def _keeps(self, message: Any, *, kept: bool) -> bool:
        """Whether the calls in a message stay: the id of its task decides."""
        if self._keep_task is None:
            return False
        ids = (task_id for name in _TASK_IDS if (task_id := getattr(message, name, "")) and isinstance(task_id, str))
        task_id = next(ids, "")
        return self._keep_task(task_id) if task_id else kept

    def _cut(self, message: Any, *, kept: bool) -> None:
        kept = self._keeps(message, kept=kept)
        for field, value in message.ListFields():
            kind = field.message_type
            if kind is None:
                if field.name == EXTENSIONS and not kept:
                    _keep_only(value, [not is_capture_uri(uri) for uri in value])
            elif kind.full_name in _JSON:
                content = value_content(value)
                shown = self._json.value(content, kept=kept, name=field.name)
                if shown is not content:
                    _set_value(message, field.name, value, shown)
            elif not field.is_repeated:
                self._cut(value, kept=kept)
            elif not kind.GetOptions().map_entry:  # answers have none
                self._cut_entries(field.name, value, kept=kept)

    def _cut_entries(self, name: str, entries: Any, *, kept: bool) -> None:
        stays = []
        for entry in entries:
            calls = self._json.calls
            self._cut(entry, kept=kept)
            stays.append(not (self._json.calls > calls and name in ENTRY_LISTS and _holds_nothing(entry)))
        if name == "artifacts":
            self._withheld.update(entry.artifact_id for entry, stay in zip(entries, stays, strict=True) if not stay)
        if any(stays) or name not in PARTS:
            _keep_only(entries, stays)


def _keep_only(entries: Any, stays: list[bool]) -> None:
    for number in reversed(range(len(stays))):
        if not stays[number]:
            del entries[number]


def _holds_nothing(message: Message) -> bool:
    try:
        return holds_nothing(as_json(message))
    except ValueError:  # content that JSON cannot carry
        return False


def _set_value(holder: Any, name: str, value: Any, content: Any) -> None:
    """Set the Struct, Value or ListValue in the field `name` of a message; emptied metadata goes."""
    if name == METADATA and not content:
        holder.ClearField(name)
        return
    one = ListValue()
    one.extend([content])
    held = one.values[0]
    kind = value.DESCRIPTOR.name
    same = held.struct_value if kind == "Struct" else held.list_value if kind == "ListValue" else held
    value.ParseFromString(same.SerializeToString())  # its class may be another than that of `same`
