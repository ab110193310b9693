"""tool_correctness: three ideas of the right tools."""

from __future__ import annotations

import pytest
from a2a_tool_capture import ToolCall
from hypothesis import given
from hypothesis import strategies as st
from tool_call_evaluators import EvalCase, Status
from tool_call_evaluators.metrics.tool_correctness import ToolCorrectness

MODES = ["names_only", "names_and_order", "names_and_args"]


def evaluate(mode, actual, expected, **options):
    case = EvalCase(
        tool_calls=[{"name": name, "arguments": {"n": n}} for name, n in actual],
        expected_tool_calls=[{"name": name, "arguments": {"n": n}} for name, n in expected],
    )
    return ToolCorrectness(mode=mode, **options).evaluate(case)


A1, A2, B1, C1 = ("a", 1), ("a", 2), ("b", 1), ("c", 1)


@pytest.mark.statement(170, 171, 172)
@pytest.mark.parametrize(
    ("actual", "expected", "scores"),
    [
        #                                names  order  args
        ([], [], [1, 1, 1]),
        ([A1], [], [0, 0, 0]),
        ([], [A1], [0, 0, 0]),
        ([A1, B1], [A1, B1], [1, 1, 1]),
        ([B1, A1], [A1, B1], [1, 1 / 2, 1]),
        ([A2, B1], [A1, B1], [1, 1, 1 / 2]),
        ([A1, A1], [A1], [1, 1 / 2, 2 / 3]),
        ([A1, C1], [A1, B1], [1 / 2, 1 / 2, 1 / 2]),
        ([A1, B1, C1], [A1], [1 / 2, 1 / 3, 1 / 2]),
        ([C1], [A1], [0, 0, 0]),
    ],
)
def test_scores(actual, expected, scores):
    assert [evaluate(mode, actual, expected).score for mode in MODES] == pytest.approx(scores)


@pytest.mark.statement(170)
def test_names_only_is_the_default_and_names_what_was_wrong():
    result = ToolCorrectness().evaluate(
        EvalCase(tool_calls=[{"name": "a"}, {"name": "c"}], expected_tool_calls=[{"name": "a"}, {"name": "b"}])
    )
    assert result.details == {"mode": "names_only", "correct": ["a"], "redundant": ["c"], "missing": ["b"]}
    assert (
        result.reason
        == "names_only: F1 = 2/4, 1 of 2 expected tools used, 2 used in all: b was not used; c was not expected."
    )


def test_order_does_not_look_at_arguments_and_args_uses_the_matcher():
    assert evaluate("names_and_order", [A1], [A2], matcher="exact").score == 1.0
    assert evaluate("names_and_args", [A1], [A2], matcher="ignore").score == 1.0
    assert evaluate("names_and_args", [A1], [A2]).reason == (
        "names_and_args: F1 = 0/2, 0 of 1 expected call matched, 1 call made: "
        "call 1 (a) differs from expected call 1: n: expected 2, got 1."
    )


@pytest.mark.statement(173)
def test_numbers_compare_by_value():
    assert evaluate("names_and_args", [("a", 1.0)], [A1]).score == 1.0


def test_matching_is_optimal():
    any_a = {"name": "a", "arguments": {"$any": True}}
    case = EvalCase(
        tool_calls=[{"name": "a", "arguments": {"n": 1}}, {"name": "a", "arguments": {"n": 2}}],
        expected_tool_calls=[any_a, {"name": "a", "arguments": {"n": 1}}],
    )
    assert ToolCorrectness(mode="names_and_args").evaluate(case).score == 1.0


def test_without_expectation_it_is_skipped():
    assert ToolCorrectness().evaluate(EvalCase()).status is Status.SKIPPED


calls = st.lists(st.builds(ToolCall, st.sampled_from("abc"), st.sampled_from([{}, {"n": 1}])), max_size=6)


@given(st.sampled_from(MODES), calls, calls)
def test_scores_lie_between_0_and_1_and_do_not_care_which_side_is_which(mode, left, right):
    def score(actual, expected):
        return ToolCorrectness(mode=mode).evaluate(EvalCase(tool_calls=actual, expected_tool_calls=expected)).score

    assert 0.0 <= score(left, right) == score(right, left) <= 1.0
    assert score(left, left) == 1.0
