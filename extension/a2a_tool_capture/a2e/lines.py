"""Bytes to lines, however they arrive. Sans-io."""

from __future__ import annotations

MAX_LINE_BYTES = 8 * 1024 * 1024
"""Longest line that is read, unless said otherwise."""


class LineSplitter:
    """Cuts a stream at its newlines. Holds at most `max_bytes` and one piece of input."""

    def __init__(self, max_bytes: int = MAX_LINE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._begun: list[bytes] = []
        self._length = 0

    def feed(self, data: bytes) -> list[bytes | None]:
        """The lines that `data` completes, without their ends; None stands for one that was too long to keep."""
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
