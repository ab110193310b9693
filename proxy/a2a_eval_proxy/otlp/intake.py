"""Processes an OTLP request of either transport: receives, decodes and forwards it, hands it to the sink, answers."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterable, Callable
from functools import partial
from http import HTTPStatus
from typing import Any, NamedTuple

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from ..body_memory import SMALL_BYTES, BodyMemory, HeldBody
from ..errors import log_once
from .decoding import (
    TOO_MUCH,
    BodyError,
    decoding,
    read_request,
)
from .forwarding import OtlpForwarder
from .trace_service import Tracing

logger = logging.getLogger(__name__)

_NAMELESS = "spans need a trace id of 16 bytes and a span id of 8, neither all zeroes"

_BODIES = 4
"""Bodies of the largest size that may be in memory, as sent and as decompressed; further ones are to come again."""


class Signal(NamedTuple):
    """One of the three kinds of telemetry that OTLP carries."""

    path: str
    """Of OTLP/HTTP."""
    service: str
    """Of OTLP/gRPC; its method is Export."""
    request: type[Any]
    response: type[Any]

    def answer(self, rejected: int) -> Any:
        """Returns the response: empty, or a partial success, which only spans have."""
        response = self.response()
        if rejected:
            response.partial_success.rejected_spans = rejected
            response.partial_success.error_message = _NAMELESS
        return response


_COLLECTOR = "opentelemetry.proto.collector"

TRACES = Signal(
    "/v1/traces",
    f"{_COLLECTOR}.trace.v1.TraceService",
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
LOGS = Signal(
    "/v1/logs",
    f"{_COLLECTOR}.logs.v1.LogsService",
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)
METRICS = Signal(
    "/v1/metrics",
    f"{_COLLECTOR}.metrics.v1.MetricsService",
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
SIGNALS = (TRACES, LOGS, METRICS)


class Packed(NamedTuple):
    """A request as it came."""

    body: bytes
    content_type: str
    content_encoding: str


class Intake:
    """Processes requests of all transports on one event loop. Metrics are decoded and forwarded only.

    Accepted requests go to `forward` unchanged and to `sink` decoded. `max_bytes` limits a body, as sent and
    decompressed, `body_timeout_s` the time in which it has to arrive. `counts` counts requests by transport ("http",
    "grpc") and outcome ("accepted", "rejected").
    """

    def __init__(
        self,
        sink: Tracing,
        *,
        max_bytes: int,
        forward: OtlpForwarder | None = None,
        counts: Counter[tuple[str, str]] | None = None,
        body_timeout_s: float = 30.0,
    ) -> None:
        self._sink = sink
        self.max_bytes = max_bytes
        self._forward = forward
        self.counts = Counter() if counts is None else counts
        self._body_timeout_s = body_timeout_s
        self._bodies = BodyMemory(_BODIES * max_bytes)
        self._one_large = asyncio.Lock()

    async def answer(
        self, signal: Signal, parts: AsyncIterable[bytes], unpack: Callable[[bytes], Packed], size: int = 0
    ) -> Any:
        """The response to a request that arrives in `parts`: empty, or a partial success where the sink rejects some
        records. `unpack` is given the whole body. `size` is what its sender declares, if any.

        Raises BodyError: with 500 after forwarding, else before any processing. What is refused, and is not to
        come again, is told to the sink as lost.
        """
        held = HeldBody(self._bodies)
        try:
            if size > self.max_bytes:
                raise self.too_large()
            packed = unpack(await self._read(parts, held))
            content = await held.decoded(decoding(packed.body, packed.content_encoding, self.max_bytes))
            read = partial(read_request, content, signal.request, packed.content_type)
            if len(content) <= SMALL_BYTES:  # decoding it costs less than using a thread
                return await self._use(signal, packed, read(), len(content))
            async with self._one_large:  # decoded it takes more memory
                return await self._use(signal, packed, await asyncio.to_thread(read), len(content))
        except BodyError as error:
            if signal is not METRICS and error.status != HTTPStatus.SERVICE_UNAVAILABLE:
                self._sink.lost(f"an export was refused: {error}")
            raise
        finally:
            held.drop()

    def too_large(self) -> BodyError:
        """For a body whose sender exceeds `max_bytes`."""
        return BodyError(413, f"the body exceeds {self.max_bytes} bytes; export smaller batches")

    async def _read(self, parts: AsyncIterable[bytes], held: HeldBody) -> bytes:
        body = bytearray()
        try:
            async with asyncio.timeout(self._body_timeout_s):
                async for part in parts:
                    if not held.take(len(part)):
                        raise BodyError(503, TOO_MUCH)
                    body += part
                    if len(body) > self.max_bytes:
                        raise self.too_large()
        except TimeoutError:
            raise BodyError(408, f"the body did not arrive within {self._body_timeout_s:g} s") from None
        return bytes(body)

    async def _use(self, signal: Signal, packed: Packed, request: Any, size_bytes: int) -> Any:
        """Forward a request and hand it to the sink; the response."""
        if self._forward is not None:
            self._forward.offer(signal.path, packed.content_type, packed.content_encoding, packed.body)
        rejected = 0
        if signal is not METRICS:
            try:
                rejected = await self._sink.take(request, size_bytes)
            except Exception as error:  # the sender gets an error; one request ends no receiver
                log_once(logger, f"taking a request at {signal.path} failed; it is not logged again", error)
                raise BodyError(500, "the request could not be processed; see the log of a2a-eval-proxy") from error
        if rejected:
            self._sink.lost(_NAMELESS)
        return signal.answer(rejected)
