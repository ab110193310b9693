"""Converts OTLP export requests to spans and log events; hostile input never raises."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from a2a_tool_capture.json_limits import ATTRIBUTE
from a2a_tool_capture.spans.model import Attributes, CutText, LogEvent, Span, SpanEvent, bounded
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan
from opentelemetry.proto.trace.v1.trace_pb2 import SpanFlags


class _TooDeepError(Exception):
    """The value is nested deeper than ATTRIBUTE."""


def attributes_from_proto(pairs: Iterable[KeyValue]) -> dict[str, Any]:
    """The attributes of a protobuf message; never raises. The last of two equal keys wins."""
    return {pair.key: value_from_proto(pair.value) for pair in pairs}


def value_from_proto(value: AnyValue) -> Any:
    """One protobuf value; never raises. One that is nested too deep is discarded."""
    try:
        return _read(value, 0)
    except _TooDeepError:
        return CutText("")


def _read(value: AnyValue, depth: int) -> Any:
    if depth > ATTRIBUTE:
        raise _TooDeepError
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    if kind == "array_value":
        return [_read(item, depth + 1) for item in value.array_value.values]
    if kind == "kvlist_value":
        return {pair.key: _read(pair.value, depth + 1) for pair in value.kvlist_value.values}
    content = getattr(value, kind)
    return bounded(content) if kind == "string_value" else content


TRACE_ID_BYTES, SPAN_ID_BYTES = 16, 8

_HAS_IS_REMOTE = SpanFlags.SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK
_IS_REMOTE = SpanFlags.SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK


def spans_from_proto(request: ExportTraceServiceRequest) -> list[Span]:
    """Returns the spans with valid ids of a protobuf export request, in order. Never raises."""
    spans: list[Span] = []
    for resource_spans in request.resource_spans:
        resource = attributes_from_proto(resource_spans.resource.attributes)
        for scope_spans in resource_spans.scope_spans:
            scope = scope_spans.scope.name
            spans += [
                _span_from_proto(record, scope, resource)
                for record in scope_spans.spans
                if _valid(record.trace_id, TRACE_ID_BYTES) and _valid(record.span_id, SPAN_ID_BYTES)
            ]
    return spans


def logs_from_proto(request: ExportLogsServiceRequest) -> list[LogEvent]:
    """Returns the records with a trace id and an event's name of a protobuf logs export request, in order.

    Never raises.
    """
    events: list[LogEvent] = []
    for resource_logs in request.resource_logs:
        for scope_logs in resource_logs.scope_logs:
            for record in scope_logs.log_records:
                attributes = attributes_from_proto(record.attributes)
                name = record.event_name or attributes.get("event.name")
                trace_id = _proto_id(record.trace_id, TRACE_ID_BYTES)
                if not trace_id or not name or not isinstance(name, str):
                    continue
                events.append(
                    LogEvent(
                        trace_id=trace_id,
                        span_id=_proto_id(record.span_id, SPAN_ID_BYTES),
                        name=name,
                        time_ns=record.time_unix_nano or record.observed_time_unix_nano,
                        scope=scope_logs.scope.name,
                        attributes=attributes,
                        body=value_from_proto(record.body),
                        dropped=record.dropped_attributes_count,
                    )
                )
    return events


def _span_from_proto(record: ProtoSpan, scope: str, resource: Attributes) -> Span:
    flags = record.flags
    return Span(
        trace_id=record.trace_id.hex(),
        span_id=record.span_id.hex(),
        parent_span_id=_proto_id(record.parent_span_id, SPAN_ID_BYTES),
        name=record.name,
        kind=record.kind,
        scope=scope,
        start_ns=record.start_time_unix_nano,
        end_ns=record.end_time_unix_nano,
        attributes=attributes_from_proto(record.attributes),
        events=tuple(
            SpanEvent(event.name, event.time_unix_nano, attributes_from_proto(event.attributes))
            for event in record.events
        ),
        status_code=record.status.code,
        status_message=record.status.message,
        parent_is_remote=bool(flags & _IS_REMOTE) if flags & _HAS_IS_REMOTE else None,
        resource=resource,
        trace_state=record.trace_state,
        dropped=record.dropped_attributes_count + record.dropped_events_count,
    )


def _proto_id(raw: bytes, size: int) -> str:
    return raw.hex() if _valid(raw, size) else ""


def _valid(raw: bytes, size: int) -> bool:
    """Returns False for an id that is absent, has the wrong size or is all zeroes (invalid in W3C Trace Context)."""
    return len(raw) == size and any(raw)
