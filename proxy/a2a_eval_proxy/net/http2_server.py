"""HTTP/2 with clients: each stream is a request, which a handler answers in a task of its own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from h2.errors import ErrorCodes

from .client_connection import ClientConnection, peers
from .client_limits import Clients
from .grpc_wire import overloaded
from .http2_connection import Http2Side
from .http2_gate import Http2Error
from .http2_streams import Headers, Http2Stream, Http2Streams, are_valid, goaway

logger = logging.getLogger(__name__)

Ends = Mapping[str, Any]
"""See `peers`."""


StreamHandler = Callable[[Http2Stream, Headers, Ends], Awaitable[None]]
"""Answers a request; cancelled when the client resets the stream or leaves, unless `stream.on_reset` is set."""


class Http2Connection(Http2Side, ClientConnection):
    """Gives each request of a client to a `StreamHandler`."""

    def __init__(self, handler: StreamHandler, clients: Clients) -> None:
        super().__init__(clients)
        self._handler = handler
        most = self.limits.max_header_bytes
        self.streams = Http2Streams(is_client=False, max_header_bytes=most, on_output=self.schedule)
        self._began = self._received_at = self.loop.time()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._ends: Ends = peers(transport)
        super().connection_made(transport)
        if not self.closed:
            self.schedule()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.streams.end("the client left")

    def shutdown(self) -> None:
        """Take no further request, and close once none is open: the server stops."""
        self._hurried = True
        self.streams.go_away()

    def received(self, data: bytes) -> None:
        self._received_at = self.loop.time()
        try:
            self.feed(data)
            opened, self.streams.opened = self.streams.opened, []
            for stream in opened:
                self._begin(stream)
            self._count_held()
        except Http2Error as error:
            self._refuse("bad_request", str(error))
        except Exception:  # no bytes of a peer end a listener
            logger.exception("a request could not be read; its connection ends")
            self._refuse("internal_error", "")

    def _begin(self, stream: Http2Stream) -> None:
        """Have a request answered, unless it was reset with what it came with."""
        if stream.is_over:
            return
        head = stream.arrived.popleft()
        tasks, most = self.clients.tasks, self.limits.max_connections
        if self._hurried:  # a client that is going may have sent its last requests in the same piece
            stream.reset(ErrorCodes.REFUSED_STREAM)
        elif not isinstance(head, Headers) or not are_valid(head.fields):
            stream.reset(ErrorCodes.PROTOCOL_ERROR)
        elif most is not None and len(tasks) >= most:
            message = "the proxy has too many open requests (limits.client_connections)"
            stream.send_headers(overloaded(head.fields, message), end=True)
            stream.reset(ErrorCodes.NO_ERROR)
        else:
            task = self.loop.create_task(self._answer(stream, head))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            stream.on_reset = task.cancel

    async def _answer(self, stream: Http2Stream, head: Headers) -> None:
        try:
            await self._handler(stream, head, self._ends)
        except Exception:  # one request ends no connection
            logger.exception("a request failed; its stream is reset")
            stream.reset(ErrorCodes.INTERNAL_ERROR)
        finally:
            stream.on_reset = None
            # What follows of a request that is answered is not read (RFC 9113, section 8.1).
            if stream.unsent:
                await stream.drained()
            stream.reset(ErrorCodes.NO_ERROR)
            self._count_held()
            if self.clients.retiring:
                self.streams.retire()

    def _count_held(self) -> None:
        if not self.closed and not self.hold(self.streams.held()):
            self._refuse("no_memory", "others take the memory for requests that nobody has taken")

    def _refuse(self, problem: str, message: str) -> None:
        """End the connection."""
        self.limits.broken(problem)
        logger.debug("HTTP/2 of a client cannot be read: %s", message)
        self.streams.end("")
        self.flush()
        self.close()

    def close(self) -> None:
        ClientConnection.close(self)

    # ── for ClientConnection ────────────────────────────────────────────────────────────────────────────

    def turned_away(self, message: str) -> bytes:
        return goaway(ErrorCodes.ENHANCE_YOUR_CALM)

    def check_requests(self, now: float) -> None:
        limits, streams = self.limits, self.streams
        self._count_held()
        header_since = streams.gate.header_since if streams.is_ready else self._began
        if header_since is not None:
            if now - header_since >= self.clients.capacity.patience(limits.header_timeout_s, now):
                self._refuse("header_timeout", "a header took too long")
                return
        elif not streams.streams and now - self._received_at >= self.clients.capacity.idle_s(limits.keep_alive_s, now):
            streams.go_away()
        to_read_s = self.clients.capacity.taking_s(limits.send_timeout_s, now)
        to_send_s = self.clients.capacity.patience(limits.body_timeout_s, now)
        unread = [stream for stream in streams.streams.values() if stream.unsent]
        if unread and to_read_s < limits.send_timeout_s and all(one.idle_s(now) >= to_read_s for one in unread):
            streams.go_away(ErrorCodes.ENHANCE_YOUR_CALM)  # its next requests would have others wait as long again
            self._refuse("send_timeout", "nothing is read, while others wait for memory")
            return
        for stream in [*streams.streams.values()]:
            give_up = stream.on_unread if stream.unsent else stream.on_silent
            if give_up is not None and stream.idle_s(now) >= (to_read_s if stream.unsent else to_send_s):
                limits.broken("send_timeout" if stream.unsent else "body_timeout")
                give_up()

    def may_be_receiving(self) -> bool:
        return bool(self.streams.streams)
