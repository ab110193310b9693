"""Uvicorn's HTTP/1.1: header and beginning of a response in one packet, and header fields of requests bounded."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: text/plain; charset=utf-8\r\n"
    b"content-length: 42\r\nconnection: close\r\n\r\nThe request's header fields are too large."
)

_GOODBYE_S = 1.0
"""How long a client may take to answer the close of a TLS connection while the server stops."""

_MAX_GOODBYES = 30
"""So many times, while not everything is sent: as long as event loops wait."""


class BoundedProtocol(HttpToolsProtocol):
    """Uvicorn's protocol with four changes.

    Uvicorn writes header and body apart: two system calls and two packets for what the agent sent as one. Joining
    them saves a tenth of what a request costs (tests/bench), and a client sees what it would see directly.

    Its parser keeps whatever comes before the end of a header or trailer section, without limit: ten times its size
    in memory, from anybody who can connect. Here `max_unread_bytes` is the most that may come without completing a
    header section or carrying body; more is answered with 431.

    It takes the fields of a chunked body's trailer section for header fields (RFC 9110, section 6.5.1, forbids it): a
    client could say behind its request what the agent is to read before it. Here they are dropped.

    A server that stops would wait for TLS clients to end their idle connections, which they do not; see `_Joining`.
    """

    def __init__(self, *arguments: Any, max_unread_bytes: int, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._max_unread_bytes = max_unread_bytes
        self._unread = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        self._joining = _Joining(transport, self.loop)
        super().connection_made(self._joining)  # type: ignore[arg-type]  # it is one, but in name

    def shutdown(self) -> None:
        """The server stops: end when the current response, if any, is sent."""
        self._joining.stopping = True
        super().shutdown()

    def data_received(self, data: bytes) -> None:
        self._unread += len(data)
        super().data_received(data)
        if self._unread > self._max_unread_bytes and not self.transport.is_closing():
            if self.cycle is None or self.cycle.response_complete:
                self.transport.write(_TOO_LARGE)
            self.transport.close()

    def on_headers_complete(self) -> None:
        self._unread = 0
        super().on_headers_complete()
        if not self.parser.should_upgrade():
            self.headers = []  # the scope has the header fields; trailer fields end here

    def on_body(self, body: bytes) -> None:
        self._unread = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._unread = 0
        super().on_message_complete()


class _Joining:
    """A transport that keeps a response's header back until the next piece, at most to the end of this loop turn."""

    __slots__ = ("_head", "_loop", "_tls", "_transport", "_write", "stopping")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._write = transport.write
        self._loop = loop
        self._head = b""
        self._tls = transport.get_extra_info("sslcontext") is not None
        self.stopping = False
        """Whether the server stops, and waits for this connection to end."""

    def write(self, data: bytes) -> None:
        if self._head:
            data, self._head = self._head + data, b""
        elif data.startswith(b"HTTP/1.1 "):
            self._head = data
            self._loop.call_soon(self._flush)
            return
        self._write(data)

    def close(self) -> None:
        self._flush()
        if not self._tls:
            self._transport.close()
            return
        if not self._transport.is_closing():
            self._transport.close()
        if self.stopping:
            self._loop.call_later(_GOODBYE_S, self._part, _MAX_GOODBYES)

    def _part(self, goodbyes: int) -> None:
        """End a TLS connection without the client's goodbye, which need not be waited for (RFC 8446, 6.1).

        asyncio and uvloop wait for it for 30 s, and clients with idle connections do not send it: to stop would take
        as long. An end of what comes in is what makes them go on; it cuts nothing of what goes out.
        """
        if self._transport.get_write_buffer_size():
            if goodbyes:
                self._loop.call_later(_GOODBYE_S, self._part, goodbyes - 1)
            return
        connection = self._transport.get_extra_info("socket")
        if connection is None:  # it is closed
            return
        try:
            with connection.dup() as own:  # uvloop's own has no shutdown
                own.shutdown(socket.SHUT_RD)
        except OSError:
            pass  # it is closed, or the client has left

    def _flush(self) -> None:
        if self._head:
            head, self._head = self._head, b""
            self._write(head)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
