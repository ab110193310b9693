"""Our telemetry where it is wanted: providers of its own, exported over OTLP, closed within bounds; and evaluation
results as `gen_ai.evaluation.result` events (semantic conventions for GenAI)."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from a2a_tool_capture import __version__
from opentelemetry._logs import Logger, LogRecord, NoOpLoggerProvider, SeverityNumber
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider as SdkLoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace import TracerProvider as SdkTracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult
from opentelemetry.trace import (
    NonRecordingSpan,
    NoOpTracerProvider,
    SpanContext,
    TraceFlags,
    set_span_in_context,
)

from ..store import ScoredConversation
from ..threads import in_daemon_thread
from ..turn import Turn
from .problem_log import SCOPE, never_raises, report
from .requests import RequestTelemetry
from .turn_listener import ScoredTurn, TurnListener

logger = logging.getLogger(__name__)

EVENT = "gen_ai.evaluation.result"

_LABELS = {"passed": "pass", "failed": "fail"}


class EvaluationTelemetry(TurnListener):
    """Reports scored turns: an event for each result."""

    def __init__(self, logger: Logger) -> None:
        self._logger = logger

    def scored(self, scored: Sequence[ScoredTurn]) -> None:
        """Report the results of turns. Never raises."""
        for turn, results, _ in scored:
            self._report_turn(turn, results)

    @never_raises
    def _report_turn(self, turn: Turn, results: Sequence[Mapping[str, Any]]) -> None:
        context = _context_of(turn)
        common = _given(turn.conversation_id, turn.run, turn.case_id, turn.turn_id)
        for result in results:
            self._report(result, common, context)

    @never_raises
    def conversation_scored(self, scored: ScoredConversation) -> None:
        """Report the results of a conversation as a whole, which are on no one turn's trace. Never raises."""
        key = scored.key
        common = _given(conversation_id=key.conversation_id, run=key.run, case_id=key.case_id)
        for result in scored.evaluations:
            self._report(result, common, Context())

    def _report(self, result: Mapping[str, Any], common: Mapping[str, str], context: Context) -> None:
        self._logger.emit(
            LogRecord(
                timestamp=time.time_ns(),
                context=context,
                severity_number=SeverityNumber.INFO,
                event_name=EVENT,
                attributes={**common, **result_attributes(result)},
            )
        )


def result_attributes(result: Mapping[str, Any]) -> dict[str, str | float]:
    """A result (JSON form) in the words of the convention. One without a score has no value."""
    attributes: dict[str, str | float] = {
        "gen_ai.evaluation.name": result["evaluator"],
        "a2a_eval_proxy.evaluation.status": result["status"],
    }
    if result["score"] is not None:
        attributes["gen_ai.evaluation.score.value"] = float(result["score"])
    if label := result["label"] or _LABELS.get(result["status"]):
        attributes["gen_ai.evaluation.score.label"] = label
    if result["reason"]:
        attributes["gen_ai.evaluation.explanation"] = result["reason"]
    if result["status"] == "errored":
        attributes["error.type"] = "evaluator_error"
    return attributes


def _given(conversation_id: str, run: str, case_id: str | None, turn_id: str = "") -> dict[str, str]:
    attributes = {
        "gen_ai.conversation.id": conversation_id,
        "a2a_eval_proxy.turn_id": turn_id,
        "a2a_eval_proxy.run": run,
        "a2a_eval_proxy.case_id": case_id or "",
    }
    return {key: value for key, value in attributes.items() if value}


def _context_of(turn: Turn) -> Context:
    """The span that the agent was given as its parent; of a turn from an earlier process only the trace is known."""
    span = SpanContext(
        int(turn.trace_id or "0", 16),
        int(turn.parent_span_id or "0", 16),
        is_remote=False,
        trace_flags=TraceFlags(TraceFlags.SAMPLED),
    )
    return set_span_in_context(NonRecordingSpan(span), Context())


CLOSE_S = 5.0


class Telemetry:
    """Traces and events of this proxy. The providers are its own: none becomes the process's.

    Exporters, samplers and limits are set up by the SDK from its `OTEL_*` variables. They work in threads, from
    bounded queues.
    """

    def __init__(self, signals: Collection[str], redact: Callable[[str], str] | None) -> None:
        resource = _resource()
        tracers = _tracers(resource, redact) if "traces" in signals else NoOpTracerProvider()
        loggers = _loggers(resource) if "logs" in signals else NoOpLoggerProvider()
        sdk = SdkTracerProvider, SdkLoggerProvider
        self._shutdowns = [one.shutdown for one in (tracers, loggers) if isinstance(one, sdk)]
        self._tracer = tracers.get_tracer(SCOPE, __version__)
        self.evaluations = EvaluationTelemetry(loggers.get_logger(SCOPE, __version__))

    def requests_to(self, upstream: str) -> RequestTelemetry:
        """That of requests to the agent at this URL."""
        return RequestTelemetry(self._tracer, upstream)

    async def close(self) -> None:
        """Export what is left, for `CLOSE_S` seconds at most; what is not out by then is lost."""
        try:
            async with asyncio.timeout(CLOSE_S):
                await asyncio.gather(*(_done(shutdown) for shutdown in self._shutdowns))
        except TimeoutError:
            logger.warning("telemetry was not exported to its end within %g s; the rest is lost", CLOSE_S)


def _tracers(resource: Resource, redact: Callable[[str], str] | None) -> SdkTracerProvider:
    provider = SdkTracerProvider(resource=resource, shutdown_on_exit=False)
    exporter = OTLPSpanExporter() if redact is None else RedactingSpanExporter(redact)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


def _loggers(resource: Resource) -> SdkLoggerProvider:
    provider = SdkLoggerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter()))
    return provider


def _resource() -> Resource:
    """What `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` say, and our name where they give none."""
    return Resource.create({SERVICE_NAME: "a2a-eval-proxy", SERVICE_VERSION: __version__}).merge(
        OTELResourceDetector().detect()
    )


async def _done(shutdown: Callable[[], None]) -> None:
    """Shut a provider down, in a thread for which the end of the process does not wait."""
    try:
        await in_daemon_thread(shutdown, "telemetry-close")
    except Exception as error:  # noqa: BLE001  # error boundary
        report(error)


class RedactingSpanExporter(OTLPSpanExporter):
    """Exports spans with `redact` applied to every text among their attributes, in the exporter's thread.

    Paths hold ids that clients chose, and addresses are personal data.
    """

    def __init__(self, redact: Callable[[str], str]) -> None:
        super().__init__()
        self._redact = redact

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return super().export([self._redacted(span) for span in spans])

    def _redacted_value(self, value: Any) -> Any:
        if isinstance(value, tuple | list):
            return [self._redacted_value(one) for one in value]
        return self._redact(value) if isinstance(value, str) else value

    def _redacted(self, span: ReadableSpan) -> ReadableSpan:
        given = (span.attributes or {}).items()
        attributes = {key: self._redacted_value(value) for key, value in given}
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
