"""Tool calls of the OpenAI Agents SDK, from its own tracing: `agents.add_trace_processor(ToolCallProcessor(recorder))`.

Nothing leaves the process. Calls are there as long as tracing is on; their arguments and results as long as
`RunConfig.trace_include_sensitive_data` is, which is the SDK's default.
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


class ToolCallProcessor(TracingProcessor):  # type: ignore[misc,unused-ignore]  # without the framework, of no type
    """Hands finished function-tool spans to the recorder's current request.

    The SDK ends a span in the context of the run it belongs to, which is where the request is found. A tool that
    raised has an error and no result: what the SDK tells the model in its place is not the tool's.
    """

    def __init__(self, recorder: ToolCallRecorder) -> None:
        self._recorder = recorder

    def on_span_end(self, span: Span[Any]) -> None:
        data = span.span_data
        if not isinstance(data, FunctionSpanData):
            return
        recording = self._recorder.recording_of(data.name)
        if recording is None:
            return
        error = _message(span.error) if span.error is not None else None
        recording.record(
            data.name,
            data.input,
            result=data.output if error is None else None,
            error=error,
            source=ToolCallSource.OPENAI_AGENTS,
            started_at=datetime.fromisoformat(span.started_at) if span.started_at else None,
        )

    def on_span_start(self, span: Span[Any]) -> None: ...

    def on_trace_start(self, trace: Trace) -> None: ...

    def on_trace_end(self, trace: Trace) -> None: ...

    def shutdown(self) -> None: ...

    def force_flush(self) -> None: ...


def _message(error: SpanError) -> str:
    """What the tool said; the SDK's own message ("Error running tool") where content is off."""
    detail = (error.get("data") or {}).get("error")
    return str(detail or error["message"])
