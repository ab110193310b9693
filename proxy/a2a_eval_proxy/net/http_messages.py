"""HTTP/1.1 as bytes, without a socket: the head of a request, and a parser for one response."""

from __future__ import annotations

from itertools import chain
from typing import Final

import httptools

RawHeaders = list[tuple[bytes, bytes]]

CHUNKED: Final = b"transfer-encoding: chunked"
LAST_CHUNK: Final = b"0\r\n\r\n"

_FRAMING = frozenset({b"content-length", b"transfer-encoding"})
_EXPECT_A_BODY = frozenset({b"POST", b"PUT", b"PATCH"})
_BODILESS = frozenset({204, 304})
_READ_AT_ONCE = 256 * 1024
"""Bytes that an event loop reads from a socket at a time: part of a body may arrive with a header."""


class UpstreamError(Exception):
    """The agent gave no valid HTTP response; the message names the cause."""


class UpstreamUnreachableError(UpstreamError):
    """No connection to the agent was possible."""


class UpstreamTimeoutError(UpstreamError):
    """The agent took longer than allowed to accept a connection or to send data."""


class UpstreamCutError(UpstreamError):
    """The connection ended inside a response, or before a response began."""


def length_field(method: bytes, length: int) -> bytes:
    """The header line that frames a body of `length` bytes; b"" where a request without body needs none.

    RFC 9110, section 8.6: methods that give a body a meaning say that it is empty.
    """
    return b"content-length: %d" % length if length or method in _EXPECT_A_BODY else b""


class RequestHead:
    """The bytes of a request before its body, without framing: they can be sent with several bodies."""

    __slots__ = ("_content", "method")

    def __init__(self, method: bytes, target: bytes, headers: RawHeaders) -> None:
        """Only `framed` frames: a Content-Length or Transfer-Encoding among `headers` is left out. Raises UpstreamError
        where a line break inside a value would make the agent read another request than this."""
        self.method = method
        lines = [name + b": " + value for name, value in headers if name.lower() not in _FRAMING]
        breaks = len(lines)
        self._content = content = b"\r\n".join([method + b" " + target + b" HTTP/1.1", *lines])
        if content.count(b"\n") != breaks or content.count(b"\r") != breaks or b"\0" in content:
            raise UpstreamError("a header of the request holds a line break or a NUL")

    def framed(self, *fields: bytes) -> bytes:
        """The head with more lines, of which one frames the body: `length_field`, or `CHUNKED`. Empty ones are left
        out."""
        return b"\r\n".join([self._content, *filter(None, fields), b"", b""])


