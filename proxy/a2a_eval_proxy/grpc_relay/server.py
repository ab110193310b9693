"""The gRPC port: takes calls of every method and passes them to the agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from h2.errors import ErrorCodes

from ..net.client_limits import ClientLimits
from ..net.grpc_wire import GrpcStatus, ending, only_trailers
from ..net.http2_server import Ends, StreamHandler
from ..net.http2_streams import Fields, Headers, Http2Stream, size_of
from ..relay.client_request import RelayContext
from .agent import GrpcAgent
from .relayed_call import RelayedCall

if TYPE_CHECKING:
    from ..telemetry.requests import RequestTelemetry


class GrpcPort(StreamHandler):
    """What answers the calls of clients."""

    def __init__(
        self, relay: RelayContext, agent: GrpcAgent, requests: RequestTelemetry | None, limits: ClientLimits
    ) -> None:
        self.agent = agent
        self.limits = limits
        self._relay = relay
        self._telemetry = requests

    async def answer(self, stream: Http2Stream, head: Headers, ends: Ends) -> None:
        pseudo = dict(head.fields)
        if not (pseudo.get(b":path") and pseudo.get(b":method")):
            stream.reset(ErrorCodes.PROTOCOL_ERROR)
            return
        most = self.limits.max_header_bytes
        if size_of(head.fields) > most:
            self.limits.broken("header_too_large")
            stream.send_headers(self.refusal(head, f"the header exceeds {most} bytes (limits.header_bytes)"), end=True)
            return
        client: tuple[str, int] = ends["client"] or ("", 0)
        await RelayedCall(self._relay, self.agent, stream, head, client, self._telemetry).run(head)

    def refusal(self, head: Headers, message: str) -> Fields:
        return only_trailers(ending(GrpcStatus.RESOURCE_EXHAUSTED, message))
