"""Closes a client's connection in stages, so that the client can read all that was sent (RFC 9112, section 9.6)."""

from __future__ import annotations

import asyncio
import socket
import struct

from .client_limits import ClientLimits

_QUIET_S = 5.0
"""After the last response, the connection closes once the client sends nothing for this time."""

CLOSE_WITHIN_S = 30.0
"""A client that still sends after this time is disconnected."""

_HURRIED_S = 1.0
"""In place of both times where the server stops or has too many connections."""

MAX_DISCARDED = 32 * 1024 * 1024
"""Bytes that a client may send after the last response."""

_TLS_CLOSE_RETRIES = 30
"""Retries of the end of a TLS connection, 1 s apart, while output is still buffered."""

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class StagedClose(asyncio.Protocol):
    """The protocol of a connection after its last response.

    It waits until all is written, shuts the sending side down, and discards received data until the client closes: at
    most for `CLOSE_WITHIN_S` and `MAX_DISCARDED`, and only while data arrives within `_QUIET_S`. A socket that is
    closed while it holds bytes of the client resets the connection, and the client loses what it has not read yet.
    """

    def __init__(
        self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, limits: ClientLimits, *, hurried: bool
    ) -> None:
        """Takes over the connection. `hurried`: see `hurry`."""
        self._transport = transport
        self._former: asyncio.Protocol = transport.get_protocol()  # type: ignore[assignment]  # of a stream
        self._loop = loop
        self._limits = limits
        self._hurried = hurried
        self._tls = is_tls(transport)
        self._left = MAX_DISCARDED
        self._received = False
        self._close_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        transport.set_protocol(self)
        if not transport.is_reading():
            transport.resume_reading()
        if transport.get_write_buffer_size():
            transport.set_write_buffer_limits(high=0)  # `resume_writing` is called when all is written
        else:
            self._all_is_written()

    def hurry(self) -> None:
        """Wait at most `_HURRIED_S` once all is written, since the server stops or has too many connections."""
        self._hurried = True
        if self._timer is not None:
            self._timer.cancel()
            self._wait(_HURRIED_S, _HURRIED_S)

    def _all_is_written(self) -> None:
        if not self._tls:
            _shut_down(self._transport, socket.SHUT_WR)
        if self._hurried:
            self._wait(_HURRIED_S, _HURRIED_S)
        else:
            self._wait(_HURRIED_S if self._tls else _QUIET_S, CLOSE_WITHIN_S)

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
        if self._received and not self._hurried:
            self._limits.broken("close_ignored")
        close(self._transport, self._loop, hurried=self._hurried)

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


def is_tls(transport: asyncio.Transport) -> bool:
    return transport.get_extra_info("sslcontext") is not None


def close(transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, *, hurried: bool) -> None:
    """Send what is written, then close. `hurried`: with TLS, without the client's close_notify."""
    if not transport.is_closing():
        transport.close()
    if hurried and is_tls(transport):
        loop.call_later(_HURRIED_S, _end_tls, transport, loop, _TLS_CLOSE_RETRIES)


def reset(transport: asyncio.Transport) -> None:
    """Close at once, and lose what is not sent. The client sees an error, where a mere close could end a body."""
    transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    transport.abort()


def _end_tls(transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, retries: int) -> None:
    """End a TLS connection without the client's close_notify (RFC 8446, section 6.1, does not require it).

    asyncio and uvloop wait 30 s for it, and clients with idle connections do not send it, so a stop would take as long.
    Shutting down the receiving side ends this wait, and loses nothing that is sent.
    """
    if not transport.get_write_buffer_size():
        _shut_down(transport, socket.SHUT_RD)
    elif retries:
        loop.call_later(_HURRIED_S, _end_tls, transport, loop, retries - 1)


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
