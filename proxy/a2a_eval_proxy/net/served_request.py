"""One request of a client and its response, whichever version of HTTP it came with."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

logger = logging.getLogger(__name__)

CLIENT = "a2a_eval_proxy.client"
"""The ASGI extension of our server that is the `ServedRequest` of the request: `scope["extensions"][CLIENT]`."""

Application = Callable[[Any, Any, Any], Awaitable[None]]
Message = MutableMapping[str, Any]


class ClientLeftError(ConnectionError):
    """There is nobody to read from: the client has left, or has its response."""


class ServedRequest(ABC):
    """Runs the ASGI application for one request. What it sends after the client has left is ignored.

    The relay calls `read`, `begin` and `write`; for other applications, ASGI's `receive` and `send` stand in front.
    """

    gone = False
    """Whether the client has left, or gets no response."""
    begun = False
    """Whether the response has begun."""
    complete = False
    """Whether the response was sent to its end."""
    ended = False
    """Whether `read` has returned the end of the request's body."""
    work: asyncio.Task[None] | None = None
    """What responds to the request."""
    cancels = False
    """Whether `work` is cancelled when the client leaves: `read` reports that too, but returns the body, and is not
    called by an upload under back-pressure."""

    async def run(self, application: Application, scope: dict[str, Any]) -> None:
        """Have `application` respond. Where it fails, the client gets a 500, or its response is cut."""
        refusal = 500, "internal_error", "The proxy failed to answer the request."
        try:
            await application(scope, self.receive, self.send)
        except asyncio.CancelledError:
            refusal = 503, "", "The proxy stops."
        except Exception:  # one request ends no connection
            logger.exception("a request failed; the client gets a 500, or its response is cut")
        else:
            if self.gone or self.complete:
                return
            if self.begun:
                refusal = 500, "", ""  # cut, as the agent cut it
            else:
                logger.error("a request got no response; the client gets a 500")
        if not (self.gone or self.complete):
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

    async def receive(self) -> Message:
        try:
            body = await self.read()
        except ClientLeftError:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": body, "more_body": not self.ended}

    async def send(self, message: Message) -> None:
        kind = message["type"]
        if kind == "http.response.start":
            self.begin(message["status"], message.get("headers", ()))
        elif kind == "http.response.body":
            await self.write(message.get("body", b""), more=message.get("more_body", False))
        else:
            raise RuntimeError(f"unexpected ASGI message {kind!r}")

    @abstractmethod
    def refuse(self, status: int, problem: str, message: str) -> None:
        """End the request, with an error response unless a response has begun.

        `problem`: what is counted (`ClientLimits.broken`), if anything.
        """

    @abstractmethod
    async def read(self) -> bytes:
        """The next bytes of the body. Raises ClientLeftError, after the end once the client leaves or has its
        response."""

    @abstractmethod
    def begin(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Begin the response."""

    @abstractmethod
    async def write(self, data: bytes, *, more: bool = True) -> None:
        """Send bytes of its body, of which the last have `more` False, once the client has read enough of what went
        before."""
