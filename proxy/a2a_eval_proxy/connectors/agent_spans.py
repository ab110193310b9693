"""The spans of a Python agent that is instrumented with OpenTelemetry, turn by turn, and the tool calls in them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from weakref import WeakSet

from a2a_tool_capture import ToolCall
from a2a_tool_capture.spans.in_memory import span_of
from a2a_tool_capture.spans.tool_calls import tool_calls
from opentelemetry.context import Context
from opentelemetry.sdk.trace import Span, SpanProcessor, TracerProvider
from opentelemetry.trace import get_tracer_provider


class TurnSpans:
    """The spans that began in a turn."""

    def __init__(self) -> None:
        self.begun: list[Span] = []

    @property
    def tool_calls(self) -> list[ToolCall]:
        """The calls in those that have ended, as the proxy reads them in spans that it receives."""
        return tool_calls(span_of(span) for span in self.begun if span.end_time).tool_calls


_current: ContextVar[TurnSpans | None] = ContextVar("spans of the turn", default=None)


@contextmanager
def spans_of_turn() -> Iterator[TurnSpans]:
    """Collects the spans that begin in this context."""
    turn = TurnSpans()
    token = _current.set(turn)
    try:
        yield turn
    finally:
        _current.reset(token)


class _Collector(SpanProcessor):
    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        turn = _current.get()
        if turn is not None:
            turn.begun.append(span)


_watched: WeakSet[TracerProvider] = WeakSet()


def watch_spans() -> None:
    """Collect spans from now on, if the agent has set a tracer provider in this process."""
    provider = get_tracer_provider()
    if isinstance(provider, TracerProvider) and provider not in _watched:
        provider.add_span_processor(_Collector())
        _watched.add(provider)
