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
        (ZUERICH, unicodedata.normalize("NFD", ZUERICH), "(U+00FC), got Zu\u0308rich (U+0075 U+0308)"),
        ("a b", "a\u00a0b", "expected a b (U+0020), got a\u00a0b (U+00A0)"),
        ("paypal", "p\u0430ypal", "expected paypal (U+0061), got p\u0430ypal (U+0430)"),
        ("ab", "a\u200bb", "expected ab (without), got a\u200bb (U+200B)"),
        ("a-b", "a\u2013b", "expected a-b (U+002D), got a\u2013b (U+2013)"),
        ("it's", "it\u2019s", "(U+0027), got it\u2019s (U+2019)"),
        ("A\uff21", "AA", "(U+FF21), got AA (U+0041)"),
        (100 * "x" + "Bern", 100 * "x" + "Basel", "xBern, got \u2026xxxx"),
        (100 * "x", 101 * "x", "xxxx, got "),
    ],
)
def test_a_difference_can_be_seen(expected: str, actual: str, said: str) -> None:
    assert said in contrast(expected, actual)
    ours, theirs = contrast(expected, actual).removeprefix("expected ").split(", got ")
    assert ours != theirs
