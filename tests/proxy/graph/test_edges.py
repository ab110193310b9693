"""Who asked whom: each kind of evidence, what overrules it, and what is only a guess."""

from __future__ import annotations

import random
from typing import Any

import pytest
from a2a_eval_proxy.features.graph.edges import Edge, SpanFacts, TurnFacts, edges_of
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


def test_a_tracestate_of_another_trace_does_not_count() -> None:
    user = turn("user", 0, 10, trace_id="2" * 32)
    assert found(user, child("a", 1, 2, parent_turn_id="user")) == {}


def test_a_parent_that_is_not_stored_yet_is_not_replaced_by_another() -> None:
    """Its id is known, and it is not that of one of these."""
    assert found(turn("user", 0, 10), child("a", 1, 2, parent_turn_id="later")) == {}


def test_spans_lead_to_the_agent_that_asked() -> None:
    left, right = child("left", 1, 9), child("right", 1, 9)
    spans = (
        SpanFacts("server", "to-right", True),
        SpanFacts("model", "server", False),
        SpanFacts("in-a", "model", False),
    )
    seen = found(turn("user", 0, 10, spans=spans), left, right, child("a", 2, 3))
    assert seen["a"] == ("right", CONTEXT, True)


def test_the_nearest_turn_above_counts() -> None:
    spans = (
        SpanFacts("first", "to-user", True),
        SpanFacts("in-left", "first", False),
        SpanFacts("second", "to-left", True),
        SpanFacts("in-a", "second", False),
    )
    left = child("left", 1, 9, spans=spans)
    right = child("right", 1, 9)
    seen = found(turn("user", 0, 10), left, right, child("a", 2, 3))
    assert (seen["left"], seen["a"]) == (("user", CONTEXT, True), ("left", CONTEXT, True))


def test_a_span_of_the_client_itself_is_not_one_of_the_agent_it_asked() -> None:
    """A client that asks two agents from one span: its own second span has the same parent as the first agent's."""
    spans = (SpanFacts("in-second", "to-first", False),)
    first = child("first", 0, 10, client_span_id="to-first", spans=spans)
    assert found(first, child("second", 1, 2)) == {"second": ("first", CONTEXT, False)}
    alike = child("second", 1, 2, agent="first")
    assert found(first, alike) == {}


def test_the_only_turn_of_a_trace_that_began_here_is_the_parent() -> None:
    assert found(turn("user", 0, 10), child("a", 1, 2)) == {"a": ("user", CONTEXT, True)}


def test_one_after_the_other() -> None:
    seen = found(turn("user", 0, 10), child("a", 1, 2), child("b", 3, 4))
    assert seen == {"a": ("user", CONTEXT, True), "b": ("user", CONTEXT, True)}


@pytest.mark.parametrize("ended", [2.0, None])
def test_an_agent_that_was_given_up_may_still_ask(ended: float | None) -> None:
    seen = found(turn("user", 0, 10), child("a", 1, ended, is_answered=False), child("b", 3, 4))
    assert seen["b"] == ("user", CONTEXT, False)


def test_several_that_could_ask_are_a_guess() -> None:
    seen = found(turn("user", 0, 10), child("a", 1, 9), child("b", 2, 3))
    assert seen == {"a": ("user", CONTEXT, True), "b": ("user", CONTEXT, False)}


def test_as_long_as_the_first_turn_is_open_others_may_be_missing() -> None:
    assert found(turn("user", 0, None), child("a", 1, 2)) == {"a": ("user", CONTEXT, False)}


def test_what_is_certain_rules_out_candidates() -> None:
    """`b` was asked by `a`, so that it cannot have asked for it."""
    seen = found(turn("user", 0, 10), child("a", 2, 9), child("b", 2, 9, parent_turn_id="a"))
    assert seen == {"a": ("user", CONTEXT, True), "b": ("a", CONTEXT, True)}


def test_clocks_of_several_proxies_differ() -> None:
    turns = turn("user", 0, 10), child("a", 1, 2.0), child("b", 2.01, 4)
    assert found(*turns)["b"] == ("user", CONTEXT, True)
    assert found(*turns, skew_s=0.05)["b"] == ("user", CONTEXT, False)


def test_the_turns_of_one_client_in_one_trace_are_not_each_others() -> None:
    """A client that asks one agent twice looks like an agent that asks itself."""
    one, two = (child(name, number, 10, agent="same") for number, name in enumerate("ab"))
    assert found(one, two) == {}


def test_a_turn_that_began_later_cannot_ask() -> None:
    assert found(turn("user", 5, 10), child("a", 1, 2)) == {}


# ── ids ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "name",
    [(NamedIn.PARENT_TASK, "task-user"), (NamedIn.PARENT_CONVERSATION, "conversation-user")],
)
def test_the_message_names_the_parent(name: tuple[NamedIn, str]) -> None:
    seen = found(untraced("user", 0, 10), untraced("other", 0, 10), untraced("a", 1, 2, names=(name,)))
    assert seen == {"a": ("user", REFERENCE, True)}


@pytest.mark.parametrize("name", [(NamedIn.CHILD_TASK, "task-a"), (NamedIn.CHILD_CONVERSATION, "conversation-a")])
def test_the_answer_names_the_child(name: tuple[NamedIn, str]) -> None:
    seen = found(untraced("user", 0, 10, names=(name,)), untraced("other", 0, 10), untraced("a", 1, 2))
    assert seen == {"a": ("user", REFERENCE, True)}


def test_a_user_who_refers_to_an_earlier_task_of_the_conversation_asks_himself() -> None:
    one = {"conversation_id": "conversation"}
    follows = untraced("b", 1, 2, names=((NamedIn.PARENT_TASK, "task-a"),), **one)
    assert found(untraced("a", 0, 10, **one), follows) == {}


def test_a_task_that_was_over_is_a_guess() -> None:
    follows = untraced("b", 3, 4, names=((NamedIn.PARENT_TASK, "task-a"),))
    assert found(untraced("a", 0, 2), follows) == {"b": ("a", REFERENCE, False)}


def test_of_several_turns_of_a_task_the_one_at_work_counts() -> None:
    turns = [untraced(name, began, began + 1, task_id="t", conversation_id="c") for began, name in enumerate("abc")]
    assert found(*turns, untraced("d", 1.5, 1.6, names=((NamedIn.PARENT_TASK, "t"),))) == {"d": ("b", REFERENCE, True)}


def test_two_agents_with_equal_task_ids() -> None:
    turns = [untraced(name, 0, 9, task_id="1") for name in "ab"]
    assert not found(*turns, untraced("d", 1, 2, names=((NamedIn.PARENT_TASK, "1"),)))["d"][2]


def test_the_trace_context_comes_first() -> None:
    follows = child("b", 1, 2, parent_turn_id="user", names=((NamedIn.PARENT_TASK, "task-a"),))
    assert found(turn("user", 0, 10), untraced("a", 0, 10), follows) == {"b": ("user", CONTEXT, True)}


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
