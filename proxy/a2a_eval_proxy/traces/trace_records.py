"""What the trace book keeps of traces and turns, and how turns share a trace. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from operator import attrgetter

from a2a_tool_capture.spans.model import LogEvent, Span
from a2a_tool_capture.spans.tool_calls import Conversion, tool_calls

from ..protocol.trace_state import turn_named
from ..turn import Turn
from .correlation_hints import Key

SKEW_S = 0.05
"""Maximum difference of the agent's clock and the proxy's when spans are assigned by time; seconds."""


class Correlation(StrEnum):
    """How a trace found its turn."""

    TRACE_ID = "trace_id"
    ATTRIBUTES = "attributes"
    TIME = "time"


@dataclass(slots=True, eq=False)
class TurnEntry:
    turn: Turn
    closed_at: float | None = None
    traces: list[TraceEntry] = field(default_factory=list)
    keys: set[Key] = field(default_factory=set)
    """By which traces find it."""
    contested: set[str] = field(default_factory=set)
    """Ids of traces that may be another turn's as well."""
    lost: str = ""
    """See `TraceEvidence`."""

    def was_on(self, moment_s: float, skew_s: float = 0.0) -> bool:
        """Whether it was open at that time, give or take `skew_s`."""
        ended_at = self.turn.ended_at
        return self.turn.started_at - skew_s <= moment_s and (ended_at is None or moment_s <= ended_at + skew_s)


@dataclass(slots=True, eq=False)
class TraceEntry:
    trace_id: str
    first_seen: float
    spans: dict[str, Span] = field(default_factory=dict)
    logs: dict[LogEvent, None] = field(default_factory=dict)
    size: int = 0
    turns: list[TurnEntry] = field(default_factory=list)
    by: Correlation | None = None
    contested_by: dict[TurnEntry, None] = field(default_factory=dict)
    named: set[Key] = field(default_factory=set)
    """Tasks and conversations that its spans name."""
    shows_work: bool = False
    conversion: Conversion | None = None

    @property
    def converted(self) -> Conversion:
        """The calls in it, read once until more comes."""
        if self.conversion is None:
            self.conversion = tool_calls(self.spans.values(), self.logs)
        return self.conversion

    @property
    def certain(self) -> bool:
        """Whether its turns are final."""
        return self.by in (Correlation.TRACE_ID, Correlation.ATTRIBUTES)

    @property
    def start_s(self) -> float:
        """Start of its first span; without one, when the trace was first seen."""
        starts = [span.start_ns for span in self.spans.values() if span.start_ns]
        return min(starts) / 1e9 if starts else self.first_seen


def latest_before(turns: list[TurnEntry], moment_s: float) -> TurnEntry:
    """The turn that had begun last at that time; the first of all where none had."""
    begun = [known for known in turns if known.turn.started_at - SKEW_S <= moment_s]
    started = attrgetter("turn.started_at")
    return max(begun, key=started) if begun else min(turns, key=started)


def shares_of(trace: TraceEntry) -> dict[str, TurnEntry]:
    """Spans of a trace that several turns share (the client's own trace): whose each one is, by span id.

    A span whose `tracestate` names a turn, or under the span that a turn's request named as parent, is that turn's, and
    so is what is under it; others go by their time.
    """
    by_id = {known.turn.turn_id: known for known in trace.turns}
    parents = Counter(known.turn.parent_span_id for known in trace.turns)
    by_parent = {parent: known for known in trace.turns if parents[parent := known.turn.parent_span_id] == 1}
    shares: dict[str, TurnEntry] = {}
    for span in trace.spans.values():
        path: list[str] = []
        at: Span | None = span
        owner: TurnEntry | None = None
        while at is not None and owner is None and len(path) < len(trace.spans):
            path.append(at.span_id)
            named = by_id.get(turn_named(at.trace_state))
            owner = shares.get(at.span_id) or named or by_parent.get(at.parent_span_id)
            at = trace.spans.get(at.parent_span_id)
        owner = owner or latest_before(trace.turns, span.start_ns / 1e9)
        for span_id in path:
            shares.setdefault(span_id, owner)
    return shares
