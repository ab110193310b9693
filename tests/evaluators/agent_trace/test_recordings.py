"""The recorded spans of every instrumentation, read without the proxy and with it: the same calls."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from typing import Any

from a2a_eval_proxy.traces.merge import merge_traces
from a2a_eval_proxy.traces.trace_records import Evidence
from a2a_eval_proxy.turn import Turn
from a2a_tool_capture.models import ToolCall
from a2a_tool_capture.spans.model import LogEvent, Span
from golden.spans.fixtures import fixtures
from opentelemetry._logs import LogRecord
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode
from tool_call_evaluators import AgentTrace

NOWHERE = Resource({})


def context(trace_id: str, span_id: str) -> SpanContext | None:
    return SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=False) if span_id else None


def sdk_span(span: Span) -> ReadableSpan:
    """The span as the SDK of the process that made it had it."""
    return ReadableSpan(
        name=span.name,
        context=context(span.trace_id, span.span_id),
        parent=context(span.trace_id, span.parent_span_id),
        resource=NOWHERE,
        attributes={key: as_tuples(value) for key, value in span.attributes.items()},
        events=[Event(event.name, event.attributes, event.time_ns) for event in span.events],
        kind=SpanKind(span.kind - 1),
        status=Status(StatusCode(span.status_code), span.status_message or None)
        if span.status_code == 2
        else Status(StatusCode(span.status_code)),
        start_time=span.start_ns,
        end_time=span.end_ns,
        instrumentation_scope=InstrumentationScope(span.scope),
    )


def as_tuples(value: Any) -> Any:
    """Lists as the SDK keeps them."""
    return tuple(map(as_tuples, value)) if isinstance(value, list) else value


def sdk_log(log: LogEvent) -> ReadableLogRecord:
    record = LogRecord(
        timestamp=log.time_ns,
        trace_id=int(log.trace_id, 16),
        span_id=int(log.span_id or "0", 16),
        body=log.body,
        attributes=dict(log.attributes),
        event_name=log.name,
    )
    return ReadableLogRecord(record, NOWHERE, InstrumentationScope(log.scope))


def in_json(record: ReadableSpan | ReadableLogRecord) -> dict[str, Any]:
    """What the SDK's console exporters write, with the scope, which they leave out."""
    scope = record.instrumentation_scope
    return {**json.loads(record.to_json()), "scope": {"name": scope.name if scope else ""}}


def read(spans: list[Any], logs: list[Any]) -> list[ToolCall]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some recordings show no call
        return list(AgentTrace.from_spans(spans, logs=logs).tool_calls)


def test_a_recording_shows_the_same_calls_at_both_doors() -> None:
    recordings = fixtures()
    assert len(recordings) == 73
    for recording in recordings:
        turn = merge_traces(Turn("t", "run", "agent", "JSONRPC", "1.0", 0.0), Evidence(recording.spans, recording.logs))
        spans, logs = list(map(sdk_span, recording.spans)), list(map(sdk_log, recording.logs))
        assert read(spans, logs) == turn.tool_calls, recording.name
        in_text = read(list(map(in_json, spans)), list(map(in_json, logs)))
        assert list(map(timeless, in_text)) == list(map(timeless, turn.tool_calls)), recording.name


def timeless(call: ToolCall) -> ToolCall:
    return replace(call, started_at=None, ended_at=None)  # JSON has rounded them
