"""Which turn caused which, by what is known of them. Pure.

A turn is the child of the turn whose agent sent its message. In this order:

1. The request's `tracestate` names the parent (`protocol.trace_state`).
2. Spans lead from the request's parent span up to the span that the parent's agent was given.
3. The trace began with a turn (its client sent no trace context), so that only agents below that turn know its id; and
   only one turn can have asked: it began before, and had no answer yet.
4. The message names a task or a conversation of the parent, or the parent's answer names one of the child.

These are certain. Where several turns of a trace fit, or the turn that is named had its answer before, the edge is a
guess.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tool_call_evaluators.agent_tree import AskedBy, EdgeEvidence

from ...turn import NamedIn, TurnLinks


@dataclass(frozen=True, slots=True)
class TurnFacts:
    """What is known of a turn. Times are seconds since the epoch."""

    turn_id: str
    agent: str
    started_at: float
    ended_at: float | None
    is_answered: bool
    """Whether its agent was seen to be done: an agent that its client gave up may still ask others."""
    trace_id: str
    parent_span_id: str
    task_id: str
    conversation_id: str
    links: TurnLinks
    spans: Sequence[Mapping[str, Any]] = ()
    """Those that were received, each with its `span_id` and `parent_span_id`; one that `enters` is the first of a
    process, which got `parent_span_id` with a request."""


@dataclass(frozen=True, slots=True)
class Edge:
    parent: str
    child: str
    asked: AskedBy


def edges_of(turns: Collection[TurnFacts], skew_s: float = 0.0) -> dict[str, Edge]:
    """The edge to each turn that another one of `turns` caused, by the id of the child; whatever their order.

    `skew_s`: the most by which clocks of the processes that captured them differ.
    """
    return _Finder(turns, skew_s).edges()


class _Finder:
    def __init__(self, turns: Collection[TurnFacts], skew_s: float) -> None:
        self._turns = {turn.turn_id: turn for turn in sorted(turns, key=_order)}
        self._skew_s = skew_s
        self._by_trace = _grouped(self._turns.values(), lambda turn: [turn.trace_id])
        self._by_task = _grouped(self._turns.values(), lambda turn: [turn.task_id])
        self._by_conversation = _grouped(self._turns.values(), lambda turn: [turn.conversation_id])
        self._by_name = _grouped(self._turns.values(), lambda turn: turn.links.names)
        self._spans = {trace: _SpanTree(members) for trace, members in self._by_trace.items()}
        self._edges: dict[str, Edge] = {}

    def edges(self) -> dict[str, Edge]:
        # What is certain is found first: it rules out candidates of what is not. Each rule is asked for all turns.
        for rule in (self._by_tracestate, self._by_spans, self._by_only_turn, self._by_names, self._by_chance):
            for child in self._turns.values():
                if child.turn_id not in self._edges:
                    self._add(child, rule(child))
        return self._edges

    def _add(self, child: TurnFacts, found: tuple[TurnFacts, AskedBy] | None) -> None:
        if found is not None and not self._is_below(found[0], child):
            self._edges[child.turn_id] = Edge(found[0].turn_id, child.turn_id, found[1])

    def _is_below(self, turn: TurnFacts, above: TurnFacts) -> bool:
        """Whether `turn` is `above`, or one of the turns that it caused, as far as is known."""
        at = turn.turn_id
        while at != above.turn_id:
            edge = self._edges.get(at)
            if edge is None:
                return False
            at = edge.parent
        return True

    # ── the trace ───────────────────────────────────────────────────────────────────────────────────────

    def _by_tracestate(self, child: TurnFacts) -> tuple[TurnFacts, AskedBy] | None:
        named = self._turns.get(child.links.parent_turn_id)
        if named is None or named.trace_id != child.trace_id:
            return None
        return named, AskedBy(EdgeEvidence.TRACE_CONTEXT, True, "the request carried the id of that turn")

    def _by_spans(self, child: TurnFacts) -> tuple[TurnFacts, AskedBy] | None:
        if not child.links.client_span_id or not child.trace_id:
            return None
        above = self._spans[child.trace_id].turns_above(child)
        if len(above) > 1:
            above = [turn for turn in above if self._was_at_work(turn, child)]
        if len(above) != 1:
            return None
        return above[0], AskedBy(EdgeEvidence.TRACE_CONTEXT, True, "spans lead from the request to that turn")

    def _by_only_turn(self, child: TurnFacts) -> tuple[TurnFacts, AskedBy] | None:
        fitting = self._could_ask(child)
        # As long as the turn that fits is open, others of the trace may not be stored yet.
        if len(fitting) != 1 or fitting[0].ended_at is None or not self._is_known_from_start(child.trace_id):
            return None
        return fitting[0], AskedBy(EdgeEvidence.TRACE_CONTEXT, True, "no other turn of its trace could ask")

    def _by_chance(self, child: TurnFacts) -> tuple[TurnFacts, AskedBy] | None:
        fitting = self._could_ask(child)
        if fitting and not self._is_known_from_start(child.trace_id):  # the client may have sent them all
            fitting = [
                turn for turn in fitting if turn.agent != child.agent and turn.parent_span_id != child.parent_span_id
            ]
        if not fitting:
            return None
        reason = "both are of one trace"
        if len(fitting) > 1:
            reason = f"{len(fitting)} turns of its trace could ask; this one began first"
        return fitting[0], AskedBy(EdgeEvidence.TRACE_CONTEXT, False, reason)

    def _is_known_from_start(self, trace_id: str) -> bool:
        """Whether a trace began with one of the turns: then only agents below it know its id."""
        return any(not turn.links.client_span_id for turn in self._by_trace[trace_id])

    def _could_ask(self, child: TurnFacts) -> list[TurnFacts]:
        """The turns of its trace that were at work when it began, in the order in which they began."""
        if not child.links.client_span_id or not child.trace_id or child.links.parent_turn_id:
            return []  # an id that names no turn here may be that of one that is not stored yet
        return [turn for turn in self._by_trace[child.trace_id] if self._was_at_work(turn, child)]

    def _was_at_work(self, turn: TurnFacts, child: TurnFacts) -> bool:
        """Whether a turn that did not follow from `child` could ask for it."""
        began = turn.started_at <= child.started_at + self._skew_s
        answered = turn.is_answered and turn.ended_at is not None and turn.ended_at < child.started_at - self._skew_s
        return began and not answered and not self._is_below(turn, child)

    # ── ids ─────────────────────────────────────────────────────────────────────────────────────────────

    def _by_names(self, child: TurnFacts) -> tuple[TurnFacts, AskedBy] | None:
        """An id names a task or a conversation, which has several turns: that which was at work."""
        named: dict[str, tuple[TurnFacts, str]] = {}
        for kind, identifier in child.links.names:
            if kind is NamedIn.PARENT_TASK:
                found, what = self._by_task.get(identifier, []), "the message names a task of that conversation"
            elif kind is NamedIn.PARENT_CONVERSATION:
                found, what = self._by_conversation.get(identifier, []), "the message names that conversation"
            else:
                continue
            named |= {turn.turn_id: (turn, what) for turn in found}
        for name in ((NamedIn.CHILD_TASK, child.task_id), (NamedIn.CHILD_CONVERSATION, child.conversation_id)):
            for turn in self._by_name.get(name, []) if name[1] else []:
                named[turn.turn_id] = turn, "the answer to that turn names this conversation"
        own = child.conversation_id
        others = [one for one in named.values() if not own or one[0].conversation_id != own]
        asking = [one for one in others if self._was_at_work(one[0], child)]
        if len(asking) == 1:
            return asking[0][0], AskedBy(EdgeEvidence.REFERENCE, True, asking[0][1])
        latest = child.started_at + self._skew_s
        began = [one for one in others if one[0].started_at <= latest and not self._is_below(one[0], child)]
        if not began:
            return None
        turn, what = max(began, key=lambda one: _order(one[0]))
        why = "which several turns could have asked for" if asking else "which had its answer before"
        return turn, AskedBy(EdgeEvidence.REFERENCE, False, f"{what}, {why}")


class _SpanTree:
    """The spans of a trace, as far as the turns of the trace have kept them."""

    def __init__(self, turns: Sequence[TurnFacts]) -> None:
        self._spans = {span["span_id"]: span for turn in turns for span in turn.spans}
        self._given = _grouped(turns, lambda turn: [turn.parent_span_id])

    def turns_above(self, child: TurnFacts) -> list[TurnFacts]:
        """The turns whose agent was given the nearest span above the request of `child`, and began a span below it.

        One turn, unless a client sent several requests from one span.
        """
        seen: set[str] = set()
        span = self._spans.get(child.links.client_span_id)
        while span is not None and span["span_id"] not in seen:
            if span.get("enters") and span["parent_span_id"] in self._given:
                return self._given[span["parent_span_id"]]
            seen.add(span["span_id"])
            span = self._spans.get(span["parent_span_id"])
        return []


def _order(turn: TurnFacts) -> tuple[float, str]:
    return turn.started_at, turn.turn_id


def _grouped(
    turns: Iterable[TurnFacts], keys: Callable[[TurnFacts], Iterable[object]]
) -> Mapping[object, list[TurnFacts]]:
    groups: dict[object, list[TurnFacts]] = defaultdict(list)
    for turn in turns:
        for key in keys(turn):
            if key:
                groups[key].append(turn)
    return dict(groups)
