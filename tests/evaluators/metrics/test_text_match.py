"""exact_match and contains, and the part of the case they evaluate."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tool_call_evaluators import EvalCase, OptionError
from tool_call_evaluators.metrics.text_match import Contains, ExactMatch, JsonSimilarity


def match(answer, expected, **options):
    return ExactMatch(**options).evaluate(EvalCase(response_text=answer, expected_response=expected))


@pytest.mark.parametrize(
    ("answer", "expected", "score", "case_sensitive"),
    [
        ("Sent", "Sent", 1, 1),
        ("sent", "SENT", 1, 0),
        ("sent ", "sent", 0, 0),
        ("", "", 1, 1),
        ("", "x", 0, 0),
        ('{"a": 1.0}', {"a": 1}, 1, 1),
        ('{"a": "X"}', {"a": "x"}, 1, 0),
        ("not json", {"a": 1}, 0, 0),
        ("5", 5, 1, 1),
        ("5", "5.0", 0, 0),  # texts compare as texts
        ("ORD-77", {"$regex": "ORD-[0-9]+"}, 1, 1),
    ],
)
def test_exact_match(answer, expected, score, case_sensitive):
    assert match(answer, expected).score == score
    assert match(answer, expected, case_sensitive=True).score == case_sensitive
    assert match(answer, expected, negated=True).score == 1 - score


SENT, JSON = EvalCase(response_text="sent"), EvalCase(response_text='{"a": 1}')


@pytest.mark.parametrize(
    ("evaluator", "case", "score"),
    [
        (ExactMatch(expected="sent"), SENT, 1.0),
        (ExactMatch(expected="sent"), replace(SENT, expected_response="lost"), 0.0),
        (Contains(search_text="e"), replace(SENT, response_contains="b"), 0.0),
        (JsonSimilarity(expected={"a": 1}), JSON, 1.0),
        (JsonSimilarity(expected='{"a": 1}'), JSON, 1.0),
        (JsonSimilarity(expected={"a": 1}), replace(JSON, expected_response={"a": 2}), 0.5),
    ],
)
def test_the_case_comes_before_the_option(evaluator, case, score):
    assert evaluator.evaluate(case).score == score


@pytest.mark.parametrize(
    ("evaluator", "reason", "details"),
    [
        (
            ExactMatch(expected="lost"),
            'response_text: expected "lost", got "sent".',
            {"expected": "lost", "actual": "sent"},
        ),
        (ExactMatch(expected="sent"), "response_text is as expected.", {"expected": "sent", "actual": "sent"}),
        (
            Contains(search_text="x"),
            'response_text does not contain "x".',
            {"search_text": "x", "found": False},
        ),
    ],
)
def test_what_is_said_of_an_answer(evaluator, reason, details):
    result = evaluator.evaluate(SENT)
    assert (result.reason, result.details) == (reason, details)


@pytest.mark.parametrize(
    ("answer", "wanted", "score", "case_sensitive"),
    [
        ("Your order was SENT.", "sent", 1, 0),
        ("Your order was sent.", "sent", 1, 1),
        ("Your order", "sent", 0, 0),
        ("anything", "", 1, 1),
        ("", "x", 0, 0),
    ],
)
def test_contains(answer, wanted, score, case_sensitive):
    case = EvalCase(response_text=answer, response_contains=wanted)
    assert Contains().evaluate(case).score == score
    assert Contains(case_sensitive=True).evaluate(case).score == case_sensitive
    assert Contains(negated=True).evaluate(case).score == 1 - score


CASE = EvalCase(
    user_text="Where is it?",
    response_text='{"order": {"status": "sent", "items": [{"sku": "A1"}], "note": "{\\"deep\\": true}"}}',
    tool_calls=[{"name": "lookup", "arguments": {"id": 7}, "result": '{"carrier": "DHL"}'}],
)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("response_text.order.status", "sent"),
        ("response_text.order.items.0.sku", "A1"),
        ("response_text.order.items", [{"sku": "A1"}]),
        ("response_text.order.note.deep", True),
        ("user_text", "where is it?"),
        ("tool_calls.0.name", "lookup"),
        ("tool_calls.0.arguments.id", 7.0),
        ("tool_calls.0.result.carrier", "DHL"),
    ],
)
def test_any_part_of_the_case(field, value):
    assert ExactMatch(field=field, expected=value).evaluate(CASE).score == 1.0


@pytest.mark.parametrize(
    ("field", "reason"),
    [
        ("response_text.invoice", "response_text has no invoice."),
        ("response_text.order.items.1", "response_text.order.items has no 1."),
        ("response_text.order.items.-1", "response_text.order.items has no -1."),
        ("response_text.order.status.x", "response_text.order.status has no x."),
        ("tool_calls.1.name", "tool_calls has no 1."),
        ("tool_calls.0.to_dict", "tool_calls.0 has no to_dict."),
    ],
)
@pytest.mark.parametrize("negated", [False, True])
def test_a_path_that_leads_nowhere_scores_0_negated_or_not(field, reason, negated):
    for evaluator in (
        ExactMatch(field=field, expected="x", negated=negated),
        Contains(field=field, search_text="x", negated=negated),
    ):
        result = evaluator.evaluate(CASE)
        assert (result.score, result.reason) == (0.0, reason)


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
