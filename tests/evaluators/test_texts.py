"""How values are told apart in reasons."""

from __future__ import annotations

import unicodedata

import pytest
from tool_call_evaluators.texts import contrast

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
