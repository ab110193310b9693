"""Splits a byte stream into server-sent events, byte for byte, however it is chunked. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

# A blank line: two line ends in a row, each CRLF, LF or CR (HTML standard, section 9.2.6). A sender that
# ended the line before with CRLF sends the LF of this CR too, which may not have arrived yet.
_BLANK_LINE = re.compile(rb"\r(?:\n(?:\r\n|\n|\r(?!\n|\Z))|\r\n?)|\n(?<!\r\n)(?:\n|\r\n?)")
_BOM = b"\xef\xbb\xbf"
"""A byte-order mark, which may begin a stream (section 9.2.5)."""
_COMMENTS = re.compile(rb"(?:%b)?(?:(?::[^\r\n]*)?(?:\r\n|\n|\r(?!\n|\Z)))*" % _BOM)
"""A byte-order mark, whole comment lines and blank lines, which may pass before the event that they begin."""
_LINE = re.compile(rb"([^\r\n]*)(\r\n|\n|\r|$)")


class SseEvent(NamedTuple):
    """One event: its bytes with the blank line that ended it, and its data (b"" for a comment)."""

    raw: bytes
    data: bytes


class EventTooLargeError(ValueError):
    """An event grew beyond the limit; the splitter gives no further events."""


class SseSplitter:
    """Takes bytes and returns whole events. The `raw` of all events, what `comments` returns and `rest` are exactly the
    input."""

    def __init__(self, max_event_bytes: int) -> None:
        self._limit = max_event_bytes
        self._rest = bytearray()
        self._line_ended = False
        """Whether a line may have ended in the last chunk: a comment that grows is not read again with each."""

    @property
    def rest(self) -> bytes:
        """The bytes after the last whole event."""
        return bytes(self._rest)

    @property
    def size(self) -> int:
        """Bytes of `rest`."""
        return len(self._rest)

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """The events that `chunk` completes; [] while an event is still growing.

        Raises EventTooLargeError when an unfinished event exceeds the limit; `rest` then holds all of the event.
        """
        if not self._rest and (end := _only_line(chunk)) is not None:
            data = chunk[6:end] if chunk.startswith(b"data: ") else event_data(chunk)
            return [SseEvent(chunk, data)]  # the usual case: one chunk, one event
        start = max(0, len(self._rest) - 3)  # a blank line may straddle the border
        # 20 times as fast as the pattern, which matters in a large event; what follows a CR shows that it ends a line
        self._line_ended = may_end = b"\n" in chunk or b"\r" in chunk or self._rest.endswith(b"\r")
        self._rest += chunk
        events: list[SseEvent] = []
        position = 0
        while may_end and (match := _BLANK_LINE.search(self._rest, start)):
            raw = bytes(self._rest[position : match.end()])
            events.append(SseEvent(raw, event_data(raw)))
            position = start = match.end()
        del self._rest[:position]
        if len(self._rest) > self._limit and not events:  # whole events are returned first
            raise EventTooLargeError(f"an event exceeds {self._limit} bytes")
        return events

    def comments(self) -> bytes:
        """Take the comment lines at the beginning of the unfinished event: they need not wait for it."""
        found = comment_lines(self._rest) if self._line_ended or self._rest.startswith(_BOM) else b""
        if found:
            del self._rest[: len(found)]
        return found


def comment_lines(raw: bytes | bytearray) -> bytes:
    """The byte-order mark, comment lines and blank lines at the beginning of an event."""
    found = _COMMENTS.match(raw)
    return bytes(found[0]) if found is not None else b""


def event_data(raw: bytes) -> bytes:
    """The data of an event: its `data:` lines joined by newlines; b"" where it has none."""
    text = raw.removeprefix(_BOM)
    lines = [line[5:].removeprefix(b" ") for line in re.split(rb"\r\n|\n|\r", text) if line.startswith(b"data:")]
    return b"\n".join(lines)


def without_lines(raw: bytes, left_out: Callable[[bytes], bool]) -> bytes:
    """`raw` without the lines that are `left_out`; those of its data stay."""
    text = raw.removeprefix(_BOM)
    lines = (line for line in _LINE.finditer(text) if line[1].startswith(b"data:") or not left_out(line[1]))
    return raw[: len(raw) - len(text)] + b"".join(line[0] for line in lines)


def _only_line(raw: bytes) -> int | None:
    """The end of the only line of an event, which ends as most servers end theirs; None for any other."""
    end = len(raw) - 4
    if raw.endswith(b"\r\n\r\n"):
        return end if raw.find(b"\r") == end and raw.find(b"\n") == end + 1 else None
    end += 2
    return end if raw.endswith(b"\n\n") and raw.find(b"\n") == end and b"\r" not in raw else None


def with_data(raw: bytes, data: bytes) -> bytes:
    """`raw` with its data replaced; other lines, line ends and spacing stay as they are."""
    if raw.startswith(b"data: ") and (only := _only_line(raw)) is not None and b"\n" not in data:
        return raw[:6] + data + raw[only:]
    text = raw.removeprefix(_BOM)
    out = [raw[: len(raw) - len(text)]]
    lines = data.split(b"\n")
    written = 0
    for match in _LINE.finditer(text):
        line, end = match.groups()
        if not line.startswith(b"data:"):
            out.append(line + end)
        elif not written:
            prefix = b"data: " if line.startswith(b"data: ") else b"data:"
            out += [(b"data: " if part[:1] == b" " else prefix) + part + end for part in lines]
            written = len(out)
        elif not end:  # the stream ends here
            out[written - 1] = out[written - 1].rstrip(b"\r\n")
    return b"".join(out)
