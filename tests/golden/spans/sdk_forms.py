"""Spans and log events as the SDK of the process that made them had them, and in its JSON."""

from __future__ import annotations

import json
from typing import Any

from a2a_tool_capture.spans.model import LogEvent, Span
from opentelemetry._logs import LogRecord
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode

_NOWHERE = Resource({})


def _context(trace_id: str, span_id: str) -> SpanContext | None:
    return SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=False) if span_id else None


def sdk_span(span: Span) -> ReadableSpan:
    return ReadableSpan(
        name=span.name,
        context=_context(span.trace_id, span.span_id),
        parent=_context(span.trace_id, span.parent_span_id),
        resource=_NOWHERE,
        attributes={key: _as_tuples(value) for key, value in span.attributes.items()},
        events=[Event(event.name, event.attributes, event.time_ns) for event in span.events],
        kind=SpanKind(span.kind - 1),
        status=Status(StatusCode(span.status_code), span.status_message or None)
        if span.status_code == 2
        else Status(StatusCode(span.status_code)),
        start_time=span.start_ns,
        end_time=span.end_ns,
        instrumentation_scope=InstrumentationScope(span.scope),
    )


def _as_tuples(value: Any) -> Any:
    """Lists as the SDK keeps them."""
    return tuple(map(_as_tuples, value)) if isinstance(value, list) else value


def sdk_log(log: LogEvent) -> ReadableLogRecord:
    record = LogRecord(
        timestamp=log.time_ns,
        trace_id=int(log.trace_id, 16),
        span_id=int(log.span_id or "0", 16),
        body=log.body,
        attributes=dict(log.attributes),
        event_name=log.name,
    )
    return ReadableLogRecord(record, _NOWHERE, InstrumentationScope(log.scope))


def in_json(record: ReadableSpan | ReadableLogRecord) -> dict[str, Any]:
    """What the SDK's console exporters write, with the scope, which they leave out."""
    scope = record.instrumentation_scope
    return {**json.loads(record.to_json()), "scope": {"name": scope.name if scope else ""}}
