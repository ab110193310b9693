"""HTTP/1.1 requests as bytes, without a socket, and what can go wrong with their responses."""

from __future__ import annotations

from typing import Final

RawHeaders = list[tuple[bytes, bytes]]

CHUNKED: Final = b"transfer-encoding: chunked"
LAST_CHUNK: Final = b"0\r\n\r\n"

BODILESS = frozenset({204, 304})
"""The statuses of responses that have no body."""

_FRAMING = frozenset({b"content-length", b"transfer-encoding"})
_EXPECT_A_BODY = frozenset({b"POST", b"PUT", b"PATCH"})


class UpstreamError(Exception):
    """The agent gave no valid HTTP response; the message names the cause."""


class UpstreamUnreachableError(UpstreamError):
    """No connection to the agent was possible."""


class UpstreamTimeoutError(UpstreamError):
    """The agent took longer than allowed to accept a connection or to send data."""


class UpstreamCutError(UpstreamError):
    """The connection ended inside a response, or before a response began."""


class RequestHead:
    """The bytes of a request before its body, without framing: they can be sent with several bodies."""

    __slots__ = ("content", "method")

    def __init__(self, method: bytes, target: bytes, headers: RawHeaders) -> None:
        """Only `framed` frames: a Content-Length or Transfer-Encoding among `headers` is left out. Raises UpstreamError
        where a line break inside a value would make the agent read another request than this."""
        self.method = method
        lines = [method + b" " + target + b" HTTP/1.1"]
        for name, value in headers:
            if name.lower() not in _FRAMING:
                lines.append(name + b": " + value)
        lines.append(b"")
        self.content = content = b"\r\n".join(lines)
        breaks = len(lines) - 1
        if content.count(b"\n") != breaks or content.count(b"\r") != breaks or b"\0" in content:
            raise UpstreamError("a header of the request holds a line break or a NUL")

    def framed(self, length: int | None) -> bytes:
        """The head with the line that frames a body of `length` bytes; None: one that is sent in chunks.

        RFC 9110, section 8.6: methods that give a body a meaning say that it is empty.
        """
        if length is None:
            return self.content + CHUNKED + b"\r\n\r\n"
        if length or self.method in _EXPECT_A_BODY:
            return self.content + b"content-length: %d\r\n\r\n" % length
        return self.content + b"\r\n"


def chunk(data: bytes) -> bytes:
    """One chunk (RFC 9112, section 7.1). `data` must not be empty: that would be the end of the body."""
    return b"%x\r\n%b\r\n" % (len(data), data)
