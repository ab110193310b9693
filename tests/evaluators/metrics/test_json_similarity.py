"""json_similarity: leaf by leaf."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tool_call_evaluators import EvalCase, OptionError
from tool_call_evaluators.metrics.text_match import JsonSimilarity


def evaluate(expected, actual):
    """Both under a key, so that no text is taken for JSON of another type."""
    case = EvalCase(response_text=json.dumps({"value": actual}), expected_response={"value": expected})
    return JsonSimilarity().evaluate(case)


@pytest.mark.parametrize(
    ("expected", "actual", "score"),
    [
        (10, 10.0, 1),
        (10, 9, 0.9),
        (10, 11, 0.9),
        (10, 25, 0),
        (10, -10, 0),
        (-10, -9, 0.9),
        (0, 0.0, 1),
        (0, 0.001, 0),
        (10**400, 10**400, 1),
        (10**400, 1.5, 0),
        (1.5, 10**400, 0),
        (True, True, 1),
        (True, False, 0),
        (True, 1, 0),
        (1, True, 0),
        (None, None, 1),
        (None, 0, 0),
        ("", "", 1),
        ("", "x", 0),
        ("kitten", "sitting", 1 - 3 / 7),
        ("abc", "abc", 1),
        ("1", 1, 0),
        ([1, 2], [1, 2, 3], 1),  # extra elements do not count
        ([1, 2], [1], 1 / 2),
        ([1, 2], [2, 1], 1 / 4),  # by index: 0 and 1/2
        ([1, 2], {"0": 1}, 0),
        ({"a": 1, "b": 2}, {"a": 1, "z": 9}, 1 / 2),  # only expected keys count
        ({"a": {"b": 1, "c": 2}, "d": 3}, {"a": 5, "d": 3}, 1 / 3),  # 0 for every leaf under it
        ({}, {"a": 1}, 1),
        ([], 3, 1),
        ({"a": [{}, []]}, None, 1),
    ],
)
def test_scores(expected, actual, score):
    assert evaluate(expected, actual).score == pytest.approx(score)


def test_expected_may_be_json_text_or_an_option():
    case = EvalCase(response_text='{"a": 1}')
    assert JsonSimilarity(expected={"a": 1}).evaluate(case).score == 1.0
    assert JsonSimilarity(expected='{"a": 1}').evaluate(case).score == 1.0
    own = EvalCase(response_text='{"a": 1}', expected_response={"a": 2})
    assert JsonSimilarity(expected={"a": 1}).evaluate(own).score == 0.5


def test_details_and_reason():
    result = evaluate({"a": 10, "b": "x", "c": [True]}, {"a": 9, "b": "x"})
    assert result.details == {
        "leaves": 3,
        "matched": pytest.approx(1.9),
        "differences": [
            {"path": "value.a", "expected": 10, "actual": 9, "similarity": 0.9},
            {"path": "value.c[0]", "expected": True, "actual": None, "similarity": 0.0},
        ],
    }
    assert result.reason == (
        "1.9 of 3 expected values matched: value.a: expected 10, got 9; value.c[0] is missing (expected true)."
    )


def test_a_part_of_the_answer():
    case = EvalCase(response_text='{"order": {"id": 7}}', expected_response={"id": 7})
    assert JsonSimilarity(field="response_text.order").evaluate(case).score == 1.0
    gone = JsonSimilarity(field="response_text.invoice").evaluate(case)
    assert (gone.score, gone.reason) == (0.0, "response_text has no invoice.")
    with pytest.raises(OptionError, match="field must begin with a field of the case; got 'respons_text'"):
        JsonSimilarity(field="respons_text")


def test_very_long_texts_are_equal_or_not():
    text = "x" * 200_000
    assert evaluate(text, text).score == 1.0
    assert evaluate(text, text[:-1]).score == 0.0


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=10,
)


@given(json_values, json_values)
def test_properties(expected, actual):
    assert 0.0 <= evaluate(expected, actual).score <= 1.0
    assert evaluate(expected, expected).score == pytest.approx(1.0)