def chunk(data: bytes) -> bytes:
    """One chunk (RFC 9112, section 7.1). `data` must not be empty: that would be the end of the body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


class ResponseParser:
    """Parses one response: bytes in with `feed`, body out with `take`.

    Methods named `on_*` are httptools' callbacks.

    A line that never ends is not collected: at most `max_header_bytes` of header, and about as many between two
    pieces of the body or behind it (chunk extensions, trailer fields).
    """

    def __init__(self, method: bytes, max_header_bytes: int) -> None:
        """`method`: of the request; a response to HEAD has no body."""
        self._method = method
        self._max_header_bytes = max_header_bytes
        self._http: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)
        # A bare LF ends a line (RFC 9112, section 2.2). Clients never get it: the header is written again for them.
        self._http.set_dangerous_leniencies(lenient_optional_cr_before_lf=True)
        self.status = 0
        """0 until the header has arrived whole."""
        self.headers: RawHeaders = []
        """As received, with the hop-by-hop fields, without trailer fields (RFC 9110, section 6.5.1)."""
        self.fields: dict[bytes, bytes] = {}
        """The last value of each header field, by its name in lower case."""
        self.buffered = 0
        """Bytes of the body that were not taken yet."""
        self.complete = False
        """Whether all of the response has arrived."""
        self.reusable = False
        """Whether another response can follow on the connection, and be distinguished from this one."""
        self._trailer_bytes = 0
        self._unread = 0
        self._body: list[bytes] = []
        self._until_close = False

    def feed(self, data: bytes) -> None:
        """Parse received data. Raises UpstreamError where it is not an HTTP/1.1 response or exceeds the limit.

        Data after the end of the response makes the connection not `reusable`, and is not an error.
        """
        if self._http is None:
            raise RuntimeError("the parser is closed")
        self._unread += len(data)
        try:
            self._http.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self.reusable = False
            if self.complete:
                return
            if isinstance(error.__context__, UpstreamError):
                raise error.__context__ from None
            raise UpstreamError(f"the answer is not HTTP/1.1: {error}") from None
        if self._unread > 2 * self._max_header_bytes + _READ_AT_ONCE:
            raise self._too_large()

    def end(self) -> None:
        """Handle a close of the connection without error. Raises UpstreamCutError where the response is incomplete."""
        if not self._until_close and not self.complete:
            raise UpstreamCutError(f"the connection was closed {self.place}")
        self.complete = True  # the close is how this response ends (RFC 9112, section 6.3)

    @property
    def place(self) -> str:
        """Where in the response the connection ended, for a message."""
        return "inside its response" if self.status else "before answering"

    def take(self) -> bytes:
        """The bytes of the body that arrived since the last call."""
        body = self._body
        data = body[0] if len(body) == 1 else b"".join(body)
        self._body = []
        self.buffered = 0
        return data

    def close(self) -> None:
        """Stop parsing. httptools' parser and this one reference each other."""
        self._http = None

    # ── callbacks ───────────────────────────────────────────────────────────────────────────────────────

    def on_message_begin(self) -> None:
        if self.complete:
            raise UpstreamError("a second response came after the first")
        self.headers = []

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.status:
            self.headers.append((name, value))
            return
        self._trailer_bytes += len(name) + len(value)
        if self._trailer_bytes > self._max_header_bytes:
            raise self._too_large()

    def on_headers_complete(self) -> None:
        http = self._http
        if http is None:
            return
        most = self._max_header_bytes
        if self._unread > most and sum(map(len, chain.from_iterable(self.headers))) > most:
            raise self._too_large()
        status = http.get_status_code()
        if not 200 <= status <= 599:
            if 100 <= status < 200:
                return  # an interim response; the one that counts follows
            # RFC 9110, section 15: not valid
            raise UpstreamError(f"the answer has the status {status:03d}; expected 100 to 599")
        self._unread = 0
        self.reusable = http.should_keep_alive()
        lengths, codings = [], []
        fields = self.fields
        for name, value in self.headers:
            lower = name.lower()
            fields[lower] = value
            if lower == b"content-length":
                lengths.append(value)
            elif lower == b"transfer-encoding":
                codings.append(value.strip().lower())
        if codings and http.get_http_version() == "1.0":
            self.reusable = False  # RFC 9112, section 6.1: its framing counts as faulty
        if self._method == b"HEAD":
            # The parser expects a body; since none follows, this connection cannot be reused.
            self.reusable = False
            self.complete = True
        elif status in _BODILESS:
            # An agent that announces a body here may send it, too.
            self.reusable = self.reusable and not codings and all(value.strip(b" \t0") == b"" for value in lengths)
        elif codings not in ([], [b"chunked"], [b"identity"]):
            coding = b", ".join(codings).decode("latin-1")
            raise UpstreamError(f"the answer has the transfer coding {coding!r}; expected none, or chunked")
        else:
            self._until_close = not lengths and codings != [b"chunked"]
        self.status = status

    def on_body(self, body: bytes) -> None:
        self._unread = 0
        self._body.append(body)
        self.buffered += len(body)

    def on_message_complete(self) -> None:
        if self.status:
            self.complete = True

    def _too_large(self) -> UpstreamError:
        section = "trailer" if self.status else "header"
        return UpstreamError(f"the response's {section} exceeds {self._max_header_bytes} bytes")
