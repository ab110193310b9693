"""A server and a client span for each relayed request and gRPC call, in the client's trace (semantic conventions)."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any
from urllib.parse import urlsplit

from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer, format_span_id, format_trace_id, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from ..protocol.headers import ClientRequestHeaders
from .problem_log import never_raises

Scope = MutableMapping[str, Any]

Attributes = dict[str, str | int]

_PROPAGATOR = TraceContextTextMapPropagator()
_METHODS = frozenset({"CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "QUERY", "TRACE"})
_SERVER_ERRORS = frozenset({"UNKNOWN", "DEADLINE_EXCEEDED", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"})
"""Of the server span; on the client span every status but OK is one."""


class SpanPair:
    """A server and a client span."""

    def __init__(
        self,
        source: RequestTelemetry,
        name: str,
        head: ClientRequestHeaders,
        server: Attributes,
        client: Attributes,
    ) -> None:
        """Begin spans with these attributes."""
        parent = _PROPAGATOR.extract({"traceparent": head.traceparent} if head.trace_context else {}, Context())
        self._server = source.tracer.start_span(name, parent, SpanKind.SERVER, server)
        self._client = source.tracer.start_span(
            name, set_span_in_context(self._server, Context()), SpanKind.CLIENT, client
        )
        span = self._client.get_span_context()
        ids = f"{format_trace_id(span.trace_id)}-{format_span_id(span.span_id)}"
        self.traceparent = f"00-{ids}-{span.trace_flags:02x}" if span.trace_flags.sampled else ""
        """What the agent gets as `traceparent`; "" where the spans are not sampled."""


class RequestTelemetry:
    """Begins the spans of each request and each gRPC call to the agent at one URL."""

    def __init__(self, tracer: Tracer, upstream: str) -> None:
        self.tracer = tracer
        parts = urlsplit(upstream)
        self._upstream = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
        self._upstream_server: Attributes = {
            "server.address": parts.hostname or "",
            "server.port": parts.port or (443 if parts.scheme == "https" else 80),
        }

    @never_raises
    def begin(self, scope: Scope, head: ClientRequestHeaders) -> RequestSpans:
        """The spans of a request that begins; None where they could not be created.

        Where they are sampled, the agent gets the client span as the parent. Where not, what the client sent: the
        agent's spans are evidence, so whether it records them is not for our sampler to say.
        """
        method, name = (scope["method"],) * 2 if scope["method"] in _METHODS else ("_OTHER", "HTTP")
        path = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1")
        common: Attributes = {"http.request.method": method}
        if method == "_OTHER":
            common["http.request.method_original"] = scope["method"]
        server = {
            **common,
            "url.scheme": scope["scheme"],
            "url.path": scope["root_path"] + path,
            "network.protocol.version": scope["http_version"],
            **_reached_at(head.host),
            **_client(scope),
        }
        client = {**common, "url.full": self._upstream + path, **self._upstream_server}
        return RequestSpans(self, name, head, server, client)

    @never_raises
    def begin_call(self, path: str, head: ClientRequestHeaders, client: tuple[str, int], *, known: bool) -> CallSpans:
        """The same of a call of `/SERVICE/METHOD`. `client`: address and port. `known`: whether A2A has the method."""
        method = path.removeprefix("/")
        common: Attributes = {"rpc.system.name": "grpc", "rpc.method": method if known else "_OTHER"}
        if not known:
            common["rpc.method_original"] = method
        server: Attributes = {**common, "client.address": client[0], "client.port": client[1]}
        return CallSpans(self, method if known else "grpc", head, server, common)


class RequestSpans(SpanPair):
    @never_raises
    def end(self, status: int | None, agent_status: int | None, error: str) -> None:
        """End the spans. `status`: the client's (None: it got nothing). `agent_status`: the agent's, if it answered.
        `error`: one of few words, as `error.type` wants them, "" where the response is complete."""
        if agent_status is not None or error:  # otherwise the agent was never asked
            _finish(self._client, agent_status, error, first_error_status=400)
        _finish(self._server, status, error, first_error_status=500)


def _finish(span: Span, status: int | None, error: str, *, first_error_status: int) -> None:
    if status is not None and status >= first_error_status:
        error = error or str(status)
    finish(span, {} if status is None else {"http.response.status_code": status}, error)


# ── gRPC ────────────────────────────────────────────────────────────────────────────────────────────────────


class CallSpans(SpanPair):
    def sent_to(self, agent: str) -> None:
        """The call goes to HOST:PORT of the agent."""
        host, _, port = agent.rpartition(":")
        self._client.set_attributes({"server.address": host.strip("[]"), "server.port": int(port)})

    @never_raises
    def end(self, status: str | None, agent_status: str | None) -> None:
        """End the spans. `status`: the name of the client's (None: it left). `agent_status`: of the agent's, if any."""
        _finish_call(self._client, agent_status or status, agent_status not in ("OK", None))
        _finish_call(self._server, status, status in _SERVER_ERRORS)


def _finish_call(span: Span, status: str | None, is_error: bool) -> None:
    if status is None:
        finish(span, {}, "client_gone")
    else:
        finish(span, {"rpc.response.status_code": status}, status if is_error else "")


# ── both ────────────────────────────────────────────────────────────────────────────────────────────────────


def finish(span: Span, attributes: Attributes, error: str) -> None:
    """End a span, with the attributes that say how. `error` is its `error.type`, "" for none."""
    if error:
        attributes["error.type"] = error
        span.set_status(StatusCode.ERROR)
    span.set_attributes(attributes)
    span.end()


def _reached_at(host: str) -> Attributes:
    try:
        parts = urlsplit(f"//{host}")
        name, port = parts.hostname, parts.port
    except ValueError:  # the client may write there what it likes
        return {}
    attributes: Attributes = {"server.address": name} if name else {}
    return {**attributes, "server.port": port} if name and port else attributes


def _client(scope: Scope) -> Attributes:
    peer = scope.get("client")
    return {"client.address": peer[0], "client.port": peer[1]} if peer else {}
