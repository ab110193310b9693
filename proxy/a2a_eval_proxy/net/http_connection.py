"""A connection to the agent, and the exchange that owns it for the time of one request and its response."""

from __future__ import annotations

import asyncio
import select
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable

from .http_messages import (
    CHUNKED,
    LAST_CHUNK,
    RawHeaders,
    ResponseParser,
    UpstreamCutError,
    UpstreamError,
    UpstreamTimeoutError,
    chunk,
    length_field,
    request_head,
)

_HIGH_WATER = 256 * 1024
"""Bytes of a response that may wait for a slow client before the agent is made to wait."""

_CAN_POLL = hasattr(select, "poll")
"""Not on Windows."""

Body = bytes | AsyncIterator[bytes]

_READ = ResponseParser(0)
"""What is left for whoever reads on after the last byte, when the connection and its parser have gone on."""
_READ.complete = True
_READ.close()


class Connection(asyncio.Protocol):
    """A socket. What arrives goes to the exchange that owns it; with no owner, it ends the connection."""

    def __init__(self, on_lost: Callable[[Connection], None], max_header_bytes: int) -> None:
        """`on_lost` is called once, when the connection is gone, unless it was given up before."""
        self._on_lost = on_lost
        self.parser = ResponseParser(max_header_bytes)
        self._poll: select.poll | None = None
        self._given_up = False
        self._paused = False
        self.transport: asyncio.Transport | None = None
        self.exchange: Exchange | None = None
        """The owner."""
        self.used = False
        """Whether an exchange before this one went well."""
        self.lost = False
        self.aborted = False
        """Whether it was closed on this side."""
        self.idle_since = 0.0

    def is_quiet(self, *, look: bool) -> bool:
        """Whether the agent neither closed this idle connection nor sent anything.

        With `look`, as far as the system knows now; else as far as the event loop has seen.
        """
        transport = self.transport
        if self.lost or transport is None or transport.is_closing():
            return False
        if not look or not _CAN_POLL:
            return True
        if self._poll is None:
            self._poll = select.poll()
            self._poll.register(transport.get_extra_info("socket").fileno(), select.POLLIN)
        return not self._poll.poll(0)

    def is_flushed(self) -> bool:
        """Whether everything written has left, and reading goes on: so it can be lent again."""
        return not self._paused and self.transport is not None and not self.transport.get_write_buffer_size()

    def pause(self) -> None:
        """Make the agent wait."""
        if not self._paused and self.transport is not None:
            self._paused = True
            self.transport.pause_reading()

    def resume(self) -> None:
        """Read on."""
        if self._paused and self.transport is not None:
            self._paused = False
            self.transport.resume_reading()

    def abort(self) -> None:
        """Close without a word."""
        self.aborted = True
        if not self.lost and self.transport is not None:
            self.transport.abort()

    def give_up(self) -> None:
        """It is not wanted, before it was used. `on_lost` will not be called: uvloop may never report the loss."""
        self._given_up = True
        self.parser.close()
        self.abort()

    # ── asyncio.Protocol ────────────────────────────────────────────────────────────────────────────────

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]  # create_connection makes a Transport
        if self._given_up:
            self.abort()

    def data_received(self, data: bytes) -> None:
        if self.exchange is not None:
            self.exchange.data_received(data)
        else:
            self.abort()  # nobody asked for this

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        if not self._given_up:
            self._on_lost(self)
        if self.exchange is not None:
            self.exchange.connection_lost(exc)
        self.parser.close()

    def pause_writing(self) -> None:
        if self.exchange is not None:
            self.exchange.write_paused = True

    def resume_writing(self) -> None:
        if self.exchange is not None:
            self.exchange.resume_writing()


