"""Our telemetry where it is wanted: providers of its own, exported over OTLP, closed within bounds."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Sequence

from a2a_tool_capture import __version__
from opentelemetry._logs import LoggerProvider, NoOpLoggerProvider
from opentelemetry.metrics import CallbackOptions, MeterProvider, NoOpMeterProvider, Observation
from opentelemetry.sdk._logs import LoggerProvider as SdkLoggerProvider
from opentelemetry.sdk.metrics import MeterProvider as SdkMeterProvider
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace import TracerProvider as SdkTracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import NoOpTracerProvider, TracerProvider

from ..threads import in_daemon_thread
from .common import SCOPE, report
from .evaluations import EvaluationTelemetry
from .instruments import Instrument, Source
from .requests import RequestTelemetry

logger = logging.getLogger(__name__)

_CLOSE_S = 5.0
_UNKNOWN_SERVICE = "unknown_service"
"""How the SDK begins the name of a service that has none."""
_ATTRIBUTES = {"evaluator": "gen_ai.evaluation.name"}
"""Names of labels that the semantic conventions name otherwise."""


class Telemetry:
    """Traces, metrics and events of this proxy. The providers are its own: none becomes the process's.

    Exporters, samplers and limits are set up by the SDK from its `OTEL_*` variables. They work in threads, from
    bounded queues.
    """

    def __init__(self, signals: Collection[str], upstream: str, redact: Callable[[str], str] | None) -> None:
        resource = _resource()
        meters = _meters(resource) if "metrics" in signals else NoOpMeterProvider()
        tracers = _tracers(resource, meters, redact) if "traces" in signals else NoOpTracerProvider()
        loggers = _loggers(resource, meters) if "logs" in signals else NoOpLoggerProvider()
        sdk = SdkMeterProvider, SdkTracerProvider, SdkLoggerProvider
        self._shutdowns = [one.shutdown for one in (meters, tracers, loggers) if isinstance(one, sdk)]
        self._meter = meters.get_meter(SCOPE, __version__)
        self.requests = RequestTelemetry(tracers.get_tracer(SCOPE, __version__), self._meter, upstream)
        self.evaluations = EvaluationTelemetry(loggers.get_logger(SCOPE, __version__), self._meter)

    def observe(self, *sources: Source) -> None:
        """Report the instruments that have a unit as observable ones.

        They are read in the exporter's thread, so that counting costs what it did before.
        """
        for source in sources:
            for instrument in source.instruments:
                if instrument.unit:
                    gauge, counter = (
                        self._meter.create_observable_up_down_counter,
                        self._meter.create_observable_counter,
                    )
                    create: Callable[..., object] = gauge if instrument.is_gauge else counter
                    name = f"a2a_eval_proxy.{instrument.name}"
                    create(name, [_callback(instrument, source.read)], instrument.unit, instrument.text)

    async def close(self) -> None:
        """Export what is left, for `_CLOSE_S` seconds at most; what is not out by then is lost."""
        try:
            async with asyncio.timeout(_CLOSE_S):
                await asyncio.gather(*(_done(shutdown) for shutdown in self._shutdowns))
        except TimeoutError:
            logger.warning("telemetry was not exported to its end within %g s; the rest is lost", _CLOSE_S)


def _tracers(resource: Resource, meters: MeterProvider, redact: Callable[[str], str] | None) -> TracerProvider:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    provider = SdkTracerProvider(resource=resource, shutdown_on_exit=False, meter_provider=meters)
    exporter: SpanExporter = OTLPSpanExporter()
    if redact is not None:
        exporter = RedactingSpanExporter(exporter, redact)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


def _meters(resource: Resource) -> MeterProvider:
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

    reader = PeriodicExportingMetricReader(OTLPMetricExporter())
    return SdkMeterProvider([reader], resource=resource, shutdown_on_exit=False)


def _loggers(resource: Resource, meters: MeterProvider) -> LoggerProvider:
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
    from opentelemetry.sdk._logs.export import BatchLogRecordProcessor

    provider = SdkLoggerProvider(resource=resource, shutdown_on_exit=False, meter_provider=meters)
    provider.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter()))
    return provider


def _resource() -> Resource:
    """What `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` say, and our name where they give none."""
    resource = Resource.create()
    ours = {SERVICE_VERSION: __version__}
    if str(resource.attributes.get(SERVICE_NAME, _UNKNOWN_SERVICE)).startswith(_UNKNOWN_SERVICE):
        resource = resource.merge(Resource({SERVICE_NAME: "a2a-eval-proxy"}))
    return Resource(ours).merge(resource)


async def _done(shutdown: Callable[[], None]) -> None:
    """Shut a provider down, in a thread for which the end of the process does not wait."""
    try:
        await in_daemon_thread(shutdown, "telemetry-close")
    except Exception as error:  # noqa: BLE001  # error boundary
        report(error)


def _callback(instrument: Instrument, read: Callable[[], object]) -> Callable[[CallbackOptions], Iterable[Observation]]:
    names = [_ATTRIBUTES.get(label, label) for label in instrument.labels]

    def observations(_: CallbackOptions) -> list[Observation]:
        series = instrument.series(instrument.reading(read()))
        return [Observation(number, dict(zip(names, labels, strict=True))) for labels, number in series]

    return observations


class RedactingSpanExporter(SpanExporter):
    """Exports spans with `redact` applied to every text among their attributes, in the exporter's thread.

    Paths hold ids that clients chose, and addresses are personal data.
    """

    def __init__(self, exporter: SpanExporter, redact: Callable[[str], str]) -> None:
        self._exporter = exporter
        self._redact = redact

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return self._exporter.export([self._redacted(span) for span in spans])

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._exporter.force_flush(timeout_millis)

    def _redacted(self, span: ReadableSpan) -> ReadableSpan:
        given = (span.attributes or {}).items()
        attributes = {key: self._redact(value) if isinstance(value, str) else value for key, value in given}
        return ReadableSpan(
            span.name,
            span.context,
            span.parent,
            span.resource,
            attributes,
            kind=span.kind,
            status=span.status,
            start_time=span.start_time,
            end_time=span.end_time,
            instrumentation_scope=span.instrumentation_scope,
        )
