"""The data port: relays requests to the agents and captures turns."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial

from ..net.browser_guard import HostNames
from ..net.client_limits import Capacity, ClientLimits, connections_possible
from ..net.file_watcher import FileWatch
from ..net.grpc_wire import GrpcStatus
from ..net.http2_requests import HttpStreams
from ..net.http2_server import StreamHandler
from ..net.http_server import HttpServer, reachable
from ..net.served_request import Application
from ..net.tls import HTTP, HTTP_2, TlsFiles, server_tls
from ..relay.webhooks import WebhookPort
from ..settings.settings import Settings
from ..telemetry.counters import Metrics
from .agent_routes import AgentRoutes
from .agent_traffic import AgentTraffic
from .refusals import GrpcRefusal

_NO_GRPC = "the proxy does not relay gRPC; start it with --grpc HOST:PORT, which is the port for it"


class DataPort:
    """Where clients connect: `open` opens it, for the time of its stack."""

    def __init__(
        self,
        settings: Settings,
        names: HostNames,
        files: FileWatch,
        metrics: Metrics,
        capacity: Capacity,
        agents: Sequence[AgentTraffic],
        webhooks: WebhookPort | None,
    ) -> None:
        """`capacity`: for the clients of all ports. Reads the files of TLS. Raises ConfigError."""
        self.files = files
        self.metrics = metrics
        self._settings = settings
        self._names = names
        self._agents = agents
        self._capacity = capacity
        self._webhooks = webhooks
        self._tls = self._client_tls("TLS for clients", HTTP)
        self._grpc_tls = None if settings.grpc is None else self._client_tls("TLS for clients over gRPC", HTTP_2)
        self._server: HttpServer
        self._grpc_server: HttpServer | None = None
        self.grpc_address: str | None = None
        """HOST:PORT where clients connect that speak gRPC, once it is open."""

    @property
    def url(self) -> str:
        """Where clients connect."""
        return self._server.url

    def retire(self) -> None:
        """Keep serving, and ask clients to connect again."""
        self._server.retire()
        if self._grpc_server is not None:
            self._grpc_server.retire()

    async def open(self, stack: AsyncExitStack) -> None:
        """Listen. Raises ListenError."""
        settings, limits = self._settings, self._limits()
        port = partial(
            HttpServer, shutdown_timeout_s=settings.timeouts.shutdown, limits=limits, capacity=self._capacity
        )
        for agent in self._agents:
            agent.open(stack, self._names, limits)
        if self._webhooks is not None:
            await self._webhooks.open(stack, port)
        routes = AgentRoutes(self._agents, settings.public_url, self._names, self.metrics)
        data: Application = routes.requests
        calls: StreamHandler = routes.calls
        if settings.upstream:  # the way to the only agent is short
            (only,) = self._agents
            data, calls = only.application, only.calls or calls
        if settings.grpc is None:
            calls = GrpcRefusal(GrpcStatus.UNIMPLEMENTED, _NO_GRPC)
        else:
            self._grpc_server = port(
                None, settings.grpc, setting="--grpc", streams=calls, reserved_part=4, tls=self._grpc_tls
            )
            await self._grpc_server.open(stack)
            self.grpc_address = self._grpc_server.address
        streams, part = HttpStreams(data, calls, limits), 2 if settings.grpc is None else 4
        self._server = port(
            data, settings.listen, setting="--listen", streams=streams, reserved_part=part, tls=self._tls
        )
        await self._server.open(stack)
        for agent in self._agents:
            agent.reached_at(reachable(self.url), self.grpc_address)
        if self._grpc_server is not None:
            stack.callback(self._grpc_server.close)  # both ports wait for open responses at the same time

    def _limits(self) -> ClientLimits:
        settings = self._settings
        return ClientLimits(
            header_timeout_s=settings.timeouts.client_header,
            body_timeout_s=settings.timeouts.client_body,
            send_timeout_s=settings.timeouts.client_send,
            max_header_bytes=settings.limits.header_bytes,
            max_connections=connections_possible(settings.limits.client_connections),
            broken_limits=self.metrics.client_errors,
        )

    def _client_tls(self, name: str, alpn: tuple[str, ...]) -> ssl.SSLContext | None:
        files = TlsFiles.of(
            *self._settings.tls_of("listen"), ca=self._settings.tls_client_ca, ca_setting="tls_client_ca", alpn=alpn
        )
        return server_tls(files, self.files, name)
