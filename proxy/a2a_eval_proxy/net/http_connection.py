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
    RequestHead,
    ResponseParser,
    UpstreamCutError,
    UpstreamError,
    UpstreamTimeoutError,
    chunk,
    length_field,
)

_HIGH_WATER = 256 * 1024
"""Bytes of a response that may wait for a slow client before reading from the agent pauses."""

_SMALL = 64 * 1024
"""A larger body is written separately: its copy would cost more than another write."""

_CAN_POLL = hasattr(select, "poll")
"""Not on Windows."""

Body = bytes | AsyncIterator[bytes]


class Connection(asyncio.Protocol):
    """A socket. Received data goes to the exchange that owns it; without an owner, data ends the connection."""

    def __init__(self, on_closed: Callable[[Connection], None], max_header_bytes: int) -> None:
        """`on_closed` is called when the connection ends that no exchange owns."""
        self._on_closed = on_closed
        self.max_header_bytes = max_header_bytes
        self._poll: select.poll | None = None
        self._paused = False
        self.transport: asyncio.Transport | None = None
        self.loop: asyncio.AbstractEventLoop
        """Set with the transport. `get_running_loop` takes a system call each time."""
        self.exchange: HttpExchange | None = None
        """The owner."""
        self.used = False
        """Whether an earlier exchange on it was complete."""
        self.lost = False
        self.aborted = False
        """Whether this side closed it."""
        self.idle_since = 0.0

    def is_quiet(self) -> bool:
        """Whether the agent neither closed this idle connection nor sent anything, as the operating system reports now.

        The event loop may not have seen it yet: then a request would get a response that belongs to no request.
        """
        transport = self.transport
        if self.lost or transport is None or transport.is_closing():
            return False
        if not _CAN_POLL:
            return True
        if self._poll is None:
            self._poll = select.poll()
            self._poll.register(transport.get_extra_info("socket").fileno(), select.POLLIN)
        return not self._poll.poll(0)

    def is_flushed(self) -> bool:
        """Whether all written data is sent and reading is not paused, so that another exchange can use it."""
        return not self._paused and self.transport is not None and not self.transport.get_write_buffer_size()

    def pause(self) -> None:
        """Pause reading, so that the agent waits."""
        if not self._paused and self.transport is not None:
            self._paused = True
            self.transport.pause_reading()

    def resume(self) -> None:
        """Continue reading."""
        if self._paused and self.transport is not None:
            self._paused = False
            self.transport.resume_reading()

    def abort(self) -> None:
        """Close at once."""
        self.aborted = True
        if not self.lost and self.transport is not None:
            self.transport.abort()

    # ── asyncio.Protocol ────────────────────────────────────────────────────────────────────────────────

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]  # create_connection makes a Transport
        self.loop = asyncio.get_running_loop()
        if self.aborted:  # nobody waits for it any more
            self.abort()

    def data_received(self, data: bytes) -> None:
        if self.exchange is not None:
            self.exchange.data_received(data)
        else:
            self.abort()  # unrequested data

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        if self.exchange is not None:
            self.exchange.connection_lost(exc)
        else:
            self._on_closed(self)

    def pause_writing(self) -> None:
        if self.exchange is not None:
            self.exchange.write_paused = True

    def resume_writing(self) -> None:
        if self.exchange is not None:
            self.exchange.resume_writing()


