"""What a suite should expect if a run is accepted: what failed, and of that only what differs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.turn_samples import call, turn
from tool_call_evaluators import evaluate_sync, parse_suite
from tool_call_evaluators.outcomes.accepting import Acceptance, acceptance
from tool_call_evaluators.suite.editing import with_values
from tool_call_evaluators.suite.yaml_document import read_document

SUITE = """\
suite: orders
evaluators: [{tool_trajectory: OPTIONS}, tool_call_order, tool_call_count, tool_call_output, exact_match]
cases:
  - id: status
    turns:
      - user: Where is ORD-1?
        expect: {EXPECT}
"""


def accepted(expect: str, *calls: Any, answer: str = "It is sent.", options: str = "{}") -> Any:
    """The new value of `expect`, of a turn with these calls; a second round changes nothing."""
    text = SUITE.replace("EXPECT", expect).replace("OPTIONS", options)
    found = accept(text, [scored(text, turn("1", "Where is ORD-1?", list(calls), case="status", response_text=answer))])
    assert not found.left_out
    after = with_values(text, {one.path: one.value for one in found.proposals})
    again = scored(after, turn("1", "Where is ORD-1?", list(calls), case="status", response_text=answer))
    assert not accept(after, [again]).proposals, "what was accepted is expected"
    return read_document(after).value["cases"][0]["turns"][0]["expect"]


def scored(text: str, made: dict[str, Any]) -> dict[str, Any]:
    suite = parse_suite(text)
    case = suite.cases[0].eval_case(0, tool_calls=made["tool_calls"], response_text=made["response_text"])
    results = evaluate_sync(case, suite.build_evaluators("turn"))
    return made | {"evaluations": [result.to_dict() for result in results]}


def accept(text: str, turns: list[dict[str, Any]]) -> Acceptance:
    return acceptance(parse_suite(text), read_document(text).value, turns)


LOOK_UP = call("look_up", order_id="ORD-1", n=2)


ONE_OF = {"$one_of": ["EUR", {"$regex": "U.*"}]}
OR_ANY = {"$one_of": [{"b": 1}, {"b": {"$any": True}}]}
ALTERNATIVES: list[tuple[Any, Any, Any]] = [
    (ONE_OF, "USD", ONE_OF),
    ({"$one_of": ["EUR", "GBP"]}, "USD", "USD"),
    ({"$optional": {"$one_of": [1, 2]}}, 2, {"$optional": {"$one_of": [1, 2]}}),
    ({"a": OR_ANY, "c": 1}, {"a": {"b": 7}, "c": 2}, {"a": OR_ANY, "c": 2}),
    ([{"$one_of": [1, 2]}, 3], [2, 4], [{"$one_of": [1, 2]}, 4]),
]
"""What is expected, made, and expected once it is accepted."""
IGNORING = "{mode: any_order, ignored_tools: ['get_*']}"
READ_AND_PAID = [call("get_x"), call("pay", eur=2), call("get_y"), call("log")]


@pytest.mark.parametrize(
    ("expect", "calls", "options", "wanted"),
    [
        ("tool_calls: []", [LOOK_UP], "{}", [{"name": "look_up", "arguments": {"order_id": "ORD-1", "n": 2}}]),
        (
            'tool_calls: [{name: look_up, arguments: {order_id: {$regex: "ORD-[0-9]+"}, n: 1}}]',
            [LOOK_UP],
            "{}",
            [{"name": "look_up", "arguments": {"order_id": {"$regex": "ORD-[0-9]+"}, "n": 2}}],
        ),
        (
            "tool_calls: [{name: look_up, args: {order_id: ORD-1, n: {$optional: 3}, unit: {$optional: kg}}}]",
            [LOOK_UP],
            "{}",
            [{"name": "look_up", "args": {"order_id": "ORD-1", "n": 2, "unit": {"$optional": "kg"}}}],
        ),
        (
            "tool_calls: [{name: refund}, {name: look_up, arguments: null, result: gone}]",
            [LOOK_UP],
            "{}",
            [{"name": "look_up", "arguments": None, "result": "ok"}],
        ),
        ("tool_calls: [{name: refund, arguments: {id: 1}}]", [], "{}", []),
        # a mode that allows further calls gets none of them
        (
            "tool_calls: [{name: look_up, arguments: {order_id: ORD-1, n: 1}}]",
            [call("ping"), LOOK_UP],
            "{mode: superset}",
            [{"name": "look_up", "arguments": {"order_id": "ORD-1", "n": 2}}],
        ),
        # calls that do not count are neither added nor removed
        (
            "tool_calls: [{name: get_a}, {name: pay, arguments: {eur: 1}}, {name: get_b}]",
            READ_AND_PAID,
            IGNORING,
            [{"name": "get_a"}, {"name": "pay", "arguments": {"eur": 2}}, {"name": "log"}, {"name": "get_b"}],
        ),
        (
            "tool_calls: [{name: look_up, arguments: {order_id: ORD-1}}, {name: refund}]",
            [LOOK_UP],
            "{matcher: subset}",
            [{"name": "look_up", "arguments": {"order_id": "ORD-1"}}],
        ),
        *(
            (
                f"tool_calls: [{{name: pay, arguments: {json.dumps({'x': wanted, 'y': 1})}}}]",
                [call("pay", x=made, y=2)],
                "{}",
                [{"name": "pay", "arguments": {"x": kept, "y": 2}}],
            )
            for wanted, made, kept in ALTERNATIVES
        ),
        ("tool_calls_order: [refund]", [LOOK_UP, LOOK_UP], "{}", ["look_up", "look_up"]),
        ("response: It is lost.", [], "{}", "It is sent."),
    ],
)
def test_an_expectation_keeps_what_still_matches(expect: str, calls: list[Any], options: str, wanted: Any) -> None:
    assert accepted(expect, *calls, options=options)[expect.partition(":")[0]] == wanted


TWO = SUITE.replace("OPTIONS", "{}").replace("EXPECT", "tool_calls: [{name: look_up, arguments: {n: 1}}]")


def of_conversation(name: str, *calls: Any, **more: Any) -> dict[str, Any]:
    return scored(TWO, turn(name, "Where is ORD-1?", list(calls), case="status", conversation=name, **more))


def test_values_that_differ_between_conversations_become_placeholders() -> None:
    turns = [of_conversation("a", call("look_up", n=1, at=7)), of_conversation("b", call("look_up", n=1, at=8))]
    (proposal,) = accept(TWO, turns).proposals
    assert proposal.value == [{"name": "look_up", "arguments": {"n": 1, "at": {"$type": "number"}}}]


def test_calls_of_other_agents_are_not_taken_for_those_that_were_not_made() -> None:
    expect = "tool_calls: [{name: look_up}], tool_calls_count: {look_up: ['=', 1]}"
    text = SUITE.replace("EXPECT", expect).replace("OPTIONS", "{}")
    made = scored(text, turn("1", "Where is ORD-1?", [], case="status"))
    for depth, proposed in (("own", True), ("all", False)):
        suite = f"depth: {depth}\n{text.lstrip()}"
        found = acceptance(parse_suite(suite), read_document(suite).value, [made])
        assert bool(found.proposals) == proposed
        assert any("of the agents that were asked count" in why for why in found.left_out) == (not proposed)


def test_what_a_run_does_not_show_is_left_out() -> None:
    passed, failed = of_conversation("a", call("look_up", n=1)), of_conversation("b", call("look_up", n=2))
    flaky = accept(TWO, [passed, failed])
    assert not flaky.proposals
    assert flaky.left_out == ("status, turn 1: tool_calls: failed in 1 of 2 conversations, so it is flaky",)
    broken = accept(TWO, [of_conversation("a", state="TASK_STATE_FAILED")])
    assert not broken.proposals
    assert broken.left_out == ("status, turn 1: tool_calls: failed conversations show no behaviour to accept",)
    assert accept(TWO, [passed]) == Acceptance((), ("all cases: no expectation failed",))
