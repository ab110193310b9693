"""Splits a byte stream into lines. Sans-io."""

from __future__ import annotations

MAX_LINE_BYTES = 8 * 1024 * 1024
"""Default of the maximum line length."""


class LineSplitter:
    """Splits a stream at its newlines. Holds at most `max_bytes` plus one piece of input."""

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
