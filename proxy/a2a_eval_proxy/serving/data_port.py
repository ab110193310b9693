"""The data port: relays requests to the agents and captures turns."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

from ..clock import CLOCK
from ..net.browser_guard import HostNames
from ..net.client_limits import ClientLimits, connections_possible
from ..net.file_watcher import FileWatch
from ..net.grpc_wire import GrpcStatus
from ..net.http2_exchange import HttpStreams
from ..net.http2_server import Http2Connection, StreamHandler
from ..net.http_server import HttpServer, reachable
from ..net.negotiated_connection import NegotiatedConnection
from ..net.ports import Ports
from ..net.server_exchange import Application
from ..net.tls import HTTP, HTTP_2, TlsFiles, server_tls
from ..settings import Settings
from ..telemetry.counters import Metrics
from ..turn import Turn
from .agent_routes import AgentRoute, AgentRoutes, RoutedCalls, RoutedNotifications, RoutedRequests
from .local_serving import RelayedHere
from .push_port import PushPort
from .refusals import GrpcRefusal
from .turn_capture import TurnCapture

_EXPIRE_EVERY_S = 0.5
_NO_GRPC = "the proxy does not relay gRPC; start it with --grpc HOST:PORT, which is the port for it"


class DataPort:
    """Where clients connect: `open` opens it, for the time of its stack."""

    def __init__(
        self,
        settings: Settings,
        names: HostNames,
        files: FileWatch,
        metrics: Metrics,
        agents: Sequence[RelayedHere],
    ) -> None:
        """Reads the files of TLS. Raises ConfigError."""
        self.files = files
        self.metrics = metrics
        self._settings = settings
        self._names = names
        self._agents = agents
        self._push = None
        if settings.push_mode == "relay":
            self._push = PushPort(settings, files, settings.push_listen)
        self._tls = self._client_tls("TLS for clients", HTTP)
        self._grpc_tls = None if settings.grpc is None else self._client_tls("TLS for clients over gRPC", HTTP_2)
        self._server: HttpServer
        self._grpc_server: HttpServer | None = None
        self._ports: Ports
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

    def problems(self) -> list[str]:
        return self._ports.problems()

    async def wire(self, turn_id: str, tasks: Sequence[str], began: float, ended: float | None) -> list[dict[str, Any]]:
        """See `AgentRelay.wire`."""
        return [one for agent in self._agents for one in await agent.relay.wire(turn_id, tasks, began, ended)]

    async def open(self, stack: AsyncExitStack) -> None:
        """Listen. Raises ListenError."""
        settings, limits = self._settings, self._limits()
        of_calls = self._limits()
        for agent in self._agents:
            stack.push_async_callback(agent.captured.close)
            await agent.captured.open()
        for agent in self._agents:
            stack.push_async_callback(agent.relay.close)
            agent.relay.open()
        relays = [agent.relay for agent in self._agents]
        routes = AgentRoutes(
            [AgentRoute(one, one.application(self._names), one.calls(of_calls)) for one in relays], self.metrics
        )
        self._ports = Ports(stack)
        if self._push is not None:
            await self._push.open(self._ports, self._limits(), RoutedNotifications(routes))
        stack.callback(asyncio.get_running_loop().create_task(self._expire()).cancel)
        data: Application = RoutedRequests(routes, settings.public_url, self._names)
        calls: StreamHandler = RoutedCalls(routes)
        if settings.upstream:  # the way to the only agent is short
            (only,) = routes.all
            data, calls = only.application, only.calls or calls
        if settings.grpc is None:
            calls = GrpcRefusal(GrpcStatus.UNIMPLEMENTED, _NO_GRPC)
        else:
            grpc = self._grpc_server = await self._open_grpc(settings.grpc, calls, of_calls)
            self.grpc_address = grpc.address
        streams = HttpStreams(data, calls, limits)
        self._server = await self._ports.open(
            lambda: HttpServer(
                data,
                settings.listen,
                shutdown_timeout_s=settings.shutdown_timeout,
                limits=limits,
                tls=self._tls,
                speaks=partial(NegotiatedConnection, streams),
            ),
            "--listen",
        )
        for relay in relays:
            relay.reached_at(reachable(self.url), self.grpc_address)
        stack.callback(self._ports.give_up)
        if self._grpc_server is not None:
            stack.callback(self._grpc_server.close)  # both ports wait for open responses at the same time

    def watch(self, live: bool) -> None:
        """Start or stop to report changes of open turns."""
        for capture in self._captures():
            capture.watch(live)

    async def latest_open(self, most: int, turn_id: str | None = None) -> list[Turn]:
        """Copies of the latest open turns, at most `most` of each agent, or of the one with this id, as far as they are
        known."""
        return [turn for capture in self._captures() for turn in capture.book.latest_open(most, turn_id)]

    async def settled(self) -> None:
        """See `CapturedHere.settled`."""
        for agent in self._agents:
            await agent.captured.settled()

    def _captures(self) -> list[TurnCapture]:
        return [capture for agent in self._agents for capture in agent.captured.captures]

    async def _open_grpc(self, address: str, calls: StreamHandler, limits: ClientLimits) -> HttpServer:
        return await self._ports.open(
            lambda: HttpServer(
                calls,
                address,
                shutdown_timeout_s=self._settings.shutdown_timeout,
                limits=limits,
                tls=self._grpc_tls,
                speaks=Http2Connection,
            ),
            "--grpc",
        )

    def _limits(self) -> ClientLimits:
        settings = self._settings
        return ClientLimits(
            header_timeout_s=settings.client_header_timeout,
            body_timeout_s=settings.client_body_timeout,
            send_timeout_s=settings.client_send_timeout,
            max_header_bytes=settings.max_header_bytes,
            max_connections=connections_possible(settings.max_client_connections),
            broken_limits=self.metrics.client_errors,
        )

    def _client_tls(self, name: str, alpn: tuple[str, ...]) -> ssl.SSLContext | None:
        return server_tls(TlsFiles.of(self._settings, "tls", ca_setting="tls_client_ca", alpn=alpn), self.files, name)

    async def _expire(self) -> None:
        now = asyncio.get_running_loop().time
        while True:
            due = now() + _EXPIRE_EVERY_S
            await asyncio.sleep(_EXPIRE_EVERY_S)
            self.metrics.loop_delay_s.add(max(0.0, now() - due))
            CLOCK.align(busy=any(agent.relay.book.open_turns for agent in self._agents))
            for agent in self._agents:
                agent.relay.expire(CLOCK.now())
