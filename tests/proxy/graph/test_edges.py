"""Who asked whom: each kind of evidence, what overrules it, and what is only a guess."""

from __future__ import annotations

import random
from typing import Any

import pytest
from a2a_eval_proxy.features.graph.edges import Edge, TurnFacts, edges_of
from a2a_eval_proxy.turn import NamedIn, TurnLinks
from hypothesis import given
from hypothesis import strategies as st
from tool_call_evaluators.agent_tree import EdgeEvidence

TRACE = "1" * 32


def turn(turn_id: str, began: float, ended: float | None, **fields: Any) -> TurnFacts:
    """A turn of an agent of the same name, in the trace that the proxy has started for the user's turn."""
    links = {name: fields.pop(name) for name in ("client_span_id", "parent_turn_id", "names") if name in fields}
    defaults = {
        "agent": turn_id,
        "is_answered": ended is not None,
        "trace_id": TRACE,
        "parent_span_id": f"to-{turn_id}",
        "task_id": f"task-{turn_id}",
        "conversation_id": f"conversation-{turn_id}",
    }
    return TurnFacts(turn_id=turn_id, started_at=began, ended_at=ended, links=TurnLinks(**links), **defaults | fields)


def child(turn_id: str, began: float, ended: float | None, **fields: Any) -> TurnFacts:
    """A turn that an agent asked for, which continues its trace context."""
    return turn(turn_id, began, ended, **{"client_span_id": f"in-{turn_id}", **fields})


def untraced(turn_id: str, began: float, ended: float | None, **fields: Any) -> TurnFacts:
    """A turn that an agent asked for without a trace context."""
    return turn(turn_id, began, ended, **{"trace_id": f"{turn_id:0>32}", **fields})


def found(*turns: TurnFacts, skew_s: float = 0.0) -> dict[str, tuple[str, str, bool]]:
    """The parent of each child, with evidence and certainty."""
    edges = edges_of(turns, skew_s)
    return {key: (edge.parent, str(edge.asked.evidence), edge.asked.certain) for key, edge in edges.items()}


CONTEXT = str(EdgeEvidence.TRACE_CONTEXT)
REFERENCE = str(EdgeEvidence.REFERENCE)


# ── trace context ───────────────────────────────────────────────────────────────────────────────────────────


def test_the_tracestate_names_the_parent_among_parallel_branches() -> None:
    user = turn("user", 0, 10)
    left, right = (child(name, 1, 9, parent_turn_id="user") for name in ("left", "right"))
    below = child("below", 2, 3, parent_turn_id="left")
    assert found(user, left, right, below) == {
        "left": ("user", CONTEXT, True),
        "right": ("user", CONTEXT, True),
        "below": ("left", CONTEXT, True),
    }


def span(span_id: str, parent: str, enters: bool) -> dict[str, Any]:
    return {"span_id": span_id, "parent_span_id": parent, "enters": enters}


SPANS_TO_RIGHT = (
    span("server", "to-right", True),
    span("model", "server", False),
    span("in-a", "model", False),
)
SPANS_OF_TWO = (span("first", "to-user", True), span("in-left", "first", False))
SPANS_BELOW_LEFT = (*SPANS_OF_TWO, span("second", "to-left", True), span("in-a", "second", False))
OF_THE_CLIENT = {"client_span_id": "to-first", "spans": (span("in-second", "to-first", False),)}
USER = turn("user", 0, 10)
OF_TASK_A = ((NamedIn.PARENT_TASK, "task-a"),)
SAME: dict[str, Any] = {"conversation_id": "conversation"}
OF_TASK_T = [untraced(name, began, began + 1, task_id="t", conversation_id="c") for began, name in enumerate("abc")]


