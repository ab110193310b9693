"""What of a peer's bytes h2 gets to read, and how much of it at a time. Sans-io.

h2 knows the protocol, and does all that a peer makes it do: it would hold any frame and any header section, and answer
any number of pings. So the head of each frame is looked at before h2 has the frame.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from h2.errors import ErrorCodes

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""What a client sends first."""

DATA, HEADERS, PRIORITY, _, SETTINGS, PUSH_PROMISE, _, GOAWAY, _, CONTINUATION = range(10)
"""The kinds of frames."""

ACK = 0x1
_END_HEADERS = 0x4
_PADDED = 0x8
_HAS_PRIORITY = 0x20

_HEAD_BYTES = 9
_FRAME_BYTES = 16_384
"""The largest payload: the default of the protocol."""

_WORK_A_TURN = 64
"""Frames of DATA that are read before others have their turn, in some milliseconds. Other frames count as four, and as
one more for 64 bytes: what a header section has takes longest."""

_MAX_SECTION_BYTES = 128 * 1024
"""Beyond this, and twice what is announced, a header section ends its connection; up to there it is read."""

_MAX_CONTINUATIONS = 64
"""Frames that may continue a header section, since they may be empty."""

_MAX_IDLE, _IDLE_PER_S, IDLE_PER_FRAME = 10_000, 500.0, 4
"""How many more frames that carry nothing of a request or response (PING, SETTINGS, WINDOW_UPDATE, tiny DATA, ...) may
come than are made up for, by time or by frames that do: who gets one may open two windows and send a PING for it."""

CUT_REQUEST = 50
"""As how many of them a request counts that a client resets before its response begins; another response makes up."""

_LITTLE = 8
"""Bytes below which a frame of a body carries next to nothing: a message of gRPC has five besides its content."""

_RESIZES = re.compile(rb"(?:[\x20-\x3e]|\x3f[\x80-\xff]*[\0-\x7f]){3}")
"""More changes of the size of HPACK's table than a header section may begin with; each takes as long as a field."""


class Http2Error(Exception):
    """The peer broke the protocol, for which its connection ends with a GOAWAY of this `code`."""

    def __init__(self, message: str, code: int = ErrorCodes.PROTOCOL_ERROR) -> None:
        super().__init__(message)
        self.code = code


def max_section_bytes(max_header_bytes: int) -> int:
    """Up to which size a header section is read where `max_header_bytes` are announced."""
    return max(2 * max_header_bytes, _MAX_SECTION_BYTES)


class FrameGate:
    """Takes the bytes of a connection, and hands out whole frames."""

    def __init__(self, preface: bytes, max_header_bytes: int) -> None:
        """`preface`: what must come before the first frame."""
        self._preface = preface
        self._max_section = max_section_bytes(max_header_bytes)
        self._held = bytearray()  # one buffer: a frame may come in pieces of a byte
        self._section: bytearray | None = None
        """The header section that is arriving, with `_parts` frames."""
        self._parts = 0
        self._fed_at = 0.0
        self.idle = 0.0
        """What came so far and carried nothing; see `_MAX_IDLE`."""
        self.header_since: float | None = None
        """Since when the beginning of a header section waits for its end, or that of a frame other than DATA."""

    def feed(self, data: bytes, now: float) -> None:
        """`now`: in seconds."""
        self._held += data
        self.idle = max(0.0, self.idle - (now - self._fed_at) * _IDLE_PER_S)
        self._fed_at = now

    def held(self) -> int:
        """Bytes that wait for the rest of a frame, or of a header section."""
        return len(self._held) + len(self._section or b"")

    def has_more(self) -> bool:
        """Whether a whole frame waits."""
        return bool(self._whole())

    def frames(self) -> Iterator[tuple[int, bytes]]:
        """Frames that are complete, with their kinds, as many as one turn may take. Raises Http2Error."""
        held, work, since = self._held, 0, self.header_since
        if self._preface:
            begun = held[: len(self._preface)]
            if not self._preface.startswith(begun):
                raise Http2Error("the connection does not begin as HTTP/2 does")
            if len(begun) < len(self._preface):
                return
            del held[: len(begun)]
            self._preface = b""
        while work < _WORK_A_TURN and (size := self._whole()):
            frame = bytes(held[:size])
            del held[:size]
            kind = frame[3]
            work += 1 if kind == DATA else 4 + size // 64
            self._check(kind, frame)
            if self._section is None:
                since = None
            if kind <= CONTINUATION:  # others are to be ignored
                yield kind, frame
        is_waiting = self._section is not None or (held and (len(held) < 4 or held[3] != DATA))
        self.header_since = None if not is_waiting else self._fed_at if since is None else since

    def _whole(self) -> int:
        """The size of the first frame, if all of it is here; else 0. Raises Http2Error."""
        held = self._held
        if self._preface or len(held) < _HEAD_BYTES:
            return 0
        size = int.from_bytes(held[:3], "big")
        if size > _FRAME_BYTES:
            raise Http2Error(f"a frame has {size} bytes", ErrorCodes.FRAME_SIZE_ERROR)
        return _HEAD_BYTES + size if len(held) >= _HEAD_BYTES + size else 0

    def _check(self, kind: int, frame: bytes) -> None:
        """Raises Http2Error."""
        carries = kind < PRIORITY and len(frame) >= _HEAD_BYTES + _LITTLE
        self.count(-IDLE_PER_FRAME if carries else 1)
        if kind == PUSH_PROMISE:
            raise Http2Error("the peer pushes a response")
        flags, start = frame[4], _HEAD_BYTES
        if self._section is None:
            if kind != HEADERS:
                return
            self._section, self._parts = bytearray(), 0
            start += bool(flags & _PADDED) + 5 * bool(flags & _HAS_PRIORITY)
        elif kind != CONTINUATION:
            raise Http2Error("a header section is interrupted")
        self._section += frame[start:]
        self._parts += 1
        if len(self._section) > self._max_section or self._parts > _MAX_CONTINUATIONS:
            raise Http2Error("a header section is too long", ErrorCodes.ENHANCE_YOUR_CALM)
        if flags & _END_HEADERS:
            if _RESIZES.match(self._section):
                raise Http2Error("a header section changes the size of its table too often")
            self._section = None

    def count(self, work: int) -> None:
        """Something was to be done, for which others would have waited. Raises Http2Error."""
        self.idle += work
        if self.idle > _MAX_IDLE:
            raise Http2Error("too many frames carry nothing", ErrorCodes.ENHANCE_YOUR_CALM)
