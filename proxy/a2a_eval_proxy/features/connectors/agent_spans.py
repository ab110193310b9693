"""Tool calls that others record in an agent: the spans and log events of OpenTelemetry, and an installed arksim."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any
from weakref import WeakSet

from a2a_tool_capture import ToolCall
from a2a_tool_capture.connector import recorder
from a2a_tool_capture.spans.in_memory import log_of, span_of
from a2a_tool_capture.spans.model import LogEvent
from a2a_tool_capture.spans.tool_calls import tool_calls
from opentelemetry._logs import get_logger_provider
from opentelemetry.context import Context
from opentelemetry.sdk._logs import LoggerProvider, LogRecordProcessor, ReadWriteLogRecord
from opentelemetry.sdk.trace import Span, SpanProcessor, TracerProvider
from opentelemetry.trace import get_tracer_provider


class TurnSpans:
    def __init__(self) -> None:
        self.begun: list[Span] = []
        self.logs: list[LogEvent] = []

    @property
    def tool_calls(self) -> list[ToolCall]:
        """The calls in those that have ended, as the proxy reads them in spans that it receives."""
        return tool_calls((span_of(span) for span in self.begun if span.end_time), self.logs).tool_calls


_current: ContextVar[TurnSpans | None] = ContextVar("spans of the turn", default=None)


@contextmanager
def spans_of_turn() -> Iterator[TurnSpans]:
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


class _LogCollector(LogRecordProcessor):
    def on_emit(self, log_record: ReadWriteLogRecord) -> None:
        turn, event = _current.get(), log_of(log_record)
        if turn is not None and event.name and event.trace_id:
            turn.logs.append(event)

    def shutdown(self) -> None: ...

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        return True


_watched: WeakSet[TracerProvider | LoggerProvider] = WeakSet()


def watch_spans() -> None:
    """Collect spans and log events from now on, if the agent has set their providers in this process."""
    tracers, loggers = get_tracer_provider(), get_logger_provider()
    if isinstance(tracers, TracerProvider) and tracers not in _watched:
        tracers.add_span_processor(_Collector())
        _watched.add(tracers)
    if isinstance(loggers, LoggerProvider) and loggers not in _watched:
        loggers.add_log_record_processor(_LogCollector())
        _watched.add(loggers)


class TraceReceiver:
    """Has the methods of arksim's trace receiver that the processor calls; records the calls of the current turn."""

    def submit_tool_calls(self, conversation_id: str, turn_id: int, tool_calls: Iterable[Any]) -> None:
        for call in tool_calls:
            recorder.record(call.name, call.arguments, id=call.id, result=call.result, error=call.error)


def begin_turn(chat_id: str, turn_id: int) -> None:
    """Set the turn of this context for arksim, if an agent has imported its tracing."""
    tracing = sys.modules.get("arksim.tracing.context")
    if tracing is not None:
        tracing.trace_conversation_id.set(chat_id)
        tracing.trace_turn_id.set(turn_id)
        tracing.trace_receiver_ref.set(TraceReceiver())
