"""What both sides of HTTP/2 have in asyncio: a connection that writes what its streams send."""

from __future__ import annotations

import asyncio
from typing import Any

from .http2_streams import Http2Streams

_MAX_UNWRITTEN = 1024 * 1024
"""Bytes of headers and acknowledgements that a peer may cause and not read, before nothing is read from it."""


class Http2Side(asyncio.Protocol):
    """Moves the bytes of one connection: what its streams send, at the end of each turn of the event loop as one piece;
    what arrives, as much of it in each turn as holds up no other connection.

    It is closed when all is written, no stream is open, and none may be opened.
    """

    loop: asyncio.AbstractEventLoop
    streams: Http2Streams
    transport: Any
    _is_scheduled = False

    def close(self) -> None:
        """Send what is written, then close."""
        self.transport.close()

    def feed(self, data: bytes) -> None:
        """Take received bytes. Raises Http2Error, after which `flush` writes the GOAWAY."""
        self.streams.feed(data, self.loop.time())
        if self.streams.gate.has_more():
            self.transport.pause_reading()
            self.loop.call_soon(self.data_received, b"")
        else:
            self._read_on()

    def pause_writing(self) -> None:
        super().pause_writing()
        self.streams.is_paused = True

    def resume_writing(self) -> None:
        super().resume_writing()
        self.streams.is_paused = False
        self.streams.pump()
        self._read_on()

    def schedule(self) -> None:
        """There may be something to be sent."""
        if not self._is_scheduled:
            self._is_scheduled = True
            self.loop.call_soon(self.flush)

    def flush(self) -> None:
        """Write what is to be sent."""
        self._is_scheduled = False
        transport, output = self.transport, self.streams.output()
        if transport.is_closing():
            return
        if output:
            transport.write(output)
        if self._is_behind():
            transport.pause_reading()
        if self.streams.is_going and not self.streams.streams:
            self.close()

    def _is_behind(self) -> bool:
        """Whether the peer does not read what it causes."""
        return self.streams.is_paused and self.transport.get_write_buffer_size() > _MAX_UNWRITTEN

    def _read_on(self) -> None:
        transport = self.transport
        if not (transport.is_closing() or transport.is_reading() or self.streams.gate.has_more() or self._is_behind()):
            transport.resume_reading()
