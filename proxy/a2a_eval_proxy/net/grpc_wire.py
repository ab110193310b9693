"""gRPC over HTTP/2: messages in frames, their compression, and statuses in header fields. Pure."""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from urllib.parse import quote, unquote

from h2.errors import ErrorCodes

from ..protocol.content_coding import SINGLE_WINDOWS, DecodedTooLargeError, Decoding, NoRoomError, decoding, granted
from .http2_streams import Fields

DETAILS = b"grpc-status-details-bin"

_MEDIA_TYPE = re.compile(rb"application/grpc(?:[+;].*)?", re.IGNORECASE)
_PREFIX = 5
_COMPRESSED = 1
_READABLE = frozenset({b"identity", *(coding.encode() for coding in SINGLE_WINDOWS)})
_PRINTABLE = "".join(chr(code) for code in range(0x20, 0x7F) if code != ord("%"))


GrpcStatus = IntEnum(
    "GrpcStatus",
    "OK CANCELLED UNKNOWN INVALID_ARGUMENT DEADLINE_EXCEEDED NOT_FOUND ALREADY_EXISTS PERMISSION_DENIED "
    "RESOURCE_EXHAUSTED FAILED_PRECONDITION ABORTED OUT_OF_RANGE UNIMPLEMENTED INTERNAL UNAVAILABLE DATA_LOSS "
    "UNAUTHENTICATED",
    start=0,
)
"""The status codes of gRPC."""

_STATUSES = {b"%d" % status: status for status in GrpcStatus}
_OF_RESET: dict[int, GrpcStatus] = {
    ErrorCodes.REFUSED_STREAM: GrpcStatus.UNAVAILABLE,
    ErrorCodes.CANCEL: GrpcStatus.CANCELLED,
    ErrorCodes.ENHANCE_YOUR_CALM: GrpcStatus.RESOURCE_EXHAUSTED,
    ErrorCodes.INADEQUATE_SECURITY: GrpcStatus.PERMISSION_DENIED,
}


def status_of_reset(code: int) -> GrpcStatus:
    """What a client makes of a stream that was reset with this code."""
    return _OF_RESET.get(code, GrpcStatus.INTERNAL)


def status_of(trailers: Fields) -> tuple[GrpcStatus, str]:
    """Status and message; UNKNOWN where the trailers hold no valid status."""
    found = dict(trailers)
    value = found.get(b"grpc-status", b"")
    message = found.get(b"grpc-message")
    text = unquote(message.decode("latin-1"), errors="replace") if message else ""
    return _STATUSES.get(value, GrpcStatus.UNKNOWN), text


def ending(status: GrpcStatus, message: str, details: bytes = b"") -> Fields:
    """Trailers with this status. `details`: a google.rpc.Status, encoded."""
    fields = [(b"grpc-status", b"%d" % status), (b"grpc-message", quote(message, safe=_PRINTABLE).encode())]
    return [*fields, (DETAILS, encoded_value(details))] if details else fields


def only_trailers(trailers: Fields) -> Fields:
    """A whole response that has these trailers and no message."""
    return [(b":status", b"200"), (b"content-type", b"application/grpc"), *trailers]


def is_call(head: Fields) -> bool:
    """Whether a request with this head is a call of gRPC."""
    return _MEDIA_TYPE.fullmatch(dict(head).get(b"content-type", b"")) is not None


def overloaded(head: Fields, message: str) -> Fields:
    """The whole response to a request with this head, where the proxy has too many."""
    return only_trailers(ending(GrpcStatus.RESOURCE_EXHAUSTED, message)) if is_call(head) else [(b":status", b"503")]


def encoded_value(value: bytes) -> bytes:
    """The value of metadata whose key ends with `-bin`."""
    return binascii.b2a_base64(value, newline=False).rstrip(b"=")


def decoded_value(value: bytes) -> bytes:
    """What `encoded_value` encoded. Raises ValueError."""
    return binascii.a2b_base64(value + b"=" * (-len(value) % 4))


def offering_readable(fields: Fields) -> Fields:
    """The fields of a request, without offers of compression that the proxy cannot read."""
    return [
        (name, b",".join(filter(_READABLE.__contains__, map(bytes.strip, value.split(b",")))))
        if name == b"grpc-accept-encoding"
        else (name, value)
        for name, value in fields
    ]


class MessageTooLargeError(Exception):
    """A message has more bytes than may be kept."""


@dataclass(frozen=True, slots=True)
class GrpcMessage:
    """A message as it was sent, which may be compressed."""

    payload: bytes
    """What its frame holds, which may be compressed."""
    flags: int = 0

    @property
    def frame(self) -> bytes:
        """Its bytes on the wire."""
        return bytes((self.flags,)) + len(self.payload).to_bytes(4, "big") + self.payload

    @property
    def is_compressed(self) -> bool:
        return bool(self.flags & _COMPRESSED)

    def content(self, head: Fields, limit: int) -> bytes:
        """What it holds: see `decoding`."""
        return granted(self.decoding(head, limit))

    def decoding(self, head: Fields, limit: int) -> Decoding:
        """Decode what it holds. `head`: of the request or response that it is part of.

        Raises ValueError where it cannot be decompressed, NoRoomError where there is no room for that, and
        MessageTooLargeError where it takes over `limit` bytes.
        """
        payload = self.payload
        if not self.is_compressed:
            return payload
        coding = dict(head).get(b"grpc-encoding", b"identity").decode("latin-1")
        if coding not in SINGLE_WINDOWS:
            raise ValueError(f"compressed as {coding!r}, which the proxy cannot read")
        try:
            return (yield from decoding([coding], payload, limit, single=True, complete=True))
        except NoRoomError:
            raise
        except DecodedTooLargeError:
            raise MessageTooLargeError from None
        except ValueError as error:
            raise ValueError(f"not {coding}: {error}") from None


class MessageReader:
    """Takes the messages out of the bytes of a body."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held = bytearray()  # one buffer: a message may come in pieces of a byte
        self.expected = 0
        """The size of the message that is arriving, with its prefix; 0 while that is not known."""

    def feed(self, data: bytes) -> Iterator[GrpcMessage]:
        """The messages that are complete with `data`. Raises MessageTooLargeError."""
        self._held += data
        while len(self._held) >= (self.expected or _PREFIX):
            if self.expected:
                flags = self._held[0]
                yield GrpcMessage(self._taken(_PREFIX, self.expected), flags)
                continue
            length = int.from_bytes(self._held[1:_PREFIX], "big")
            if length > self._limit:
                raise MessageTooLargeError
            self.expected = _PREFIX + length

    def rest(self) -> bytes:
        """What has arrived after the last complete message; it is forgotten here."""
        return self._taken(0, len(self._held))

    def _taken(self, start: int, end: int) -> bytes:
        taken = bytes(memoryview(self._held)[start:end])
        del self._held[:end]
        self.expected = 0
        return taken
