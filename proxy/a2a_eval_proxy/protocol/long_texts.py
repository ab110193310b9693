"""Large JSON in parts: its long texts are taken out as they come, so that no step of reading it takes long. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from sys import getsizeof
from typing import Any, NamedTuple

import orjson
from a2a_tool_capture.extension_positions import HOLDERS
from a2a_tool_capture.json_limits import has_too_many_values
from a2a_tool_capture.merge import MAX_TEXT_CHARS

from ..memory import of_json

LARGE_BYTES = 128 * 1024
"""JSON up to this size is read at once."""

_LONG_BYTES = 16 * 1024
_CLOSED = re.compile(rb'[^"]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[^"]*+)*+("?)', re.DOTALL)
"""Up to a string that does not end here, or the end."""
_TO_QUOTE = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+("|\\?\Z)', re.DOTALL)
"""Up to the end of a string; a backslash may be the last byte."""
_FIRST_HALF = re.compile(rb"\\u[dD][89abAB]..\Z", re.DOTALL)
"""The escape of a character's first half in UTF-16."""
_ESCAPED_CHARACTER = 12
"""Bytes of an escaped character, at most."""
_ESCAPE, _LEAD = 6, 0xC0
"""Bytes of an escape; the lowest byte that begins a character of several bytes."""

_TEXTS = frozenset({"text", "raw", "bytes"})
"""Members of parts that are text or files."""
_LEAD_ON = HOLDERS | {"file"}
_MOST_VISITED = 2_000
"""Objects and lists in which the texts are searched, and members of each."""


class ShortDocument(NamedTuple):
    """A document whose long texts are elsewhere."""

    data: bytes
    """Its JSON, with tokens in place of the texts."""
    payload: Any
    """The document decoded, with as much of the texts as capture keeps."""
    size: int
    """The most memory that `payload` takes: see `memory.of_json`."""


class LongTexts:
    """Takes JSON with `feed`, in parts; `finish` returns the document without its long texts.

    These are texts and files of messages and artifacts: capture keeps their beginning at most, and the extension is
    never in them. Documents that have other long strings, or are not valid, have to be read as a whole.
    """

    def __init__(self, token: bytes) -> None:
        """`token`: of letters and digits. Stands for the texts, with their numbers, so that no agent may know it."""
        self._token = token
        self._tokens = re.compile(token + rb"(\d{6})")
        self._data: list[bytes] = []
        self._texts: list[_Text] = []
        self._text: _Text | None = None
        """The string that has not ended."""
        self._rest = b""
        """Its last bytes, which may be half a character."""
        self._is_cut = False
        """Whether half an escape was last."""
        self._is_valid = True

    def feed(self, part: bytes) -> None:
        at, size = 0, len(part)
        while at < size and self._is_valid:
            start, pattern = at, _CLOSED if self._text is None else _TO_QUOTE
            match = pattern.match(part, at + self._is_cut)
            if match is None:
                raise RuntimeError("the patterns match any bytes")
            at, mark, self._is_cut = match.end(), match[1], match[1] == b"\\"
            if self._text is not None:
                self._add(self._text, part[start : at - (mark == b'"')], is_whole=mark == b'"')
            else:
                self._data.append(part[start:at])
                self._text = _Text() if mark else None
        if at < size:
            self._data.append(part[at:])

    def _add(self, text: _Text, content: bytes, *, is_whole: bool) -> None:
        """`content` continues the string; with `is_whole`, a quote follows."""
        piece, self._rest = self._rest + content, b""
        end = len(piece) if is_whole else _border(piece, len(piece) - self._is_cut)
        self._is_valid = text.add(piece[:end])
        if not self._is_valid:
            self._data += [*text.pieces, piece]
        elif not is_whole:
            self._rest = piece[end:]
            return
        elif text.size > _LONG_BYTES:
            self._data.append(b"%b%06d" % (self._token, len(self._texts)))
            self._texts.append(text)
        else:
            self._data += text.pieces
        if is_whole:
            self._data.append(b'"')
        self._text = None

    def finish(self) -> ShortDocument | None:
        """All of the document was fed; None where it has no long texts, or has to be read as a whole."""
        if not (self._is_valid and self._texts) or self._text is not None:
            return None
        data = b"".join(self._data)
        self._data = [data]
        if has_too_many_values(data):
            return None
        try:
            payload = orjson.loads(data)
        except orjson.JSONDecodeError:
            return None
        texts = [text.decoded() for text in self._texts]
        if not _placed(payload, {f"{self._token.decode()}{number:06}": text for number, text in enumerate(texts)}):
            return None
        return ShortDocument(data, payload, of_json(data) + sum(map(getsizeof, texts)))

    def size_of(self, data: bytes) -> int:
        """Number of bytes of `pieces`."""
        return len(data) + sum(self._texts[int(one[1])].size - len(one[0]) for one in self._tokens.finditer(data))

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """Take `data` with the texts in place of their tokens."""
        at = 0
        for one in self._tokens.finditer(data):
            yield data[at : one.start()]
            yield from self._texts[int(one[1])].taken()
            at = one.end()
        yield data[at:]

    def rest(self) -> Iterator[bytes]:
        """Take all that was fed."""
        yield from self.pieces(b"".join(self._data))
        if self._text is not None:
            yield from self._text.taken()
            yield self._rest


class _Text:
    """A string of the document, in pieces that each are valid on their own."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.size = 0
        self._decoded: list[str] = []
        self._chars = 0

    def add(self, piece: bytes) -> bool:
        """Whether the piece is valid in a string; else it is not added."""
        try:
            text = orjson.loads(b'"%b"' % piece)
        except orjson.JSONDecodeError:
            return False
        self.pieces.append(piece)
        self.size += len(piece)
        if self._chars <= MAX_TEXT_CHARS:
            self._decoded.append(text)
            self._chars += len(text)
        return True

    def decoded(self) -> str:
        """As much as capture keeps, and a character more."""
        text = "".join(self._decoded)
        self._decoded.clear()
        return text[: MAX_TEXT_CHARS + 1]

    def taken(self) -> Iterator[bytes]:
        """The pieces; each is released then."""
        self.pieces.reverse()
        while self.pieces:
            yield self.pieces.pop()


def _border(piece: bytes, end: int) -> int:
    """Where the last whole character ends, or one before it; a wrong place makes the piece invalid, no more."""
    start = max(0, end - _ESCAPED_CHARACTER)
    escape = piece.find(b"\\u", start, end)
    if escape < 0:
        return next((at for at in range(end - 1, max(-1, end - 4), -1) if piece[at] >= _LEAD), end)
    while escape and piece[escape - 1 : escape] == b"\\":
        escape -= 1
    return escape - _ESCAPE if _FIRST_HALF.search(piece, max(0, escape - _ESCAPE), escape) else escape


def _placed(payload: Any, left: dict[str, str]) -> bool:
    """Put texts, `left` by their tokens, in their places; whether each has one where capture reads no more."""
    waiting, visited = [payload], 0
    while waiting and left:
        value = waiting.pop()
        visited += 1
        if not isinstance(value, dict | list):
            continue
        if max(visited, len(value)) > _MOST_VISITED:
            return False
        if isinstance(value, list):
            waiting += value
            continue
        for key, inner in value.items():
            if key in _TEXTS and isinstance(inner, str) and inner in left:
                value[key] = left.pop(inner)
            elif key in _LEAD_ON:
                waiting.append(inner)
    return not left
