"""HTTP/1.1 responses as bytes, without a socket."""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus

from .http_messages import BODILESS, LAST_CHUNK

_HOP_BY_HOP = frozenset({b"connection", b"transfer-encoding"})

_PHRASES = {status.value: status.phrase for status in HTTPStatus}
_STATUS_LINES = {status: f"HTTP/1.1 {status} {_PHRASES.get(status, '')}\r\n".encode() for status in range(100, 600)}


def refusal(status: int, message: str) -> bytes:
    """A response of plain text, after which the connection closes."""
    content = message.encode()
    return b"%bcontent-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%b" % (
        _STATUS_LINES[status],
        len(content),
        content,
    )


class ResponseWriter:
    """The bytes of one response: `begin`, then `body` until the body is complete.

    The body is framed with the Content-Length that the application gives, else with chunks. To an HTTP/1.0 client,
    which knows no chunks, the close ends the body (RFC 9112, section 6.3).
    """

    __slots__ = (
        "_bodiless",
        "_chunked",
        "_head",
        "_is_old",
        "_left",
        "complete",
        "keep_alive",
        "started",
        "until_close",
    )

    def __init__(self, method: str, http_version: str, *, keep_alive: bool) -> None:
        """`method` and `http_version` of the request."""
        self.keep_alive = keep_alive
        """Whether another request may follow on the connection. The header says so, unless it changes later."""
        self.started = False
        self.complete = False
        self.until_close = False
        """Whether a close would look to the client like the end of the body, which is not complete."""
        self._is_old = http_version == "1.0"
        self._bodiless = method == "HEAD"
        self._chunked = False
        self._left = 0
        self._head = b""

    def begin(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Make the header: it comes before the first bytes of the body, or from `head`.

        Raises RuntimeError where there is one already, or a line break inside a value would break it.
        """
        if self.started:
            raise RuntimeError("the response has begun already")
        lines = []
        length = None
        for name, value in headers:
            field = name.lower()
            if field == b"content-length":
                length = int(value)
            elif field in _HOP_BY_HOP:
                if field == b"connection" and b"close" in value.lower():
                    self.keep_alive = False
                continue
            lines.append(name + b": " + value + b"\r\n")
        if status in BODILESS:
            self._bodiless = True
        if length is not None:
            self._left = length
        elif not self._bodiless:
            if self._is_old:
                self.until_close = True
            else:
                self._chunked = True
                lines.append(b"transfer-encoding: chunked\r\n")
        if not self.keep_alive:
            lines.append(b"connection: close\r\n")
        fields = b"".join(lines)
        if fields.count(b"\n") != len(lines) or fields.count(b"\r") != len(lines) or b"\0" in fields:
            raise RuntimeError("a header of the response holds a line break or a NUL")
        self.started = True
        self._head = _STATUS_LINES[status] + fields + b"\r\n"

    def head(self) -> bytes:
        """The header, unless it was returned already."""
        head, self._head = self._head, b""
        return head

    def body(self, data: bytes, *, more: bool) -> bytes:
        """The next bytes of the body, framed. Raises RuntimeError where they do not belong there."""
        if not self.started or self.complete:
            raise RuntimeError(f"a body was sent {'after the end' if self.started else 'before the header'}")
        if self._bodiless:
            data = b""
        elif self._chunked:
            if data:  # an empty chunk would be the end of the body
                data = b"%x\r\n%b\r\n" % (len(data), data)
            if not more:
                data += LAST_CHUNK
        elif not self.until_close:
            self._left -= len(data)
            if self._left < 0 or (self._left and not more):
                raise RuntimeError("the body of the response has not the length that its header says")
        if not more:
            self.complete = True
            self.until_close = False
        if self._head:
            data = self._head + data
            self._head = b""
        return data
