"""Decodes content codings piece by piece, within a limit on the decoded size. Pure."""

from __future__ import annotations

import zlib

WINDOWS = {"gzip": 47, "x-gzip": 47, "deflate": 15}
"""Supported content codings, and zlib's `wbits` for each."""

_RAW_DEFLATE = -15
"""`deflate` without its zlib header: not valid (RFC 9110, section 8.4.1.2), but sent by servers and read by clients."""

_MAX_CODINGS = 4


def codings(value: str) -> list[str] | None:
    """The content codings of a `Content-Encoding` except `identity`, in order; None where one is not supported."""
    if not value:
        return []
    found = [coding for item in value.split(",") if (coding := item.strip().lower()) not in ("", "identity")]
    readable = len(found) <= _MAX_CODINGS and all(coding in WINDOWS for coding in found)
    return found if readable else None


def wbits(coding: str, head: bytes) -> int:
    """zlib's `wbits` for data of a supported coding that begins with `head`, at least two bytes."""
    header = int.from_bytes(head[:2])
    is_zlib = header >> 8 & 0x0F == 8 and header % 31 == 0  # RFC 1950, section 2.2
    return _RAW_DEFLATE if coding == "deflate" and not is_zlib else WINDOWS[coding]


class DecodedTooLargeError(ValueError):
    """A piece decodes to more than the limit."""


class Decoder:
    """Decodes content codings, the last one first. A piece that decodes to more than `limit` bytes is an error."""

    def __init__(self, names: list[str], limit: int) -> None:
        self._stages = [_Stage(name) for name in reversed(names)]
        self._limit = limit

    def decode(self, chunk: bytes) -> bytes:
        """Raises DecodedTooLargeError, or ValueError for data that is not so coded."""
        for stage in self._stages:
            chunk = stage.decode(chunk, self._limit)
        return chunk


def decoded_whole(encoding: str, body: bytes, limit: int) -> bytes:
    """A whole body without the content codings that `encoding` names. Raises ValueError where it cannot be decoded."""
    names = codings(encoding)
    if names is None:
        raise ValueError(f"the content coding {encoding!r} is not supported")
    return Decoder(names, limit).decode(body) if names else body


class _Stage:
    def __init__(self, coding: str) -> None:
        self._wbits = WINDOWS[coding]
        self._unpack = zlib.decompressobj(self._wbits)
        self._head: bytes | None = b"" if coding == "deflate" else None
        """The first bytes of `deflate`, until they show whether there is a zlib header."""

    def decode(self, chunk: bytes, limit: int) -> bytes:
        try:
            return self._decoded(self._first(chunk), limit)
        except zlib.error as error:
            raise ValueError(str(error)) from None

    def _first(self, chunk: bytes) -> bytes:
        if self._head is None:
            return chunk
        self._head += chunk
        if len(self._head) < 2:
            return b""
        chunk, self._head = self._head, None
        self._wbits = wbits("deflate", chunk)
        self._unpack = zlib.decompressobj(self._wbits)
        return chunk

    def _decoded(self, chunk: bytes, limit: int) -> bytes:
        out = b""
        while chunk:
            if self._unpack.eof:  # gzip files may follow one another (RFC 1952, section 2.2)
                if not chunk.startswith(b"\x1f"):
                    break  # padding
                self._unpack = zlib.decompressobj(self._wbits)
            out += self._unpack.decompress(chunk, limit - len(out))
            chunk = self._unpack.unused_data
            if self._unpack.unconsumed_tail or (chunk and len(out) == limit):
                raise DecodedTooLargeError(f"the decoded content exceeds {limit} bytes")
        return out
