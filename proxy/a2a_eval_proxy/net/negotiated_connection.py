"""A client's connection for whichever version of HTTP the client chooses."""

from __future__ import annotations

import asyncio
from typing import Any

from .client_connection import ClientConnection
from .client_limits import Clients
from .http1_connection import Http1Connection
from .http1_responses import refusal
from .http2_frames import PREFACE
from .http2_server import Http2Connection, StreamHandler
from .server_exchange import Application


class NegotiatedConnection(ClientConnection):
    """HTTP/2 if the client agreed on it with TLS (ALPN), or begins with its preface without TLS; else HTTP/1.1.

    It hands the connection over as soon as that is known.
    """

    def __init__(self, streams: StreamHandler, application: Application, clients: Clients) -> None:
        """`streams` answers requests over HTTP/2, `application` those over HTTP/1.1."""
        super().__init__(clients)
        self._streams = streams
        self._application = application
        self._began = self.loop.time()
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        tls: Any = transport.get_extra_info("ssl_object")
        if tls is not None and not self.closed:
            self._hand_over(speaks_http_2=tls.selected_alpn_protocol() == "h2")

    def data_received(self, data: bytes) -> None:
        if self.closed:
            return
        self._received += data
        expected = PREFACE[: len(self._received)]
        if self._received[: len(expected)] != expected:
            self._hand_over(speaks_http_2=False)
        elif expected == PREFACE:
            self._hand_over(speaks_http_2=True)

    def _hand_over(self, *, speaks_http_2: bool) -> None:
        connection = (
            Http2Connection(self._streams, self.clients)
            if speaks_http_2
            else Http1Connection(self._application, self.clients)
        )
        self.clients.connections.discard(self)
        self.transport.set_protocol(connection)
        connection.connection_made(self.transport)
        if self._received:
            connection.data_received(self._received)

    def shutdown(self) -> None:
        """Close: the server stops."""
        self._hurried = True
        self.close()

    def check_requests(self, now: float) -> None:
        if now - self._began >= self.limits.header_timeout_s:
            self.limits.broken("header_timeout")
            self.close()

    def may_be_receiving(self) -> bool:
        return True

    def turned_away(self, message: str) -> bytes:
        return refusal(503, message)
