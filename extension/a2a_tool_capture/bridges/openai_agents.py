"""Tool calls of the OpenAI Agents SDK, from its own tracing: `agents.add_trace_processor(ToolCallProcessor(recorder))`.

Data stays in the process. Calls are recorded while tracing is enabled; arguments and results only with
`RunConfig.trace_include_sensitive_data`, the SDK's default.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from agents.tracing import (
    FunctionSpanData,
    Span,
    SpanError,
    Trace,
    TracingProcessor,
)

from ..models import ToolCallSource
from ..recorder import ToolCallRecorder

_SDK = "the OpenAI Agents SDK"


class ToolCallProcessor(TracingProcessor):  # type: ignore[misc,unused-ignore]  # untyped without the framework
    """Records finished function-tool spans in the current request.

    A request in which the SDK traces nothing, because its tracing is disabled, says that its calls are unknown.

    The SDK ends a span in the context of its run, which identifies the request. A tool that raised has an error and
    no result, even though the SDK gives the model a replacement.
    """

    def __init__(self, recorder: ToolCallRecorder) -> None:
        self._recorder = recorder
        recorder.expect(_SDK)

    def on_span_end(self, span: Span[Any]) -> None:
        data = span.span_data
        if not isinstance(data, FunctionSpanData):
            return
        error = _message(span.error) if span.error is not None else None
        self._recorder.recording_of(data.name).record(
            data.name,
            data.input,
            result=data.output if error is None else None,
            error=error,
            source=ToolCallSource.OPENAI_AGENTS,
            started_at=datetime.fromisoformat(span.started_at) if span.started_at else None,
        )

    def on_span_start(self, span: Span[Any]) -> None:
        if (recording := self._recorder.current) is not None:
            recording.heard_of(_SDK)

    def on_trace_start(self, trace: Trace) -> None: ...

    def on_trace_end(self, trace: Trace) -> None: ...

    def shutdown(self) -> None: ...

    def force_flush(self) -> None: ...


def _message(error: SpanError) -> str:
    """The tool's error message; the SDK's message ("Error running tool") if content is disabled."""
    return str((error.get("data") or {}).get("error") or error["message"])
