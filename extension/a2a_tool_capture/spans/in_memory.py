"""Spans and log events of the process itself, or exported as JSON, as the values that the reader takes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from ..json_limits import ATTRIBUTE, mapped
from .content import as_text, parse
from .model import STATUS_ERROR, STATUS_OK, STATUS_UNSET, CutText, LogEvent, Span, SpanEvent, bounded

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_KINDS = ("UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER")
"""By their number in OTLP."""
_STATUS = {"OK": STATUS_OK, "1": STATUS_OK, "ERROR": STATUS_ERROR, "2": STATUS_ERROR}


def span_of(value: Any, place: int = 0) -> Span:
    """A span of OpenTelemetry's SDK, in its JSON form, as UiPath exports it, or a dict with some of these keys.

    A dict with `arguments` is a call: `{name, arguments, id, result, error}`. A span without an id gets one of its
    `place` in a list. Raises ValueError for attributes that are no object, as OTLP has them.
    """
    if isinstance(value, Span):
        return value
    context, parent, status = (_get(value, key) for key in ("context", "parent", "status"))
    name, attributes = str(_get(value, "name", "Name") or ""), _attributes(value)
    code, message = _get(status, "status_code", "code") or status, _get(status, "description", "message")
    if isinstance(value, Mapping) and "arguments" in value:
        attributes |= _call_attributes(name, value)
        if value.get("error"):
            code, message = "ERROR", as_text(value["error"])
    start_ns, events = _time_ns(_get(value, "start_time", "StartTime")), _get(value, "events")
    return Span(
        trace_id=_id(_get(context, "trace_id") or _get(value, "trace_id", "TraceId"), 32),
        span_id=_id(_get(context, "span_id") or _get(value, "span_id", "Id"), 16) or f"place {place:010}",
        parent_span_id=_id(_get(parent, "span_id") or _get(value, "parent_id", "parent_span_id", "ParentId"), 16),
        name=name,
        kind=_KINDS.index(kind) if (kind := _word(_get(value, "kind"))) in _KINDS else 0,
        scope=_scope(value),
        start_ns=start_ns,
        end_ns=max(start_ns, _time_ns(_get(value, "end_time", "EndTime"))),
        attributes=attributes,
        events=tuple(
            SpanEvent(str(_get(one, "name") or ""), _time_ns(_get(one, "timestamp", "time")), _attributes(one))
            for one in (events if isinstance(events, list | tuple) else ())
        ),
        status_code=_STATUS.get(_word(code or _get(value, "Status")), STATUS_UNSET),
        status_message=str(message or ""),
        dropped=_count(value, "dropped_attributes") + _count(value, "dropped_events"),
    )


def log_of(value: Any) -> LogEvent:
    """A log record of OpenTelemetry's SDK, or in its JSON form. GenAI events have a name and a trace id. Raises
    ValueError as `span_of` does."""
    if isinstance(value, LogEvent):
        return value
    record = _get(value, "log_record") or value
    attributes = _attributes(record)
    return LogEvent(
        trace_id=_id(_get(record, "trace_id"), 32),
        span_id=_id(_get(record, "span_id"), 16),
        name=str(_get(record, "event_name") or attributes.get("event.name") or ""),
        time_ns=_time_ns(_get(record, "timestamp")) or _time_ns(_get(record, "observed_timestamp")),
        scope=_scope(value),
        attributes=attributes,
        body=_plain(_get(record, "body")),
        dropped=_count(record, "dropped_attributes"),
    )


def _call_attributes(name: str, call: Mapping[str, Any]) -> dict[str, Any]:
    """A plain call by the GenAI semantic conventions."""
    content = {"id": str(call.get("id") or ""), "arguments": call["arguments"], "result": call.get("result")}
    named = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}
    return named | {f"gen_ai.tool.call.{key}": _plain(value) for key, value in content.items()}


def _attributes(value: Any) -> dict[str, Any]:
    found = _get(value, "attributes", "Attributes")
    if isinstance(found, str):  # as UiPath exports them
        found = parse(found)
    elif found is not None and not isinstance(found, Mapping):
        raise ValueError(f"attributes: expected an object, got a {type(found).__name__}, as OTLP has them")
    return {str(key): _plain(item) for key, item in found.items()} if isinstance(found, Mapping) else {}


def _plain(value: Any) -> Any:
    """`value` with tuples as lists, as other processes get it."""
    return mapped(
        value,
        lambda leaf: bounded(leaf) if isinstance(leaf, str) else leaf,
        depth=ATTRIBUTE,
        beyond=lambda _: CutText(""),
    )


def _scope(value: Any) -> str:
    scope = _get(value, "instrumentation_scope", "scope")
    return scope if isinstance(scope, str) else str(_get(scope, "name") or "")


def _word(value: Any) -> str:
    """The last word of an enumerator in any spelling: `SpanKind.CLIENT`, `SPAN_KIND_CLIENT`, the enumerator itself."""
    return str(getattr(value, "name", value)).upper().replace(".", "_").rpartition("_")[2]


def _id(value: Any, digits: int) -> str:
    """An id as hex digits; "" for none."""
    if isinstance(value, int):
        return f"{value:0{digits}x}" if value else ""
    text = value.removeprefix("0x").replace("-", "").lower() if isinstance(value, str) else ""
    return text if text.strip("0") else ""


def _time_ns(value: Any) -> int:
    """Nanoseconds since 1970 of a time given so, as datetime or in RFC 3339 (UTC without a zone); else 0."""
    if isinstance(value, int):
        return value
    try:
        found = datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        return 0
    if not isinstance(found, datetime):
        return 0
    aware = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(microseconds=1) * 1000


def _count(value: Any, name: str) -> int:
    number = _get(value, name)
    return number if isinstance(number, int) else 0


def _get(value: Any, *names: str) -> Any:
    """The first of these entries or attributes that exists."""
    for name in names:
        found = value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
        if found is not None:
            return found
    return None
