"""Passes decoded spans to the trace book, and decides how long a turn waits for its spans."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from a2a_tool_capture.spans.model import LogEvent, Span
from a2a_tool_capture.spans.tool_calls import tool_calls
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from ..clock import CLOCK
from ..memory import share
from ..telemetry.counters import Metrics
from ..telemetry.problem_log import SCOPE
from ..telemetry.turn_listener import TurnListener
from ..traces.merge import TraceEvidence
from ..traces.trace_book import TraceBook
from ..turn import Turn
from .spans import logs_from_proto, spans_from_proto

_AT_ONCE, _AT_ONCE_OF_TRACE = 200, 2_000
"""Spans passed to the trace book in one iteration of the event loop (a few milliseconds). More for spans of one trace:
a turn is complete when its root span arrives, which may precede other spans in the batch."""


class Tracing(TurnListener):
    """The receiver's sink and the pipeline's source of evidence. Call all methods on one event loop.

    `wait_s` is the time that a turn waits for spans after its end; `expected` also waits for an agent that has not sent
    any yet. `expect` sets both for one of several agents.
    """

    def __init__(
        self, metrics: Metrics, *, wait_s: float, expected: bool, conversation_attributes: Sequence[str] = ()
    ) -> None:
        self._metrics = metrics
        self._waits: defaultdict[str | None, tuple[float, bool]] = defaultdict(lambda: (wait_s, expected))
        """By the name of the agent."""
        self._loop = asyncio.get_running_loop()
        self._reading = ThreadPoolExecutor(1, thread_name_prefix="traces")
        self._listeners: defaultdict[str | None, list[Callable[[Turn, bool], None]]] = defaultdict(list)
        self._book = TraceBook(
            self._changed,
            conversation_attributes=conversation_attributes,
            max_bytes=share(8),
        )

    # ── from the turn book ──────────────────────────────────────────────────────────────────────────────

    def opened(self, turn: Turn) -> None:
        self._book.opened(turn)

    def ended(self, turn: Turn) -> None:
        self._book.closed(turn, CLOCK.now())

    # ── for the pipeline ────────────────────────────────────────────────────────────────────────────────

    def expect(self, agent_name: str | None, *, wait_s: float, expected: bool) -> None:
        """Turns of this agent wait so long; see the class."""
        self._waits[agent_name] = wait_s, expected

    def listen(self, agent_name: str | None, changed: Callable[[Turn, bool], None]) -> Callable[[], None]:
        """`changed` receives each turn of this agent (None: of any) that gets spans, and whether any of them describes
        the agent's work, until what this returns is called."""
        listeners = self._listeners[agent_name]
        listeners.append(changed)
        return partial(listeners.remove, changed)

    def heard(self, agent_name: str | None) -> bool:
        """Whether to expect traces: the agent (None: any) has sent some, or the settings announce them."""
        return self.has_sent(agent_name) or self._waits[agent_name][1]

    def has_sent(self, agent_name: str | None) -> bool:
        """Whether spans of a turn of the agent (None: of any) have come."""
        return bool(self._book.heard) if agent_name is None else agent_name in self._book.heard

    @property
    def received(self) -> int:
        """Number of spans that have come, of turns or not."""
        return self._metrics.spans

    def wait_s(self, turn: Turn) -> float:
        """Returns the seconds that the turn still waits for its spans; 0 if none are expected or all have arrived."""
        if not self.heard(turn.agent_name) or self.complete(turn):
            return 0.0
        return max(0.0, (turn.ended_at or 0.0) + self._waits[turn.agent_name][0] - CLOCK.now())

    def complete(self, turn: Turn) -> bool:
        """Whether nothing is left to wait for: the agent's root span has come, and calls are seen.

        Without any, they may come after the root span: only the end of the wait, or what else would have shown them,
        says that none were made.
        """
        if not self._book.complete(turn.turn_id):
            return False
        evidence = self._book.evidence(turn.turn_id)
        return bool(turn.tool_calls or turn.shown_by or tool_calls(evidence.spans, evidence.logs).tool_calls)

    def evidence(self, turn: Turn) -> TraceEvidence | None:
        evidence = self._book.evidence(turn.turn_id)
        return evidence if evidence.spans or evidence.logs or evidence.contested or evidence.lost else None

    def spans(self, turn_id: str) -> Sequence[Span]:
        """The spans of a turn, as long as they are in memory."""
        return self._book.evidence(turn_id).spans

    def expire(self, now: float) -> None:
        self._book.expire(now)
        self._metrics.spans_dropped += self._book.take_dropped()

    def _changed(self, turn: Turn, has_work: bool) -> None:
        for name in {turn.agent_name, None}:
            for changed in tuple(self._listeners[name]):
                changed(turn, has_work)

    # ── from the receiver ───────────────────────────────────────────────────────────────────────────────

    async def take(
        self, request: ExportTraceServiceRequest | ExportLogsServiceRequest, size_bytes: int, *, only: str = ""
    ) -> int:
        """Read spans or GenAI events, in a thread, since a full batch would block the event loop for too long: those of
        the trace that is `only` wanted, or all.

        Returns once the trace book has them, with the number of spans without valid ids.
        """
        records, rejected = await self._loop.run_in_executor(self._reading, _read, request)
        by_trace: dict[str, list[Span | LogEvent]] = {}
        for record in records:
            if record.scope != SCOPE and only in ("", record.trace_id):  # our own are not evidence
                by_trace.setdefault(record.trace_id, []).append(record)
        passed_on = 0
        for members in by_trace.values():
            for start in range(0, len(members), _AT_ONCE_OF_TRACE):
                part = members[start : start + _AT_ONCE_OF_TRACE]
                self._metrics.spans += sum(isinstance(record, Span) for record in part)
                self._book.add(part, size_bytes * len(part) // len(records), CLOCK.now())
                passed_on += len(part)
                if passed_on >= _AT_ONCE:
                    passed_on = 0
                    await asyncio.sleep(0)
        self._metrics.spans_dropped += rejected
        return rejected

    def lost(self, reason: str, turn: Turn | None = None) -> None:
        """Spans of the turn cannot be had; None: an export was refused for good, whose spans may have been of any turn
        that waits for some."""
        self._book.lost(reason, CLOCK.now(), None if turn is None else turn.turn_id)

    def close(self) -> None:
        self._reading.shutdown(wait=False, cancel_futures=True)


def _read(request: ExportTraceServiceRequest | ExportLogsServiceRequest) -> tuple[list[Span] | list[LogEvent], int]:
    """The records, and the number of spans without valid ids; unusable log records are not rejected."""
    if isinstance(request, ExportLogsServiceRequest):
        return logs_from_proto(request), 0
    spans = spans_from_proto(request)
    sent = sum(len(scope.spans) for resource in request.resource_spans for scope in resource.scope_spans)
    return spans, sent - len(spans)
