"""A connection to the agent, and the exchange that owns it for the time of one request and its response."""

from __future__ import annotations

import asyncio
import select
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import chain

import httptools

from .http1_messages import (
    BODILESS,
    LAST_CHUNK,
    RawHeaders,
    UpstreamCutError,
    UpstreamError,
    UpstreamTimeoutError,
    chunk,
    framed,
)

HIGH_WATER = 256 * 1024
"""Bytes of a response that may wait for a slow client before reading from the agent pauses."""

_READ_AT_ONCE = 256 * 1024
"""Bytes that an event loop reads from a socket at a time: part of a body may arrive with a header."""

_SMALL = 64 * 1024
"""A larger body is written separately: its copy would cost more than another write."""

_CAN_POLL = hasattr(select, "poll")
"""Not on Windows."""

Body = bytes | AsyncIterator[bytes]


class Connection(asyncio.Protocol):
    """A socket. Received data goes to the exchange that owns it; without an owner, data ends the connection."""

    transport: asyncio.Transport
    """As long as it is `open`."""
    loop: asyncio.AbstractEventLoop
    """Set with the transport. `get_running_loop` takes a system call each time."""
    open = False
    aborted = False
    """Whether this side closed it."""
    paused = False
    """Whether reading is paused, so that the agent waits."""
    used = False
    """Whether an earlier exchange on it was complete."""
    idle_since = 0.0

    def __init__(self, on_closed: Callable[[Connection], None]) -> None:
        """`on_closed` is called when the connection ends that no exchange owns."""
        self._on_closed = on_closed
        self.exchange: SentRequest | None = None
        """The owner."""

    def is_quiet(self) -> bool:
        """Whether the agent neither closed this idle connection nor sent anything, as the operating system reports now.

        The event loop may not have seen it yet: then a request would get a response that belongs to no request.
        """
        if not self.open or self.transport.is_closing():
            return False
        return not (_CAN_POLL and self._poll.poll(0))

    def abort(self) -> None:
        """Close at once."""
        self.aborted = True
        if self.open:
            self.transport.abort()

    # ── asyncio.Protocol ────────────────────────────────────────────────────────────────────────────────

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]  # create_connection makes a Transport
        self.loop = asyncio.get_running_loop()
        self.open = True
        if _CAN_POLL:
            self._poll = select.poll()
            self._poll.register(transport.get_extra_info("socket").fileno(), select.POLLIN)
        if self.aborted:  # nobody waits for it any more
            self.abort()

    def data_received(self, data: bytes) -> None:
        if self.exchange is not None:
            self.exchange.data_received(data)
        else:
            self.abort()  # unrequested data

    def connection_lost(self, exc: Exception | None) -> None:
        self.open = False
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