class HttpExchange:
    """One request and its response, on a connection it owns until `close`.

    `close` takes the connection out of the exchange in one step. After that, the exchange still returns the data
    that arrived before, and has no connection.
    """

    def __init__(
        self,
        connection: Connection,
        head: RequestHead,
        timeout_s: float | None,
        release: Callable[[Connection, bool], None],
    ) -> None:
        """`release` gets the connection back, once, and whether another exchange can follow on it."""
        if connection.exchange is not None:
            raise RuntimeError("a connection has one owner")
        connection.exchange = self
        self._connection: Connection | None = connection
        self._parser = ResponseParser(head.method, connection.max_header_bytes)
        self.status = 0
        self.headers: RawHeaders = []
        """Of the response, as received, with the hop-by-hop fields."""
        self.fields: dict[bytes, bytes] = {}
        """The last value of each header field, by its name in lower case."""
        self._head = head
        self._timeout_s = timeout_s
        self._release = release
        self._loop = connection.loop
        self._waiter: asyncio.Future[None] | None = None
        self._writable: asyncio.Future[None] | None = None
        self._upload: asyncio.Task[None] | None = None
        self._sent = False
        self._error: Exception | None = None
        self._progress_at = 0.0
        self.write_paused = False

    async def send(self, body: Body, length: int | None) -> None:
        """Send the request; returns once the header of the response has arrived. Raises UpstreamError."""
        head = self._head
        try:
            if isinstance(body, bytes):
                framed = head.framed(length_field(head.method, len(body)))
                if len(body) <= _SMALL:
                    self._write(framed + body)
                else:
                    self._write(framed)
                    self._write(body)
                self._sent = True
            else:
                framing = CHUNKED if length is None else length_field(head.method, length)
                self._write(head.framed(framing))
                self._upload = self._loop.create_task(self._send(body, length))
            parser = self._parser
            while not parser.status:
                if self._error is not None:
                    raise self._error
                await self._wait()
        except BaseException:
            self.close()
            raise
        self.status, self.headers, self.fields = parser.status, parser.headers, parser.fields

    async def read(self) -> bytes:
        """The next bytes of the body, at least one; b"" at its end.

        Raises UpstreamCutError where the agent aborts the response, UpstreamTimeoutError where it sends nothing.
        """
        parser = self._parser
        while not parser.buffered:
            if parser.complete:
                self.close()
                return b""
            if self._error is not None:
                raise self._error
            await self._wait()
        data = parser.take()
        if self._connection is not None:
            self._connection.resume()
        return data

    @property
    def complete(self) -> bool:
        """Whether the rest of the body has arrived completely."""
        return self._parser.complete

    def whole(self) -> bytes | None:
        """The rest of the body if it has arrived completely; else None, and nothing is read."""
        parser = self._parser
        if not parser.complete:
            return None
        data = parser.take()
        if self._connection is not None:
            self._connection.resume()
        self.close()
        return data

    def close(self) -> None:
        """Release the connection to the pool if the exchange is complete in both directions, else close it: the rest of
        the body is discarded."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        connection.exchange = None
        if self._upload is not None:
            self._upload.cancel()
        parser = self._parser
        parser.close()
        is_complete = self._sent and parser.complete and not parser.buffered and self._error is None
        is_reusable = is_complete and parser.reusable and connection.is_flushed() and not connection.lost
        connection.used |= is_reusable
        self._release(connection, is_reusable)
        if not parser.complete:
            self._fail(UpstreamCutError("the exchange was abandoned"))

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
        except OSError as error:  # of the sender: its client disconnected
            self._break(UpstreamCutError(str(error)))
        except Exception as error:  # noqa: BLE001  # raised where the response is awaited
            self._break(error)

    def _write(self, data: bytes) -> None:
        connection = self._connection
        if connection is not None and connection.transport is not None and not connection.lost:
            connection.transport.write(data)

    def _wait(self) -> Awaitable[None]:
        """Wait for data. Silence is an error after `timeout_s`, unless the client is to send."""
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
        """Fail, and end the connection, since no other exchange can use it now."""
        self._fail(error)
        if self._connection is not None:
            self._connection.abort()

    # ── from the connection ─────────────────────────────────────────────────────────────────────────────

    def data_received(self, data: bytes) -> None:
        """Handle data that arrives while this exchange owns the connection."""
        parser = self._parser
        if parser.complete:
            parser.reusable = False  # unrequested data
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
        """Handle the end of the connection; `exc` is set where the agent did not close it in order."""
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
        """Continue writing: the agent reads again."""
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


def tls_problem(error: ssl.SSLError) -> str:
    """Why TLS failed, without the source lines of OpenSSL."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message.rstrip('.')}"
    return f"TLS failed: {(error.reason or str(error)).replace('_', ' ').lower()}"
