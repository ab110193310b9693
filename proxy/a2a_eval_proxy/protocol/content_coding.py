"""Decodes content codings step by step, so that nothing is decoded for which there is no room. Pure."""

from __future__ import annotations

import zlib
from collections.abc import Generator

_WINDOWS = {"gzip": 47, "x-gzip": 47, "deflate": 15}
"""Supported content codings, and zlib's `wbits` for each."""

SINGLE_WINDOWS = {"gzip": 31, "deflate": 15}
"""The same for the codings of gRPC, of which a message is one member."""

_RAW_DEFLATE = -15
"""`deflate` without its zlib header: not valid (RFC 9110, section 8.4.1.2), but sent by servers and read by clients."""

_MAX_CODINGS = 4
_GZIP = 0x1F
"""The first byte of a gzip file."""

STEP_BYTES = 64 * 1024
"""What is decoded at a time."""


def codings(value: str) -> list[str] | None:
    """The content codings of a `Content-Encoding` except `identity`, in order; None where one is not supported."""
    if not value:
        return []
    found = [coding for item in value.split(",") if (coding := item.strip().lower()) not in ("", "identity")]
    return found if len(found) <= _MAX_CODINGS and all(coding in _WINDOWS for coding in found) else None


class DecodedTooLargeError(ValueError):
    """A body decodes to more than the limit."""


class NoRoomError(DecodedTooLargeError):
    """There is no memory to decode a body."""


class Decoder:
    """Decodes content codings, the last one first: what `feed` gets is decoded by `take`, as far as there is room."""

    def __init__(self, names: list[str], *, single: bool = False) -> None:
        """`single`: the codings are those of gRPC (`SINGLE_WINDOWS`)."""
        self._stages = [_Stage(name, single) for name in reversed(names)]

    def feed(self, chunk: bytes) -> None:
        """More of the coded body; what it got before is decoded."""
        self._stages[0].feed(chunk)

    @property
    def is_complete(self) -> bool:
        """Whether what was taken so far ends where its codings say so."""
        return all(stage.is_complete for stage in self._stages)

    def take(self, size: int = STEP_BYTES) -> bytes:
        """At most `size` bytes that are decoded; b"" where nothing is left. Raises ValueError for what is not so
        coded."""
        try:
            while not (data := self._stages[-1].take(size)):
                for stage, following in zip(self._stages[-2::-1], self._stages[:0:-1], strict=True):
                    if more := stage.take(size):
                        following.feed(more)
                        break
                else:
                    return b""
        except zlib.error as error:
            raise ValueError(str(error)) from None
        return data


Decoding = Generator[int, bool, bytes]
"""Decodes a body: asks before each step for room for that many bytes, and is sent whether there is. Raises
DecodedTooLargeError, or ValueError for what is not so coded."""


def decoding(names: list[str], body: bytes, limit: int, *, single: bool = False, complete: bool = False) -> Decoding:
    """Decode a whole body, to at most `limit` bytes. `single`: see `Decoder`. `complete`: one that ends too early
    is not so coded."""
    decoder = Decoder(names, single=single)
    decoder.feed(body)
    parts: list[bytes] = []
    size = 0
    while True:
        if not (yield STEP_BYTES):
            raise NoRoomError("there is no memory to decode it; try again later")
        part = decoder.take()
        if not part:
            break
        parts.append(part)
        size += len(part)
        if size > limit:
            raise DecodedTooLargeError(f"the decoded content exceeds {limit} bytes")
    if complete and not decoder.is_complete:
        raise ValueError("it is truncated")
    return b"".join(parts)


def granted(steps: Decoding) -> bytes:
    """What is decoded, where there is room for all of it."""
    try:
        next(steps)
        while True:
            steps.send(True)
    except StopIteration as end:
        return bytes(end.value)


def decoded_whole(encoding: str, body: bytes, limit: int) -> bytes:
    """A whole body without the content codings that `encoding` names. Raises ValueError where it cannot be decoded."""
    names = codings(encoding)
    if names is None:
        raise ValueError(f"the content coding {encoding!r} is not supported")
    return granted(decoding(names, body, limit)) if names else body


class _Stage:
    def __init__(self, coding: str, single: bool) -> None:
        self._single = single
        self._wbits = (SINGLE_WINDOWS if single else _WINDOWS)[coding]
        self._unpack = zlib.decompressobj(self._wbits)
        self._is_beginning = coding == "deflate" and not single
        """Whether the first bytes of `deflate` have yet to show whether there is a zlib header."""
        self._coded, self._at = b"", 0
        """What is to be decoded, from a position on."""
        self._has_more = False
        """Whether zlib may have output that there was no room for."""

    def feed(self, chunk: bytes) -> None:
        self._coded, self._at = self._coded[self._at :] + chunk, 0

    @property
    def is_complete(self) -> bool:
        return self._unpack.eof

    def take(self, size: int) -> bytes:
        if self._is_beginning:
            if len(self._coded) < 2:
                return b""
            self._is_beginning = False
            header = int.from_bytes(self._coded[:2])
            if header >> 8 & 0x0F != 8 or header % 31:  # RFC 1950, section 2.2
                self._wbits = _RAW_DEFLATE
                self._unpack = zlib.decompressobj(self._wbits)
        while self._has_more or self._at < len(self._coded):
            if self._unpack.eof:  # gzip files may follow one another (RFC 1952, section 2.2)
                if self._single:  # which some peers ignore, and others take for more of the message
                    raise ValueError("it has more than one member")
                if self._coded[self._at] != _GZIP:
                    self._coded, self._at = b"", 0  # padding
                    break
                self._unpack = zlib.decompressobj(self._wbits)
            chunk = self._coded[self._at : self._at + STEP_BYTES]
            data = self._unpack.decompress(chunk, size)
            self._at += len(chunk) - len(self._unpack.unconsumed_tail) - len(self._unpack.unused_data)
            self._has_more = len(data) == size and not self._unpack.eof
            if data:
                return data
        return b""
