"""Removes the extension from encoded A2A messages of a client that did not ask for it. Pure.

The result is what the agent would have sent to a client that never asked. It is cut by field numbers: all other bytes
stay, of fields that the proxy does not know, too, and nothing depends on what tool calls contain.
`a2a_tool_capture.extension_positions` lists where the extension may appear.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from a2a_tool_capture import extension_positions
from a2a_tool_capture.spec import is_capture_uri
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from ..protocol.extension_scanner import MARKER, KeepTask
from .messages import as_json

_MARKER = MARKER.encode()
_STRUCT = "google.protobuf.Struct"
_TASK_IDS = ("id", "task_id")
_NUMBER_BYTES = 9
"""The size of a number; content that is empty in JSON takes fewer bytes."""

_LIST_VALUE = 6
"""The field of google.protobuf.Value that has a list."""


def may_hold_extension(data: bytes) -> bool:
    """Whether an encoded message must be read; never wrongly False: strings are encoded as they are."""
    return _MARKER in data


def replace_unreadable_calls(message: Message) -> None:
    """Put the reason in place of each tool call that cannot be read as JSON, so that its readers report the call."""
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        if field.name == extension_positions.METADATA and field.message_type.full_name == _STRUCT:
            for name in filter(is_capture_uri, value.fields):
                calls = value.fields[name]
                for call in calls.list_value.values if calls.HasField("list_value") else (calls,):
                    try:
                        as_json(call)
                    except ValueError as error:
                        call.string_value = str(error)
        elif field.json_name in extension_positions.HOLDERS:
            for held in value if field.is_repeated else (value,):
                replace_unreadable_calls(held)


class MessageFilter:
    """Filters the responses of one call, in order."""

    def __init__(self, message_type: type[Message], keep_task: KeepTask) -> None:
        """`keep_task`: whether the client asked for the calls of a task (its id) earlier; None: of no task."""
        self._type: Descriptor = message_type.DESCRIPTOR
        self._keep_task = keep_task
        self._withheld: set[str] = set()
        """Ids of the artifacts that this client has not received."""

    def shown(self, data: bytes) -> bytes | None:
        """What the client gets of an encoded message, `data` itself where nothing is removed; None: nothing.

        Raises ValueError where `data` is no message.
        """
        if not (self._withheld or may_hold_extension(data)):
            return data
        message = _Part(data, 0, len(data), _outline_of(self._type))
        if message.outline.name == "StreamResponse":
            updated = self._updated(message)
            if updated is None:
                return None
            message = _Part(updated, 0, len(updated), message.outline)
        cut = self._cut(message, within_kept=False)
        return message.data if cut is None else cut

    def _updated(self, event: _Part) -> bytes | None:
        """The event; None: it is withheld, as one is that exists for its tool calls alone."""
        update = event.member("artifact_update")
        artifact = None if update is None else update.member("artifact")
        if update is None or artifact is None or self._kept(update, within_kept=False):
            return event.data
        content = artifact.content()
        name = artifact.text("artifact_id")
        append, last_chunk = (update.flag(name) for name in ("append", "last_chunk"))
        exists_for_calls = extension_positions.exists_for_calls(content)
        if name not in self._withheld:
            if exists_for_calls and not append:
                self._withheld.add(name)
            # The last chunk tells the client that its artifact is complete.
            return event.data if not exists_for_calls or (append and last_chunk) else None
        if exists_for_calls or (append and extension_positions.holds_nothing(content)):
            return None
        self._withheld.discard(name)
        # It is the first part of the artifact that this client gets.
        return event.data if not append else event.with_member("artifact_update", update.without("append"))

    def _kept(self, part: _Part, *, within_kept: bool) -> bool:
        """Whether the client may see the calls of the task that a message is about; it may be part of another one."""
        if self._keep_task is None:
            return False
        task_id = next((text for name in _TASK_IDS if (text := part.text(name))), "")
        return self._keep_task(task_id) if task_id else within_kept

    def _cut(self, part: _Part, *, within_kept: bool) -> bytes | None:
        """A message without the extension; None: it has none."""
        kept = self._kept(part, within_kept=within_kept)
        naming, held = part.naming_extension()
        own = self._entries_for_calls(part, held, kept=kept) if held else ()
        pieces, done = [], part.start
        for known, field in naming:
            if field in own:
                changed: bytes | None = b""
            elif known.name == extension_positions.EXTENSIONS:
                changed = b"" if not kept and is_capture_uri(part.decoded(field)) else None
            elif known.is_metadata:
                changed = None if kept else _framed(part, field, _without_calls(part.inside(field)))
            elif known.holds:
                changed = _framed(part, field, self._cut(held[field], within_kept=kept), keep_empty=True)
            else:
                changed = None
            if changed is not None:
                _, start, _, end = field
                pieces += [part.data[done:start], changed]
                done = end
        return b"".join([*pieces, part.data[done : part.end]]) if pieces else None

    def _entries_for_calls(self, part: _Part, held: dict[_WireField, _Part], *, kept: bool) -> set[_WireField]:
        """The entries of lists that exist for their calls alone, and go. `held`: messages that name the extension."""
        lists: dict[int, list[_WireField]] = {}
        for field, entry in held.items():
            if field[0] in part.outline.entry_lists and self._is_own(entry, kept):
                lists.setdefault(field[0], []).append(field)
        found: set[_WireField] = set()
        for number, own in lists.items():
            name = part.outline.entry_lists[number].name
            # A message must have parts.
            if name in ("artifacts", "history") or len(own) < [field[0] for field in part.fields].count(number):
                found.update(own)
                if name == "artifacts":
                    self._withheld.update(held[field].text("artifact_id") for field in own)
        return found

    def _is_own(self, entry: _Part, kept: bool) -> bool:
        return not self._kept(entry, within_kept=kept) and extension_positions.exists_for_calls(entry.content())


# ── the wire format ─────────────────────────────────────────────────────────────────────────────────────────


_WireField = tuple[int, int, int, int]
"""A field: its number, where it starts, where its content does, if it has a length (else -1), and where it ends."""


@dataclass(frozen=True, slots=True)
class _KnownField:
    name: str
    kind: Descriptor | None
    """Of a message."""
    is_repeated: bool
    is_text: bool
    is_metadata: bool
    holds: bool
    """Whether the extension may be within it."""


@dataclass(frozen=True, slots=True)
class _Outline:
    """What the filter knows of a type of messages."""

    name: str
    fields: dict[int, _KnownField]
    numbers: dict[str, int]
    entry_lists: dict[int, _KnownField]
    """Those of `fields` whose entries may exist for their calls alone."""


@cache
def _outline_of(kind: Descriptor) -> _Outline:
    known = {field.number: _known(field) for field in kind.fields}
    lists = {
        number: field
        for number, field in known.items()
        if field.holds and field.is_repeated and field.name in extension_positions.ENTRY_LISTS
    }
    return _Outline(kind.name, known, {field.name: number for number, field in known.items()}, lists)


def _known(field: FieldDescriptor) -> _KnownField:
    kind = field.message_type
    is_struct = kind is not None and kind.full_name == _STRUCT
    return _KnownField(
        name=field.name,
        kind=kind,
        is_repeated=field.is_repeated,
        is_text=field.type in (field.TYPE_STRING, field.TYPE_BYTES),
        is_metadata=is_struct and field.name == extension_positions.METADATA,
        holds=kind is not None and not is_struct and field.json_name in extension_positions.HOLDERS,
    )


class _Part:
    """A message within the bytes of another one."""

    def __init__(self, data: bytes, start: int, end: int, outline: _Outline) -> None:
        """Raises ValueError."""
        self.data = data
        self.start = start
        self.end = end
        self.outline = outline
        self.fields: list[_WireField] = []
        while start < end:
            key, at = (data[start], start + 1) if data[start] < 0x80 else _varint(data, start, end)
            content = -1
            if key & 7 == 2:
                size, content = (data[at], at + 1) if at < end and data[at] < 0x80 else _varint(data, at, end)
                stop = content + size
            else:
                stop = _skipped(data, at, end, key)
            if stop > end or not key >> 3:
                raise ValueError("not a message: a field is longer than what holds it, or has no number")
            self.fields.append((key >> 3, start, content, stop))
            start = stop

    def naming_extension(self) -> tuple[list[tuple[_KnownField, _WireField]], dict[_WireField, _Part]]:
        """The known fields whose content names the extension, and the messages in those that may hold it.

        Raises ValueError.
        """
        naming, held = [], {}
        for field in self.fields:
            number, _, content, end = field
            known = self.outline.fields.get(number)
            if known is not None and content >= 0 and self.data.find(_MARKER, content, end) >= 0:
                naming.append((known, field))
                if known.holds:
                    held[field] = self.inside(field)
        return naming, held

    def inside(self, field: _WireField) -> _Part:
        """The message in a field. Raises ValueError."""
        number, _, content, end = field
        kind = self.outline.fields[number].kind
        assert kind is not None  # noqa: S101
        return _Part(self.data, content, end, _outline_of(kind))

    def decoded(self, field: _WireField) -> str:
        return self.data[field[2] : field[3]].decode("utf-8", "replace")

    def _last(self, name: str) -> _WireField | None:
        """The last field of this name, which is the one that counts."""
        number = self.outline.numbers.get(name)
        for field in reversed(self.fields):
            if field[0] == number:
                return field
        return None

    def text(self, name: str) -> str:
        """A text, or ""."""
        field = self._last(name)
        return "" if field is None or field[2] < 0 else self.decoded(field)

    def flag(self, name: str) -> bool:
        field = self._last(name)
        return field is not None and self.data[field[3] - 1] != 0

    def member(self, name: str) -> _Part | None:
        """A message. Raises ValueError."""
        field = self._last(name)
        return None if field is None or field[2] < 0 else self.inside(field)

    def without(self, name: str) -> bytes:
        """Its bytes without a field."""
        removed = self.outline.numbers[name]
        return b"".join([self.data[start:end] for number, start, _, end in self.fields if number != removed])

    def with_member(self, name: str, content: bytes) -> bytes:
        """Its bytes with another message in place of one."""
        replaced = self._last(name)
        assert replaced is not None  # noqa: S101
        framed = _framed(self, replaced, content, keep_empty=True)
        return b"".join([self.data[self.start : replaced[1]], framed or b"", self.data[replaced[3] : self.end]])

    def content(self) -> dict[str, Any]:
        """Its JSON as far as `places` reads it: content that is not empty may be True, and what follows it missing.

        Raises ValueError.
        """
        content: dict[str, Any] = {}
        for field in self.fields:
            known = self.outline.fields.get(field[0])
            if known is None or (field[2] < 0 and (known.kind is not None or known.is_text)):
                continue
            size = field[3] - field[2]
            value: Any = True
            if known.is_metadata:
                value = dict(_metadata(self.inside(field)))
            elif known.kind is not None and known.is_repeated:
                value = self.inside(field).content()
                if not extension_positions.holds_nothing(value):
                    return {known.name: [value]}  # then nothing else matters
            elif known.kind is not None and size < _NUMBER_BYTES:
                value = _small(known.kind, self.data[field[2] : field[3]])
            elif known.name == extension_positions.EXTENSIONS or (known.is_text and not size):
                value = self.decoded(field)
            if known.is_repeated:
                content.setdefault(known.name, []).append(value)
            else:
                content[known.name] = value
        return content


def _small(kind: Descriptor, data: bytes) -> Any:
    message = GetMessageClass(kind)()
    try:
        message.ParseFromString(data)
        return MessageToDict(message)
    except Exception:  # noqa: BLE001  # protobuf has several; the client cannot read it either
        return True


def _metadata(struct: _Part) -> Iterator[tuple[str, list[bool]]]:
    """The names in metadata, and whether they have a list that is not empty. Raises ValueError."""
    for entry in struct.fields:
        if entry[0] == 1 and entry[2] >= 0:
            pair = struct.inside(entry)
            value = pair.member("value")
            calls = None if value is None else value.member("list_value")
            yield pair.text("key"), [True] * (calls is not None and bool(calls.fields))


def _without_calls(struct: _Part) -> bytes | None:
    """Metadata without the extension; None: it has none. Raises ValueError."""
    kept = [
        struct.data[field[1] : field[3]]
        for field in struct.fields
        if field[0] != 1 or field[2] < 0 or not is_capture_uri(struct.inside(field).text("key"))
    ]
    return None if len(kept) == len(struct.fields) else b"".join(kept)


def _framed(part: _Part, field: _WireField, content: bytes | None, *, keep_empty: bool = False) -> bytes | None:
    """A field with another content; None: it stays as it is. An empty one goes unless `keep_empty`."""
    if content is None or not (content or keep_empty):
        return content
    start = at = field[1]
    while part.data[at] > 0x7F:
        at += 1
    size, length = bytearray(), len(content)
    while length > 0x7F:
        size.append(length & 0x7F | 0x80)
        length >>= 7
    size.append(length)
    return part.data[start : at + 1] + bytes(size) + content


def _skipped(data: bytes, at: int, end: int, key: int) -> int:
    """Where a field without a length ends. Raises ValueError."""
    kind = key & 7
    if kind == 0:
        return _varint(data, at, end)[1]
    if kind in (1, 5):
        return at + (8 if kind == 1 else 4)
    open_groups = [key] if kind == 3 else []
    while open_groups:
        inner, at = _varint(data, at, end)
        if inner & 7 == 3:
            open_groups.append(inner)
        elif inner & 7 == 4:
            if open_groups.pop() != inner - 1:
                break
            if not open_groups:
                return at
        elif inner & 7 == 2:
            size, at = _varint(data, at, end)
            at += size
        else:
            at = _skipped(data, at, end, inner)
    raise ValueError("not a message: a field has a type that there is not, or a group does not end")


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """A number, and where it ends. Raises ValueError."""
    value = shift = 0
    while at < end and shift < 64:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise ValueError("not a message: a number does not end")
