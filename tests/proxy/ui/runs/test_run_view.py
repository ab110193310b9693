"""What a page shows of a run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from urllib.parse import quote, urlencode

from a2a_eval_proxy.features.pages.run_pages import MAX_CASES, run_values
from support.turn_samples import call, result, turn
from tool_call_evaluators import parse_suite
from tool_call_evaluators.outcomes.conversations import follow, run_verdict
from tool_call_evaluators.report import build_report
from tool_call_evaluators.suite import Suite

SUITE = parse_suite(
    "suite: orders\nevaluators: [tool_error]\ngates: {pass_rate: 0.5}\n"
    "cases: [{id: a, turns: [{user: x}]}, {id: b, turns: [{user: y}]}, {id: c, turns: [{user: z}]}]"
)
MARKUP = "</td><script>alert(1)</script>"


def link(*segments: str, **query: str | None) -> str:
    given = urlencode({name: value for name, value in query.items() if value is not None})
    return "/" + "/".join(quote(segment, safe="") for segment in segments) + (f"?{given}" if given else "")


def scored(name: str, score: float, case: str | None = None, **more: Any) -> dict[str, Any]:
    return turn(name, "x", [call("pay")], [result("tool_error", score)], case=case or name, **more)


def view(*turns: dict[str, Any], suite: Suite | None = SUITE, more: bool = False) -> Any:
    conversations = follow(turns, suite)
    verdict = run_verdict(suite or parse_suite("suite: none"), conversations).to_dict()
    incomplete = {"incomplete": True} if more else {}
    found = run_values(build_report("nightly", turns, verdict | incomplete, suite=suite), link)
    cases = [SimpleNamespace(**row) for row in found["cases"]]
    return SimpleNamespace(**{**found, "cases": cases})


def test_a_run_counts_cases_gates_and_what_has_not_come_yet():
    found = view(scored("a", 1.0), scored("b", 0.0, start=2))
    assert [row.status for row in found.cases] == ["noted", "passed"]
    assert (found.planned, found.missing, found.missing_labels) == (3, 1, ["c"])
    assert found.gates == 1


def test_a_run_that_only_lacks_cases_has_not_failed_yet():
    assert view(scored("a", 1.0), more=True).status == "incomplete"
    assert view(scored("a", 0.0), scored("b", 0.0)).status == "failed"
    assert view(scored("a", 1.0), scored("b", 1.0), scored("c", 1.0)).status == "passed"


def test_failures_come_first_with_their_reason_and_a_link_to_the_conversation():
    ungated = parse_suite("suite: s\nevaluators: [tool_error]")
    first, second = view(scored("a", 1.0), scored("b", 0.0, start=2, seconds=3), suite=ungated).cases
    assert (first.label, first.status, first.note) == ("b", "failed", "tool_error failed: tool_error said so")
    assert first.href == "/conversations/conversation-b?run=nightly"
    assert (first.turns, first.calls, first.took) == (1, 1, "3.0 s")
    assert (second.label, second.status, second.note) == ("a", "passed", "")


def test_the_reason_names_the_turn_of_a_conversation_with_several():
    turns = [scored("1", 1.0, case="a", conversation="c"), scored("2", 0.0, case="a", conversation="c", start=2)]
    (row,) = view(*turns, suite=parse_suite("suite: s\nevaluators: [tool_error]")).cases
    assert row.note == "turn 2: tool_error failed: tool_error said so"


def test_a_failure_that_a_gate_tolerates_is_noted():
    (row,) = view(
        scored("a", 0.0), suite=parse_suite("suite: s\nevaluators: [tool_error]\ngates: {tool_error: {mean: 0}}")
    ).cases
    assert (row.status, row.note) == ("noted", "below threshold, tolerated by the gate")


def test_an_error_links_to_the_turns_that_have_it():
    ungated = parse_suite("suite: s\nevaluators: [tool_error]")
    assert '<a href="/turns/a">a, turn 1</a>' in view(scored("a", 0.0), suite=ungated).sections


def test_what_has_not_come_yet_links_to_no_turns():
    found = view(scored("a", 1.0), more=True)
    assert "Why it does not pass yet" in found.sections
    assert '<a href="#missing">b</a>' in found.sections
    assert '<span class="times">2 times</span>' in found.sections


def test_no_text_of_a_run_becomes_markup():
    found = view(scored(MARKUP, 0.0, case=MARKUP, conversation=MARKUP), suite=None)
    assert "<script" not in found.sections


def test_the_table_is_bounded():
    found = view(*(scored(f"{n}", 1.0, case=f"c{n}", start=n) for n in range(MAX_CASES + 3)), suite=None)
    assert len(found.cases) == MAX_CASES
    assert found.more_cases == 3
