"""Splits a byte stream into JSON objects and what stands between them, byte for byte, however it is chunked. Pure.

One JSON document, documents in lines (NDJSON, watch streams), with record separators (RFC 7464) or without any, and the
elements of an array are all such streams.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_TO_BRACE = re.compile(rb'[^"{}]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[^"{}]*+)*+([{}"]|\Z)', re.DOTALL)
"""Up to a brace outside of strings, a string that does not end here, or the end."""
_TO_QUOTE = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+("|\\?\Z)', re.DOTALL)
"""Up to the end of a string; a backslash may be the last byte."""
_FIRST = re.compile(rb"[^\x1e \t\r\n\xef\xbb\xbf]")
"""The first byte that is neither a blank, a record separator nor part of a byte-order mark."""
_WIDE = re.compile(rb"\xff\xfe|\0{0,2}\xfe\xff|\0{1,3}[{\[]|[{\[]\0")
"""The beginning of JSON in UTF-16 or UTF-32, whose bytes are no marks of JSON."""

_MAY_BE_WIDE = re.compile(rb"\xff|\0{0,2}\xfe|\0{1,3}|[{\[]")
"""A beginning that more bytes may make one of `_WIDE`."""


class JsonPart(NamedTuple):
    """An object from its opening to its closing brace, or bytes between objects."""

    raw: bytes
    is_object: bool


class ObjectTooLargeError(ValueError):
    """An object grew beyond the limit; the splitter gives no further parts."""


class JsonSplitter:
    """Takes bytes and returns whole objects. The parts plus `rest` are exactly the input.

    What does not begin as JSON has no objects, whatever braces it has. JSON in UTF-16 or UTF-32 is one object that does
    not end.
    """

    def __init__(self, max_object_bytes: int) -> None:
        self._limit = max_object_bytes
        self._begun = False
        self._is_json = True
        self._depth = 0
        self._in_string = False
        self._skip = 0
        """Bytes of the next chunk that belong to an escape."""
        self._rest: list[bytes] = []
        self.size = 0
        """Bytes of `rest`."""

    @property
    def rest(self) -> bytes:
        """The bytes of the object that has not ended."""
        return b"".join(self._rest)

    def feed(self, chunk: bytes) -> list[JsonPart]:
        """The parts that `chunk` completes. Raises ObjectTooLargeError; `rest` then holds all of the object."""
        if not self._begun:
            chunk = self.rest + chunk
            self._rest.clear()
            self.size = 0
            if _MAY_BE_WIDE.fullmatch(chunk):
                self._rest.append(chunk)
                self.size = len(chunk)
                return []
        if not self._begun and (first := _FIRST.search(chunk)) is not None:
            is_wide = _WIDE.match(chunk) is not None
            self._begun, self._is_json, self._depth = True, first[0] in b"{[" and not is_wide, int(is_wide)
        parts: list[JsonPart] = []
        if not (self._begun and self._is_json):
            self._keep(chunk, parts)
            return parts
        start = 0
        at, self._skip = self._skip, 0
        while at < len(chunk):
            match = (_TO_QUOTE if self._in_string else _TO_BRACE).match(chunk, at)
            if match is None:
                raise RuntimeError("the patterns match any bytes")
            mark, at = match[1], match.end()
            if mark == b'"':
                self._in_string = not self._in_string
            elif mark == b"{":
                if not self._depth and at - 1 > start:
                    parts.append(JsonPart(chunk[start : at - 1], is_object=False))
                    start = at - 1
                self._depth += 1
            elif mark == b"}" and self._depth:
                self._depth -= 1
                if not self._depth:
                    parts.append(JsonPart(self.rest + chunk[start:at], is_object=True))
                    self._rest.clear()
                    self.size, start = 0, at
            else:
                self._skip = len(mark) if self._in_string else 0
        if start < len(chunk):
            self._keep(chunk[start:], parts)
        return parts

    def _keep(self, end: bytes, parts: list[JsonPart]) -> None:
        if not self._depth:
            parts.append(JsonPart(end, is_object=False))
            return
        self._rest.append(end)
        self.size += len(end)
        if self.size > self._limit and not parts:  # whole objects are returned first
            raise ObjectTooLargeError(f"an object exceeds {self._limit} bytes")
