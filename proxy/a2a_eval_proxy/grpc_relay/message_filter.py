"""Removes the extension from A2A messages of a client that did not ask for it. Pure.

The result is what the agent would have sent to a client that never asked; fields that the proxy does not know are kept.
`a2a_tool_capture.places` lists where the extension may appear.
"""

from __future__ import annotations

from typing import Any

from a2a_tool_capture import places
from a2a_tool_capture.spec import is_capture_uri
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

from ..protocol.extension_scanner import MARKER, KeepTask
from .messages import as_json

_MARKER = MARKER.encode()
_STRUCT = "google.protobuf.Struct"
_TASK_IDS = ("id", "task_id")
_NUMBER_BYTES = 9
"""The size of a number; content that is empty in JSON takes fewer bytes."""


def may_hold_extension(data: bytes) -> bool:
    """Whether an encoded message must be read; never wrongly False: strings are encoded as they are."""
    return _MARKER in data


def replace_unreadable_calls(message: Message) -> None:
    """Put the reason in place of each tool call that cannot be read as JSON, so that its readers report the call."""
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        if field.name == places.METADATA and field.message_type.full_name == _STRUCT:
            for name in filter(is_capture_uri, value.fields):
                calls = value.fields[name]
                for call in calls.list_value.values if calls.HasField("list_value") else (calls,):
                    try:
                        as_json(call)
                    except ValueError as error:
                        call.string_value = str(error)
        elif field.json_name in places.HOLDERS:
            for held in value if field.is_repeated else (value,):
                replace_unreadable_calls(held)


class MessageFilter:
    """Filters the responses of one call, in order."""

    def __init__(self, keep_task: KeepTask) -> None:
        """`keep_task`: whether the client asked for the calls of a task (its id) earlier; None: of no task."""
        self._keep_task = keep_task
        self._withheld: set[str] = set()
        """Ids of the artifacts that this client has not received."""

    def needs(self, data: bytes) -> bool:
        """Whether the message must be decoded and filtered."""
        return bool(self._withheld) or may_hold_extension(data)

    def apply(self, message: Message) -> bool:
        """Remove the extension from `message` in place; returns whether the client gets the message at all."""
        shown = self._update(message) if message.DESCRIPTOR.name == "StreamResponse" else True
        if shown:
            self._strip(message)
        return shown

    def _update(self, event: Message) -> bool:
        """Whether the client gets an event: one that exists for its tool calls alone is withheld."""
        if not event.HasField("artifact_update"):
            return True
        update: Any = event.artifact_update
        if self._kept(update):
            return True
        artifact = _outline(update.artifact)
        name = update.artifact.artifact_id
        exists_for_calls = places.exists_for_calls(artifact)
        if name not in self._withheld:
            if exists_for_calls and not update.append:
                self._withheld.add(name)
            # The last chunk tells the client that its artifact is complete.
            return not exists_for_calls or (update.append and update.last_chunk)
        if exists_for_calls or (update.append and places.holds_nothing(artifact)):
            return False
        self._withheld.discard(name)
        update.append = False  # the first part of the artifact that this client gets
        return True

    def _kept(self, message: Message, within_kept: bool = False) -> bool:
        """Whether the client may see the calls of the task that `message` is about; it may be part of another one."""
        if self._keep_task is None:
            return False
        fields = message.DESCRIPTOR.fields_by_name
        task_id = next((getattr(message, name) for name in _TASK_IDS if name in fields and getattr(message, name)), "")
        return self._keep_task(task_id) if task_id else within_kept

    def _strip(self, message: Message, within_kept: bool = False) -> None:
        kept = self._kept(message, within_kept)
        for field, value in message.ListFields():
            if field.message_type is None:
                if field.name == places.EXTENSIONS and not kept and any(map(is_capture_uri, value)):
                    value[:] = [uri for uri in value if not is_capture_uri(uri)]
            elif field.message_type.full_name == _STRUCT:
                if field.name == places.METADATA and not kept:
                    _strip_metadata(message, value)
            elif field.json_name in places.HOLDERS:  # the Message of an event is `msg` in 0.3, its JSON name `message`
                if field.is_repeated:
                    self._strip_entries(field.name, value, kept)
                else:
                    self._strip(value, kept)

    def _strip_entries(self, name: str, entries: Any, kept: bool) -> None:
        if name in places.ENTRY_LISTS:
            own = [
                number
                for number, entry in enumerate(entries)
                if not self._kept(entry, kept) and places.exists_for_calls(_outline(entry))
            ]
            if len(own) < len(entries) or name in ("artifacts", "history"):  # a message must have parts
                if name == "artifacts":
                    self._withheld.update(entries[number].artifact_id for number in own)
                for number in reversed(own):
                    del entries[number]
        for entry in entries:
            self._strip(entry, kept)


def _outline(entry: Message) -> dict[str, Any]:
    """The JSON of an artifact, message or part as far as `places` reads it: content that is not empty may be True."""
    outline: dict[str, Any] = {}
    for field, value in entry.ListFields():
        if field.message_type is None:
            outline[field.name] = list(value) if field.is_repeated else value
        elif field.message_type.full_name == _STRUCT and field.name == places.METADATA:
            outline[field.name] = {name: [True] * bool(item.list_value.values) for name, item in value.fields.items()}
        elif field.is_repeated:
            outline[field.name] = [_outline(item) for item in value]
        else:
            outline[field.name] = MessageToDict(value) if value.ByteSize() < _NUMBER_BYTES else True
    return outline


def _strip_metadata(holder: Message, metadata: Any) -> None:
    names = [name for name in metadata.fields if is_capture_uri(name)]
    for name in names:
        del metadata.fields[name]
    if names and not metadata.fields:
        holder.ClearField(places.METADATA)
