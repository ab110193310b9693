"""The transport of a client connection: sends a response's header with its first piece, and closes in stages."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import Any, Protocol, cast

from .client_limits import ClientLimits

_QUIET_S = 5.0
"""After the last response, the connection closes once the client sends nothing for this time."""

_CLOSE_WITHIN_S = 30.0
"""A client that still sends after this time is disconnected."""

_HURRIED_S = 1.0
"""In place of both times where the server stops or has too many connections."""

_MAX_DISCARDED = 32 * 1024 * 1024
"""Bytes that a client may send after the last response."""

_TLS_CLOSE_RETRIES = 30
"""Retries of the end of a TLS connection, 1 s apart, while output is still buffered."""

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class ClientProtocol(Protocol):
    """What a `ClientTransport` asks its connection's protocol."""

    @property
    def may_be_receiving(self) -> bool:
        """Whether a request is arriving, or may be."""


class ClientTransport:
    """An asyncio.Transport for uvicorn.

    - It holds back a response's header until the next write, at most to the end of this turn of the event loop.
    - It closes in stages (RFC 9112, section 9.6). A socket that is closed while it holds bytes of the client resets the
      connection, and the client loses what it has not read yet.
    - While the server stops, it ends a TLS connection without the client's close_notify.
    """

    def __init__(
        self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, limits: ClientLimits | None = None
    ) -> None:
        self._transport = transport
        self._write = transport.write
        self.is_closing = transport.is_closing  # asked several times for each request
        self._loop = loop
        self._limits = limits or ClientLimits()
        self._head = b""
        self._tls = transport.get_extra_info("sslcontext") is not None
        self.hurried = False
        """Whether to close soon without the client: the server stops, or has too many connections."""
        self.close_ends_body = False
        """Whether a close would look to the client like the end of the body that is being sent."""

    def write(self, data: bytes) -> None:
        if self._head:
            data, self._head = self._head + data, b""
        elif data.startswith(b"HTTP/1.1 "):
            self._head = data
            self._loop.call_soon(self._flush)
            return
        self._write(data)

    def write_whole(self, response: bytes) -> None:
        """Send a whole response at once; `write` would hold it back as a header."""
        self._write(response)

    def close(self) -> None:
        """Send what is written, then close; in stages where the client may be sending."""
        self._flush()
        protocol = self._transport.get_protocol()
        if isinstance(protocol, _Closing):
            if self.hurried:
                protocol.hurry()
        elif self.close_ends_body and not self._transport.is_closing():
            self._reset()
        elif self._transport.is_closing() or not self._waits_for(protocol):
            self.end()
        else:
            self.is_closing = _always
            self._write = _discard
            _Closing(self, self._transport, protocol, self._loop, self._limits, tls=self._tls).start()

    def _waits_for(self, protocol: asyncio.BaseProtocol) -> bool:
        """Whether to close in stages.

        With TLS only where a request is on its way: asyncio cannot close one direction alone, so the client would not
        see that it is its turn. While the server stops, too: idle clients may take minutes to close.
        """
        return cast(ClientProtocol, protocol).may_be_receiving or not (self._tls or self.hurried)

    def end(self) -> None:
        """Send what is written, then close."""
        if not self._transport.is_closing():
            self._transport.close()
        if self._tls and self.hurried:
            self._loop.call_later(_HURRIED_S, self._end_tls, _TLS_CLOSE_RETRIES)

    def _end_tls(self, retries: int) -> None:
        """End a TLS connection without the client's close_notify (RFC 8446, section 6.1, does not require it).

        asyncio and uvloop wait 30 s for it, and clients with idle connections do not send it, so a stop would take as
        long. Shutting down the receiving side ends this wait, and loses nothing that is sent.
        """
        if not self._transport.get_write_buffer_size():
            _shut_down(self._transport, socket.SHUT_RD)
        elif retries:
            self._loop.call_later(_HURRIED_S, self._end_tls, retries - 1)

    def _reset(self) -> None:
        """Close so that the client sees an error (RFC 9112, section 8: an incomplete message)."""
        self._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self._transport.abort()

    def _flush(self) -> None:
        if self._head:
            head, self._head = self._head, b""
            if not self.is_closing():  # uvloop raises where the connection has ended meanwhile
                self._write(head)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class _Closing(asyncio.Protocol):
    """The protocol of a connection after its last response.

    It waits until all is written, shuts the sending side down, and discards received data until the client closes: at
    most for `_CLOSE_WITHIN_S` and `_MAX_DISCARDED`, and only while data arrives within `_QUIET_S`.
    """

    def __init__(
        self,
        owner: ClientTransport,
        transport: asyncio.Transport,
        former: asyncio.BaseProtocol,
        loop: asyncio.AbstractEventLoop,
        limits: ClientLimits,
        *,
        tls: bool,
    ) -> None:
        self._owner = owner
        self._transport = transport
        self._former = cast(asyncio.Protocol, former)
        self._loop = loop
        self._limits = limits
        self._tls = tls
        self._left = _MAX_DISCARDED
        self._received = False
        self._close_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Take over the connection."""
        transport = self._transport
        transport.set_protocol(self)
        if not transport.is_reading():
            transport.resume_reading()
        if transport.get_write_buffer_size():
            transport.set_write_buffer_limits(high=0)  # `resume_writing` is called when all is written
        else:
            self._all_is_written()

    def hurry(self) -> None:
        """Wait at most `_HURRIED_S` once all is written."""
        if self._timer is not None:
            self._timer.cancel()
            self._wait(_HURRIED_S, _HURRIED_S)

    def _all_is_written(self) -> None:
        if not self._tls:
            _shut_down(self._transport, socket.SHUT_WR)
        if self._owner.hurried:
            self._wait(_HURRIED_S, _HURRIED_S)
        else:
            self._wait(_HURRIED_S if self._tls else _QUIET_S, _CLOSE_WITHIN_S)

    def _wait(self, quiet_s: float, within_s: float) -> None:
        self._close_at = self._loop.time() + within_s
        self._received = False
        self._timer = self._loop.call_later(quiet_s, self._check, quiet_s)

    def _check(self, quiet_s: float) -> None:
        is_late = self._loop.time() >= self._close_at
        if self._received and not is_late:
            self._received = False
            self._timer = self._loop.call_later(quiet_s, self._check, quiet_s)
            return
        if self._received and not self._owner.hurried:
            self._limits.broken("close_ignored")
        self._owner.end()

    # ── asyncio.Protocol ────────────────────────────────────────────────────────────────────────────────

    def data_received(self, data: bytes) -> None:
        self._received = True
        self._left -= len(data)
        if self._left < 0 and not self._transport.is_closing():
            self._limits.broken("close_ignored")
            self._transport.abort()

    def resume_writing(self) -> None:
        self._former.resume_writing()
        if self._timer is None:
            self._all_is_written()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        self._former.connection_lost(exc)


def _shut_down(transport: asyncio.Transport, how: int) -> None:
    """Shut down one direction of the socket, if it is still open."""
    connection = transport.get_extra_info("socket")
    if connection is None:
        return
    try:
        with connection.dup() as own:  # uvloop's own has no shutdown
            own.shutdown(how)
    except OSError:
        pass  # it is closed, or the client has left


def _always() -> bool:
    return True


def _discard(data: bytes | bytearray | memoryview) -> None:
    """Ignore data written after the close, as asyncio does."""
