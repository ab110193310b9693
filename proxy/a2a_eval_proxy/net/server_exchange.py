"""One request of a client and its response, for an ASGI application: what each has, and that of HTTP/1.1."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from .client_connection import ClientConnection
from .http1_responses import ResponseWriter

logger = logging.getLogger(__name__)

CLIENT = "a2a_eval_proxy.client"
"""The ASGI extension of our server that is the `ClientExchange` of the request: `scope["extensions"][CLIENT]`."""

WHOLE_RESPONSE = "http.response.whole"
"""An ASGI message of our server: status, headers that frame the body (if the response has one), and the whole body."""

Application = Callable[[Any, Any, Any], Awaitable[None]]
Message = MutableMapping[str, Any]

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class ClientExchange(ABC):
    """Runs the application for one request. What it sends after the client has left is ignored."""

    __slots__ = ("cancels", "gone", "work")

    def __init__(self) -> None:
        self.gone = False
        """Whether the client has left, or gets no response."""
        self.work: asyncio.Task[None] | None = None
        """What responds to the request."""
        self.cancels = False
        """Whether `work` is cancelled when the client leaves: `receive` reports that too, but returns the body, and is
        not called by an upload under back-pressure."""

    async def run(self, application: Application, scope: dict[str, Any]) -> None:
        """Have `application` respond. Where it fails, the client gets a 500, or its response is cut."""
        refusal = 500, "internal_error", "The proxy failed to answer the request."
        try:
            await application(scope, self.receive, self.send)
        except asyncio.CancelledError:
            refusal = 503, "", "The proxy stops."
        except Exception:
            logger.exception("a request failed; the client gets a 500, or its response is cut")
        else:
            if self.gone or self.is_complete():
                return
            if self.has_begun():
                refusal = 500, "", ""  # cut, as the agent cut it
            else:
                logger.error("a request got no response; the client gets a 500")
        if not (self.gone or self.is_complete()):
            self.refuse(*refusal)

    def disconnect(self) -> None:
        """The client has left, or its connection ends."""
        self.gone = True
        if self.cancels and self.work is not None:
            self.cancels = False
            self.work.cancel()

    def watch(self) -> None:
        """Cancel the work when the client leaves, until `cancels` is reset."""
        self.cancels = True
        if self.gone:
            self.disconnect()

    @abstractmethod
    def has_begun(self) -> bool:
        """Whether the response has begun."""

    @abstractmethod
    def is_complete(self) -> bool:
        """Whether the response was sent to its end."""

    @abstractmethod
    def refuse(self, status: int, problem: str, message: str) -> None:
        """End the request, with an error response unless a response has begun.

        `problem`: what is counted (`ClientLimits.broken`), if anything.
        """

    @abstractmethod
    async def receive(self) -> Message:
        """The next bytes of the body; after its end, waits until the response is complete or the client leaves."""

    @abstractmethod
    async def send(self, message: Message) -> None:
        """Send a part of the response, or a whole one, once the client has read enough of what went before."""


class SerialConnection(ClientConnection):
    """A connection with one request at a time."""

    @abstractmethod
    def refuse(self, status: int, problem: str, message: str) -> None:
        """End the connection, with an error response unless a response has begun, or no request waits for one.

        `problem`: what is counted (`ClientLimits.broken`), if anything.
        """

    @abstractmethod
    def response_complete(self) -> None:
        """Called when the whole response to the current request is written."""

    @abstractmethod
    def adjust_reading(self) -> None:
        """Read from the client unless too much waits."""


class ServerExchange(ClientExchange):
    """A request over HTTP/1.1."""

    __slots__ = ("_connection", "_more", "_news", "_waiter", "body", "expects_continue", "response")

    def __init__(self, connection: SerialConnection, response: ResponseWriter, *, expects_continue: bool) -> None:
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
        if self._waiter is not None:
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
        if connection.read_paused:
            connection.adjust_reading()
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
            if self._waiter is not None:
                self._wake()
            connection.response_complete()

    def flush(self) -> None:
        """Send the header now, unless it was sent with the first bytes of the body."""
        head = self.response.head()
        if head and not self._connection.closed:
            self._connection.transport.write(head)
