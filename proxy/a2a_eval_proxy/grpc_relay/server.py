"""The gRPC port: takes calls of every method and passes them to the agent's gRPC address."""

from __future__ import annotations

import asyncio
import errno
from typing import Any

import grpc
import grpc.aio

from ..errors import ListenError
from ..net.client_limits import ClientLimits
from ..net.file_watcher import FileWatch
from ..net.http_server import bound
from ..relay.client_request import RelayContext
from ..settings import Settings
from ..telemetry.calls import CallTelemetry
from ..telemetry.requests import RequestTelemetry
from .agent_channel import AgentChannel, sizes
from .call_record import CallRecord
from .held_messages import HeldMessages
from .relayed_call import RelayedCall
from .tls import server_credentials

_NO_ADDRESS = "the agent's card names no gRPC interface; point --upstream at one: grpc://HOST:PORT"


class GrpcPort:
    """Listens on `settings.grpc`, and relays to `grpc_upstream` or else to the address in the agent's card."""

    def __init__(self, settings: Settings, files: FileWatch) -> None:
        """Reads the files of TLS. Raises ConfigError."""
        self._settings = settings
        self._address = settings.grpc or ""
        self._credentials = server_credentials(settings, files)
        self._agent = AgentChannel(settings, files)
        self._stopping: asyncio.Task[None] | None = None
        self.port = 0
        """That of the listening socket, after `start`."""

    @property
    def address(self) -> str:
        """HOST:PORT of the listening socket, after `start`."""
        return f"{self._address.rpartition(':')[0]}:{self.port}"

    async def start(self, relay: RelayContext, requests: RequestTelemetry | None, *, shared: bool) -> None:
        """Take calls, in the running event loop. Raises ListenError.

        `shared`: other processes of ours listen on the same address.
        """
        self._server = grpc.aio.server(
            options=(*sizes(self._settings), ("grpc.so_reuseport", int(shared))),
            maximum_concurrent_rpcs=self._settings.max_client_connections,
        )
        telemetry = None if requests is None else CallTelemetry(requests)
        self._limits = ClientLimits(
            send_timeout_s=self._settings.client_send_timeout, broken_limits=relay.metrics.client_errors
        )
        held = HeldMessages(relay.bodies, self._limits)
        self._server.add_generic_rpc_handlers((_EveryMethod(relay, self._agent, telemetry, held),))
        try:
            bound(self._address, shared=shared).close()  # for a port in use, gRPC would log a line of its own
            self.port = (
                self._server.add_insecure_port(self._address)
                if self._credentials is None
                else self._server.add_secure_port(self._address, self._credentials)
            )
        except ListenError as error:
            raise ListenError(error.errno, f"{error}; choose another address with --grpc") from error
        except RuntimeError as error:
            raise ListenError(errno.EADDRINUSE, f"cannot listen on {self._address}: {error}") from error
        await self._server.start()

    def retire(self) -> None:
        """Take no more calls; open ones have `shutdown_timeout` to finish."""
        if self._stopping is None:
            grace_s = self._settings.shutdown_timeout
            self._stopping = asyncio.get_running_loop().create_task(self._server.stop(grace_s))

    async def stop(self) -> None:
        """`retire`, and wait until every call has ended."""
        self.retire()
        if self._stopping is not None:
            await self._stopping
        await self._agent.close()
        self._limits.close()


class _EveryMethod(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpcio has no types
    def __init__(
        self, relay: RelayContext, agent: AgentChannel, telemetry: CallTelemetry | None, held: HeldMessages
    ) -> None:
        self._relay = relay
        self._held = held
        self._agent = agent
        self._telemetry = telemetry

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
