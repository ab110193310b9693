"""What both sides of HTTP/2 have in asyncio: a transport that takes what the streams of a connection send."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from .http2_streams import Http2Streams

_MAX_UNWRITTEN = 1024 * 1024
"""Bytes of headers and acknowledgements that a peer may cause and not read, before nothing is read from it."""


class Http2Transport:
    """Moves the bytes of one connection: what its streams send, at the end of each turn of the event loop as one piece;
    what arrives, as much of it in each turn as holds up no other connection."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        is_client: bool,
        max_header_bytes: int,
        data_received: Callable[[bytes], None],
        on_done: Callable[[], None],
    ) -> None:
        """`data_received` is called with b"" to have `feed` called again. `on_done` is called when all is written, no
        stream is open, and none may be opened."""
        self._loop = loop
        self._data_received = data_received
        self._on_done = on_done
        self._transport: Any = None
        self._is_scheduled = False
        self.streams = Http2Streams(is_client=is_client, max_header_bytes=max_header_bytes, on_output=self._schedule)

    def begin(self, transport: asyncio.BaseTransport) -> None:
        """The connection is made."""
        self._transport = transport
        self._schedule()

    def feed(self, data: bytes) -> None:
        """Take received bytes. Raises Http2Error, after which `flush` writes the GOAWAY."""
        self.streams.feed(data, self._loop.time())
        if self.streams.has_more():
            self._transport.pause_reading()
            self._loop.call_soon(self._data_received, b"")
        else:
            self._read_on()

    def pause(self) -> None:
        """The transport has enough to send."""
        self.streams.is_paused = True

    def resume(self) -> None:
        """The transport takes more."""
        self.streams.is_paused = False
        self.streams.pump()
        self._read_on()

    def _schedule(self) -> None:
        if not self._is_scheduled and self._transport is not None:
            self._is_scheduled = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Write what is to be sent."""
        self._is_scheduled = False
        transport, output = self._transport, self.streams.output()
        if transport.is_closing():
            return
        if output:
            transport.write(output)
        if self._is_behind():
            transport.pause_reading()
        if self.streams.is_going and not self.streams.streams:
            self._on_done()

    def _is_behind(self) -> bool:
        """Whether the peer does not read what it causes."""
        return self.streams.is_paused and self._transport.get_write_buffer_size() > _MAX_UNWRITTEN

    def _read_on(self) -> None:
        transport = self._transport
        if not (transport.is_reading() or transport.is_closing() or self.streams.has_more() or self._is_behind()):
            transport.resume_reading()
