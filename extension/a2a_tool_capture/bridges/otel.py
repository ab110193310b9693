"""Tool calls of software instrumented with OpenTelemetry: `provider.add_span_processor(ToolSpanProcessor(recorder))`.

Reads OpenTelemetry's GenAI conventions (`execute_tool` spans) and OpenInference's (spans of kind `TOOL`). Many
instrumentations omit arguments and results by default. Data stays in the process.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from weakref import WeakValueDictionary

from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor
from opentelemetry.trace import StatusCode

from ..models import ToolCallSource
from ..recorder import ToolCallRecorder
from ..recording import CallRecording

_SPAN_NAME_PREFIX = "execute_tool "


class ToolSpanProcessor(SpanProcessor):
    """Records finished tool spans in the request that was current when they started."""

    def __init__(self, recorder: ToolCallRecorder) -> None:
        self._recorder = recorder
        self._recordings: WeakValueDictionary[int, CallRecording] = WeakValueDictionary()
        """By span id; dropped with the request, so that spans that never end take no memory."""

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        tool = _tool_name(span.name, span.attributes or {})
        recording = self._recorder.recording_of(tool) if tool else self._recorder.current
        if recording is not None:
            self._recordings[span.get_span_context().span_id] = recording

    def on_end(self, span: ReadableSpan) -> None:
        context = span.get_span_context()
        recording = None if context is None else self._recordings.pop(context.span_id, None)
        if recording is None:
            return
        attributes = span.attributes or {}
        name = _tool_name(span.name, attributes)
        if name:
            recording.record(
                name,
                _arguments(_first(attributes, "gen_ai.tool.call.arguments", "input.value")),
                result=_first(attributes, "gen_ai.tool.call.result", "output.value"),
                error=_error(span, attributes),
                id=str(_first(attributes, "gen_ai.tool.call.id", "tool_call.id") or ""),
                source=ToolCallSource.OTEL_TRACE,
                started_at=datetime.fromtimestamp(span.start_time / 1e9, UTC) if span.start_time else None,
            )


def _tool_name(span_name: str, attributes: Mapping[str, Any]) -> str:
    """Name of the tool of a tool span; "" for any other span."""
    if attributes.get("gen_ai.operation.name") == "execute_tool":
        return str(attributes.get("gen_ai.tool.name") or span_name.removeprefix(_SPAN_NAME_PREFIX))
    if str(attributes.get("openinference.span.kind", "")).upper() == "TOOL":
        return str(_first(attributes, "tool.name", "gen_ai.tool.name") or span_name)
    return ""


def _arguments(value: Any) -> dict[str, Any] | None:
    """The object in an attribute: JSON, or a Python literal, which some instrumentations write. None otherwise."""
    if not isinstance(value, str):
        return None
    for parse in (json.loads, ast.literal_eval):
        try:
            parsed = parse(value)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            continue
        return parsed if isinstance(parsed, dict) else None
    return None


def _error(span: ReadableSpan, attributes: Mapping[str, Any]) -> str | None:
    """Why the call failed: the exception's message, the status message or the error type. None if it did not."""
    if span.status.status_code is not StatusCode.ERROR:
        return None
    messages = [(event.attributes or {}).get("exception.message") for event in span.events]
    message = next((message for message in reversed(messages) if message), None)
    return str(message or span.status.description or attributes.get("error.type") or "error")


def _first(attributes: Mapping[str, Any], *names: str) -> Any:
    return next((attributes[name] for name in names if name in attributes), None)
