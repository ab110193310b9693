"""HTTP/1.1 with clients: one request at a time, each within limits of time and size."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Any

from .client_connection import ClientConnection, peers
from .client_limits import Clients
from .http1_messages import RequestError, RequestParser, ResponseWriter, refusal
from .http2_gate import PREFACE
from .http2_server import Http2Connection, StreamHandler
from .served_request import CLIENT, Application, ClientLeftError, ServedRequest

logger = logging.getLogger(__name__)

_MAX_WAITING = 64 * 1024
"""Bytes of a body that the application has not taken, or of further requests, beyond which nothing is read."""

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Http1Connection(ClientConnection):
    """Gives the bytes of a client to a `RequestParser`, and each request to the application in an `Http1Request`."""

    def __init__(self, application: Application, clients: Clients, streams: StreamHandler | None = None) -> None:
        """`streams` answers a client that agrees on HTTP/2 with TLS (ALPN), or begins with its preface without TLS."""
        super().__init__(clients)
        self._application = application
        self._streams = streams
        self._preface = b""
        """What has arrived of the preface of HTTP/2."""
        self._parser: RequestParser
        self._exchange: Http1Request | None = None
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
        if self.closed or exchange is None or exchange.complete:
            self.close()
        else:
            self._parser.keep_alive = False

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
        parser, exchange = self._parser, self._exchange
        try:
            parser.feed(data)
            if exchange is None:
                if parser.scope is not None:
                    self._begin(parser.scope)
                elif parser.waiting and self._head_since is None:
                    self._head_since = self._received_at
            elif exchange.complete:
                parser.take()  # what a request still says that has its response
                self._next()
            else:
                exchange.wake()
            self.taken()
        except RequestError as error:
            self.refuse(error.status, error.problem, str(error))
        except Exception:  # no bytes of a peer end a listener
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

    def _begin(self, scope: dict[str, Any]) -> None:
        """Start the application for a request."""
        tasks = self.clients.tasks
        self._exchange = exchange = Http1Request(self, self._parser, scope)
        self._head_since = None
        scope["extensions"] = {CLIENT: exchange}
        exchange.work = task = self.loop.create_task(exchange.run(self._application, scope))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    def _next(self) -> None:
        """Take the next request, if the last one, which has its response, has arrived to its end."""
        if self._parser.complete:
            self._exchange = None
            self._parser.begin()
            if self._parser.ahead:
                self.loop.call_soon(self.data_received, b"")

    # ── for the exchange ────────────────────────────────────────────────────────────────────────────────

    def response_complete(self) -> None:
        """The whole response to the current request is written."""
        if self.closed:
            return
        if not self._parser.keep_alive:
            self.close()
            return
        self._received_at = self.loop.time()
        if self.held:
            self._parser.take()
            self.taken()
        self._next()

    def taken(self) -> None:
        """Count what waits, and read from the client unless too much does."""
        if self.closed:
            return
        waiting = self._parser.waiting
        if not self.hold(waiting):
            self.refuse(503, "no_memory", "The proxy has no memory for the request. Try again later.")
        elif waiting <= _MAX_WAITING or self._parser.scope is None:
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
            answers = status != 408 or self._parser.waiting > 0
        else:
            answers = not exchange.begun
            exchange.flush()
            exchange.disconnect()
        if answers:
            self.transport.write(refusal(status, message))
        if exchange is not None and exchange.until_close:
            self.abort()
        else:
            self.close()

    # ── for ClientConnection ────────────────────────────────────────────────────────────────────────────

    def turned_away(self, message: str) -> bytes:
        return refusal(503, message)

    def check_requests(self, now: float) -> None:
        limits, exchange = self.limits, self._exchange
        if self._head_since is not None:
            if now - self._head_since >= self.clients.capacity.patience(limits.header_timeout_s, now):
                self.refuse(408, "header_timeout", "The header of the request took too long.")
        elif exchange is None:
            if now - self._received_at >= self.clients.capacity.idle_s(limits.keep_alive_s, now):
                self.close()
        elif not self._parser.complete:
            if self.read_paused or self._parser.expects_continue:
                self._received_at = now  # it is the client that waits
            elif now - self._received_at >= self.clients.capacity.patience(limits.body_timeout_s, now):
                self.refuse(408, "body_timeout", "The body of the request took too long.")

    def may_be_receiving(self) -> bool:
        parser = self._parser
        in_body = self._exchange is not None and not parser.complete
        return in_body or self._head_since is not None or bool(parser.ahead)


class Http1Request(ServedRequest):
    """A request over HTTP/1.1."""

    _response: ResponseWriter | None = None
    _waiter: asyncio.Future[None] | None = None

    def __init__(self, connection: Http1Connection, parser: RequestParser, scope: dict[str, Any]) -> None:
        """`parser` has the request, of which `scope` is the header, until the response is complete."""
        self._connection = connection
        self._parser = parser
        self._method: str = scope["method"]
        self._version: str = scope["http_version"]

    @property
    def until_close(self) -> bool:
        """See `ResponseWriter.until_close`."""
        return self._response is not None and self._response.until_close

    def refuse(self, status: int, problem: str, message: str) -> None:
        self._connection.refuse(status, problem, message)

    def disconnect(self) -> None:
        super().disconnect()
        self.wake()

    def wake(self) -> None:
        """Something has happened that the application may wait for."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def read(self) -> bytes:
        connection, parser = self._connection, self._parser
        while not (self.gone or self.complete):
            if parser.expects_continue:
                parser.expects_continue = False
                if not connection.closed:
                    connection.transport.write(_CONTINUE)
            if not self.ended and (parser.body or parser.complete):
                body, self.ended = parser.take(), parser.complete
                if connection.held:
                    connection.taken()
                return body
            self._waiter = connection.loop.create_future()
            await self._waiter
        raise ClientLeftError("the client has left")

    def begin(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> None:
        if self.gone:
            return
        if self.begun:
            raise RuntimeError("the response has begun already")
        connection, parser = self._connection, self._parser
        keep_alive = parser.keep_alive and not connection.clients.retiring
        self._response = response = ResponseWriter(self._method, self._version, status, headers, keep_alive=keep_alive)
        parser.keep_alive, parser.expects_continue = response.keep_alive, False
        self.begun = True
        connection.loop.call_soon(self.flush)

    async def write(self, data: bytes, *, more: bool = True) -> None:
        connection, response = self._connection, self._response
        if connection.write_paused and not self.gone:
            await connection.drain()
        if self.gone:
            return
        if response is None or self.complete:
            raise RuntimeError(f"a body was sent {'after the end' if self.complete else 'before the header'}")
        framed = response.body(data, more=more)
        if framed and not connection.closed:
            connection.transport.write(framed)
        if not more:
            self.complete = True
            self.wake()
            connection.response_complete()

    def flush(self) -> None:
        """Send the header now, unless it was sent with the first bytes of the body."""
        response = self._response
        if response is not None and response.head and not self._connection.closed:
            self._connection.transport.write(response.head)
            response.head = b""
