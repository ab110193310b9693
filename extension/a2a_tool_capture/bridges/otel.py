"""Tool calls of software instrumented with OpenTelemetry: `provider.add_span_processor(ToolSpanProcessor(recorder))`.

Reads tool spans as the proxy does, of every instrumentation. Many instrumentations omit arguments and results by
default. Data stays in the process.
"""

from __future__ import annotations

import threading
from weakref import WeakKeyDictionary, WeakValueDictionary

from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor

from ..recorder import NO_RECORDING, CallRecording, ToolCallRecorder
from ..spans.in_memory import span_of
from ..spans.model import Span as SpanValue
from ..spans.observations import Lineage, Observation, ObservationGroup, group, read_span
from ..spans.tool_calls import Draft

_OTEL = "OpenTelemetry"


class ToolSpanProcessor(SpanProcessor):
    """Records finished tool spans in the request that was current when they started.

    Spans that saw one call count once: a call is recorded when the outermost span open for it ends, and completed by
    spans that end later.
    """

    def __init__(self, recorder: ToolCallRecorder) -> None:
        self._recorder = recorder
        recorder.expect(_OTEL)
        self._recordings: WeakValueDictionary[str, CallRecording] = WeakValueDictionary()
        """By span id; dropped with the request, so that spans that never end take no memory."""
        self._requests: WeakKeyDictionary[CallRecording, _RequestSpans] = WeakKeyDictionary()
        self._lock = threading.Lock()

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        started = span_of(span)
        seen = read_span(started)
        recording = self._recorder.current if seen is None else self._recorder.recording_of(seen.name)
        if recording is not None and recording is not NO_RECORDING:
            recording.heard_of(_OTEL)
            self._recordings[started.span_id] = recording
            with self._lock:
                self._requests.setdefault(recording, _RequestSpans()).start(started, seen)

    def on_end(self, span: ReadableSpan) -> None:
        ended = span_of(span)
        recording = self._recordings.pop(ended.span_id, None)
        if recording is not None:
            with self._lock:
                self._requests[recording].end(ended, recording)


class _RequestSpans:
    """The spans of one request, and the calls recorded of them."""

    def __init__(self) -> None:
        self._lineage = Lineage(())
        self._open: dict[tuple[str, str], Observation] = {}
        self._ended: list[Observation] = []
        self._recorded: dict[tuple[str, str], tuple[str, str]] = {}
        """Name and id of the recorded call, by span."""

    def start(self, span: SpanValue, seen: Observation | None) -> None:
        self._lineage.add(span)
        if seen is not None:
            self._open[span.key] = seen

    def end(self, span: SpanValue, recording: CallRecording) -> None:
        self._open.pop(span.key, None)
        seen = read_span(span)
        if seen is None:
            return
        self._ended.append(seen)
        near = [one for one in self._ended if one.span.end_ns >= span.start_ns or one.span.key not in self._recorded]
        for found in group([*near, *self._open.values()], self._lineage)[0]:
            keys = [one.span.key for one in found.observations]
            if self._open.keys().isdisjoint(keys) and not self._recorded.keys() >= set(keys):
                self._recorded |= dict.fromkeys(keys, self._record(found, recording))

    def _record(self, found: ObservationGroup, recording: CallRecording) -> tuple[str, str]:
        call = Draft.of(found).call
        known = (self._recorded.get(one.span.key) for one in found.observations)
        name, call_id = next(filter(None, known), (call.name, call.id))
        recorded_id = recording.record(
            name,
            call.arguments,
            result=call.result,
            error=call.error,
            id=call_id,
            source=call.source,
            started_at=call.started_at,
        )
        return name, recorded_id
