"""The agent's gRPC port: where it is, and the calls to it."""

from __future__ import annotations

import asyncio
import ssl

from ..net.file_watcher import FileWatch
from ..net.header_compression import Fields
from ..net.http2_client import Http2Client
from ..net.http2_connection import AsyncStream
from ..net.tls import HTTP_2, TlsFiles
from ..relay.negotiation import Negotiation
from ..settings.settings import AgentSettings


class GrpcAgent:
    """The agent at `grpc_upstream`, or else at the address in its card."""

    def __init__(self, settings: AgentSettings, files: FileWatch) -> None:
        """Reads the files of TLS. Raises ConfigError."""
        self._address = settings.grpc_upstream
        self._http = Http2Client(connect_timeout_s=settings.connect_timeout, max_header_bytes=settings.max_header_bytes)
        self._tls: ssl.SSLContext | None = None
        if settings.upstream_is_secure:
            self._files = TlsFiles.of(settings, "upstream", ca_setting="upstream_ca", alpn=HTTP_2)
            files.add("TLS to the agent over gRPC", self._files.paths, self._load)

    def _load(self) -> None:
        self._tls = self._files.client_context()

    async def address(self, negotiation: Negotiation) -> str | None:
        """HOST:PORT, once the agent's card is known; None where the card names none."""
        await negotiation.prepare(asyncio.get_running_loop().time())
        return self._address or negotiation.grpc_address

    async def begin(self, address: str, fields: Fields) -> AsyncStream:
        """Begin a call, whose fields begin with its method and path. Raises UpstreamError."""
        scheme = b"http" if self._tls is None else b"https"
        head = [(b":scheme", scheme), (b":authority", address.encode()), *fields]
        return await self._http.open(address, self._tls, head, end=False)

    def close(self) -> None:
        """Begin no further call; open ones continue."""
        self._http.close()
