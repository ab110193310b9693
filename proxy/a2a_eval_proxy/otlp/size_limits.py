"""How much memory a body takes once decoded, told before it is decoded.

Two bytes of protobuf can say "one more empty span", which takes 184 bytes in memory: 16 MiB of them (16 KiB with
gzip) take over a gigabyte, and the decoder holds the interpreter lock until it is through. Real exports take one to
four times their size as protobuf, some ten times as JSON.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from .errors import MalformedError, TooLargeError

MAX_DEPTH = 100
"""Messages within messages; what protobuf implementations accept by default."""

_GROWTH = 10
_MESSAGE, _TEXT, _OTHER = 16, 16, 8
"""Bytes of an empty message, of a string or bytes field, of any other field, in upb (the C core of protobuf)."""

_OBJECT, _ARRAY, _ITEM = 184, 64, 40
"""Bytes of a dict with a key, of an empty list, and of a further value in either, in CPython."""

_RUN, _SPARSEST = 4096, 4
"""So many messages in a row take at least so many bytes each: an attribute of one letter and a number takes nine, and
is two. Empty ones cost more time to read than they are worth."""

_DENSEST_PROTOBUF = 100
_DENSEST_JSON = 64
"""More than a byte of either can ever become: a body that fits at this rate is not looked into."""

_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)


@dataclass(slots=True)
class _Shape:
    """A message type as the wire shows it."""

    size: int
    inside: dict[int, _Shape] = field(default_factory=dict)
    """Its message fields, by tag."""


def check_protobuf(body: bytes, descriptor: Any, max_bytes: int) -> None:
    """Refuse a message that would take more than ten times `max_bytes` in memory, or is mostly empty messages.

    Raises TooLargeError, and MalformedError where the walk finds that the bytes are no such message (it may not find
    out: parsing tells).
    """
    limit = _GROWTH * max_bytes
    if len(body) * _DENSEST_PROTOBUF <= limit:
        return
    try:
        size = _size_in_memory(body, _shape(descriptor), limit)
    except IndexError:
        raise MalformedError("the protobuf message is cut short") from None
    if size > limit:
        raise TooLargeError(_too_many("messages", limit))


def check_json(body: bytes, max_bytes: int) -> None:
    """Refuse a document that would take more than ten times `max_bytes` in memory. Raises TooLargeError."""
    limit = _GROWTH * max_bytes
    if len(body) * _DENSEST_JSON <= limit or _json_size(body) <= limit:
        return
    if _json_size(_STRING.sub(b'""', body)) > limit:  # brackets and commas inside of strings cost nothing
        raise TooLargeError(_too_many("values", limit))


def _too_many(things: str, limit: int) -> str:
    return f"the body holds so many {things} that they would take more than {limit} bytes; export smaller batches"


def _json_size(body: bytes) -> int:
    return body.count(b"{") * _OBJECT + body.count(b"[") * _ARRAY + body.count(b",") * _ITEM


@cache
def _shape(descriptor: Any) -> _Shape:
    return _build(descriptor, {})


def _build(descriptor: Any, known: dict[str, _Shape]) -> _Shape:
    if descriptor.full_name in known:
        return known[descriptor.full_name]
    shape = known[descriptor.full_name] = _Shape(_MESSAGE)  # before its fields: values hold values
    for spec in descriptor.fields:
        is_text = spec.type in (spec.TYPE_STRING, spec.TYPE_BYTES)
        shape.size += _TEXT if is_text else _OTHER
        if spec.message_type is not None:
            shape.inside[spec.number << 3 | 2] = _build(spec.message_type, known)
    return shape


def _size_in_memory(body: bytes, shape: _Shape, limit: int) -> int:
    """Bytes of all messages in `body`; anything above `limit` where it is more, or a run of them is all but empty.
    Raises IndexError at a cut."""
    size = shape.size
    outer: list[tuple[int, int, dict[int, _Shape]]] = []
    position, end, inside = 0, len(body), shape.inside
    run, run_began = 0, 0
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
                    run += 1
                    if run == _RUN:
                        if position - run_began < _RUN * _SPARSEST:
                            return limit + 1
                        run, run_began = 0, position
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
