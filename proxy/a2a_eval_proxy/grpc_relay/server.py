"""The gRPC port: takes calls of every method and passes them to the agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from h2.errors import ErrorCodes

from ..net.client_limits import ClientLimits
from ..net.grpc_wire import GrpcStatus, ending, only_trailers
from ..net.http2_server import Ends
from ..net.http2_streams import Headers, Http2Stream, size_of
from ..relay.client_request import RelayContext
from .agent import GrpcAgent
from .relayed_call import RelayedCall

if TYPE_CHECKING:
    from ..telemetry.requests import RequestTelemetry


class GrpcPort:
    """What answers the calls of clients."""

    def __init__(
        self, relay: RelayContext, agent: GrpcAgent, requests: RequestTelemetry | None, limits: ClientLimits
    ) -> None:
        self._limits = limits
        self._agent = agent
        self._relay = relay
        self._telemetry = requests

    async def __call__(self, stream: Http2Stream, head: Headers, ends: Ends) -> None:
        pseudo, most = dict(head.fields), self._limits.max_header_bytes
        if not (pseudo.get(b":path") and pseudo.get(b":method")):
            stream.reset(ErrorCodes.PROTOCOL_ERROR)
        elif size_of(head.fields) > most:
            self._limits.broken("header_too_large")
            message = f"the header exceeds {most} bytes (limits.header_bytes)"
            stream.send_headers(only_trailers(ending(GrpcStatus.RESOURCE_EXHAUSTED, message)), end=True)
        else:
            client: tuple[str, int] = ends["client"] or ("", 0)
            await RelayedCall(self._relay, self._agent, stream, head, client, self._telemetry).run(head)
