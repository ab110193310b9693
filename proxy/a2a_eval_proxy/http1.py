"""HTTP/1.1 to the agent: pooled connections, bytes in and out as they are, nothing decoded or followed.

Written for the forwarding path, where a general client costs more than the whole rest of the proxy (tests/bench):
the parser is httptools', the rest is what a pass-through needs. Header names, values and their order are the
caller's; bodies are handed on as they arrive, with back-pressure both ways.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import AsyncIterator
from typing import Final

import httptools

RawHeaders = list[tuple[bytes, bytes]]

_HIGH_WATER = 256 * 1024
"""Bytes of a response that may wait for a slow client before the agent is made to wait."""

_KEEPALIVE_S = 4.0
"""Uvicorn and Node close idle connections after 5 s; a request sent on one that is just closing would be lost."""

_MAX_IDLE = 512
_BODILESS: Final = frozenset({204, 304})


class UpstreamError(Exception):
    """The agent did not answer as HTTP should; the message says what happened."""


class UpstreamUnreachableError(UpstreamError):
    """No connection could be made."""


class UpstreamTimeoutError(UpstreamError):
    """The agent took longer than allowed, to accept a connection or to say something."""


class UpstreamCutError(UpstreamError):
    """The connection ended inside a response, or before one came."""


class HttpClient:
    """Connections to one origin. All methods belong to the event loop it is used in."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        tls: ssl.SSLContext | None = None,
        connect_timeout_s: float = 10.0,
        response_timeout_s: float | None = None,
        max_connections: int = 10_000,
        max_header_bytes: int = 65_536,
    ) -> None:
        self._host = host
        self._port = port
        self.tls = tls
        """For new connections; None: plain text. May be replaced at any time."""
        self._connect_timeout_s = connect_timeout_s
        self._response_timeout_s = response_timeout_s
        self._max_header_bytes = max_header_bytes
        self._free = max_connections
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._idle: deque[tuple[float, _Connection]] = deque()
        self._closed = False

    async def request(
        self, method: bytes, target: bytes, headers: RawHeaders, body: bytes | AsyncIterator[bytes] = b""
    ) -> Response:
        """Send a request; returns when the response's header is there.

        `headers` must name the host, and frame the body (`Content-Length`) or else it goes out chunked if it is an
        iterator. Raises UpstreamError. A request that never got an answer on a reused connection is sent once more
        if its method is safe (RFC 9110, section 9.2.2).
        """
        reused = True
        while True:
            connection = self._reusable()
            if connection is None:
                reused = False
                connection = await self._connect()
            try:
                return await connection.exchange(method, target, headers, body, self._response_timeout_s)
            except UpstreamCutError:
                if not reused or method not in (b"GET", b"HEAD"):
                    raise

    def close(self) -> None:
        """Close idle connections; busy ones close when their response is done."""
        self._closed = True
        while self._idle:
            self._idle.pop()[1].abort()

    # ── the pool ────────────────────────────────────────────────────────────────────────────────────────

    def _reusable(self) -> _Connection | None:
        now = asyncio.get_running_loop().time()
        while self._idle:
            since, connection = self._idle.pop()  # the one used last is the one least likely to be closing
            if connection.usable and now - since < _KEEPALIVE_S:
                return connection
            connection.abort()
        return None

    async def _connect(self) -> _Connection:
        await self._acquire()
        loop = asyncio.get_running_loop()
        connection = _Connection(self, self._max_header_bytes)
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                await loop.create_connection(lambda: connection, self._host, self._port, ssl=self.tls)
        except BaseException as error:
            connection.give_up()
            if isinstance(error, TimeoutError):
                raise UpstreamTimeoutError(f"no connection within {self._connect_timeout_s:g} s") from None
            if isinstance(error, OSError):
                raise UpstreamUnreachableError(_refusal(error)) from error
            raise
        return connection

    async def _acquire(self) -> None:
        if self._free > 0:
            self._free -= 1
            return
        place = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self.released()  # it was given to us at the moment we left
            raise

    def released(self) -> None:
        """A connection is gone: somebody else may have its place."""
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(None)
                return
        self._free += 1

    def returned(self, connection: _Connection) -> None:
        """A connection has done its work and can be used again."""
        if self._closed or self._waiting or len(self._idle) >= _MAX_IDLE:
            connection.abort()  # somebody waits for a place: the next connection takes it
            return
        self._idle.append((asyncio.get_running_loop().time(), connection))


