"""HTTP/1.1 responses as bytes, without a socket."""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus

from .http_messages import BODILESS, LAST_CHUNK, chunk

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
    """The bytes of one response: its `head`, then `body` until the body is complete.

    The body is framed with the Content-Length that the application gives, else with chunks. To an HTTP/1.0 client,
    which knows no chunks, the close ends the body (RFC 9112, section 6.3).
    """

    until_close = False
    """Whether a close would look to the client like the end of the body, which is not complete."""
    _chunked = False

    def __init__(
        self,
        method: str,
        http_version: str,
        status: int,
        headers: Iterable[tuple[bytes, bytes]],
        *,
        keep_alive: bool,
    ) -> None:
        """`method` and `http_version` are those of the request, `keep_alive` says whether another may follow on it.

        Raises RuntimeError where a line break inside a value would break the header.
        """
        lines = [_STATUS_LINES[status]]
        length = None
        for name, value in headers:
            field = name.lower()
            if field == b"content-length":
                length = int(value)
            elif field in _HOP_BY_HOP:
                if field == b"connection" and b"close" in value.lower():
                    keep_alive = False
                continue
            lines.append(name + b": " + value + b"\r\n")
        self._left = length or 0
        self._bodiless = method == "HEAD" or status in BODILESS
        if length is None and not self._bodiless:
            self.until_close = http_version == "1.0"
            self._chunked = not self.until_close
        if self._chunked:
            lines.append(b"transfer-encoding: chunked\r\n")
        if not keep_alive:
            lines.append(b"connection: close\r\n")
        lines.append(b"\r\n")
        head = b"".join(lines)
        if head.count(b"\n") != len(lines) or head.count(b"\r") != len(lines) or b"\0" in head:
            raise RuntimeError("a header of the response holds a line break or a NUL")
        self.head = head
        """What comes before the first bytes of the body; b"" once it is sent, or returned with these."""
        self.keep_alive = keep_alive
        """Whether another request may follow on the connection, as the header says."""

    def body(self, data: bytes, *, more: bool) -> bytes:
        """The next bytes of the body, framed. Raises RuntimeError where they are not what the header says."""
        if self._bodiless:
            data = b""
        elif self._chunked:
            if data:  # an empty chunk would be the end of the body
                data = chunk(data)
            if not more:
                data += LAST_CHUNK
        elif not self.until_close:
            self._left -= len(data)
            if self._left < 0 or (self._left and not more):
                raise RuntimeError("the body of the response has not the length that its header says")
        self.until_close &= more
        if self.head:
            data = self.head + data
            self.head = b""
        return data
