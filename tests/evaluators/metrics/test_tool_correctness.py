"""tool_correctness: three ideas of the right tools."""

from __future__ import annotations

import pytest
from tool_call_evaluators import EvalCase
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
