"""The spans of a Python agent that is instrumented with OpenTelemetry, turn by turn, and the tool calls in them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from weakref import WeakSet, WeakValueDictionary

from a2a_tool_capture import ToolCall
from a2a_tool_capture.spans.in_memory import span_of
from a2a_tool_capture.spans.tool_calls import tool_calls
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.trace import get_tracer_provider


class TurnSpans:
    """The spans that began in a turn and have ended."""

    def __init__(self) -> None:
        self.ended: list[ReadableSpan] = []

    @property
    def tool_calls(self) -> list[ToolCall]:
        """The calls as the proxy reads them in spans that it receives."""
        return tool_calls(map(span_of, self.ended)).tool_calls


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
    def __init__(self) -> None:
        self._turns: WeakValueDictionary[int, TurnSpans] = WeakValueDictionary()
        """By span id; dropped with the turn, so that spans that never end take no memory."""

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        turn = _current.get()
        if turn is not None:
            self._turns[span.get_span_context().span_id] = turn

    def on_end(self, span: ReadableSpan) -> None:
        context = span.get_span_context()
        turn = None if context is None else self._turns.pop(context.span_id, None)
        if turn is not None:
            turn.ended.append(span)


_watched: WeakSet[TracerProvider] = WeakSet()


def watch_spans() -> None:
    """Collect spans from now on, if the agent has set a tracer provider in this process."""
    provider = get_tracer_provider()
    if isinstance(provider, TracerProvider) and provider not in _watched:
        provider.add_span_processor(_Collector())
        _watched.add(provider)
