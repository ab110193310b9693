"""forbidden_calls: prohibitions, and what shows that a forbidden call would have been seen."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.turn_samples import call, turn
from tool_call_evaluators import EvalCase, OptionError, evaluate_sync, parse_suite
from tool_call_evaluators.metrics.forbidden_calls import ForbiddenCalls
from tool_call_evaluators.outcomes.conversations import follow, run_verdict

CLASSES = {"reads": ("get_*",), "writes": ("refund", "get_and_lock")}


def evaluate(forbidden: list[Any], calls: list[Any], **fields: Any) -> Any:
    return ForbiddenCalls(forbidden_calls=forbidden).evaluate(
        EvalCase(tool_calls=calls, tool_classes=CLASSES, **fields)
    )


REFUND = {"name": "refund", "arguments": {"eur": 9, "to": {"iban": "DE1"}}}


@pytest.mark.parametrize(
    ("forbidden", "score"),
    [
        ({"name": "refund"}, 0),
        ({"name": "refund", "arguments": {}}, 0),
        ({"name": "refund", "arguments": None}, 0),
        ({"name": "re*"}, 0),
        ({"name": "writes"}, 0),
        ({"name": "refund", "arguments": {"eur": 9}}, 0),
        ({"name": "refund", "args": {"eur": {"$one_of": [1, {"$approx": 9.0}]}}}, 0),
        ({"name": "refund", "arguments": {"eur": 9, "to": {"iban": {"$regex": "DE.*"}}}}, 0),
        ({"name": "refund", "arguments": {"eur": 9, "why": {"$optional": "x"}}}, 0),
        ({"name": "refund", "arguments": {"eur": 8}}, 1),
        ({"name": "refund", "arguments": {"why": "x"}}, 1),
    ],
)
def test_what_is_forbidden(forbidden: Any, score: float) -> None:
    assert evaluate([forbidden], [REFUND]).score == score


def test_the_score_is_the_share_that_is_kept_and_the_calls_are_named() -> None:
    result = evaluate([{"name": "refund"}, {"name": "delete_*"}], [{"name": "get_order"}, REFUND])
    assert (result.score, result.passed) == (0.5, False)
    assert result.details["made"] == [{"position": 2, "name": "refund", "prohibition": "refund"}]
    assert result.reason == "1 of 2 prohibitions kept: call 2 (refund) is forbidden: refund."


@pytest.mark.parametrize(
    ("forbidden", "calls", "fields", "proven"),
    [
        ("refund", [], {}, False),
        ("refund", [], {"tools": [{"name": "refund"}]}, True),
        ("refund", [], {"tools": [{"name": "refnd"}]}, False),
        ("del_*", [], {"tools": [{"name": "del_a"}]}, True),
        ("reads", [], {"tools": [{"name": "get_and_lock"}]}, False),
        ("writes", [], {"tools": [{"name": "get_and_lock"}]}, True),
        ("refund", [], {"history": [{"tool_calls": [REFUND]}]}, True),
        ("refund", [], {"turns": [{"tool_calls": []}, {"tool_calls": [REFUND]}]}, True),
        ("refund", [{"name": "get_order"}], {}, False),
    ],
)
def test_a_prohibition_needs_a_positive_control(forbidden: str, calls: Any, fields: Any, proven: bool) -> None:
    result = evaluate([{"name": forbidden}], calls, **fields)
    assert (result.status, result.label) == (("passed", None) if proven else ("skipped", "unproven"))


BY_ARGUMENTS, BY_NAME = {"name": "refund", "arguments": {"eur": 1}}, {"name": "refund"}
UNKNOWN, TOOLS = {"name": "refund", "arguments": None}, [BY_NAME]


@pytest.mark.parametrize(
    ("forbidden", "calls", "fields", "found"),
    [
        (BY_ARGUMENTS, [UNKNOWN], {"tools": TOOLS}, (None, "calls_unseen")),
        (BY_NAME, [UNKNOWN], {}, (0, None)),
        (BY_ARGUMENTS, [], {"tools": TOOLS, "calls_unseen": "lost"}, (None, "calls_unseen")),
        (BY_NAME, [REFUND], {"calls_unseen": "lost"}, (0, None)),
    ],
)
def test_unknown_is_never_kept(forbidden: Any, calls: list[Any], fields: Any, found: Any) -> None:
    result = evaluate([forbidden], calls, **fields)
    assert (result.score, result.label) == found


def test_prohibitions_of_the_suite_and_of_the_case_add_up() -> None:
    case = EvalCase(tool_calls=[REFUND, {"name": "log"}], forbidden_calls=[{"name": "log"}])
    result = ForbiddenCalls(forbidden_calls=[{"name": "refund"}]).evaluate(case)
    assert [item["position"] for item in result.details["made"]] == [1, 2]


@pytest.mark.parametrize(
    "wrong",
    [
        [{"arguments": {}}],
        [{"name": "a", "succeeded": True}],
        [{"name": "a", "arguments": {"x": {"$regex": "("}}}],
        [7],
    ],
)
def test_wrong_prohibitions_are_refused(wrong: Any) -> None:
    with pytest.raises(OptionError, match="forbidden_calls"):
        ForbiddenCalls(forbidden_calls=wrong)


NAMES = st.sampled_from(["get_a", "get_and_lock", "refund", "other"])
ARGUMENTS = st.dictionaries(st.sampled_from("ab"), st.integers(0, 2), max_size=2)
CALLS = st.lists(
    st.builds(lambda name, arguments: {"name": name, "arguments": arguments}, NAMES, ARGUMENTS), max_size=4
)


@given(CALLS, NAMES, st.none() | ARGUMENTS)
def test_it_fails_exactly_if_a_call_has_the_arguments(calls: Any, name: str, arguments: Any) -> None:
    forbidden = {"name": name, **({} if arguments is None else {"arguments": arguments})}
    made = [one for one in calls if one["name"] == name and (arguments or {}).items() <= one["arguments"].items()]
    result = evaluate([forbidden], calls, tools=[{"name": name}])
    assert result.passed == (not made)
    assert len(result.details["made"]) == len(made)


SUITE = """\
suite: orders
evaluators: [{forbidden_calls: {forbidden_calls: [{name: "delete_*"}]}}]
cases:
  - {id: a, turns: [{user: hi}]}
  - {id: b, turns: [{user: ho, expect: {forbidden_calls: [{name: refund, arguments: {eur: 1}}]}}]}
