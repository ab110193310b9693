"""The first fraction in a reason is the score, or the reason says that only the whole counts."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tool_call_evaluators import EvalCase, get_evaluator
from tool_call_evaluators.texts import contrast

calls = st.lists(
    st.builds(
        lambda name, value, result: {"name": name, "arguments": {"x": value}, "result": result},
        st.sampled_from("abc"),
        st.integers(1, 2),
        st.sampled_from(["ok", '{"error": "no"}', ""]),
    ),
    max_size=5,
)
modes = ("strict", "in_order", "any_order", "superset", "subset", "precision", "recall", "within")
EVALUATORS = [
    *(("tool_trajectory", {"mode": mode}) for mode in modes),
    *(("tool_correctness", {"mode": mode}) for mode in ("names_only", "names_and_order", "names_and_args")),
    *(("tool_call_args", options) for options in ({}, {"strict": True}, {"subset": True})),
    *(
        ("tool_call_order", {"strict": strict, "tool_calls_order": names})
        for strict in (True, False)
        for names in (["a", "b", "a"], [])
    ),
    *(
        ("tool_call_count", {"strict": strict, "tool_calls_count": {"a": [">", 1], "b": ["=", 0]}})
        for strict in (True, False)
    ),
    *(
        ("tool_call_output", {"strict": strict, "tool_outputs": outputs})
        for strict in (True, False)
        for outputs in ([{"name": "a", "output": "ok"}, {"name": "b", "output": ""}], [])
    ),
    ("tool_error", {}),
    ("tool_efficiency", {}),
]


@pytest.mark.parametrize(("name", "options"), EVALUATORS, ids=lambda value: str(value))
@given(expected=calls, actual=calls)
def test_the_fraction_in_a_reason_is_the_score(name, options, expected, actual):
    result = get_evaluator(name, **options).evaluate(EvalCase(tool_calls=actual, expected_tool_calls=expected))
    told = re.search(r"(\d+)(?: of |/)(\d+)", result.reason)
    if "all or nothing" in result.reason:
        assert result.score == 0
        assert int(told[1]) > 0
    elif told is None:
        assert re.search(r"\b[Nn]o (call|output)|no calls", result.reason), result.reason
        assert result.score in (0, 1)
    elif int(told[2]) == 0:
        assert result.score == 1
    else:
        assert int(told[1]) / int(told[2]) == pytest.approx(result.score), result.reason


ZUERICH = "Z\u00fcrich"


@pytest.mark.parametrize(
    ("expected", "actual", "said"),
    [
        ("Bern", "Basel", "expected Bern, got Basel"),
        (ZUERICH, "Zurich", f"expected {ZUERICH}, got Zurich"),
        (ZUERICH, unicodedata.normalize("NFD", ZUERICH), "(Z\\xfcrich), got Zu\u0308rich (Zu\\u0308rich)"),
        ("a b", "a\u00a0b", "expected a b (a b), got a\u00a0b (a\\xa0b)"),
        ("paypal", "p\u0430ypal", "expected paypal (paypal), got p\u0430ypal (p\\u0430ypal)"),
        ("ab", "a\u200bb", "expected ab (ab), got a\u200bb (a\\u200bb)"),
        ("a-b", "a\u2013b", "(a\\u2013b)"),
        ("A\uff21", "AA", "(A\\uff21), got AA (AA)"),
        (100 * "x" + "Bern", 100 * "x" + "Basel", "xBern, got \u2026xxxx"),
        (100 * "x", 101 * "x", "xxxx, got "),
    ],
)
def test_a_difference_can_be_seen(expected: str, actual: str, said: str) -> None:
    assert said in contrast(expected, actual)
    ours, theirs = contrast(expected, actual).removeprefix("expected ").split(", got ")
    assert ours != theirs