class Exchange:
    """One request and its response, on a connection it owns until `release`.

    `release` takes the connection out of the exchange in one move. Whoever holds on to the exchange after that
    reaches what had arrived before, and no connection.
    """

    def __init__(
        self,
        connection: Connection,
        method: bytes,
        timeout_s: float | None,
        give_back: Callable[[Connection], None],
    ) -> None:
        """`give_back` gets the connection if another exchange can follow on it; else it is closed."""
        if connection.exchange is not None:
            raise RuntimeError("a connection has one owner")
        connection.exchange = self
        self._connection: Connection | None = connection
        self._parser = connection.parser
        self._parser.begin(method)
        self._method = method
        self._timeout_s = timeout_s
        self._give_back = give_back
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[None] | None = None
        self._writable: asyncio.Future[None] | None = None
        self._upload: asyncio.Task[None] | None = None
        self._sent = False
        self._error: Exception | None = None
        self._progress_at = 0.0
        self.write_paused = False

    async def send(self, target: bytes, headers: RawHeaders, body: Body, length: int | None) -> Response:
        """Send the request; the response once its header is there. Raises UpstreamError."""
        try:
            if isinstance(body, bytes):
                head = request_head(self._method, target, headers, length_field(self._method, len(body)))
                self._write(head + body)
                self._sent = True
            else:
                framing = CHUNKED if length is None else length_field(self._method, length)
                self._write(request_head(self._method, target, headers, framing))
                self._upload = self._loop.create_task(self._send(body, length))
            parser = self._parser
            while not parser.status:
                if self._error is not None:
                    raise self._error
                await self._wait()
        except BaseException:
            self.release()
            raise
        return Response(self, parser)

    async def read(self) -> bytes:
        """See `Response.read`."""
        parser = self._parser
        while not parser.buffered:
            if parser.complete:
                self.release()
                return b""
            if self._error is not None:
                raise self._error
            await self._wait()
        data = parser.take()
        if self._connection is not None:
            self._connection.resume()
        return data

    def whole(self) -> bytes | None:
        """See `Response.whole`."""
        parser = self._parser
        if not parser.complete:
            return None
        data = parser.take()
        if self._connection is not None:
            self._connection.resume()
        self.release()
        return data

    def release(self) -> None:
        """Part with the connection: back to the pool if the exchange went whole in both directions, else closed."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        connection.exchange = None
        if self._upload is not None:
            self._upload.cancel()
        parser = self._parser
        went_whole = self._sent and parser.complete and not parser.buffered and self._error is None
        if went_whole and parser.reusable and connection.is_flushed() and not connection.lost:
            connection.used = True
            self._parser = _READ
            self._give_back(connection)
        else:
            parser.close()
            connection.abort()
            if not parser.complete:
                self._fail(UpstreamCutError("the exchange was given up"))

    async def _send(self, body: AsyncIterator[bytes], length: int | None) -> None:
        """Send a body piece by piece: exactly `length` bytes, or chunked."""
        left = length
        try:
            async for piece in body:
                if not piece:
                    continue
                if left is not None:
                    left -= len(piece)
                    if left < 0:
                        raise UpstreamError(f"the request's body is longer than the {length} bytes it declares")
                self._write(piece if left is not None else chunk(piece))
                if self.write_paused:
                    self._writable = self._loop.create_future()
                    await self._writable
                self._progress_at = self._loop.time()
            if left:
                raise UpstreamError(f"the request's body ended {left} bytes before the {length} it declares")
            if left is None:
                self._write(LAST_CHUNK)
            self._sent = True
            self._progress_at = self._loop.time()
        except OSError as error:  # the sender's own: its client left
            self._break(UpstreamCutError(str(error)))
        except Exception as error:  # noqa: BLE001  # whoever waits for the answer raises it
            self._break(error)

    def _write(self, data: bytes) -> None:
        connection = self._connection
        if connection is not None and connection.transport is not None and not connection.lost:
            connection.transport.write(data)

    def _wait(self) -> Awaitable[None]:
        """Until something arrives. Silence is an error after `timeout_s`, unless it is the client's turn to send."""
        waiter = self._waiter = self._loop.create_future()
        return waiter if self._timeout_s is None else self._wait_at_most(self._timeout_s, waiter)

    async def _wait_at_most(self, timeout_s: float, waiter: asyncio.Future[None]) -> None:
        begun_at = self._loop.time()
        patience = timeout_s
        while True:
            done, _ = await asyncio.wait({waiter}, timeout=patience)
            if done:
                return
            now = self._loop.time()
            if self._sent or self.write_paused:
                patience = max(begun_at, self._progress_at) + timeout_s - now
                if patience <= 0:
                    self._error = UpstreamTimeoutError(f"silent for {timeout_s:g} s")
                    return
            else:
                patience = timeout_s

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _fail(self, error: Exception) -> None:
        if self._error is None:
            self._error = error
        self._wake()

    def _break(self, error: Exception) -> None:
        """Fail, and end the connection: nobody may read on where this stopped."""
        self._fail(error)
        if self._connection is not None:
            self._connection.abort()

    # ── from the connection ─────────────────────────────────────────────────────────────────────────────

    def data_received(self, data: bytes) -> None:
        """Something arrived while this exchange owns the connection."""
        parser = self._parser
        if parser.complete:
            parser.reusable = False  # nobody asked for this
            return
        try:
            parser.feed(data)
        except UpstreamError as error:
            self._break(error)
            return
        if parser.buffered > _HIGH_WATER and self._connection is not None:
            self._connection.pause()
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection ended; `exc` where it did not do so in order."""
        self.resume_writing()
        if self._parser.complete or self._error is not None:
            return
        try:
            if exc is not None:
                raise UpstreamCutError(f"the connection was closed {self._parser.place}{self._tls_hint(exc)}")
            self._parser.end()
            self._wake()
        except UpstreamCutError as error:
            hint = self._tls_hint(exc) if exc is None else ""
            self._fail(UpstreamCutError(f"{error}{hint}") if hint else error)

    def resume_writing(self) -> None:
        """The agent reads again."""
        self.write_paused = False
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)

    def _tls_hint(self, exc: Exception | None) -> str:
        if isinstance(exc, ssl.SSLError):
            return f": {tls_problem(exc)}"
        connection = self._connection
        if connection is None or connection.used or connection.transport is None or self._parser.status:
            return ""
        # With TLS 1.3 a refusal comes after the handshake, and from Python's servers it is a mere close.
        secure = connection.transport.get_extra_info("sslcontext") is not None
        return ", right after the TLS handshake; does it want a client certificate?" if secure else ""


class Response:
    """A response whose header has arrived. Its body is read once, piece by piece."""

    __slots__ = ("_exchange", "fields", "headers", "status")

    def __init__(self, exchange: Exchange, parser: ResponseParser) -> None:
        self.status = parser.status
        self.headers: RawHeaders = parser.headers
        """As they came, hop-by-hop ones included."""
        self.fields = parser.fields
        """The last value of each header field, by its name in lower case."""
        self._exchange = exchange

    def read(self) -> Awaitable[bytes]:
        """What has arrived of the body, waiting for at least one byte; b"" at its end.

        Raises UpstreamCutError where the agent broke off, UpstreamTimeoutError where it fell silent.
        """
        return self._exchange.read()

    def whole(self) -> bytes | None:
        """What is left of the body, where it has arrived to its end; else None, and nothing is read."""
        return self._exchange.whole()

    def close(self) -> None:
        """Give up what is left; the connection survives only if nothing is."""
        self._exchange.release()


def tls_problem(error: ssl.SSLError) -> str:
    """Why TLS failed, without the source lines of OpenSSL."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message.rstrip('.')}"
    return f"TLS failed: {(error.reason or str(error)).replace('_', ' ').lower()}"
