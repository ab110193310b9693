"""Refuses bodies, for example those that would exhaust memory when decoded: 16 KiB of gzip can become a gigabyte.

Two bytes of protobuf encode an empty span, which takes 184 bytes in memory, and the decoder holds the interpreter lock
until it finishes. Real exports take one to four times their size as protobuf, about ten times as JSON.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar


class BodyError(Exception):
    """A refused request; the message describes the problem and what is accepted."""

    status: ClassVar[int]  # the HTTP status of the response


class MalformedError(BodyError):
    """Not OTLP, truncated, or not of its content type."""

    status = 400


class PayloadTooLargeError(BodyError):
    """The body exceeds a limit of the receiver: as sent, decompressed, or decoded."""

    status = 413


class UnsupportedError(BodyError):
    """An unsupported content type or content encoding."""

    status = 415


class BusyError(BodyError):
    """Too many requests wait to be processed; the only one that senders retry."""

    status = 503


MAX_DEPTH = 100  # maximum nesting of messages: the default limit of protobuf implementations
_MAX_MEMORY_FACTOR = 10
_MESSAGE_BYTES, _STRING_FIELD_BYTES, _OTHER_FIELD_BYTES = 16, 16, 8  # memory in upb, the C core of protobuf
_DICT_BYTES, _LIST_BYTES, _ITEM_BYTES = 184, 64, 40
"""Memory in CPython: a dict with one key, an empty list, a further item of either."""

_WINDOW_MESSAGES, _MIN_BYTES_PER_MESSAGE = 4096, 4
"""A window of this many messages must average this many bytes a message; an attribute with a short key and a number
has two messages in nine bytes. Mostly empty messages cost decoding time and carry no data."""

_MAX_MEMORY_PER_PROTOBUF_BYTE = 100
_MAX_MEMORY_PER_JSON_BYTE = 64
"""Upper bounds of the memory for one byte of a body: a body that fits at this rate needs no walk."""

_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)


@dataclass(slots=True)
class _Shape:
    """A message type: the memory of an empty one, and its message fields."""

    size: int
    inside: dict[int, _Shape] = field(default_factory=dict)  # types of its message fields, by wire tag


def check_protobuf(body: bytes, descriptor: Any, max_bytes: int) -> None:
    """Refuse a message that would take more than ten times `max_bytes` in memory, or is mostly empty messages.

    Raises PayloadTooLargeError, and MalformedError for bytes that cannot be a message (parsing finds the rest).
    """
    limit = _MAX_MEMORY_FACTOR * max_bytes
    if len(body) * _MAX_MEMORY_PER_PROTOBUF_BYTE <= limit:
        return
    try:
        size = _size_in_memory(body, _shape(descriptor), limit)
    except IndexError:
        raise MalformedError("the protobuf message is truncated") from None
    if size > limit:
        raise PayloadTooLargeError(_too_many("messages", limit))


def check_json(body: bytes, max_bytes: int) -> None:
    """Refuse a document that would take more than ten times `max_bytes` in memory. Raises PayloadTooLargeError."""
    limit = _MAX_MEMORY_FACTOR * max_bytes
    if len(body) * _MAX_MEMORY_PER_JSON_BYTE <= limit or _json_size(body) <= limit:
        return
    if _json_size(_STRING.sub(b'""', body)) > limit:  # brackets and commas in strings cost nothing
        raise PayloadTooLargeError(_too_many("values", limit))


def _too_many(things: str, limit: int) -> str:
    return f"the body has too many {things}: they would take more than {limit} bytes in memory; export smaller batches"


def _json_size(body: bytes) -> int:
    return body.count(b"{") * _DICT_BYTES + body.count(b"[") * _LIST_BYTES + body.count(b",") * _ITEM_BYTES


@cache
def _shape(descriptor: Any) -> _Shape:
    return _build(descriptor, {})


def _build(descriptor: Any, known: dict[str, _Shape]) -> _Shape:
    if descriptor.full_name in known:
        return known[descriptor.full_name]
    shape = known[descriptor.full_name] = _Shape(_MESSAGE_BYTES)  # before its fields: values hold values
    for spec in descriptor.fields:
        is_text = spec.type in (spec.TYPE_STRING, spec.TYPE_BYTES)
        shape.size += _STRING_FIELD_BYTES if is_text else _OTHER_FIELD_BYTES
        if spec.message_type is not None:
            shape.inside[spec.number << 3 | 2] = _build(spec.message_type, known)
    return shape


def _size_in_memory(body: bytes, shape: _Shape, limit: int) -> int:
    """Returns the memory of all messages in `body`, or a number above `limit` if it is exceeded or if the messages of a
    window are mostly empty. Raises IndexError for a truncated body."""
    size = shape.size
    outer: list[tuple[int, int, dict[int, _Shape]]] = []
    position, end, inside = 0, len(body), shape.inside
    in_window, window_start = 0, 0
    while True:
        while position < end:
            tag = body[position]
            position += 1
            if tag > 0x7F:
                tag, position = _varint(body, position - 1)
            wire_type = tag & 7
            if wire_type == 2:
                length = body[position]
                position += 1
                if length > 0x7F:
                    length, position = _varint(body, position - 1)
                message = inside.get(tag)
                if message is not None:
                    size += message.size
                    if size > limit:
                        return size
                    in_window += 1
                    if in_window == _WINDOW_MESSAGES:
                        if position - window_start < _WINDOW_MESSAGES * _MIN_BYTES_PER_MESSAGE:
                            return limit + 1
                        in_window, window_start = 0, position
                    outer.append((position + length, end, inside))
                    if len(outer) > MAX_DEPTH:
                        raise MalformedError(f"messages are nested more than {MAX_DEPTH} deep")
                    end, inside = position + length, message.inside
                else:
                    position += length
            elif wire_type == 0:
                while body[position] > 0x7F:
                    position += 1
                position += 1
            elif wire_type == 1:
                position += 8
            elif wire_type == 5:
                position += 4
            else:
                raise MalformedError(f"the protobuf message has a field of wire type {wire_type}; OTLP has none")
        if position > end:
            raise IndexError
        if not outer:
            return size
        position, end, inside = outer.pop()


def _varint(body: bytes, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = body[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise MalformedError("the protobuf message has a number of more than ten bytes")
