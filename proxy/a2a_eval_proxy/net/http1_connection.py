"""HTTP/1.1 with clients: one request at a time, each within limits of time and size."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from .client_connection import ClientConnection, peers
from .client_limits import Clients
from .http1_requests import RequestError, RequestParser
from .http1_responses import ResponseWriter, refusal
from .http2_gate import PREFACE
from .http2_server import Http2Connection, StreamHandler
from .server_exchange import CLIENT, WHOLE_RESPONSE, Application, ClientExchange, Message

logger = logging.getLogger(__name__)

_MAX_WAITING = 64 * 1024
"""Bytes of a body that the application has not taken, or of further requests, beyond which nothing is read."""

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Http1Connection(ClientConnection):
    """Gives the bytes of a client to a `RequestParser`, and each request to the application in an `Http1Exchange`."""

    def __init__(self, application: Application, clients: Clients, streams: StreamHandler | None = None) -> None:
        """`streams` answers a client that agrees on HTTP/2 with TLS (ALPN), or begins with its preface without TLS."""
        super().__init__(clients)
        self._application = application
        self._streams = streams
        self._preface = b""
        """What has arrived of the preface of HTTP/2."""
        self._parser: RequestParser
        self._exchange: Http1Exchange | None = None
        self._head_since: float | None = self.loop.time()
        """When the header that is arriving began; None: no header is arriving."""
        self._received_at = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._parser = RequestParser(self.limits.max_unread_bytes, peers(transport))
        super().connection_made(transport)
        tls: Any = transport.get_extra_info("ssl_object")
        if tls is None or self._streams is None or self.closed:
            return
        if tls.selected_alpn_protocol() == "h2":
            self._hand_over(self._streams, b"")
        self._streams = None

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        # The memory of a connection, with TLS 160 KB, must not wait for garbage collection.
        self._parser.close()
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.disconnect()

    def close(self) -> None:
        super().close()
        self._parser.close()  # what it holds must not wait for the client to close

    def shutdown(self) -> None:
        self._hurried = True
        exchange = self._exchange
        if self.closed or exchange is None or exchange.response.complete:
            self.close()
        else:
            exchange.response.keep_alive = False

    # ── requests ────────────────────────────────────────────────────────────────────────────────────────

    def received(self, data: bytes) -> None:
        """Parse what has arrived. An exception is a fault of the proxy, and never the client's 400."""
        self._received_at = self.loop.time()
        if self._streams is not None:
            data = self._preface + data
            if PREFACE.startswith(data[: len(PREFACE)]):
                self._preface = data
                if len(data) >= len(PREFACE):
                    self._hand_over(self._streams, data)
                return
            self._streams = None
        try:
            self._read(data)
        except RequestError as error:
            self.refuse(error.status, error.problem, str(error))
        except Exception:
            logger.exception("a request could not be read; the client gets a 500")
            self.refuse(500, "internal_error", "The proxy failed to read the request.")

    def _hand_over(self, streams: StreamHandler, data: bytes) -> None:
        """The client speaks HTTP/2."""
        connection = Http2Connection(streams, self.clients)
        self.clients.connections.discard(self)
        self.transport.set_protocol(connection)
        connection.connection_made(self.transport)
        if data:
            connection.data_received(data)

    def _read(self, data: bytes) -> None:
        parser, exchange = self._parser, self._exchange
        was_complete = parser.complete
        parser.feed(data)
        if exchange is None:
            if parser.scope is not None:
                exchange = self._begin(parser.scope)
            elif parser.begun and self._head_since is None:
                self._head_since = self._received_at
        if exchange is not None and not was_complete:
            body = parser.take()
            if body or parser.complete:
                exchange.body_received(body, more=not parser.complete)
            if parser.complete and exchange.response.complete:
                self._next()
        self.taken()

    def _begin(self, scope: dict[str, Any]) -> Http1Exchange:
        """Start the application for a request."""
        parser, tasks = self._parser, self.clients.tasks
        response = ResponseWriter(scope["method"], scope["http_version"], keep_alive=parser.keep_alive)
        exchange = Http1Exchange(self, response, expects_continue=parser.expects_continue)
        self._exchange, self._head_since = exchange, None
        scope["extensions"] = {CLIENT: exchange}
        exchange.work = task = self.loop.create_task(exchange.run(self._application, scope))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        return exchange

    def _next(self) -> None:
        """Take the next request: the last one is complete, and its response."""
        self._exchange = None
        self._parser.begin()
        if self._parser.ahead:
            self.loop.call_soon(self.data_received, b"")

    # ── for the exchange ────────────────────────────────────────────────────────────────────────────────

    def response_complete(self) -> None:
        """The whole response to the current request is written."""
        exchange = self._exchange
        if self.closed or exchange is None:
            return
        if not exchange.response.keep_alive:
            self.close()
            return
        self._received_at = self.loop.time()
        if self._parser.complete:
            self._next()
        self.taken()

    def taken(self) -> None:
        """Count what waits, and read from the client unless too much does."""
        if self.closed:
            return
        body = len(self._exchange.body) if self._exchange is not None else 0
        ahead = len(self._parser.ahead)
        if not self.hold(self._parser.unfinished + ahead + body):
            self.refuse(503, "no_memory", "The proxy has no memory for the request. Try again later.")
        elif ahead <= _MAX_WAITING and body <= _MAX_WAITING:
            if self.read_paused:
                self.read_paused = False
                self.transport.resume_reading()
        elif not self.read_paused:
            self.read_paused = True
            self.transport.pause_reading()

    def refuse(self, status: int, problem: str, message: str) -> None:
        """End the connection, with an error response unless a response has begun, or no request waits for one.

        `problem`: what is counted (`ClientLimits.broken`), if anything.
        """
        if self.closed:
            return
        if problem:
            self.limits.broken(problem)
        exchange = self._exchange
        if exchange is None:
            answers = status != 408 or self._parser.begun
        else:
            answers = not exchange.response.started
            exchange.flush()
            exchange.disconnect()
        if answers:
            self.transport.write(refusal(status, message))
        if exchange is not None and exchange.response.until_close:
            self.abort()
        else:
            self.close()

    # ── for ClientConnection ────────────────────────────────────────────────────────────────────────────

    def turned_away(self, message: str) -> bytes:
        return refusal(503, message)

    def check_requests(self, now: float) -> None:
        limits, exchange = self.limits, self._exchange
        if self._head_since is not None:
            if now - self._head_since >= self.patience(limits.header_timeout_s, now):
                self.refuse(408, "header_timeout", "The header of the request took too long.")
        elif exchange is None:
            if now - self._received_at >= self.clients.capacity.idle_s(limits.keep_alive_s, now):
                self.close()
        elif not self._parser.complete:
            if self.read_paused or exchange.expects_continue:
                self._received_at = now  # it is the client that waits
            elif now - self._received_at >= self.patience(limits.body_timeout_s, now):
                self.refuse(408, "body_timeout", "The body of the request took too long.")

    def may_be_receiving(self) -> bool:
        parser = self._parser
        in_body = self._exchange is not None and not parser.complete
        return in_body or self._head_since is not None or bool(parser.ahead)


