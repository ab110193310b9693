"""Reads tool calls from spans in memory: dicts or objects of the OpenTelemetry SDK.

To receive OTLP from any instrumentation, use the proxy's receiver.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from a2a_tool_capture.models import ToolCall, ToolCallSource

from ..model import json_text
from .messages import arguments_of, required_list

_NAMES = ("gen_ai.tool.name", "tool.name")
_IDS = ("gen_ai.tool.call.id", "tool_call.id", "tool.id")
_ARGUMENTS = ("gen_ai.tool.call.arguments", "input.value")
_RESULTS = ("gen_ai.tool.call.result", "output.value")


def tool_calls_of_spans(spans: Iterable[Any]) -> Iterator[ToolCall]:
    """The tool calls among the spans, by start time if every call has one, else in the given order.

    Warns if none of the spans is a tool call: the agent called no tool, or its spans follow an unknown convention.
    Raises ValueError for input that is not a list and for spans in OTLP form, which would not look like tool calls.
    """
    found = [_exported(span) for span in required_list(spans, "spans")]
    for index, span in enumerate(found):
        if isinstance(_get(span, "attributes"), list):
            raise ValueError(f"spans[{index}].attributes: expected an object, got a list, as OTLP has them")
    calls = [call for call in map(_tool_call, found) if call is not None]
    if found and not calls:
        warnings.warn(_NO_CALL.format(count=len(found), keys=_keys(found)), UserWarning, stacklevel=3)
    if all(call.started_at for call in calls):
        calls.sort(key=lambda call: call.started_at or datetime.min.replace(tzinfo=UTC))
    yield from calls


def _exported(span: Any) -> Any:
    """A span as UiPath exports it, `{Name, Attributes, StartTime, EndTime, Status}` with attributes as JSON text, in
    the usual form; any other unchanged."""
    if not isinstance(span, Mapping) or "Attributes" not in span:
        return span
    return {
        "name": span.get("Name"),
        "attributes": arguments_of(span["Attributes"]),
        "start_time": span.get("StartTime"),
        "end_time": span.get("EndTime"),
        "status": {"code": span.get("Status")},
    }


def _tool_call(span: Any) -> ToolCall | None:
    attributes = _get(span, "attributes")
    attributes = attributes if isinstance(attributes, Mapping) else {}
    name = str(_get(span, "name") or "")
    error = _error(span, attributes)
    times = _time(_get(span, "start_time")), _time(_get(span, "end_time"))
    if isinstance(span, Mapping) and "arguments" in span:
        call_id, given, result = span.get("id"), span["arguments"], span.get("result")
        error = json_text(span.get("error")) or error
    elif _is_tool(attributes):
        name = str(_first(attributes, _NAMES) or name.removeprefix("execute_tool "))
        call_id, given, result = (_first(attributes, keys) for keys in (_IDS, _ARGUMENTS, _RESULTS))
    else:
        return None
    source = ToolCallSource.OTEL_TRACE
    return ToolCall(name, arguments_of(given), str(call_id or ""), json_text(result), error, source, *times)


def _is_tool(attributes: Mapping[str, Any]) -> bool:
    kind = attributes.get("openinference.span.kind")
    if kind is not None:
        return bool(kind == "TOOL")
    if attributes.get("gen_ai.operation.name") is not None:
        return bool(attributes["gen_ai.operation.name"] == "execute_tool")
    # as UiPath's evaluators read them: a synthesized span repeats a call
    return isinstance(attributes.get("tool.name"), str) and not attributes.get("tool.synthesized")


_NO_CALL = (
    "none of {count} span(s) is a tool call, so no tool counts as called; a tool call has the attribute "
    "gen_ai.operation.name = execute_tool, openinference.span.kind = TOOL, or tool.name; these have {keys}"
)
_MAX_KEYS = 10


def _keys(spans: Iterable[Any]) -> str:
    """The names of the first attributes, for the warning."""
    keys: dict[str, None] = {}
    for span in spans:
        attributes = _get(span, "attributes")
        keys |= dict.fromkeys(map(str, attributes if isinstance(attributes, Mapping) else ()))
    more = f" and {len(keys) - _MAX_KEYS} more" if len(keys) > _MAX_KEYS else ""
    return ", ".join(list(keys)[:_MAX_KEYS]) + more if keys else "no attributes"


def _error(span: Any, attributes: Mapping[str, Any]) -> str | None:
    """The error message of a span with status error; None for other spans."""
    status = _get(span, "status")
    code = _get(status, "status_code", "code") if status is not None and not isinstance(status, str) else status
    if str(getattr(code, "name", code)).upper() not in ("ERROR", "STATUS_CODE_ERROR", "2"):
        return None
    description = _get(status, "description", "message") if not isinstance(status, str) else None
    return str(description or attributes.get("error.type") or "error")


def _get(value: Any, *names: str) -> Any:
    """The first of these entries or attributes that exists."""
    for name in names:
        found = value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
        if found is not None:
            return found
    return None


def _first(attributes: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    return next((attributes[key] for key in keys if attributes.get(key) is not None), None)


def _time(value: Any) -> datetime | None:
    """A time given as an aware datetime, an RFC 3339 string (UTC without a zone), or nanoseconds since 1970; None for
    anything else."""
    if isinstance(value, datetime):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return datetime.fromtimestamp(value / 1e9, UTC)
    try:
        found = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return found.replace(tzinfo=UTC) if found is not None and found.tzinfo is None else found
