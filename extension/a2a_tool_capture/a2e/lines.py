"""Splits a byte stream into lines."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

MAX_LINE_BYTES = 8 * 1024 * 1024
"""Default of the maximum line length."""


_READ_BYTES = 65_536


class LineSplitter:
    """Sans-io. Splits a stream at its newlines. Holds at most `max_bytes` plus one piece of input."""

    def __init__(self, max_bytes: int = MAX_LINE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._begun: list[bytes] = []
        self._length = 0

    def feed(self, data: bytes) -> list[bytes | None]:
        """The lines that `data` completes, without newlines; None for a line that exceeds `max_bytes`."""
        *complete, rest = data.split(b"\n")
        lines = []
        for piece in complete:
            self._hold(piece)
            lines.append(None if self._length > self._max_bytes else b"".join(self._begun))
            self._begun, self._length = [], 0
        self._hold(rest)
        return lines

    def _hold(self, piece: bytes) -> None:
        self._length += len(piece)
        if self._length > self._max_bytes:
            self._begun.clear()
        else:
            self._begun.append(piece)


async def read_lines(reader: asyncio.StreamReader, max_bytes: int) -> AsyncIterator[bytes | None]:
    """The lines of `reader` that are not blank; None for a line that exceeds `max_bytes`. Raises ConnectionError."""
    splitter = LineSplitter(max_bytes)
    while chunk := await reader.read(_READ_BYTES):
        for line in splitter.feed(chunk):
            if line is None or line.strip():
                yield line
