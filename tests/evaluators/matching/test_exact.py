"""The proof that calls were made exactly as expected changes no result; it only makes the comparison cheaper."""

from __future__ import annotations

import math
from decimal import Decimal
from unittest import mock

import pytest
from a2a_tool_capture import ToolCall
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tool_call_evaluators import EvalCase, ToolCallArgs, ToolTrajectory
from tool_call_evaluators.matching import explain
from tool_call_evaluators.metrics import tool_call_args
from tool_call_evaluators.metrics.tool_correctness import ToolCorrectness

MODES = ["strict", "in_order", "any_order", "superset", "subset", "precision", "recall", "within"]
MATCHERS = [
    "exact",
    "subset",
    "superset",
    "ignore",
    {"deep": True, "mode": "subset"},
    {"trim": True, "case_insensitive": True},
    {"per_tool": {"a": "ignore", "b": "subset"}},
    {"mode": "ignore", "per_tool": {"a": "exact"}},
    {"per_tool": {"a": lambda expected, actual: False}},
    lambda expected, actual: len(expected) == len(actual),
]
EVALUATORS = [
    *(ToolTrajectory(mode=mode, matcher=matcher) for mode in MODES for matcher in MATCHERS),
    *(ToolCorrectness(mode=mode, matcher=m) for mode in ("names_and_order", "names_and_args") for m in MATCHERS),
    *(ToolCallArgs(strict=strict, subset=subset) for strict in (False, True) for subset in (False, True)),
]

numbers = st.sampled_from(
    [
        0,
        1,
        Decimal(1),
        Decimal(5),
        5,
        1.0,
        0.0,
        -0.0,
        True,
        False,
        2**53 + 1,
        float(2**53),
        2**70,
        math.nan,
        math.inf,
        0.1,
    ]
)
atoms = numbers | st.none() | st.sampled_from(["", "a", "A ", "é", "e\u0301", "\ud800", "1", "true", "x" * 100])
keys = st.sampled_from(["n", "ä", "$any", "$type", "$regex", "$literal", "tolerance"])
values = st.recursive(atoms, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3))
arguments = st.none() | st.dictionaries(keys, values, max_size=3)
calls = st.builds(
    ToolCall, st.sampled_from("abc"), arguments, st.sampled_from(["", "1"]), st.sampled_from([None, "done"])
)


@st.composite
def nearly_the_same(draw, value):
    """`value`, at times in another form that is equal for Python, or JSON, or neither."""
    if isinstance(value, dict):
        items = [(key, draw(nearly_the_same(item))) for key, item in value.items()]
        return dict(draw(st.permutations(items)))
    if isinstance(value, list):
        return [draw(nearly_the_same(item)) for item in value]
    if isinstance(value, bool | int | float) and draw(st.integers(0, 3)) == 0:
        kinds = [bool, float, int, Decimal] if math.isfinite(value) else [bool, float]
        return draw(st.sampled_from(kinds))(value)
    return value


@st.composite
def trajectories(draw):
    """Expected calls, and actual ones that are the same, nearly the same, or others."""
    expected = draw(st.lists(calls, max_size=4))
    actual = [ToolCall(call.name, draw(nearly_the_same(call.arguments)), "2") for call in expected]
    if draw(st.integers(0, 2)) == 0:
        actual = draw(st.permutations(actual)) + draw(st.lists(calls, max_size=1))
    return expected, actual


def result(evaluator, case):
    return evaluator.evaluate(case).to_dict()


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.sampled_from(EVALUATORS), trajectories())
@example(ToolTrajectory(), ([ToolCall("a", {"n": 1})], [ToolCall("a", {"n": True})]))
@example(ToolTrajectory(), ([ToolCall("a", {"n": [{"x": False}]})], [ToolCall("a", {"n": [{"x": 0}]})]))
@example(ToolTrajectory(), ([ToolCall("a", {"$any": 1})], [ToolCall("a", {"$any": 1})]))
@example(ToolTrajectory(mode="within"), ([ToolCall("a"), ToolCall("a")], [ToolCall("a"), ToolCall("a")]))
@example(ToolCallArgs(), ([ToolCall("a", {"n": 1})] * 2, [ToolCall("a", {"n": 1}), ToolCall("a", {"n": 1.0})]))
def test_results_are_those_of_the_full_comparison(evaluator, calls):
    expected, actual = calls
    case = EvalCase(tool_calls=actual, expected_tool_calls=expected)
    found = [result(evaluator, case), result(evaluator, case)]
    with (
        mock.patch.object(explain, "made_exactly", return_value=False),
        mock.patch.object(tool_call_args, "made_exactly", return_value=False),
    ):
        assert [repr(result(evaluator, case))] * 2 == [repr(item) for item in found]