@pytest.mark.parametrize(
    ("turns", "edges"),
    [
        pytest.param(
            [turn("user", 0, 10, trace_id="2" * 32), child("a", 1, 2, parent_turn_id="user")],
            {},
            id="a tracestate of another trace does not count",
        ),
        pytest.param(
            [USER, child("a", 1, 2, parent_turn_id="later")], {}, id="a parent that is not stored yet has no substitute"
        ),
        pytest.param(
            [turn("user", 0, 10, spans=SPANS_TO_RIGHT), child("left", 1, 9), child("right", 1, 9), child("a", 2, 3)],
            {"left": ("user", CONTEXT, False), "right": ("user", CONTEXT, False), "a": ("right", CONTEXT, True)},
            id="spans lead to the agent that asked",
        ),
        pytest.param(
            [USER, child("left", 1, 9, spans=SPANS_BELOW_LEFT), child("right", 1, 9), child("a", 2, 3)],
            {"left": ("user", CONTEXT, True), "right": ("user", CONTEXT, False), "a": ("left", CONTEXT, True)},
            id="the nearest turn above counts",
        ),
        pytest.param(
            [child("first", 0, 10, **OF_THE_CLIENT), child("second", 1, 2)],
            {"second": ("first", CONTEXT, False)},
            id="a span of the client is not one of the agent it asked",
        ),
        pytest.param(
            [child("first", 0, 10, **OF_THE_CLIENT), child("second", 1, 2, agent="first")], {}, id="the same agent"
        ),
        pytest.param(
            [USER, child("a", 1, 2), child("b", 3, 4)],
            {"a": ("user", CONTEXT, True), "b": ("user", CONTEXT, True)},
            id="the only turn of a trace that could ask, one after the other",
        ),
        pytest.param(
            [USER, child("a", 1, 2, is_answered=False), child("b", 3, 4)],
            {"a": ("user", CONTEXT, True), "b": ("user", CONTEXT, False)},
            id="an agent that was given up may still ask",
        ),
        pytest.param(
            [USER, child("a", 1, None, is_answered=False), child("b", 3, 4)],
            {"a": ("user", CONTEXT, True), "b": ("user", CONTEXT, False)},
            id="one that is open may ask",
        ),
        pytest.param(
            [USER, child("a", 1, 9), child("b", 2, 3)],
            {"a": ("user", CONTEXT, True), "b": ("user", CONTEXT, False)},
            id="several that could ask are a guess",
        ),
        pytest.param(
            [turn("user", 0, None), child("a", 1, 2)],
            {"a": ("user", CONTEXT, False)},
            id="as long as the first turn is open others may be missing",
        ),
        pytest.param(
            [USER, child("a", 2, 9), child("b", 2, 9, parent_turn_id="a")],
            {"a": ("user", CONTEXT, True), "b": ("a", CONTEXT, True)},
            id="what is certain rules out candidates",
        ),
        pytest.param(
            [child("a", 0, 10, agent="same"), child("b", 1, 10, agent="same")], {}, id="a client that asks twice"
        ),
        pytest.param([turn("user", 5, 10), child("a", 1, 2)], {}, id="a turn that began later cannot ask"),
        *(
            pytest.param(
                [untraced("user", 0, 10), untraced("other", 0, 10), untraced("a", 1, 2, names=(name,))],
                {"a": ("user", REFERENCE, True)},
                id=f"the message names the parent: {name[1]}",
            )
            for name in ((NamedIn.PARENT_TASK, "task-user"), (NamedIn.PARENT_CONVERSATION, "conversation-user"))
        ),
        *(
            pytest.param(
                [untraced("user", 0, 10, names=(name,)), untraced("other", 0, 10), untraced("a", 1, 2)],
                {"a": ("user", REFERENCE, True)},
                id=f"the answer names the child: {name[1]}",
            )
            for name in ((NamedIn.CHILD_TASK, "task-a"), (NamedIn.CHILD_CONVERSATION, "conversation-a"))
        ),
        pytest.param(
            [untraced("a", 0, 10, **SAME), untraced("b", 1, 2, names=OF_TASK_A, **SAME)],
            {},
            id="a user who refers to an earlier task of the conversation asks himself",
        ),
        pytest.param(
            [untraced("a", 0, 2), untraced("b", 3, 4, names=OF_TASK_A)],
            {"b": ("a", REFERENCE, False)},
            id="a task that was over is a guess",
        ),
        pytest.param(
            [*OF_TASK_T, untraced("d", 1.5, 1.6, names=((NamedIn.PARENT_TASK, "t"),))],
            {"d": ("b", REFERENCE, True)},
            id="of several turns of a task the one at work counts",
        ),
        pytest.param(
            [
                *(untraced(name, 0, 9, task_id="1") for name in "ab"),
                untraced("d", 1, 2, names=((NamedIn.PARENT_TASK, "1"),)),
            ],
            {"d": ("b", REFERENCE, False)},
            id="two agents with equal task ids",
        ),
        pytest.param(
            [USER, untraced("a", 0, 10), child("b", 1, 2, parent_turn_id="user", names=OF_TASK_A)],
            {"b": ("user", CONTEXT, True)},
            id="the trace context comes first",
        ),
    ],
)
def test_evidence(turns: list[TurnFacts], edges: dict[str, Any]) -> None:
    assert found(*turns) == edges


