"""exact_match and contains, and the part of the case they evaluate."""

from __future__ import annotations

import pytest
from tool_call_evaluators import EvalCase
from tool_call_evaluators.metrics.text_match import Contains, ExactMatch


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


def test_exact_match_says_what_differs():
    result = match("sent", "lost")
    assert result.reason == 'response_text: expected "lost", got "sent".'
    assert result.details == {"expected": "lost", "actual": "sent"}
    assert match("a", "a").reason == "response_text is as expected."


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


def test_contains_says_what_it_looked_for():
    result = Contains(search_text="x").evaluate(EvalCase(response_text="abc"))
    assert (result.reason, result.details) == (
        'response_text does not contain "x".',
        {"search_text": "x", "found": False},
    )


def test_the_case_comes_before_the_option():
    assert ExactMatch(expected="a").evaluate(EvalCase(response_text="a")).score == 1.0
    assert ExactMatch(expected="a").evaluate(EvalCase(response_text="a", expected_response="b")).score == 0.0
    assert Contains(search_text="a").evaluate(EvalCase(response_text="a", response_contains="b")).score == 0.0


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
