"""Tool calls in the spans of a Python agent that is instrumented with OpenTelemetry."""

from __future__ import annotations

from weakref import WeakSet

from a2a_tool_capture import ToolCallRecorder
from a2a_tool_capture.bridges.otel import ToolSpanProcessor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import get_tracer_provider

spans = ToolCallRecorder(enabled=True)
"""Records the tool spans of the current turn."""

_watched: WeakSet[TracerProvider] = WeakSet()


def watch_spans() -> None:
    """Record tool spans from now on, if the agent has set a tracer provider in this process."""
    provider = get_tracer_provider()
    if isinstance(provider, TracerProvider) and provider not in _watched:
        provider.add_span_processor(ToolSpanProcessor(spans))
        _watched.add(provider)
