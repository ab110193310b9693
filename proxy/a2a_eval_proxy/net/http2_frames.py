"""Frames of HTTP/2 (RFC 9113): where they begin and end, their kinds, and the codes of errors. Pure."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""What a client sends first."""

DEFAULT_WINDOW = 65_535
DEFAULT_FRAME_BYTES = 16_384
LARGEST_FRAME_BYTES = 2**24 - 1
LARGEST_WINDOW = 2**31 - 1

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)

ACK = END_STREAM = 0x1
END_HEADERS = 0x4
PADDED = 0x8
HAS_PRIORITY = 0x20
HAS_MORE = PADDED | HAS_PRIORITY
"""Flags of a DATA or HEADERS frame with which it has more than its content."""

FRAME_HEAD = struct.Struct(">LBL")
"""What comes before a payload: its size, of 24 bits, with the kind behind it, then flags and stream."""

_SETTING = struct.Struct(">HL")


class SettingCodes(IntEnum):
    """What a peer may say of itself."""

    HEADER_TABLE_SIZE = 1
    ENABLE_PUSH = 2
    MAX_CONCURRENT_STREAMS = 3
    INITIAL_WINDOW_SIZE = 4
    MAX_FRAME_SIZE = 5
    MAX_HEADER_LIST_SIZE = 6


class ErrorCodes(IntEnum):
    """Why a stream or a connection ends."""

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FLOW_CONTROL_ERROR = 3
    SETTINGS_TIMEOUT = 4
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    CONNECT_ERROR = 10
    ENHANCE_YOUR_CALM = 11
    INADEQUATE_SECURITY = 12
    HTTP_1_1_REQUIRED = 13


class Http2Error(Exception):
    """The peer broke the protocol, for which its connection ends with a GOAWAY of this `code`."""

    def __init__(self, message: str, code: ErrorCodes = ErrorCodes.PROTOCOL_ERROR) -> None:
        super().__init__(message)
        self.code = code


Frame = tuple[int, int, int, bytes]
"""A frame that has arrived: its kind, which may be one that the protocol does not have, flags, stream and payload."""


def number(value: int) -> bytes:
    """A window or an error code, as a payload."""
    return value.to_bytes(4, "big")


def settings_payload(settings: dict[SettingCodes, int]) -> bytes:
    return b"".join([_SETTING.pack(code, value) for code, value in settings.items()])


def read_settings(payload: bytes) -> Iterator[tuple[int, int]]:
    """Codes, which may be unknown, and values. Raises Http2Error."""
    if len(payload) % _SETTING.size:
        raise Http2Error("a SETTINGS frame has part of a setting", ErrorCodes.FRAME_SIZE_ERROR)
    return _SETTING.iter_unpack(payload)


def unpadded(frame: Frame) -> bytes:
    """The content of a DATA or HEADERS frame, without padding and priority. Raises Http2Error."""
    kind, flags, _, payload = frame
    start, end = 0, len(payload)
    if flags & PADDED:
        start, end = 1, end - (payload[0] if payload else 1)
    if flags & HAS_PRIORITY and kind == HEADERS:
        start += 5
    if start > end:
        raise Http2Error("a frame is shorter than its padding")
    return payload[start:end]


class FrameReader:
    """Takes the frames out of the bytes of a connection."""

    def __init__(self, preface: bytes) -> None:
        """`preface`: what must come before the first frame."""
        self._preface = preface
        self._held = bytearray()  # one buffer: a frame may come in pieces of a byte
        self._needed = FRAME_HEAD.size
        """How many bytes are needed before anything can be read."""
        self.has_begun = False
        """Whether a frame other than DATA has begun to arrive."""

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that are complete with `data`. Raises Http2Error."""
        if self._held or len(data) < self._needed:
            self._held += data
            if len(self._held) < self._needed and not self._preface:
                self.has_begun = self._held[3:4] != b"\0"
                return
            data = bytes(self._held)
            self._held.clear()
        at, end = self._after_preface(data) if self._preface else 0, len(data)
        self._needed = FRAME_HEAD.size
        while not self._preface and at + FRAME_HEAD.size <= end:
            first, flags, stream_id = FRAME_HEAD.unpack_from(data, at)
            size = first >> 8
            if size > DEFAULT_FRAME_BYTES:
                raise Http2Error(f"a frame has {size} bytes", ErrorCodes.FRAME_SIZE_ERROR)
            at += FRAME_HEAD.size
            if at + size > end:
                at -= FRAME_HEAD.size
                self._needed = FRAME_HEAD.size + size
                break
            yield first & 0xFF, flags, stream_id & LARGEST_WINDOW, data[at : at + size]
            at += size
        self._held += data[at:]
        self.has_begun = at < end and self._held[3:4] != b"\0"

    def _after_preface(self, data: bytes) -> int:
        """Where the frames in `data` begin. Raises Http2Error."""
        preface = self._preface
        if preface[: len(data)] != data[: len(preface)]:
            raise Http2Error("the connection does not begin as HTTP/2 does")
        if len(data) < len(preface):
            return 0
        self._preface = b""
        return len(preface)
