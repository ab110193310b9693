"""A real OTLP receiver in the event loop of a test, and what it received."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from a2a_eval_proxy.otlp.forwarding import OtlpForwarder
from a2a_eval_proxy.otlp.http_receiver import HttpReceiver
from a2a_eval_proxy.otlp.intake import Intake
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from support import net_server

PROTOBUF, JSON = "application/x-protobuf", "application/json"


class CollectingSink:
    """Keeps what it is given; rejects or fails where the test says so."""

    def __init__(self) -> None:
        self.trace_requests: list[ExportTraceServiceRequest] = []
        self.log_requests: list[ExportLogsServiceRequest] = []
        self.sizes: list[int] = []
        self.losses: list[str] = []
        self.rejects = 0
        self.fail: Callable[[], object] = lambda: None

    async def take(self, request: ExportTraceServiceRequest | ExportLogsServiceRequest, size_bytes: int) -> int:
        if isinstance(request, ExportTraceServiceRequest):
            self.trace_requests.append(request)
        else:
            self.log_requests.append(request)
        self.sizes.append(size_bytes)
        self.fail()
        return self.rejects

    def lost(self, reason: str) -> None:
        self.losses.append(reason)

    @property
    def spans(self) -> list[Span]:
        return [
            span
            for request in self.trace_requests
            for resource_spans in request.resource_spans
            for scope_spans in resource_spans.scope_spans
            for span in scope_spans.spans
        ]


def export_request(names: list[str]) -> ExportTraceServiceRequest:
    """A valid request with a span of each name."""
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    for number, name in enumerate(names, 1):
        span = spans.add(trace_id=bytes(15) + b"\x01", span_id=number.to_bytes(8, "big"), name=name)
        span.start_time_unix_nano, span.end_time_unix_nano = 1_795_000_000_000_000_000, 1_795_000_000_000_000_001
        span.attributes.add(key="gen_ai.tool.name").value.string_value = name
    return request


@asynccontextmanager
async def receiver(
    sink: Any,
    *,
    address: str = "127.0.0.1:0",
    max_bytes: int = 1024 * 1024,
    forward: OtlpForwarder | None = None,
    body_timeout_s: float = 30.0,
) -> AsyncIterator[str]:
    """The receiver behind the URL it yields."""
    app = HttpReceiver(Intake(sink, max_bytes=max_bytes, forward=forward, body_timeout_s=body_timeout_s))
    async with serving(app, address) as url:
        yield url


@asynccontextmanager
async def serving(app: Any, address: str = "127.0.0.1:0") -> AsyncIterator[str]:
    async with net_server.serving(app, address) as server:
        yield server.url
