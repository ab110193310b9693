"""HTTP requests over HTTP/2, each a stream, for an ASGI application."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from typing import Any

from h2.errors import ErrorCodes

from .client_connection import CLOSE_WITHIN_S, MAX_DISCARDED
from .client_limits import ClientLimits
from .grpc_wire import is_call
from .http1_messages import ASGI, BODILESS, RequestError, target_of
from .http2_server import Ends, StreamHandler
from .http2_streams import Data, Fields, Headers, Http2Stream, Reset, are_valid
from .served_request import CLIENT, Application, ClientLeftError, ServedRequest

_PSEUDO = frozenset({b":method", b":scheme", b":path", b":authority"})
_OF_HTTP_1 = frozenset({b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"})
"""Fields that a message of HTTP/2 cannot have (RFC 9113, section 8.2.2)."""

_ONCE = frozenset({b"host", b"content-length"})

_METHOD = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_PATH = re.compile(rb"\*|/[!-~\x80-\xff]*")
"""What the first line of a request over HTTP/1.1 can hold."""


class MalformedRequestError(Exception):
    """Not a request (RFC 9113, section 8.1.1): its stream is reset."""


def request_scope(fields: Fields) -> dict[str, Any]:
    """What an ASGI scope says of a request with valid field names. Raises MalformedRequestError, or RequestError."""
    pseudo: dict[bytes, bytes] = {}
    headers: Fields = []
    cookies: list[bytes] = []
    for name, value in fields:
        if name[:1] == b":":
            if headers or cookies or name in pseudo or name not in _PSEUDO:
                raise MalformedRequestError
            pseudo[name] = value
        elif name in _OF_HTTP_1 or (name in _ONCE and any(name == other for other, _ in headers)):
            raise MalformedRequestError
        elif name == b"cookie":
            cookies.append(value)  # RFC 9113, section 8.2.3
        else:
            headers.append((name, value))
    method, path, authority = (pseudo.get(name) for name in (b":method", b":path", b":authority"))
    if method == b"CONNECT":
        raise RequestError(400, "bad_request", "CONNECT is not supported.")
    if b":scheme" not in pseudo or not (method and _METHOD.fullmatch(method) and path and _PATH.fullmatch(path)):
        raise MalformedRequestError
    if authority is not None:
        if dict(headers).get(b"host", authority) != authority:
            raise MalformedRequestError
        headers = [(b"host", authority), *(field for field in headers if field[0] != b"host")]
    if cookies:
        headers.append((b"cookie", b"; ".join(cookies)))
    return {**ASGI, "http_version": "2", "method": method.decode(), "headers": headers, **target_of(path)}


class Http2Request(ServedRequest):
    """A request over HTTP/2."""

    def __init__(self, stream: Http2Stream, limits: ClientLimits) -> None:
        self._stream = stream
        self._limits = limits
        self._expects_continue = False
        self._bodiless = False
        self._done = asyncio.Event()
        """Set once the response is complete, or the client has left."""
        stream.on_reset = self.disconnect
        stream.on_unread = self._cut
        stream.on_silent = lambda: self.refuse(408, "", "The body of the request took too long.")

    async def answer(self, application: Application, scope: dict[str, Any]) -> None:
        """Have `application` respond."""
        self._bodiless = scope["method"] == "HEAD"
        self._expects_continue = (b"expect", b"100-continue") in scope["headers"]
        self.work = asyncio.current_task()
        scope["extensions"] = {CLIENT: self}
        await self.run(application, scope)
        if not (self._stream.is_read or self.gone):
            await self._discard()

    def disconnect(self) -> None:
        self._done.set()
        super().disconnect()

    def refuse(self, status: int, problem: str, message: str) -> None:
        if problem:
            self._limits.broken(problem)
        if self.begun:
            self._cut()
            return
        content = b"" if self._bodiless else message.encode()
        fields = [(b":status", b"%d" % status), (b"content-type", b"text/plain; charset=utf-8")]
        self._stream.send_headers(fields, end=False)
        self._stream.send_data(content, end=True)
        self._leave()

    def _cut(self) -> None:
        """End the response so that the client sees that it is not complete."""
        self._stream.reset(ErrorCodes.INTERNAL_ERROR)
        self._leave()

    def _leave(self) -> None:
        """The client gets nothing more: what waits for it continues."""
        self._stream.received(Reset(ErrorCodes.CANCEL))

    async def _discard(self) -> None:
        """Read the rest of the request, for clients that read no response before they have sent all."""
        stream, left = self._stream, MAX_DISCARDED
        stream.on_silent = None
        try:
            async with asyncio.timeout(CLOSE_WITHIN_S):
                while left > 0 and not stream.is_read:
                    event = await stream.next()
                    if isinstance(event, Data):
                        stream.taken(event.size)
                        left -= event.size
        except TimeoutError:
            pass  # the stream is reset

    # ── ASGI ────────────────────────────────────────────────────────────────────────────────────────────

    async def read(self) -> bytes:
        stream = self._stream
        body = b""
        if self.ended:
            await self._done.wait()
        if self._expects_continue:
            self._expects_continue = False
            stream.send_headers([(b":status", b"100")], end=False)
        if not (stream.is_read or self._done.is_set()) and isinstance(event := await stream.next(), Data):
            body = event.content
            stream.taken(event.size)
        if self._done.is_set():
            raise ClientLeftError("the client has left")
        self.ended = stream.is_read
        return body

    def begin(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> None:
        if self.gone:
            return
        if self.begun:
            raise RuntimeError("the response has begun already")
        self._bodiless |= status in BODILESS
        fields = response_fields(status, headers)
        self.begun, self._expects_continue = True, False
        self._stream.send_headers(fields, end=self._bodiless)

    async def write(self, data: bytes, *, more: bool = True) -> None:
        stream = self._stream
        if stream.unsent:
            await stream.drained()
        if self.gone:
            return
        if not self.begun or self.complete:
            raise RuntimeError(f"a body was sent {'after the end' if self.complete else 'before the header'}")
        if not self._bodiless and (data or not more):
            stream.send_data(data, end=not more)
        if not more:
            self.complete = True
            self._done.set()


class HttpStreams:
    """Has an ASGI application answer requests, and another handler calls of gRPC."""

    def __init__(self, application: Application, grpc: StreamHandler, limits: ClientLimits) -> None:
        self._application = application
        self._grpc = grpc
        self._limits = limits

    async def __call__(self, stream: Http2Stream, head: Headers, ends: Ends) -> None:
        if is_call(head.fields):
            await self._grpc(stream, head, ends)
            return
        exchange = Http2Request(stream, self._limits)
        try:
            scope = request_scope(head.fields)
        except MalformedRequestError:
            stream.reset(ErrorCodes.PROTOCOL_ERROR)
        except RequestError as error:
            exchange.refuse(error.status, error.problem, str(error))
        else:
            await exchange.answer(self._application, {**scope, **ends})


def response_fields(status: int, headers: Iterable[tuple[bytes, bytes]]) -> Fields:
    """The head of a response. Raises RuntimeError for a field that HTTP/2 cannot have."""
    fields = [(name.lower(), value) for name, value in headers]
    fields = [(b":status", b"%d" % status), *(field for field in fields if field[0] not in _OF_HTTP_1)]
    if not are_valid(fields):
        raise RuntimeError("a header of the response holds a line break or a NUL, or has an invalid name")
    return fields
