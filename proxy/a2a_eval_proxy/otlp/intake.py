"""Processes an OTLP request of either transport: receives, decodes and forwards it, hands it to the sink, answers."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import Counter
from collections.abc import AsyncIterable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
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

from .decoding import BodyError, BusyError, PayloadTooLargeError, SinkError, TooSlowError, decode_request
from .forwarding import OtlpForwarder
from .trace_service import Tracing

logger = logging.getLogger(__name__)

_INLINE_BYTES = 64 * 1024
"""Bodies up to this size are decoded on the event loop, which costs less than using a thread."""

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
    rejected: str
    """The field of a partial success that says how many records were rejected."""

    def answer(self, rejected: int) -> Any:
        """Returns the response: empty, or a partial success."""
        response = self.response()
        if rejected:
            setattr(response.partial_success, self.rejected, rejected)
            response.partial_success.error_message = _NAMELESS
        return response


_COLLECTOR = "opentelemetry.proto.collector"

TRACES = Signal(
    "/v1/traces",
    f"{_COLLECTOR}.trace.v1.TraceService",
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
    "rejected_spans",
)
LOGS = Signal(
    "/v1/logs",
    f"{_COLLECTOR}.logs.v1.LogsService",
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
    "rejected_log_records",
)
METRICS = Signal(
    "/v1/metrics",
    f"{_COLLECTOR}.metrics.v1.MetricsService",
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
    "rejected_data_points",
)
SIGNALS = (TRACES, LOGS, METRICS)

Hold = Callable[[int], None]
"""Counts bytes of a request until it is answered. Raises BusyError where all requests take too many."""


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
        self._held_bytes = 0
        self._counting = threading.Lock()
        self._large = asyncio.Semaphore(1)
        self._reported: set[str] = set()

    @contextmanager
    def arriving(self, signal: Signal) -> Iterator[Hold]:
        """The memory of a request until the end of the block.

        What is refused in the block, and is not to come again, is told to the sink as lost.
        """
        held = 0

        def hold(size: int) -> None:
            nonlocal held
            with self._counting:  # what is decompressed counts in a thread
                held += size
                self._held_bytes += size
            if self._held_bytes > _BODIES * self.max_bytes:
                raise BusyError("too much telemetry arrives at once")

        try:
            yield hold
        except BodyError as error:
            if signal is not METRICS and not isinstance(error, BusyError):
                self._sink.lost(f"an export was refused: {error}")
            raise
        finally:
            with self._counting:
                self._held_bytes -= held

    async def read(self, parts: AsyncIterable[bytes], hold: Hold) -> bytes:
        """The whole body. Raises BodyError."""
        body = bytearray()
        try:
            async with asyncio.timeout(self._body_timeout_s):
                async for part in parts:
                    hold(len(part))
                    body += part
                    if len(body) > self.max_bytes:
                        raise self.too_large()
        except TimeoutError:
            raise TooSlowError(f"the body did not arrive within {self._body_timeout_s:g} s") from None
        return bytes(body)

    def too_large(self) -> PayloadTooLargeError:
        """For a body whose sender exceeds `max_bytes`."""
        return PayloadTooLargeError(f"the body exceeds {self.max_bytes} bytes; export smaller batches")

    async def take(self, signal: Signal, body: bytes, content_type: str, content_encoding: str, hold: Hold) -> Any:
        """Returns the response: empty, or a partial success if the sink rejected some records.

        Raises BodyError before any processing, and SinkError after forwarding.
        """
        decode = partial(
            decode_request,
            body,
            signal.request,
            content_type=content_type,
            content_encoding=content_encoding,
            max_bytes=self.max_bytes,
            hold=hold,
        )
        if len(body) <= _INLINE_BYTES and not content_encoding:  # a compressed body may have any size
            return await self._use(signal, body, content_type, content_encoding, *decode())
        async with self._large:  # one at a time, since decoded it takes more memory
            decoded = await asyncio.to_thread(decode)
            return await self._use(signal, body, content_type, content_encoding, *decoded)

    async def _use(
        self, signal: Signal, body: bytes, content_type: str, content_encoding: str, request: Any, size_bytes: int
    ) -> Any:
        """Forward a request and hand it to the sink; the response."""
        if self._forward is not None:
            self._forward.offer(signal.path, content_type, content_encoding, body)
        rejected = 0
        if signal is not METRICS:
            try:
                rejected = await self._sink.take(request, size_bytes)
            except Exception as error:
                problem = f"{type(error).__name__} in {signal.path}"
                if problem not in self._reported:
                    self._reported.add(problem)
                    logger.exception(
                        "taking a request at %s failed; the next failures of this kind are not logged", signal.path
                    )
                raise SinkError("the request could not be processed; see the log of a2a-eval-proxy") from error
        if rejected:
            self._sink.lost(_NAMELESS)
        return signal.answer(rejected)
