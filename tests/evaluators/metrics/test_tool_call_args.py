"""tool_call_args: the documented order of trying, and its edge cases."""

from __future__ import annotations

import pytest
from a2a_tool_capture import ToolCall
from hypothesis import given
from hypothesis import strategies as st
from tool_call_evaluators import EvalCase, ToolCallArgs


def evaluate(actual, expected, **options):
    case = EvalCase(
        tool_calls=[{"name": name, "arguments": arguments} for name, arguments in actual],
        expected_tool_calls=[{"name": name, "arguments": arguments} for name, arguments in expected],
    )
    return ToolCallArgs(**options).evaluate(case)


@pytest.mark.parametrize(
    ("actual", "expected", "score", "strict"),
    [
        ([], [], 1, 1),
        ([("a", {})], [], 0, 0),
        ([], [("a", {})], 0, 0),
        ([("a", {"x": 1})], [("a", {"x": 1.0})], 1, 1),
        ([("a", {"x": 1})], [("a", {"x": 1}), ("b", {})], 1 / 2, 0),
        ([("b", {}), ("a", {})], [("a", {}), ("b", {})], 1, 1),  # order across names is free
        ([("a", {}), ("z", {})], [("a", {})], 1, 1),  # extra calls do not count
        ([("a", {"x": 2}), ("a", {"x": 1})], [("a", {"x": 1})], 1, 1),  # a mismatch is passed over
        ([("a", {"x": 1})], [("a", {"x": 1}), ("a", {"x": 1})], 1 / 2, 0),  # each call serves once
        ([(" a", {})], [("a", {})], 0, 0),  # names match exactly
        ([("a", {"x": True})], [("a", {"x": 1})], 0, 0),
    ],
)
def test_scores(actual, expected, score, strict):
    assert evaluate(actual, expected).score == score
    assert evaluate(actual, expected, strict=True).score == strict


def test_further_arguments_fail_unless_subset():
    actual, expected = [("a", {"x": 1, "y": 2})], [("a", {"x": 1})]
    assert evaluate(actual, expected).score == 0.0
    assert evaluate(actual, expected, subset=True).score == 1.0
    assert evaluate(expected, actual, subset=True).score == 0.0


def test_calls_are_tried_in_the_documented_order_even_where_another_would_do_better():
    actual = [("a", {"x": 1, "y": 1}), ("a", {"x": 1})]
    expected = [("a", {"x": 1}), ("a", {"x": 1, "y": 1})]
    assert evaluate(actual, expected, subset=True).score == 0.5


def test_the_details_show_each_pair_tried():
    result = evaluate(
        [("update_user", {"id": 1}), ("update_user", {"id": 2}), ("log", {})],
        [("update_user", {"id": 2}), ("log", {"level": 1})],
    )
    assert {key: result.details[key] for key in ("update_user_0", "update_user_1", "log_0")} == {
        "update_user_0": {"expected": {"id": 2}, "actual": {"id": 1}, "score": 0.0},
        "update_user_1": {"expected": {"id": 2}, "actual": {"id": 2}, "score": 1.0},
        "log_0": {"expected": {"level": 1}, "actual": {}, "score": 0.0},
    }
    assert result.details["matched"] == [{"name": "update_user", "expected": 1, "actual": 2}]
    assert result.reason == (
        "1 of 2 expected calls made with the expected arguments: "
        "call 3 (log) differs from expected call 2: level is missing (expected 1)."
    )


calls = st.lists(st.builds(ToolCall, st.sampled_from("ab"), st.sampled_from([{}, {"n": 1}, {"n": 2}])), max_size=5)


@given(calls, calls, calls, st.booleans())
def test_properties(actual, expected, more, subset):
    def score(made, **options):
        case = EvalCase(tool_calls=made, expected_tool_calls=expected)
        return ToolCallArgs(subset=subset, **options).evaluate(case).score

    assert 0.0 <= score(actual) <= 1.0
    assert score(actual, strict=True) == float(score(actual) == 1.0)
    assert score(expected) == 1.0
    if expected:
        assert score(actual + more) >= score(actual)
