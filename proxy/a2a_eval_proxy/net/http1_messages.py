"""HTTP/1.1 as bytes, without a socket: requests of clients, responses to them, and requests to the agent."""

from __future__ import annotations

import re
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import unquote

import httptools

RawHeaders = list[tuple[bytes, bytes]]

LAST_CHUNK: Final = b"0\r\n\r\n"

BODILESS = frozenset({204, 304})
"""The statuses of responses that have no body."""

_END_OF_SECTION = b"\r\n\r\n"
"""Ends a header section, and a chunked body with its trailer section."""

_ABSOLUTE = re.compile(rb"[a-zA-Z][a-zA-Z0-9+.-]*://([^/?#]*)")

_FIELD_BYTES = 128
"""Of the objects of a header field, besides its text."""

_READ = frozenset({b"host", b"content-length", b"transfer-encoding", b"expect"})

_INVALID = "Invalid HTTP request received."

ASGI = {"type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}, "root_path": ""}
"""What the scopes of all requests have."""

_HOP_BY_HOP = frozenset({b"connection", b"transfer-encoding"})

_PHRASES = {status.value: status.phrase for status in HTTPStatus}
_STATUS_LINES = {status: f"HTTP/1.1 {status} {_PHRASES.get(status, '')}\r\n".encode() for status in range(100, 600)}

_FRAMING = frozenset({b"content-length", b"transfer-encoding"})
_EXPECT_A_BODY = b"POST ", b"PUT ", b"PATCH "


# ── requests of clients ─────────────────────────────────────────────────────────────────────────────────────


class RequestError(Exception):
    """The request of a client cannot be served; the message is for the client."""

    def __init__(self, status: int, problem: str, message: str) -> None:
        """`status` of the response; `problem`: a key of `ClientLimits.broken_limits`."""
        super().__init__(message)
        self.status = status
        self.problem = problem


class RequestParser:
    """Parses the requests of a connection, each after `begin`: bytes in with `feed`, body out with `take`.

    Only the bytes of the current request are parsed, so that requests that are sent ahead cost no more than their
    bytes. A line that never ends is not collected. Trailer fields are dropped: in the header (RFC 9110, section 6.5.1,
    forbids it) a client could change with them what the agent gets. An offer to upgrade is ignored (section 7.8), and
    its field left out.

    Methods named `on_*` are httptools' callbacks.
    """

    def __init__(self, max_unread_bytes: int, scope: dict[str, Any]) -> None:
        """At most `max_unread_bytes` complete no header section and carry no body. `scope`: what the ASGI scopes of all
        requests have."""
        self._max_unread_bytes = max_unread_bytes
        self._scope = {**ASGI, **scope}
        self._tail = b""
        self.ahead = b""
        """Bytes of further requests."""
        self.keep_alive = False
        """Whether another request may follow on the connection, once the header is complete. May be reset."""
        self.expects_continue = False
        """Whether the client waits for 100 Continue before it sends the body, once the header is complete. To be reset
        when it is waited for no longer."""
        self.begin()

    def begin(self) -> None:
        """Parse the next request, since the last one is complete. `feed` continues with what is `ahead`."""
        self._http: httptools.HttpRequestParser = httptools.HttpRequestParser(self)
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self.scope: dict[str, Any] | None = None
        """The ASGI scope, without `extensions`; None until the header is complete."""
        self.body = bytearray()
        """What has arrived of the body, and was not taken yet."""
        self.complete = False
        """Whether its last byte has arrived."""
        self._header_ended = False
        self._unread = 0
        self._left = 0
        """Bytes of the body to come, where the header says its length. They are not parsed."""

    def feed(self, data: bytes) -> None:
        """Parse received data. Raises RequestError; the connection can be used no more then."""
        if self.ahead:
            data = self.ahead + data
        at, size = 0, len(data)
        while at < size and not self.complete:
            if self._left:
                end = min(size, at + self._left)
                self.body += memoryview(data)[at:end]
                self._left -= end - at
                self.complete = not self._left
            else:
                end = self._end_of_section(data, at)
                self._parse(data[at:end])
            at = end
        self.ahead = data[at:]

    @property
    def waiting(self) -> int:
        """Bytes of memory for what was not taken: a header that has not arrived whole, the body, further requests."""
        head = self._unread + _FIELD_BYTES * len(self._headers) if self.scope is None else 0
        return head + len(self.body) + len(self.ahead)

    def take(self) -> bytes:
        """The bytes of the body that arrived since the last call."""
        body, self.body = self.body, bytearray()
        return bytes(body)

    def close(self) -> None:
        """Stop parsing. httptools' parser and this one reference each other, and the scope what uses this one."""
        self._http = self.scope = None  # type: ignore[assignment]  # nothing is fed any more
        self.ahead, self._headers, self.body = b"", [], bytearray()

    # ── parsing ─────────────────────────────────────────────────────────────────────────────────────────

    def _end_of_section(self, data: bytes, at: int) -> int:
        """Where the bytes from `at` on may begin to belong to another section, or another request."""
        if self._tail:
            seam = (self._tail + data[at : at + 3]).find(_END_OF_SECTION)
            if seam >= 0:
                end = at + seam + len(_END_OF_SECTION) - len(self._tail)
                self._tail = b""
                return end
        found = data.find(_END_OF_SECTION, at)
        if found >= 0:
            self._tail = b""
            return found + len(_END_OF_SECTION)
        self._tail = (self._tail + data[max(at, len(data) - 3) :])[-3:]
        return len(data)

    def _parse(self, piece: bytes) -> None:
        """Parse bytes of one section. Any exception but RequestError is a fault of ours."""
        self._unread += len(piece)
        try:
            try:
                self._http.feed_data(piece)
            except httptools.HttpParserUpgrade:
                self._ignore_upgrade()
        except httptools.HttpParserCallbackError:
            raise
        except httptools.HttpParserError as error:
            raise _bad_request(_INVALID) from error
        if self._unread > self._max_unread_bytes:
            raise RequestError(431, "header_too_large", "The request's header fields are too large.")
        if self._header_ended and self.scope is None:
            self.scope = self._read_header()

    def _ignore_upgrade(self) -> None:
        """Parse the header again without its offer to upgrade, since the parser stops after such a header."""
        method = self._http.get_method()
        if method == b"CONNECT":
            raise _bad_request("CONNECT is not supported.")
        lines = [b"%b %b HTTP/%b" % (method, self._url, self._http.get_http_version().encode())]
        lines += [b"%b: %b" % item for item in self._headers if item[0] != b"upgrade"]
        self._url, self._headers, self.complete = b"", [], False
        self._http = httptools.HttpRequestParser(self)
        self._http.feed_data(b"\r\n".join(lines) + _END_OF_SECTION)

    def _read_header(self) -> dict[str, Any]:
        http = self._http
        version = http.get_http_version()
        hosts = 0
        self.expects_continue = False
        for name, value in self._headers:
            if name not in _READ:
                continue
            if name == b"host":
                hosts += 1
            elif name == b"content-length":
                self._left = int(value)
            elif name == b"transfer-encoding" and value.strip().lower() != b"chunked":  # RFC 9112, section 6.1
                message = "The request has a transfer coding other than chunked, which is not supported."
                raise RequestError(501, "bad_request", message)
            elif name == b"expect" and value.lower() == b"100-continue":
                self.expects_continue = True
        if hosts > 1:  # RFC 9112, section 3.2
            raise _bad_request("The request has more than one Host.")
        if absolute := _ABSOLUTE.match(self._url):  # its authority is the host: RFC 9112, section 3.2.2
            self._headers = [(b"host", absolute[1]), *(item for item in self._headers if item[0] != b"host")]
        if version == "1.0":  # no 100 Continue: RFC 9110, section 10.1.1
            self.keep_alive = self.expects_continue = False
        return {
            **self._scope,
            "http_version": version,
            "headers": self._headers,
            "method": http.get_method().decode("ascii"),
            **target_of(self._url),
        }

    # ── callbacks ───────────────────────────────────────────────────────────────────────────────────────

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.scope is None:
            self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self._header_ended = True
        self.keep_alive = self._http.should_keep_alive()  # not known once the request is complete
        self._unread = 0

    def on_body(self, body: bytes) -> None:
        self._unread = 0
        self.body += body

    def on_message_complete(self) -> None:
        self._unread = 0
        self.complete = True


def target_of(url: bytes) -> dict[str, Any]:
    """Path and query for the scope of a request. Raises RequestError."""
    try:
        target = httptools.parse_url(url)
    except httptools.HttpParserError as error:
        raise _bad_request(_INVALID) from error
    raw_path = target.path or b"/"  # it may be empty in absolute form (RFC 9112, section 3.2.2)
    if not raw_path.isascii():  # RFC 9112, section 3.2
        raise _bad_request("The request's path has bytes that are not ASCII; percent-encode them.")
    path = raw_path.decode()
    return {
        "path": unquote(path) if "%" in path else path,
        # ASGI does not distinguish an empty query from none
        "raw_path": raw_path + b"?" if url.endswith(b"?") else raw_path,
        "query_string": target.query or b"",
    }


def _bad_request(message: str) -> RequestError:
    return RequestError(400, "bad_request", message)


# ── responses to them ───────────────────────────────────────────────────────────────────────────────────────


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


# ── requests to the agent ───────────────────────────────────────────────────────────────────────────────────


class UpstreamError(Exception):
    """The agent gave no valid HTTP response; the message names the cause."""


class UpstreamUnreachableError(UpstreamError):
    """No connection to the agent was possible."""


class UpstreamTimeoutError(UpstreamError):
    """The agent took longer than allowed to accept a connection or to send data."""


class UpstreamCutError(UpstreamError):
    """The connection ended inside a response, or before a response began."""


def request_head(method: bytes, target: bytes, headers: RawHeaders) -> bytes:
    """The bytes of a request before its body, without framing.

    Only `framed` frames: a Content-Length or Transfer-Encoding among `headers` is left out. Raises UpstreamError where
    a line break inside a value would make the agent read another request than this.
    """
    lines = [name + b": " + value + b"\r\n" for name, value in headers if name.lower() not in _FRAMING]
    head = method + b" " + target + b" HTTP/1.1\r\n" + b"".join(lines)
    breaks = 1 + len(lines)
    if head.count(b"\n") != breaks or head.count(b"\r") != breaks or b"\0" in head:
        raise UpstreamError("a header of the request holds a line break or a NUL")
    return head


def framed(head: bytes, length: int | None) -> bytes:
    """The head with the line that frames a body of `length` bytes; None: one that is sent in chunks.

    RFC 9110, section 8.6: methods that give a body a meaning say that it is empty.
    """
    if length is None:
        return head + b"transfer-encoding: chunked\r\n\r\n"
    if length or head.startswith(_EXPECT_A_BODY):
        return head + b"content-length: %d\r\n\r\n" % length
    return head + b"\r\n"


def chunk(data: bytes) -> bytes:
    """One chunk (RFC 9112, section 7.1). `data` must not be empty: that would be the end of the body."""
    return b"%x\r\n%b\r\n" % (len(data), data)
