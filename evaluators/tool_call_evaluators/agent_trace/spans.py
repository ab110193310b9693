"""Reads tool calls from spans in memory: dicts or objects of the OpenTelemetry SDK.

To receive OTLP from any instrumentation, use the proxy's receiver.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

from a2a_tool_capture.models import ToolCall
from a2a_tool_capture.spans.in_memory import log_of, span_of
from a2a_tool_capture.spans.model import LogEvent, Span
from a2a_tool_capture.spans.tool_calls import tool_calls
from a2a_tool_capture.spans.work_evidence import shows_genai_work

from .messages import required_list

_Record = TypeVar("_Record", Span, LogEvent)

_UNSEEN = (
    "none of {count} span(s) shows a tool call, or an agent or model that could have made one; a tool call has the "
    "attribute gen_ai.operation.name = execute_tool, openinference.span.kind = TOOL, or tool.name; these have {keys}"
)
_MAX_KEYS = 10


class CallsInSpans(NamedTuple):
    """The calls in spans. `unseen`: why there may be others."""

    tool_calls: list[ToolCall]
    unseen: str | None


def tool_calls_of_spans(spans: Iterable[Any], logs: Iterable[Any] = ()) -> CallsInSpans:
    """The tool calls that the spans and GenAI log events show, as the proxy reads them.

    Warns if there are spans, and none would have shown a call. Raises ValueError for input that is not a list and for
    spans in OTLP form, which would not look like tool calls.
    """
    found = _read("spans", spans, span_of)
    events = [event for event in _read("logs", logs, lambda value, _: log_of(value)) if event.name and event.trace_id]
    calls = tool_calls(found, events).tool_calls
    if calls or shows_genai_work(found) or not (found or events):
        return CallsInSpans(calls, None)
    unseen = _UNSEEN.format(count=len(found), keys=_keys(found))
    warnings.warn(f"the tool calls are unknown: {unseen}", UserWarning, stacklevel=3)
    return CallsInSpans(calls, unseen)


def _read(what: str, values: Iterable[Any], read: Callable[[Any, int], _Record]) -> list[_Record]:
    records = []
    for place, value in enumerate(required_list(values, what)):
        try:
            records.append(read(value, place))
        except ValueError as error:
            raise ValueError(f"{what}[{place}].{error}") from None
    return records


def _keys(spans: Iterable[Span]) -> str:
    """The names of the first attributes, for the warning."""
    keys = list(dict.fromkeys(key for span in spans for key in span.attributes))
    more = f" and {len(keys) - _MAX_KEYS} more" if len(keys) > _MAX_KEYS else ""
    return ", ".join(keys[:_MAX_KEYS]) + more if keys else "no attributes"
