"""Processes an OTLP request of either transport: decodes and forwards it, hands it to the trace service, answers."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from opentelemetry.proto.collector.logs.v1 import logs_service_pb2
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2

from .decoding import decode_request
from .forwarding import OtlpForwarder
from .size_limits import BodyError, BusyError, PayloadTooLargeError
from .spans import Rejected
from .trace_service import Tracing

logger = logging.getLogger(__name__)

_INLINE_BYTES = 64 * 1024  # bodies up to this size are decoded on the event loop, which costs less than using a thread
_UNDECODED_BODIES = 4
"""Maximum number of bodies of the largest size in memory; further requests are refused for the time being."""


class Signal:
    """One of the three kinds of telemetry that OTLP carries, as its module of opentelemetry-proto declares it."""

    def __init__(self, path: str, module: Any) -> None:
        (service,) = module.DESCRIPTOR.services_by_name.values()
        (export,) = service.methods
        self.path = path  # of OTLP/HTTP
        self.service: str = service.full_name  # of OTLP/gRPC; its method is Export
        self.request: type[Any] = getattr(module, export.input_type.name)
        self.response: type[Any] = getattr(module, export.output_type.name)

    def answer(self, rejected: Rejected | None) -> Any:
        """Returns the response: empty, or a partial success."""
        response = self.response()
        if rejected is not None:
            partial = response.partial_success
            setattr(partial, partial.DESCRIPTOR.fields_by_number[1].name, rejected.count)  # `rejected_spans` and so on
            partial.error_message = rejected.reason
        return response


TRACES = Signal("/v1/traces", trace_service_pb2)
LOGS = Signal("/v1/logs", logs_service_pb2)
METRICS = Signal("/v1/metrics", metrics_service_pb2)
SIGNALS = (TRACES, LOGS, METRICS)


class SinkError(Exception):
    """The sink failed; the sender gets an error, and the log has the reason."""


class Intake:
    """Processes requests of all transports on one event loop. Metrics are decoded and forwarded only.

    Accepted requests go to `forward` unchanged and to `sink` decoded. `max_bytes` limits a body, as sent and
    decompressed. `counts` counts requests by transport ("http", "grpc") and outcome ("accepted", "rejected").
    """

    def __init__(
        self,
        sink: Tracing,
        *,
        max_bytes: int,
        forward: OtlpForwarder | None = None,
        counts: Counter[tuple[str, str]] | None = None,
    ) -> None:
        self._sink = sink
        self.max_bytes = max_bytes
        self._forward = forward
        self.counts = Counter() if counts is None else counts
        self._arriving_bytes = 0
        self._decoding = asyncio.Semaphore(1)
        self._reported: set[str] = set()

    @contextmanager
    def arriving(self, signal: Signal) -> Iterator[Callable[[int], None]]:
        """The memory of a body until the end of the block; the function in it takes the size of each part that arrives.

        That function raises BusyError where the bodies of all requests take too much. What is refused in the block for
        another reason is not sent again: the sink is told that it is lost.
        """
        held = 0

        def hold(size: int) -> None:
            nonlocal held
            held += size
            self._arriving_bytes += size
            if self._arriving_bytes > _UNDECODED_BODIES * self.max_bytes:
                raise BusyError("too much telemetry arrives at once")

        try:
            yield hold
        except (BodyError, SinkError) as error:
            if signal is not METRICS and not isinstance(error, BusyError):
                self._sink.lost(f"an export was refused: {error}")
            raise
        finally:
            self._arriving_bytes -= held

    def too_large(self) -> PayloadTooLargeError:
        """For a body whose sender exceeds `max_bytes`."""
        return PayloadTooLargeError(f"the body exceeds {self.max_bytes} bytes; export smaller batches")

    async def take(self, signal: Signal, body: bytes, content_type: str, content_encoding: str) -> Any:
        """Returns the response: empty, or a partial success if the sink rejected some records.

        Raises BodyError before any processing, and SinkError after forwarding.
        """
        if self._sink.busy:
            raise BusyError("too much telemetry arrives at once")
        request, size_bytes, rejected = await self._decoded(signal, body, content_type, content_encoding)
        if self._forward is not None:
            self._forward.offer(signal.path, content_type, content_encoding, body)
        if signal is not METRICS:
            self._sink_request(signal, request, size_bytes)
        if rejected is not None:
            self._sink.lost(rejected.reason)
        return signal.answer(rejected)

    async def _decoded(
        self, signal: Signal, body: bytes, content_type: str, content_encoding: str
    ) -> tuple[Any, int, Rejected | None]:
        def decode() -> tuple[Any, int, Rejected | None]:
            request, size_bytes = decode_request(
                body,
                signal.request,
                content_type=content_type,
                content_encoding=content_encoding,
                max_bytes=self.max_bytes,
            )
            return request, size_bytes, self._sink.rejected(request)

        if len(body) <= _INLINE_BYTES and not content_encoding:  # a compressed body may have any size
            return decode()
        async with self._decoding:  # one at a time, so that memory is bounded too
            return await asyncio.to_thread(decode)

    def _sink_request(self, signal: Signal, request: Any, size_bytes: int) -> None:
        try:
            self._sink.take(request, size_bytes)
        except Exception as error:
            problem = f"{type(error).__name__} in {signal.path}"
            if problem not in self._reported:
                self._reported.add(problem)
                logger.exception(
                    "taking a request at %s failed; the next failures of this kind are not logged", signal.path
                )
            raise SinkError("the request could not be processed; see the log of a2a-eval-proxy") from error
