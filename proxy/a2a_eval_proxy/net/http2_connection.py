"""What both sides of HTTP/2 have in asyncio: a stream to wait for, and a transport that takes what streams send."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from .http2_frames import Http2Error
from .http2_streams import Event, Http2Stream, Http2Streams, Reset

logger = logging.getLogger(__name__)

_MAX_UNWRITTEN = 1024 * 1024
"""Bytes of headers and acknowledgements that a peer may cause and not read, before nothing is read from it."""


class AsyncStream(Http2Stream):
    """A stream whose events and progress can be awaited, each by one task."""

    __slots__ = ("_arrival", "_loop", "_progress", "on_reset", "on_silent", "on_unread")

    def __init__(self, connection: Http2Streams, stream_id: int) -> None:
        super().__init__(connection, stream_id)
        self._loop = asyncio.get_running_loop()
        self._arrival: asyncio.Future[None] | None = None
        self._progress: asyncio.Future[None] | None = None
        self.on_reset: Callable[[], object] | None = None
        """Called when the peer, or the end of the connection, ends the stream early."""
        self.on_unread: Callable[[], None] | None = None
        """Called when the peer has read nothing for too long."""
        self.on_silent: Callable[[], None] | None = None
        """Called when the peer has sent nothing for too long, while it is waited for."""

    @property
    def awaited(self) -> asyncio.Future[None] | None:
        """What waits for the peer to send something; another one each time."""
        return None if self._arrival is None or self._arrival.done() else self._arrival

    async def next(self) -> Event:
        """What arrives next. Nothing follows an event that says `ended`, nor `Reset`."""
        while not self.arrived:
            self._arrival = self._loop.create_future()
            await self._arrival
        return self.arrived.popleft()

    async def drained(self) -> None:
        """Wait until all that was sent has gone through the peer's windows, or never will."""
        while self.unsent:
            self._progress = self._loop.create_future()
            await self._progress

    def received(self, event: Event) -> None:
        self.arrived.append(event)
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)
        if type(event) is Reset and self.on_reset is not None:
            self.on_reset()

    def progressed(self) -> None:
        if self._progress is not None and not self._progress.done():
            self._progress.set_result(None)


class Http2Transport:
    """Writes what the streams of one connection send: at the end of each turn of the event loop, as one piece."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        is_client: bool,
        max_header_bytes: int,
        on_done: Callable[[], None],
    ) -> None:
        """`on_done` is called when all is written, no stream is open, and none may be opened."""
        self._loop = loop
        self._on_done = on_done
        self._transport: Any = None
        self._is_scheduled = False
        self._is_read_paused = False
        self.streams = Http2Streams(
            is_client=is_client,
            max_header_bytes=max_header_bytes,
            new_stream=AsyncStream,
            on_output=self._schedule,
        )

    def begin(self, transport: asyncio.BaseTransport) -> None:
        """The connection is made."""
        self._transport = transport
        self._schedule()

    def feed(self, data: bytes) -> None:
        """Take received bytes. Raises Http2Error; the GOAWAY is written."""
        try:
            self.streams.feed(data, self._loop.time())
        except Http2Error:
            self.flush()
            raise

    def pause(self) -> None:
        """The transport has enough to send."""
        self.streams.is_paused = True

    def resume(self) -> None:
        """The transport takes more."""
        self.streams.is_paused = False
        self.streams.pump_all()
        if self._is_read_paused:
            self._is_read_paused = False
            self._transport.resume_reading()

    def _schedule(self) -> None:
        if not self._is_scheduled and self._transport is not None:
            self._is_scheduled = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Write what is to be sent."""
        self._is_scheduled = False
        transport = self._transport
        output = self.streams.output()
        if transport.is_closing():
            return
        if output:
            transport.write(output)
        is_behind = self.streams.is_paused and transport.get_write_buffer_size() > _MAX_UNWRITTEN
        if is_behind and not self._is_read_paused:
            self._is_read_paused = True
            transport.pause_reading()
        if self.streams.is_going and not self.streams.streams:
            self._on_done()