class SentRequest:
    """One request and its response, on a connection it owns until `close`.

    `close` takes the connection out of the exchange in one step. After that, the exchange still returns the data
    that arrived before, and has no connection.

    Methods named `on_*` are httptools' callbacks. A line that never ends is not collected: at most `max_header_bytes`
    of header, and about as many between two pieces of the body or behind it (chunk extensions, trailer fields).
    """

    status = 0
    """0 until the header of the response has arrived whole."""
    complete = False
    """Whether all of the response has arrived."""
    write_paused = False
    _reusable = False
    """Whether another response can follow on the connection, and be distinguished from this one."""
    _until_close = False
    """Whether the close of the connection ends the body."""
    _sent = False
    """Whether the whole request is."""
    _buffered = 0
    """Bytes of the body that were not taken yet."""
    _unread = 0
    _trailer_bytes = 0
    _progress_at = 0.0
    _error: Exception | None = None
    _waiter: asyncio.Future[None] | None = None
    _writable: asyncio.Future[None] | None = None
    _upload: asyncio.Task[None] | None = None

    def __init__(
        self,
        connection: Connection,
        head: bytes,
        timeout_s: float | None,
        max_header_bytes: int,
        release: Callable[[Connection, bool], None],
    ) -> None:
        """`release` gets the connection back, once, and whether another exchange can follow on it."""
        if connection.exchange is not None:
            raise RuntimeError("a connection has one owner")
        connection.exchange = self
        self._connection: Connection | None = connection
        self._head = head
        self._timeout_s = timeout_s
        self._max_header_bytes = max_header_bytes
        self._release = release
        self._loop = connection.loop
        self.headers: RawHeaders = []
        """Of the response, as received, with the hop-by-hop fields, without trailer fields (RFC 9110, section
        6.5.1)."""
        self.fields: dict[bytes, bytes] = {}
        """The last value of each header field, by its name in lower case."""
        self._body: list[bytes] = []
        self._http = httptools.HttpResponseParser(self)
        # A bare LF ends a line (RFC 9112, section 2.2). Clients never get it: the header is written again for them.
        self._http.set_dangerous_leniencies(lenient_optional_cr_before_lf=True)

    def send(self, body: Body, length: int | None) -> None:
        """Send the request, or begin to: the rest of an iterator is sent as it comes."""
        head = self._head
        if not isinstance(body, bytes):
            self._write(framed(head, length))
            self._upload = self._loop.create_task(self._send(body, length))
            return
        head = framed(head, len(body))
        if len(body) <= _SMALL:
            self._write(head + body)
        else:
            self._write(head)
            self._write(body)
        self._sent = True

    def news(self) -> Awaitable[None]:
        """Wait for data. Raises UpstreamError, also after a silence of `timeout_s`, unless the client is to send."""
        if self._error is not None:
            raise self._error
        waiter = self._waiter = self._loop.create_future()
        return waiter if self._timeout_s is None else self._wait_at_most(self._timeout_s, waiter)

    async def read(self) -> bytes:
        """The next bytes of the body, at least one; b"" at its end.

        Raises UpstreamCutError where the agent aborts the response, UpstreamTimeoutError where it sends nothing.
        """
        while not self._body:
            if self.complete:
                self.close()
                return b""
            await self.news()
        body, self._body, self._buffered = self._body, [], 0
        connection = self._connection
        if connection is not None and connection.paused:
            connection.paused = False
            connection.transport.resume_reading()
        return body[0] if len(body) == 1 else b"".join(body)

    def close(self) -> None:
        """Release the connection to the pool if the exchange is complete in both directions, else close it: the rest of
        the body is discarded."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        connection.exchange = None
        del self._http  # httptools' parser and this object reference each other
        if self._upload is not None:
            self._upload.cancel()
        is_complete = self._sent and self.complete and not self._body and self._error is None
        is_flushed = connection.open and not (connection.paused or connection.transport.get_write_buffer_size())
        is_reusable = is_complete and is_flushed and self._reusable
        connection.used |= is_reusable
        self._release(connection, is_reusable)
        if not self.complete:
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
        if connection is not None and connection.open:
            connection.transport.write(data)

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
        """Parse data that arrives while this exchange owns the connection."""
        connection = self._connection
        if self.complete or connection is None:
            self._reusable = False  # unrequested data
            return
        self._unread += len(data)
        try:
            self._http.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._reusable = False
            if not self.complete:  # else it is data after the end of the response, which is whole
                cause = error.__context__
                no_http = UpstreamError(f"the answer is not HTTP/1.1: {error}")
                self._break(cause if isinstance(cause, UpstreamError) else no_http)
        if self._unread > 2 * self._max_header_bytes + _READ_AT_ONCE:
            self._break(self._too_large())
        if self._buffered > HIGH_WATER and not connection.paused:
            connection.paused = True
            connection.transport.pause_reading()
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle the end of the connection; `exc` is set where the agent did not close it in order."""
        self.resume_writing()
        if self.complete or self._error is not None:
            return
        if exc is None and self._until_close:
            self.complete = True  # the close is how this response ends (RFC 9112, section 6.3)
            self._wake()
            return
        place = "inside its response" if self.status else "before answering"
        self._fail(UpstreamCutError(f"the connection was closed {place}{self._tls_hint(exc)}"))

    def resume_writing(self) -> None:
        """Continue writing: the agent reads again."""
        self.write_paused = False
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)

    def _tls_hint(self, exc: Exception | None) -> str:
        if isinstance(exc, ssl.SSLError):
            return f": {tls_problem(exc)}"
        connection = self._connection
        if connection is None or connection.used or self.status:
            return ""
        # With TLS 1.3 a refusal comes after the handshake, and from Python's servers it is a mere close.
        secure = connection.transport.get_extra_info("sslcontext") is not None
        return ", right after the TLS handshake; does it want a client certificate?" if secure else ""

    # ── from the parser ─────────────────────────────────────────────────────────────────────────────────

    def on_message_begin(self) -> None:
        if self.complete:
            raise UpstreamError("a second response came after the first")
        self.headers = []  # without those of an interim response

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.status:
            self.headers.append((name, value))
            return
        self._trailer_bytes += len(name) + len(value)
        if self._trailer_bytes > self._max_header_bytes:
            raise self._too_large()

    def on_headers_complete(self) -> None:
        http, most = self._http, self._max_header_bytes
        if self._unread > most and sum(map(len, chain.from_iterable(self.headers))) > most:
            raise self._too_large()
        status = http.get_status_code()
        if 100 <= status < 200:
            return  # an interim response; the one that counts follows
        if not 200 <= status <= 599:  # RFC 9110, section 15: not valid
            raise UpstreamError(f"the answer has the status {status:03d}; expected 100 to 599")
        self._unread = 0
        self._reusable = http.should_keep_alive()
        self.fields = {name.lower(): value for name, value in self.headers}
        length = self.fields.get(b"content-length")  # the parser accepts one
        codings = []
        if b"transfer-encoding" in self.fields:
            codings = [value.strip().lower() for name, value in self.headers if name.lower() == b"transfer-encoding"]
        if codings and http.get_http_version() == "1.0":
            self._reusable = False  # RFC 9112, section 6.1: its framing counts as faulty
        if self._head.startswith(b"HEAD "):
            # The parser expects a body; since none follows, this connection cannot be reused.
            self._reusable = False
            self.complete = True
        elif status in BODILESS:
            # An agent that announces a body here may send it, too.
            self._reusable = self._reusable and not codings and not (length or b"").strip(b" \t0")
        elif codings not in ([], [b"chunked"], [b"identity"]):
            coding = b", ".join(codings).decode("latin-1")
            raise UpstreamError(f"the answer has the transfer coding {coding!r}; expected none, or chunked")
        else:
            self._until_close = length is None and codings != [b"chunked"]
        self.status = status

    def on_body(self, body: bytes) -> None:
        self._unread = 0
        self._body.append(body)
        self._buffered += len(body)

    def on_message_complete(self) -> None:
        if self.status:
            self.complete = True

    def _too_large(self) -> UpstreamError:
        section = "trailer" if self.status else "header"
        return UpstreamError(f"the response's {section} exceeds {self._max_header_bytes} bytes")


def tls_problem(error: ssl.SSLError) -> str:
    """Why TLS failed, without the source lines of OpenSSL."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message.rstrip('.')}"
    return f"TLS failed: {(error.reason or str(error)).replace('_', ' ').lower()}"
