"""A client's connection, whichever version of HTTP it speaks: its number and its end."""

from __future__ import annotations

import array
import asyncio
import select
import socket
import struct
import sys
from abc import abstractmethod
from typing import Any

from .client_limits import FREE_BYTES, Clients

if sys.platform == "linux":
    import fcntl
    import termios

_MAX_TURNED_AWAY = 32
"""Connections beyond the limit that are closed in stages; further ones are reset."""

QUIET_S = 5.0
"""After the last response, the connection closes once the client sends nothing for this time."""

CLOSE_WITHIN_S = 30.0
"""A client that still sends after this time is disconnected."""

_HURRIED_S = 1.0
"""In place of both times where the server stops or has too many connections."""

MAX_DISCARDED = 32 * 1024 * 1024
"""Bytes that a client may send after the last response."""

_LEFT = getattr(select, "POLLRDHUP", 0)
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class ClientConnection(asyncio.Protocol):
    """What a connection has besides its requests.

    It is counted, and turned away beyond the limit; it ends where the client reads too slowly or has left. `check` is
    to be called about once a second.

    It closes in stages, so that the client can read all that was sent (RFC 9112, section 9.6): it waits until all is
    written, shuts the sending side down, and discards received data until the client closes: at most for
    `CLOSE_WITHIN_S` and `MAX_DISCARDED`, and only while data arrives within `QUIET_S`. A socket that is closed while
    it holds bytes of the client resets the connection, and the client loses what it has not read yet.
    """

    def __init__(self, clients: Clients) -> None:
        self.clients = clients
        self.limits = clients.limits
        self.loop = asyncio.get_running_loop()
        self.closed = False
        """Whether nothing is read or written any more; what was written may still be on its way."""
        self.read_paused = False
        self.write_paused = False
        self.transport: asyncio.Transport
        self._writable = asyncio.Event()
        """Of use while `write_paused`."""
        self._unsent = 0
        self._unsent_since = 0.0
        self.held = 0
        """Bytes that count: see `hold`."""
        self._hurried = False
        self._discards = False
        """Whether the client may go on sending while the connection closes."""
        self._all_sent_at: float | None = None
        self._heard_at = 0.0
        self._discarded = 0

    @abstractmethod
    def received(self, data: bytes) -> None:
        """Take what has arrived."""

    @abstractmethod
    def check_requests(self, now: float) -> None:
        """End the connection if its client sends too slowly. `now`: of the event loop."""

    @abstractmethod
    def may_be_receiving(self) -> bool:
        """Whether a request is arriving, or may be: its header, its body, or a further request."""

    @abstractmethod
    def turned_away(self, message: str) -> bytes:
        """What a client beyond the limit of connections gets."""

    @abstractmethod
    def shutdown(self) -> None:
        """Take no further request, and close once none is open: the server stops."""

    def hold(self, size: int) -> bool:
        """Count the bytes that have arrived and that nobody has taken; False, and nothing, where they are too many."""
        size = size if size > FREE_BYTES else 0
        if (size or self.held) and not self.clients.capacity.hold(self.held, size, self.loop.time()):
            return False
        self.held = size
        return True

    # ── the end ─────────────────────────────────────────────────────────────────────────────────────────

    def close(self) -> None:
        """Send what is written, then close; in stages where the client may be sending.

        With TLS only where a request is on its way: asyncio cannot close one direction alone, so the client would not
        see that it is its turn. While the server stops, too: idle clients may take minutes to close.
        """
        transport = self.transport
        if self.closed:
            return
        self.closed = True
        self.hold(0)
        if transport.is_closing():
            return
        self._discards = self.may_be_receiving() or not (self._hurried or self._is_tls)
        if not self._discards:
            transport.close()
            return
        if not transport.is_reading():
            transport.resume_reading()
        if transport.get_write_buffer_size():
            transport.set_write_buffer_limits(high=0)  # `resume_writing` is called when all is written
        else:
            self._all_is_sent()

    def _all_is_sent(self) -> None:
        if not self._is_tls:
            self._shut_down(socket.SHUT_WR)
        self._all_sent_at = self._heard_at = self.loop.time()

    def abort(self) -> None:
        """Close at once, and lose what is not sent. The client sees an error, where a mere close could end a body
        (RFC 9112, section 8: an incomplete message)."""
        self.closed = True
        self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self.transport.abort()

    def check(self, now: float) -> None:
        """End the connection if its client is too slow or has left. `now`: of the event loop."""
        transport = self.transport
        if self.write_paused or self.closed:
            unsent = self._untaken()
            if not unsent or unsent != self._unsent:
                self._unsent, self._unsent_since = unsent, now
            elif now - self._unsent_since >= self.clients.capacity.taking_s(self.limits.send_timeout_s, now):
                self.limits.broken("send_timeout")
                self.abort()
        if self.closed:
            self._check_end(now)
        elif not transport.is_closing():
            if self.read_paused and _LEFT and self._has_left():
                self.abort()
            else:
                self.check_requests(now)

    def _check_end(self, now: float) -> None:
        transport = self.transport
        if transport.is_closing():
            # asyncio and uvloop wait 30 s for the close_notify of a client, which RFC 8446, section 6.1, does not
            # require, and which clients with idle connections do not send. Shutting down the receiving side ends that.
            if self._hurried and self._is_tls and not transport.get_write_buffer_size():
                self._shut_down(socket.SHUT_RD)
        elif self._all_sent_at is not None:
            quiet_s, within_s = (_HURRIED_S if self._is_tls else QUIET_S), CLOSE_WITHIN_S
            if self._hurried:
                quiet_s = within_s = _HURRIED_S
            is_heard = now - self._heard_at < quiet_s
            if is_heard and now - self._all_sent_at < within_s:
                return
            if is_heard and not self._hurried:
                self.limits.broken("close_ignored")
            transport.close()

    def _untaken(self) -> int:
        """Bytes that the client has not taken: those that wait here, and those that the system has yet to deliver."""
        waiting = self.transport.get_write_buffer_size()
        if waiting and sys.platform == "linux":
            undelivered = array.array("i", [0])
            fcntl.ioctl(self.transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, undelivered)
            waiting += undelivered[0]
        return waiting

    def _has_left(self) -> bool:
        """Whether the client has closed its side; for when the event loop does not read, and would not notice."""
        poll = select.poll()
        poll.register(self.transport.get_extra_info("socket").fileno(), _LEFT)
        return bool(poll.poll(0))

    def _turn_away(self) -> None:
        """Refuse a connection beyond the limit. It does not count as a connection while it closes."""
        leaving = self.clients.capacity.leaving
        self.clients.connections.discard(self)
        self._hurried = True
        self.limits.broken("too_many_connections")
        self.transport.write(self.turned_away("The proxy has too many client connections."))
        if len(leaving) < _MAX_TURNED_AWAY:
            leaving.add(self)
            self.close()
        else:
            self.abort()

    def _shut_down(self, how: int) -> None:
        """Shut down one direction of the socket, if it is still open."""
        connection = self.transport.get_extra_info("socket")
        if connection is None:
            return
        try:
            with connection.dup() as own:  # uvloop's own has no shutdown
                own.shutdown(how)
        except OSError:
            pass  # it is closed, or the client has left

    # ── asyncio.Protocol ────────────────────────────────────────────────────────────────────────────────

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]  # of a stream
        self._is_tls = transport.get_extra_info("sslcontext") is not None
        self.clients.connections.add(self)
        if not self.clients.capacity.admits(self.clients, self.loop.time()):
            self._turn_away()

    def data_received(self, data: bytes) -> None:
        if not self.closed:
            self.received(data)
        elif self._discards:
            self._heard_at = self.loop.time()
            self._discarded += len(data)
            if self._discarded > MAX_DISCARDED and not self.transport.is_closing():
                self.limits.broken("close_ignored")
                self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self.hold(0)
        self.clients.connections.discard(self)
        self.clients.capacity.leaving.discard(self)
        self.resume_writing()

    async def drain(self) -> None:
        """Wait until the client has read enough; while `write_paused`."""
        await self._writable.wait()

    def pause_writing(self) -> None:
        self.write_paused = True
        self._writable.clear()

    def resume_writing(self) -> None:
        self.write_paused = False
        self._writable.set()
        if self._discards and self._all_sent_at is None and not self.transport.is_closing():
            self._all_is_sent()


def peers(transport: asyncio.BaseTransport) -> dict[str, Any]:
    """What an ASGI scope says of both ends of a connection."""
    ends = {"server": transport.get_extra_info("sockname"), "client": transport.get_extra_info("peername")}
    return {
        "scheme": "https" if transport.get_extra_info("sslcontext") else "http",
        **{side: end[:2] if isinstance(end, tuple) else None for side, end in ends.items()},
    }