class Http1Exchange(ClientExchange):
    """A request over HTTP/1.1."""

    __slots__ = ("_connection", "_more", "_news", "_waiter", "body", "expects_continue", "response")

    def __init__(self, connection: Http1Connection, response: ResponseWriter, *, expects_continue: bool) -> None:
        super().__init__()
        self._connection = connection
        self._more = True
        self._news = False
        self._waiter: asyncio.Future[None] | None = None
        self.response = response
        self.expects_continue = expects_continue
        """Whether the client still waits for 100 Continue."""
        self.body = b""
        """What has arrived of the request's body, and was not taken yet."""

    def has_begun(self) -> bool:
        return self.response.started

    def is_complete(self) -> bool:
        return self.response.complete

    def refuse(self, status: int, problem: str, message: str) -> None:
        self._connection.refuse(status, problem, message)

    # ── the request ─────────────────────────────────────────────────────────────────────────────────────

    def body_received(self, data: bytes, *, more: bool) -> None:
        """Keep bytes of the body for the application, unless it has responded already."""
        if self.response.complete:
            return
        self.body = self.body + data if self.body else data
        self._more = more
        self._news = True
        self._wake()

    def disconnect(self) -> None:
        super().disconnect()
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # ── ASGI ────────────────────────────────────────────────────────────────────────────────────────────

    async def receive(self) -> Message:
        connection = self._connection
        if self.expects_continue:
            self.expects_continue = False
            if not connection.closed:
                connection.transport.write(_CONTINUE)
        if not (self._news or self.gone or self.response.complete):
            self._waiter = connection.loop.create_future()
            await self._waiter
        self._news = False
        if self.gone or self.response.complete:
            return {"type": "http.disconnect"}
        body, self.body = self.body, b""
        if body:
            connection.taken()
        return {"type": "http.request", "body": body, "more_body": self._more}

    async def send(self, message: Message) -> None:
        connection, response = self._connection, self.response
        if connection.write_paused and not self.gone:
            await connection.drain()
        if self.gone:
            return
        kind = message["type"]
        if kind == "http.response.body":
            data = response.body(message.get("body", b""), more=message.get("more_body", False))
        elif kind in ("http.response.start", WHOLE_RESPONSE):
            self.expects_continue = False
            if connection.clients.retiring:
                response.keep_alive = False
            response.begin(message["status"], message.get("headers", ()))
            if kind != WHOLE_RESPONSE:
                connection.loop.call_soon(self.flush)
                return
            data = response.body(message["body"], more=False)
        else:
            raise RuntimeError(f"unexpected ASGI message {kind!r}")
        if data and not connection.closed:
            connection.transport.write(data)
        if response.complete:
            self.body = b""
            self._wake()
            connection.response_complete()

    def flush(self) -> None:
        """Send the header now, unless it was sent with the first bytes of the body."""
        head = self.response.head()
        if head and not self._connection.closed:
            self._connection.transport.write(head)
