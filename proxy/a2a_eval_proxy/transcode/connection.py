"""Connections of the relay to the transcoder in its own process: pairs of sockets, which no other process reaches."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from urllib.parse import unquote

from ..net.client_limits import ClientLimits, Clients
from ..net.file_watcher import FileWatch
from ..net.http1_connection import Http1Connection
from ..net.http_client import HttpClient, HttpExchange, RequestHead
from ..net.http_connection import Body
from ..settings.settings import AgentSettings
from .application import FAILURES, Transcoder
from .metadata import FAILURE

_MORE_HEADER_BYTES = 8192
"""What the relay and the transcoder may add to a header within its limit."""


class TranscodingClient(HttpClient):
    """Requests to the transcoder; for all of `Upstream`, as if the agent had HTTP."""

    def __init__(self, settings: AgentSettings, files: FileWatch) -> None:
        """Raises ConfigError for certificates, or a card, that cannot be used."""
        max_header_bytes = settings.max_header_bytes + _MORE_HEADER_BYTES
        super().__init__("", 0, max_connections=settings.max_connections, max_header_bytes=max_header_bytes)
        self._transcoder = Transcoder(settings, files)
        self._relays = Clients(ClientLimits(max_header_bytes=max_header_bytes))

    async def dial(self, protocol: Callable[[], asyncio.Protocol]) -> None:
        ours, theirs = socket.socketpair()
        loop = asyncio.get_running_loop()
        await loop.connect_accepted_socket(lambda: Http1Connection(self._transcoder, self._relays), theirs)
        await loop.create_connection(protocol, sock=ours)

    async def send(
        self, head: RequestHead, body: Body = b"", *, length: int | None = None, field: bytes = b"", waits: bool = False
    ) -> HttpExchange:
        """As its base. Raises UpstreamError also where the agent did not respond to the call over gRPC."""
        response = await super().send(head, body, length=length, field=field, waits=waits)
        failure = response.fields.get(FAILURE)
        if failure is not None:
            response.close()
            raise FAILURES[response.status](unquote(failure.decode()))
        return response

    async def disconnect(self) -> None:
        """Close the connections to the agent."""
        self.close()
        await self._transcoder.close()
