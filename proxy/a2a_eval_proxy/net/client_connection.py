"""A client's connection, whichever version of HTTP it speaks: its number and its end."""

from __future__ import annotations

import asyncio
import select
from abc import abstractmethod
from typing import Any

from .client_limits import Clients
from .staged_close import StagedClose, close, is_tls, reset

_MAX_TURNED_AWAY = 32
"""Connections beyond the limit that are closed in stages; further ones are closed at once, and may lose their 503."""

_LEFT = getattr(select, "POLLRDHUP", 0)


class ClientConnection(asyncio.Protocol):
    """What a connection has besides its requests.

    It is counted, and turned away beyond the limit; it ends where the client reads too slowly or has left; and it
    closes in stages. `check` is to be called about once a second.
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
        self._writable: asyncio.Event | None = None
        self._unsent = 0
        self._unsent_since = 0.0
        self._closing: StagedClose | None = None
        self._hurried = False
        self._turned_away = False

    @abstractmethod
    def check_requests(self, now: float) -> None:
        """End the connection if its client sends too slowly. `now`: of the event loop."""

    @abstractmethod
    def may_be_receiving(self) -> bool:
        """Whether a request is arriving, or may be: its header, its body, or a further request."""

    @abstractmethod
    def turned_away(self, message: str) -> bytes:
        """What a client beyond the limit of connections gets."""

    # ── the end ─────────────────────────────────────────────────────────────────────────────────────────

    def close(self) -> None:
        """Send what is written, then close; in stages where the client may be sending.

        With TLS only where a request is on its way: asyncio cannot close one direction alone, so the client would not
        see that it is its turn. While the server stops, too: idle clients may take minutes to close.
        """
        transport = self.transport
        if self.closed:
            if self._closing is not None and self._hurried:
                self._closing.hurry()
            return
        self.closed = True
        is_expected = self.may_be_receiving() or not (self._hurried or is_tls(transport))
        if is_expected and not transport.is_closing():
            self._closing = StagedClose(transport, self.loop, self.limits, hurried=self._hurried)
        else:
            close(transport, self.loop, hurried=self._hurried)

    def check(self, now: float) -> None:
        """End the connection if its client is too slow or has left. `now`: of the event loop."""
        transport = self.transport
        if self.write_paused or self.closed:
            unsent = transport.get_write_buffer_size()
            if not unsent or unsent != self._unsent:
                self._unsent, self._unsent_since = unsent, now
            elif now - self._unsent_since >= self.limits.send_timeout_s:
                self.limits.broken("send_timeout")
                self.abort()
        if self.closed or transport.is_closing():
            return
        if self.read_paused and _LEFT and self._has_left():
            self.abort()
        else:
            self.check_requests(now)

    def _has_left(self) -> bool:
        """Whether the client has closed its side; for when the event loop does not read, and would not notice."""
        poll = select.poll()
        poll.register(self.transport.get_extra_info("socket").fileno(), _LEFT)
        return bool(poll.poll(0))

    def abort(self) -> None:
        """Close at once, so that the client sees an error (RFC 9112, section 8: an incomplete message)."""
        self.closed = True
        reset(self.transport)

    def _turn_away(self) -> None:
        """Refuse a connection beyond the limit. It does not count as a connection while it closes."""
        clients = self.clients
        clients.connections.discard(self)
        clients.turned_away += 1
        self._turned_away = self._hurried = True
        self.limits.broken("too_many_connections")
        self.transport.write(self.turned_away("The proxy has too many client connections."))
        if clients.turned_away > _MAX_TURNED_AWAY:
            self.closed = True
            close(self.transport, self.loop, hurried=True)
        else:
            self.close()

    # ── asyncio.Protocol ────────────────────────────────────────────────────────────────────────────────

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]  # of a stream
        self.clients.connections.add(self)
        if self.clients.is_full():
            self._turn_away()

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self.clients.connections.discard(self)
        if self._turned_away:
            self.clients.turned_away -= 1
        self.resume_writing()

    async def drain(self) -> None:
        """Wait until the client has read enough."""
        if self._writable is not None:
            await self._writable.wait()

    def pause_writing(self) -> None:
        self.write_paused = True
        self._writable = asyncio.Event()

    def resume_writing(self) -> None:
        self.write_paused = False
        if self._writable is not None:
            self._writable.set()


def peers(transport: asyncio.BaseTransport) -> dict[str, Any]:
    """What an ASGI scope says of both ends of a connection."""
    ends = {"server": transport.get_extra_info("sockname"), "client": transport.get_extra_info("peername")}
    return {
        "scheme": "https" if transport.get_extra_info("sslcontext") else "http",
        **{side: end[:2] if isinstance(end, tuple) else None for side, end in ends.items()},
    }
