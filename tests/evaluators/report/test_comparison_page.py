"""The comparison of two runs as a page: what it shows, that no text escapes, and a real browser's view."""

from __future__ import annotations

import base64
import hashlib
import re

import pytest
from support.turn_samples import call, result, turn
from tool_call_evaluators.outcomes import compare
from tool_call_evaluators.report.html import comparison_body, comparison_html

MARKUP = "</style></main><script>document.title='owned'</script><img src=x onerror=alert(1)>"


def one(case: str, score: float, *calls: dict) -> dict:
    return turn(case, "x", list(calls), [result("tool_error", score)], case=case)


@pytest.fixture(scope="module")
def page() -> str:
    before = [one("refund", 1.0, call("pay", amount=1, to={"name": "Ada"}), call("mail")), one("old", 1.0)]
    after = [one("refund", 0.0, call("pay", amount=2, to={"name": "Eve"})), one(MARKUP, 1.0, call(MARKUP, x=MARKUP))]
    return comparison_html(compare(before, after, names=("monday", f"tuesday {MARKUP}")))


def test_calls_of_both_runs_are_next_to_each_other_with_their_differences(page):
    assert ">Worse<" in page
    rows = re.findall(r'<li class="(changed|removed|added|same)"><span class="mark"', page)
    assert rows[:2] == ["changed", "removed"]
    notices = re.findall(r'<li class="(\w+)" dir="auto">([^<]+)', page)
    assert ("changed", "Too few cases to distinguish a drop from chance: at least 5 are needed.") in notices
    assert page.count('<div class="argument differs">') == 4
    assert '<dd dir="ltr">1</dd>' in page
    assert '<dd dir="ltr">2</dd>' in page
    assert '<a href="#case-0">old</a>' in page or '<a href="#case-0">refund</a>' in page
    assert "now failing: tool_error" in page


def test_the_body_is_what_stands_between_the_page_s_ends():
    comparison = compare([one("a", 1.0)], [one("a", 0.0)], names=("monday", "tuesday"))
    body = comparison_body(comparison)
    assert body.startswith("<header")
    assert body in comparison_html(comparison)


def test_no_text_becomes_markup_and_the_policy_allows_the_style_only(page):
    assert "<script" not in page
    assert "<img" not in page
    (style,) = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'sha256-{digest}'" in page
    assert not re.search(r"""\s(?:src|href)=["'](?!#)""", page.partition("</style>")[2])
