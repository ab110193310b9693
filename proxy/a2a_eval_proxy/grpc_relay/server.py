"""The gRPC port: takes calls of every method and passes them to the agent's gRPC address."""

from __future__ import annotations

import asyncio
import errno
from typing import Any

import grpc
import grpc.aio

from ..errors import ListenError
from ..relay.client_request import RelayContext
from .relayed_call import RelayedCall

_CHANNEL = (
    ("grpc.enable_retries", 0),  # the client's to do
    ("grpc.enable_http_proxy", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),  # an agent that is back is found at once
    ("grpc.max_reconnect_backoff_ms", 1_000),
)
_NO_ADDRESS = "the agent's card names no gRPC interface; point --upstream at one: grpc://HOST:PORT"


class GrpcPort:
    """Listens on `address` (HOST:PORT; port 0: any free one) and relays to the address in the agent's card, without
    TLS."""

    def __init__(self, relay: RelayContext, address: str, *, shared: bool = False) -> None:
        """`shared`: other processes of ours listen on the same address."""
        self._relay = relay
        self._address = address
        self._shared = shared
        self.port = 0
        """That of the listening socket, after `start`."""
        self._stopping: asyncio.Task[None] | None = None

    @property
    def address(self) -> str:
        """HOST:PORT of the listening socket, after `start`."""
        return f"{self._address.rpartition(':')[0]}:{self.port}"

    async def start(self) -> None:
        """Take calls, in the running event loop. Raises ListenError."""
        limit = self._relay.settings.max_body_bytes
        sizes = [("grpc.max_receive_message_length", limit), ("grpc.max_send_message_length", limit)]
        self._agent = AgentChannel([*sizes, *_CHANNEL])
        self._server = grpc.aio.server(
            options=[*sizes, ("grpc.so_reuseport", int(self._shared))],
            maximum_concurrent_rpcs=self._relay.settings.max_client_connections,
        )
        self._server.add_generic_rpc_handlers((_EveryMethod(self._relay, self._agent),))
        try:
            self.port = self._server.add_insecure_port(self._address)
        except RuntimeError as error:
            raise ListenError(
                errno.EADDRINUSE, f"cannot listen on {self._address}: {error}; choose another address with --grpc"
            ) from error
        await self._server.start()

    def retire(self) -> None:
        """Take no more calls; open ones have `shutdown_timeout` to finish."""
        if self._stopping is None:
            grace_s = self._relay.settings.shutdown_timeout
            self._stopping = asyncio.get_running_loop().create_task(self._server.stop(grace_s))

    async def stop(self) -> None:
        """`retire`, and wait until every call has ended."""
        self.retire()
        if self._stopping is not None:
            await self._stopping
        await self._agent.close()


class AgentChannel:
    """The channel to the agent's gRPC address; another one once the card names another address."""

    def __init__(self, options: list[tuple[str, int]]) -> None:
        self._options = options
        self._channels: dict[str, grpc.aio.Channel] = {}

    def to(self, target: str) -> grpc.aio.Channel:
        if target not in self._channels:
            self._channels[target] = grpc.aio.insecure_channel(target, self._options)
        return self._channels[target]

    async def close(self) -> None:
        await asyncio.gather(*(channel.close() for channel in self._channels.values()))


class _EveryMethod(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpcio has no types
    def __init__(self, relay: RelayContext, agent: AgentChannel) -> None:
        self._relay = relay
        self._agent = agent

    def service(self, handler_call_details: Any) -> Any:
        path = handler_call_details.method

        async def relayed(_: Any, context: Any) -> None:
            target = await self._target()
            if target is None:
                await context.abort(grpc.StatusCode.UNAVAILABLE, _NO_ADDRESS)
                return
            await RelayedCall(self._relay, self._agent.to(target), path, context).run()

        return grpc.stream_stream_rpc_method_handler(relayed)

    async def _target(self) -> str | None:
        """Where the agent takes gRPC, once its card is known."""
        negotiation, now = self._relay.negotiation, asyncio.get_running_loop().time()
        if negotiation.undecided(now):
            await negotiation.wait_first(now)
        elif negotiation.stale(now):
            negotiation.refresh(now)
        return negotiation.grpc_address
