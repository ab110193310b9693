"""The gRPC port: takes calls of every method and passes them to the agent's gRPC address."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import grpc

from ..net.client_limits import ClientLimits
from ..net.file_watcher import FileWatch
from ..net.grpc_server import GrpcServer
from ..net.ports import Ports
from ..relay.client_request import RelayContext
from ..settings import Settings
from ..telemetry.requests import CallTelemetry, RequestTelemetry
from .agent_channel import AgentChannel, sizes
from .call_record import CallRecord
from .held_messages import HeldMessages
from .relayed_call import RelayedCall
from .tls import server_credentials

_NO_ADDRESS = "the agent's card names no gRPC interface; point --upstream at one: grpc://HOST:PORT"


class GrpcPort(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpcio has no types
    """Listens on `settings.grpc`, and relays to `grpc_upstream` or else to the address in the agent's card."""

    def __init__(self, settings: Settings, files: FileWatch) -> None:
        """Reads the files of TLS. Raises ConfigError."""
        self._settings = settings
        self._credentials = server_credentials(settings, files)
        self._agent = AgentChannel(settings, files)

    async def open(
        self, ports: Ports, relay: RelayContext, requests: RequestTelemetry | None, *, shared: bool
    ) -> GrpcServer:
        """Take calls, in the running event loop. `shared`: see `bound`. Raises ListenError."""
        settings = self._settings
        self._relay = relay
        ports.stack.push_async_callback(self._agent.close)
        self._telemetry = None if requests is None else CallTelemetry(requests)
        limits = ClientLimits(send_timeout_s=settings.client_send_timeout, broken_limits=relay.metrics.client_errors)
        ports.stack.callback(limits.close)
        self._held = HeldMessages(relay.bodies, limits)
        server = partial(
            GrpcServer,
            settings.grpc or "",
            [self],
            grace_s=settings.shutdown_timeout,
            max_calls=settings.max_client_connections,
            options=sizes(settings),
            credentials=self._credentials,
            shared=shared,
        )
        return await ports.open(server, "--grpc")

    def service(self, handler_call_details: Any) -> Any:
        path = handler_call_details.method

        async def relayed(_: Any, context: Any) -> None:
            with CallRecord(self._relay.metrics, self._telemetry, path, context) as record:
                target = await self._target()
                if target is None:
                    await context.abort(grpc.StatusCode.UNAVAILABLE, _NO_ADDRESS)
                    return
                record.sent_to(target)
                await RelayedCall(self._relay, self._agent.to(target), path, context, record, self._held).run()

        return grpc.stream_stream_rpc_method_handler(relayed)

    async def _target(self) -> str | None:
        """Where the agent takes gRPC, once its card is known."""
        negotiation, now = self._relay.negotiation, asyncio.get_running_loop().time()
        if negotiation.undecided(now):
            await negotiation.wait_first(now)
        elif negotiation.stale(now):
            negotiation.refresh(now)
        return self._relay.settings.grpc_upstream or negotiation.grpc_address
