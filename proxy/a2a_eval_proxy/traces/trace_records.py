"""What the trace book keeps of traces and turns; what spans name, whose they are, and whether all are there. Pure."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from operator import attrgetter

from a2a_tool_capture.spans.content import is_placeholder
from a2a_tool_capture.spans.model import LogEvent, Span
from a2a_tool_capture.spans.tool_calls import Conversion, tool_calls

from ..protocol.trace_state import turn_named
from ..turn import Turn

SKEW_S = 0.05
"""Maximum difference of the agent's clock and the proxy's when spans are assigned by time; seconds."""

HINTS: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "gen_ai.conversation.id",
            "session.id",
            "langsmith.metadata.thread_id",
            "langsmith.metadata.session_id",
            "langsmith.metadata.conversation_id",
            "traceloop.association.properties.thread_id",
            "traceloop.association.properties.session_id",
            "traceloop.association.properties.conversation_id",
            "traceloop.association.properties.chat_id",
            "langfuse.session.id",
            "ai.telemetry.metadata.sessionId",
            "gcp.vertex.agent.session_id",
            "a2a.context.id",
            "a2a.context_id",
            "arksim.conversation_id",
        ),
        "conversation_id",
    ),
    **dict.fromkeys(("a2a.task.id", "a2a.task_id"), "task_id"),
}
"""Attribute of a span or of its resource, and the field of a turn that it names.

Conversation is whatever the agent's libraries call conversation, session, thread or (A2A) context: the GenAI
conventions ask for the A2A contextId, but many put an id of their own.
"""

Key = tuple[str, str]
"""The name of a field of a turn, `trace_id`, `task_id` or `conversation_id`, and its value."""


def keys_named(spans: Sequence[Span], known: Mapping[str, str] = HINTS) -> set[Key]:
    """The ids in the attributes `known` of `spans` and their resources.

    An id is often on one span of a trace only, an ancestor of the tool spans or a sibling: any span is asked.
    Blank ids, placeholders, and ids that are neither strings nor numbers do not count.
    """
    found = set()
    resources = {id(span.resource): span.resource for span in spans}
    for attributes in (*(span.attributes for span in spans), *resources.values()):
        for name in attributes.keys() & known.keys():
            value = attributes[name]
            text = str(value).strip() if isinstance(value, str | int) and not isinstance(value, bool) else ""
            if text and not is_placeholder(text):
                found.add((known[name], text))
    return found


class Correlation(StrEnum):
    """How a trace found its turn."""

    TRACE_ID = "trace_id"
    ATTRIBUTES = "attributes"
    TIME = "time"


@dataclass(slots=True, eq=False)
class TurnEntry:
    turn: Turn
    closed_at: float = math.inf
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
            owner = shares.get(at.span_id) or by_id.get(turn_named(at.trace_state)) or by_parent.get(at.parent_span_id)
            at = trace.spans.get(at.parent_span_id)
        owner = owner or latest_before(trace.turns, span.start_ns / 1e9)
        for span_id in path:
            shares.setdefault(span_id, owner)
    return shares


def root_ended(spans: Iterable[Span], parents: Collection[str] = ()) -> bool:
    """Whether the agent's outermost span of every trace is among `spans`, and all between it and the others.

    Then they are complete. False without spans. Spans are exported when they end, children before parents, so a
    span whose local parent is missing is early: the parent still runs, perhaps for longer than the outermost
    span (a request handler that hands the work to a task and returns).

    `parents` are the span ids the agent was given as its parent (by `traceparent`); with them, the outermost span is
    one that has such a parent or none. Without, it is one that has none, one whose parent is remote and not at hand,
    or, where the exporter does not mark remote parents, a server's span whose parent is missing.
    """
    at_hand: dict[str, set[str]] = defaultdict(set)
    members = list(spans)
    for span in members:
        at_hand[span.trace_id].add(span.span_id)
    ended: set[str] = set()
    for span in members:
        if _is_outermost(span, parents, at_hand[span.trace_id]):
            ended.add(span.trace_id)
        elif span.parent_span_id not in at_hand[span.trace_id] and not span.parent_is_remote:
            return False
    return bool(at_hand) and ended == at_hand.keys()


def _is_outermost(span: Span, parents: Collection[str], at_hand: Collection[str]) -> bool:
    parent = span.parent_span_id
    if not parent or parent in parents:
        return True
    if parents or parent in at_hand:
        return False
    return span.enters_process
