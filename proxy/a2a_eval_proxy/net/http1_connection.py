"""HTTP/1.1 with clients: one request at a time, each within limits of time and size."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from .client_connection import peers
from .client_limits import Clients
from .http1_requests import RequestError, RequestParser
from .http1_responses import ResponseWriter, refusal
from .server_exchange import CLIENT, Application, SerialConnection, ServerExchange

logger = logging.getLogger(__name__)

_MAX_WAITING = 64 * 1024
"""Bytes of a body that the application has not taken, or of further requests, beyond which nothing is read."""


class Http1Connection(SerialConnection):
    """Gives the bytes of a client to a `RequestParser`, and each request to the application in a `ServerExchange`."""

    def __init__(self, application: Application, clients: Clients) -> None:
        super().__init__(clients)
        self._application = application
        self._parser: RequestParser
        self._exchange: ServerExchange | None = None
        self._head_since: float | None = self.loop.time()
        """When the header that is arriving began; None: no header is arriving."""
        self._received_at = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._parser = RequestParser(self.limits.max_unread_bytes, peers(transport))
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        # The memory of a connection, with TLS 160 KB, must not wait for garbage collection.
        self._parser.close()
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.disconnect()

    def shutdown(self) -> None:
        """Close once the current response, if any, is sent: the server stops."""
        self._hurried = True
        exchange = self._exchange
        if self.closed or exchange is None or exchange.response.complete:
            self.close()
        else:
            exchange.response.keep_alive = False

    # ── requests ────────────────────────────────────────────────────────────────────────────────────────

    def data_received(self, data: bytes) -> None:
        """Parse what has arrived. An exception is a fault of the proxy, and never the client's 400."""
        if self.closed:
            return
        self._received_at = self.loop.time()
        try:
            self._read(data)
        except RequestError as error:
            self.refuse(error.status, error.problem, str(error))
        except Exception:
            logger.exception("a request could not be read; the client gets a 500")
            self.refuse(500, "internal_error", "The proxy failed to read the request.")

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
        if self.read_paused or parser.ahead or (exchange is not None and len(exchange.body) > _MAX_WAITING):
            self.adjust_reading()

    def _begin(self, scope: dict[str, Any]) -> ServerExchange:
        """Start the application for a request."""
        parser, tasks = self._parser, self.clients.tasks
        response = ResponseWriter(scope["method"], scope["http_version"], keep_alive=parser.keep_alive)
        exchange = ServerExchange(self, response, expects_continue=parser.expects_continue)
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
        exchange = self._exchange
        if self.closed or exchange is None:
            return
        if not exchange.response.keep_alive:
            self.close()
            return
        self._received_at = self.loop.time()
        if self._parser.complete:
            self._next()
        if self.read_paused:
            self.adjust_reading()

    def adjust_reading(self) -> None:
        waiting = len(self._parser.ahead)
        if self._exchange is not None:
            waiting = max(waiting, len(self._exchange.body))
        if waiting <= _MAX_WAITING:
            if self.read_paused:
                self.read_paused = False
                self.transport.resume_reading()
        elif not self.read_paused:
            self.read_paused = True
            self.transport.pause_reading()

    def refuse(self, status: int, problem: str, message: str) -> None:
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
            if now - self._head_since >= limits.header_timeout_s:
                self.refuse(408, "header_timeout", "The header of the request took too long.")
        elif exchange is None:
            if now - self._received_at >= limits.keep_alive_s:
                self.close()
        elif not self._parser.complete:
            if self.read_paused or exchange.expects_continue:
                self._received_at = now  # it is the client that waits
            elif now - self._received_at >= limits.body_timeout_s:
                self.refuse(408, "body_timeout", "The body of the request took too long.")

    def may_be_receiving(self) -> bool:
        parser = self._parser
        in_body = self._exchange is not None and not parser.complete
        return in_body or self._head_since is not None or bool(parser.ahead)
