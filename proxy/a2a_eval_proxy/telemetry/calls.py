"""A server and a client span for each relayed gRPC call, in the client's trace (RPC semantic conventions)."""

from __future__ import annotations

from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, set_span_in_context

from ..protocol.headers import ClientRequestHeaders
from .common import report
from .requests import DURATIONS_S, Attributes, RequestTelemetry, SpanPair, finish, parent_of

_SERVER_ERRORS = frozenset({"UNKNOWN", "DEADLINE_EXCEEDED", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"})
"""Of the server span; on the client span every status but OK is one."""


class CallTelemetry:
    """Begins the spans of each call."""

    def __init__(self, requests: RequestTelemetry) -> None:
        """Spans and durations go where those of `requests` go."""
        self._tracer = requests.tracer
        self._durations = requests.meter.create_histogram(
            "rpc.server.call.duration",
            "s",
            "Duration of gRPC calls, streams to their end",
            explicit_bucket_boundaries_advisory=DURATIONS_S,
        )

    def begin(self, path: str, head: ClientRequestHeaders, client: tuple[str, int], *, known: bool) -> CallSpans | None:
        """The spans of a call of `/SERVICE/METHOD` that begins; None where they could not be created. Never raises.

        `client`: address and port. `known`: whether the method is one of A2A. As to the parent that the agent gets,
        see `RequestTelemetry.begin`.
        """
        try:
            return self._begin(path.removeprefix("/"), head, client, known)
        except Exception as error:  # noqa: BLE001  # error boundary
            report(error)
            return None

    def _begin(self, method: str, head: ClientRequestHeaders, client: tuple[str, int], known: bool) -> CallSpans:
        measured: Attributes = {"rpc.system.name": "grpc", "rpc.method": method if known else "_OTHER"}
        common = measured if known else {**measured, "rpc.method_original": method}
        name = method if known else "grpc"
        address, port = client
        attributes: Attributes = {**common, "client.address": address, "client.port": port}
        server = self._tracer.start_span(name, parent_of(head), SpanKind.SERVER, attributes)
        inside = set_span_in_context(server, Context())
        return CallSpans(
            server, self._tracer.start_span(name, inside, SpanKind.CLIENT, common), self._durations, measured
        )


class CallSpans(SpanPair):
    """The two spans of a call."""

    def sent_to(self, agent: str) -> None:
        """The call goes to HOST:PORT of the agent."""
        host, _, port = agent.rpartition(":")
        self._client.set_attributes({"server.address": host.strip("[]"), "server.port": int(port)})

    def end(self, status: str | None, agent_status: str | None) -> None:
        """End the spans. `status`: the name of the client's (None: it left). `agent_status`: of the agent's, if any."""
        try:
            _finish(self._client, agent_status or status, agent_status not in ("OK", None))
            self._record(_finish(self._server, status, status in _SERVER_ERRORS))
        except Exception as error:  # noqa: BLE001  # error boundary
            report(error)


def _finish(span: Span, status: str | None, is_error: bool) -> Attributes:
    if status is None:
        return finish(span, {}, "client_gone")
    return finish(span, {"rpc.response.status_code": status}, status if is_error else "")