def test_clocks_of_several_proxies_differ() -> None:
    turns = turn("user", 0, 10), child("a", 1, 2.0), child("b", 2.01, 4)
    assert found(*turns)["b"] == ("user", CONTEXT, True)
    assert found(*turns, skew_s=0.05)["b"] == ("user", CONTEXT, False)


# ── all of them ─────────────────────────────────────────────────────────────────────────────────────────────


def test_turns_that_name_each_other_make_no_circle() -> None:
    a = untraced("a", 0, 10, names=((NamedIn.PARENT_TASK, "task-b"),))
    b = untraced("b", 0, 10, names=((NamedIn.PARENT_TASK, "task-a"),))
    assert found(a, b) == {"a": ("b", REFERENCE, True)}
    assert found(child("c", 0, 1, parent_turn_id="c")) == {}


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[TurnFacts], dict[str, str]]:
    """Turns of agents that ask each other, and who really asked for each: several users, parallel branches, agents
    that pass on the whole trace context, the `traceparent` alone, an id of a task, or nothing."""
    turns: list[TurnFacts] = []
    parents: dict[str, str] = {}

    def ask(parent: TurnFacts | None, began: float, ended: float) -> None:
        turn_id = f"{len(turns):03}"
        answered = draw(st.booleans())
        one: TurnFacts
        how = draw(st.sampled_from(["whole", "traceparent", "reference", "nothing"])) if parent else "user"
        if parent is None or how == "nothing":
            one = untraced(turn_id, began, ended, is_answered=answered)
        elif how == "reference":
            names = ((NamedIn.PARENT_TASK, parent.task_id),)
            one = untraced(turn_id, began, ended, is_answered=answered, names=names)
        else:
            named = parent.turn_id if how == "whole" else ""
            trace = parent.trace_id
            one = child(turn_id, began, ended, is_answered=answered, trace_id=trace, parent_turn_id=named)
        turns.append(one)
        if parent is not None:
            parents[turn_id] = parent.turn_id
        depth_left = ended - began > 1
        for _ in range(draw(st.integers(0, 3)) if depth_left else 0):
            inside = sorted((draw(st.floats(began, ended)), draw(st.floats(began, ended))))
            if began < inside[0] < inside[1] < ended:
                ask(one, *inside)

    for user in range(draw(st.integers(1, 3))):
        ask(None, user, user + draw(st.floats(2, 50)))
    return turns, parents


def asked_by(edges: dict[str, Edge]) -> dict[str, tuple[str, bool]]:
    return {key: (edge.parent, edge.asked.certain) for key, edge in edges.items()}


@given(worlds(), st.randoms(use_true_random=False))
def test_what_is_certain_is_true_and_the_order_does_not_matter(
    world: tuple[list[TurnFacts], dict[str, str]], order: random.Random
) -> None:
    turns, parents = world
    edges = edges_of(turns)
    for key, edge in edges.items():
        if edge.asked.certain:
            assert parents.get(key) == edge.parent
    for one in turns:
        if one.links.parent_turn_id or one.links.names:
            assert edges[one.turn_id].asked.certain
    shuffled = list(turns)
    order.shuffle(shuffled)
    assert asked_by(edges_of(shuffled)) == asked_by(edges)


@given(worlds(), st.data())
def test_no_edge_leads_back_up(world: tuple[list[TurnFacts], dict[str, str]], data: st.DataObject) -> None:
    """Whatever part of the turns is known."""
    turns = [one for one in world[0] if data.draw(st.booleans())]
    edges = edges_of(turns)
    for start in edges:
        at, steps = start, 0
        while at in edges:
            at, steps = edges[at].parent, steps + 1
            assert steps <= len(turns)
