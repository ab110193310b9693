"""HTTP/2 with clients: each stream is a request, which a handler answers in a task of its own."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from .client_connection import ClientConnection, peers
from .client_limits import Clients
from .header_compression import Fields
from .http2_connection import AsyncStream, Http2Transport
from .http2_frames import ErrorCodes, Http2Error
from .http2_streams import Headers, are_valid

logger = logging.getLogger(__name__)

_GO_AWAY = b"\x00\x00\x08\x07\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x0b"
"""GOAWAY before any stream, with ENHANCE_YOUR_CALM."""


Ends = Mapping[str, Any]
"""See `peers`."""


class StreamHandler(ABC):
    """What answers requests."""

    @abstractmethod
    async def answer(self, stream: AsyncStream, head: Headers, ends: Ends) -> None:
        """Answer a request; cancelled when the client resets the stream or leaves, unless `stream.on_reset` is set."""

    @abstractmethod
    def refusal(self, head: Headers, message: str) -> Fields:
        """The whole response to a request beyond the limit of requests."""


class Http2Connection(ClientConnection):
    """Gives each request of a client to a `StreamHandler`."""

    def __init__(self, handler: StreamHandler, clients: Clients) -> None:
        super().__init__(clients)
        self._handler = handler
        self._http = Http2Transport(
            self.loop,
            is_client=False,
            max_header_bytes=self.limits.max_header_bytes,
            on_done=self._close_once,
        )
        self._streams = self._http.streams
        self._received_at = self._header_since = self.loop.time()
        self._header: int | None = None
        """The header that is arriving, since `_header_since`."""
        self._slow: dict[AsyncStream, tuple[object, float]] = {}
        """Of the streams whose client is to read or to send something: how far it was, and since when."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._ends: Ends = peers(transport)
        super().connection_made(transport)
        if not self.closed:
            self._http.begin(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._streams.end("the client left")

    def shutdown(self) -> None:
        """Take no further request, and close once none is open: the server stops."""
        self._hurried = True
        self._streams.go_away()

    def received(self, data: bytes) -> None:
        self._received_at = self.loop.time()
        try:
            self._http.feed(data)
            if self._streams.unfinished != self._header:
                self._header, self._header_since = self._streams.unfinished, self._received_at
            opened: list[Any] = self._streams.opened
            for stream in opened:
                self._begin(stream)
            opened.clear()
        except Http2Error as error:
            self._refuse("bad_request", str(error))
        except Exception:
            logger.exception("a request could not be read; its connection ends")
            self._refuse("internal_error", "")

    def _begin(self, stream: AsyncStream) -> None:
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
            message = "the proxy has too many open requests (max_client_connections)"
            stream.send_headers(self._handler.refusal(head, message), end=True)
            stream.reset(ErrorCodes.NO_ERROR)
        else:
            task = self.loop.create_task(self._answer(stream, head))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            stream.on_reset = task.cancel

    async def _answer(self, stream: AsyncStream, head: Headers) -> None:
        try:
            await self._handler.answer(stream, head, self._ends)
        except Exception:
            logger.exception("a request failed; its stream is reset")
            stream.reset(ErrorCodes.INTERNAL_ERROR)
        finally:
            stream.on_reset = None
            # What follows of a request that is answered is not read (RFC 9113, section 8.1).
            if stream.unsent:
                await stream.drained()
            stream.reset(ErrorCodes.NO_ERROR)
            if self.clients.retiring:
                self._streams.retire()

    def _refuse(self, problem: str, message: str) -> None:
        """End the connection."""
        self.limits.broken(problem)
        logger.debug("HTTP/2 of a client cannot be read: %s", message)
        self._streams.end("")
        self.close()

    def _close_once(self) -> None:
        if not self.closed:
            self.close()

    # ── for ClientConnection ────────────────────────────────────────────────────────────────────────────

    def turned_away(self, message: str) -> bytes:
        return _GO_AWAY

    def check_requests(self, now: float) -> None:
        limits, streams = self.limits, self._streams
        if self._header is not None or not streams.is_ready:
            if now - self._header_since >= self.patience(limits.header_timeout_s, now):
                self._refuse("header_timeout", "a header took too long")
                return
        elif not streams.streams and now - self._received_at >= self.patience(limits.keep_alive_s, now):
            streams.go_away()
        before, self._slow = self._slow, {}
        for stream in [*streams.streams.values()]:
            assert isinstance(stream, AsyncStream)  # noqa: S101
            how_far: object = stream.sent if stream.unsent else stream.awaited
            give_up = stream.on_unread if stream.unsent else stream.on_silent
            if how_far is None or give_up is None:
                continue
            last, since = before.get(stream, (None, now))
            if last != how_far:
                since = now
            if now - since < self.patience(limits.send_timeout_s if stream.unsent else limits.body_timeout_s, now):
                self._slow[stream] = how_far, since
            else:
                limits.broken("send_timeout" if stream.unsent else "body_timeout")
                give_up()

    def may_be_receiving(self) -> bool:
        return bool(self._streams.streams)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._http.pause()

    def resume_writing(self) -> None:
        super().resume_writing()
        if not self.closed:
            self._http.resume()