class Response:
    """A response whose header has arrived. Its body is read once, piece by piece."""

    __slots__ = ("_connection", "_values", "headers", "status")

    def __init__(self, status: int, headers: RawHeaders, connection: _Connection) -> None:
        self.status = status
        self.headers = headers
        """As they came, hop-by-hop ones included."""
        self._values: dict[bytes, bytes] = {name.lower(): value for name, value in headers}
        self._connection = connection

    def header(self, name: bytes) -> bytes:
        """The (last) value of a header, by lower-case name; b"" where there is none."""
        return self._values.get(name, b"")

    async def read(self) -> bytes:
        """What has arrived of the body, waiting for at least one byte; b"" at its end.

        Raises UpstreamCutError where the agent broke off, UpstreamTimeoutError where it fell silent.
        """
        return await self._connection.read()

    def close(self) -> None:
        """Give up what is left; the connection survives only if nothing is."""
        self._connection.finish()


class _Connection(asyncio.Protocol):
    """One connection; at most one exchange at a time. Parser callbacks are the methods named `on_*`."""

    def __init__(self, pool: HttpClient, max_header_bytes: int) -> None:
        self._pool = pool
        self._max_header_bytes = max_header_bytes
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport
        self._made = False
        self._given_up = False
        self._waiter: asyncio.Future[None] | None = None
        self._writable: asyncio.Future[None] | None = None
        self._write_paused = False
        self._upload: asyncio.Task[None] | None = None
        self._lost = False
        self._busy = False
        self._reused = False
        self._timeout_s: float | None = None
        self._begin(b"")

    def _begin(self, method: bytes) -> None:
        self._method = method
        self._headers: RawHeaders = []
        self._header_bytes = 0
        self._head_bytes = 0
        self._response: Response | None = None
        self._body: list[bytes] = []
        self._buffered = 0
        self._reading_paused = False
        self._complete = False
        self._keep_alive = False
        self._until_close = False
        self._error: UpstreamError | None = None

    @property
    def usable(self) -> bool:
        return not self._lost and not self._busy

    # ── for the client ──────────────────────────────────────────────────────────────────────────────────

    async def exchange(
        self,
        method: bytes,
        target: bytes,
        headers: RawHeaders,
        body: bytes | AsyncIterator[bytes],
        timeout_s: float | None,
    ) -> Response:
        self._begin(method)
        self._busy = True
        self._timeout_s = timeout_s
        framed = isinstance(body, bytes) or any(name == b"content-length" for name, _ in headers)
        head = [method, b" ", target, b" HTTP/1.1\r\n"]
        for name, value in headers:
            head += (name, b": ", value, b"\r\n")
        head.append(b"\r\n" if framed else b"transfer-encoding: chunked\r\n\r\n")
        if isinstance(body, bytes):
            head.append(body)
            self._transport.write(b"".join(head))
        else:
            self._transport.write(b"".join(head))
            self._upload = self._loop.create_task(self._send(body, chunked=not framed))
        try:
            while self._response is None:
                if self._error is not None:
                    raise self._error
                await self._wait()
        except BaseException:
            self.abort()
            raise
        return self._response

    async def read(self) -> bytes:
        while not self._body:
            if self._error is not None:
                raise self._error
            if self._complete:
                self.finish()
                return b""
            await self._wait()
        chunk = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        self._body.clear()
        self._buffered = 0
        if self._reading_paused:
            self._reading_paused = False
            self._transport.resume_reading()
        return chunk

    def finish(self) -> None:
        """The exchange is over: back to the pool if the response was complete and allows it."""
        if not self._busy:
            return
        self._busy = False
        whole_upload = self._upload is None or self._upload.done()
        if self._complete and whole_upload and not self._lost and self._keep_alive:
            self._reused = True
            self._pool.returned(self)
        else:
            self.abort()

    def give_up(self) -> None:
        """It is not wanted, before it was used. Its place is free at once: uvloop may never report it lost."""
        self._given_up = True
        if self._made:
            self.abort()
        self._pool.released()

    def abort(self) -> None:
        self._busy = False
        if self._upload is not None:
            self._upload.cancel()
        if not self._lost:
            self._transport.abort()

    async def _wait(self) -> None:
        self._waiter = self._loop.create_future()
        if self._timeout_s is None:
            await self._waiter
            return
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._waiter
        except TimeoutError:
            self._error = UpstreamTimeoutError(f"silent for {self._timeout_s:g} s")

    async def _send(self, body: AsyncIterator[bytes], *, chunked: bool) -> None:
        try:
            async for piece in body:
                self._transport.write(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
                if self._write_paused:
                    self._writable = self._loop.create_future()
                    await self._writable
            if chunked:
                self._transport.write(b"0\r\n\r\n")
        except OSError as error:  # the sender's own: its client left
            self._fail(UpstreamCutError(str(error)))
            self.abort()

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _fail(self, error: UpstreamError) -> None:
        if self._error is None:
            self._error = error
        self._wake()

    # ── asyncio.Protocol ────────────────────────────────────────────────────────────────────────────────

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # create_connection makes a Transport
        self._made = True
        if self._given_up:
            self.abort()

    def data_received(self, data: bytes) -> None:
        if not self._busy or self._complete:
            self.abort()  # nobody asked for this
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._keep_alive = False
            if self._complete:
                self._wake()
            else:
                cause = error.__context__ if isinstance(error.__context__, UpstreamError) else None
                self._fail(cause or UpstreamError(f"the answer is not HTTP/1.1: {error}"))
            self._transport.abort()
            return
        if self._response is None:
            self._head_bytes += len(data)
            if self._head_bytes > 2 * self._max_header_bytes:  # a line without an end
                self._fail(self._header_too_large())
                self._transport.abort()
                return
        if self._buffered > _HIGH_WATER and not self._reading_paused:
            self._reading_paused = True
            self._transport.pause_reading()
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = True
        if not self._given_up:
            self._pool.released()
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        if not self._busy or self._complete:
            return
        if self._until_close and exc is None:
            self._complete = True  # the close is how this response ends (RFC 9112, section 6.3)
            self._wake()
        else:
            where = "inside its response" if self._response is not None else "before answering"
            self._fail(UpstreamCutError(f"the connection was closed {where}{self._tls_hint(exc)}"))

    def _tls_hint(self, exc: Exception | None) -> str:
        if isinstance(exc, ssl.SSLError):
            return f": {_refusal(exc)}"
        # With TLS 1.3 a refusal comes after the handshake, and from Python's servers it is a mere close.
        fresh = self._response is None and not self._reused
        secure = self._transport.get_extra_info("sslcontext") is not None
        return ", right after the TLS handshake; does it want a client certificate?" if fresh and secure else ""

    def pause_writing(self) -> None:
        self._write_paused = True

    def resume_writing(self) -> None:
        self._write_paused = False
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)

    # ── parser callbacks ────────────────────────────────────────────────────────────────────────────────

    def on_message_begin(self) -> None:
        if self._complete:
            raise UpstreamError("a second response came after the first")
        self._headers = []
        self._header_bytes = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._response is not None:
            return  # a trailer; those are not merged into the header (RFC 9110, section 6.5.1)
        self._header_bytes += len(name) + len(value)
        if self._header_bytes > self._max_header_bytes:
            raise self._header_too_large()
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200:
            return  # an interim response; the one that counts follows
        self._keep_alive = self._parser.should_keep_alive()
        response = Response(status, self._headers, self)
        self._response = response
        if self._method == b"HEAD":
            # The parser expects a body; there is none, so this connection cannot go on.
            self._keep_alive = False
            self._complete = True
        elif status not in _BODILESS:
            self._until_close = not response.header(b"content-length") and not response.header(b"transfer-encoding")

    def _header_too_large(self) -> UpstreamError:
        return UpstreamError(f"the response's header exceeds {self._max_header_bytes} bytes")

    def on_body(self, body: bytes) -> None:
        self._body.append(body)
        self._buffered += len(body)

    def on_message_complete(self) -> None:
        if self._response is not None:
            self._complete = True


def _refusal(error: OSError) -> str:
    """Why there is no connection, without the source lines of OpenSSL."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message.rstrip('.')}"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {(error.reason or str(error)).replace('_', ' ').lower()}"
    return error.strerror or str(error)