"""


def run(*calls_of_b: Any, text: str = SUITE) -> Any:
    suite = parse_suite(text)
    turns = []
    for number, (case, calls) in enumerate(zip(suite.cases, ([], calls_of_b), strict=True)):
        results = evaluate_sync(case.eval_case(0, tool_calls=list(calls)), suite.build_evaluators("turn"))
        evaluations = [result.to_dict() for result in results]
        turns.append(turn(str(number), case.turns[0].user, list(calls), case=case.id, evaluations=evaluations))
    conversations = follow(turns, suite)
    return run_verdict(suite, conversations), [one.turns[0].results[0] for one in conversations]


def test_a_run_without_a_control_fails_by_name() -> None:
    verdict, results = run()
    assert [(reason.code, reason.metric) for reason in verdict.reasons] == [("unproven", "forbidden_calls")]
    assert "that a call of delete_* or refund would" in verdict.reasons[0].message
    assert [result.label for result in results] == ["unproven"] * 2


def test_another_turn_of_the_run_may_be_the_control() -> None:
    verdict, results = run(call("refund", eur=2), call("delete_draft"))
    assert [(result.status, result.passed) for result in results] == [("passed", True), ("failed", False)]
    assert results[0].reason == "No forbidden call was made: a call of delete_draft was seen in b."
    assert [reason.code for reason in verdict.reasons] == ["failed"]


def test_every_prohibition_needs_a_control() -> None:
    verdict, results = run(call("refund", eur=2))
    assert [result.label for result in results] == ["unproven", "unproven"]
    assert [[one["name"] for one in result.details["unproven"]] for result in results] == [["delete_*"], ["delete_*"]]
    assert "refund" not in verdict.reasons[0].message


def test_a_suite_may_tolerate_it_but_a_run_that_measured_nothing_fails() -> None:
    verdict, _ = run(text=SUITE.replace("cases:", "tolerate: [unproven]\ncases:"))
    assert [reason.code for reason in verdict.tolerated] == ["unproven"]
    assert [reason.code for reason in verdict.reasons] == ["vacuous"]
