"""A report that is compared with a baseline: its tile, and the other forms."""

from __future__ import annotations

import json
from dataclasses import replace

from support.turn_samples import result, turn
from tool_call_evaluators import parse_suite
from tool_call_evaluators.outcomes.comparison import compare
from tool_call_evaluators.outcomes.conversations import follow, run_verdict
from tool_call_evaluators.report import build_report, html_report, json_report, markdown_summary
from tool_call_evaluators.report.model import Report

SUITE = parse_suite(
    "suite: s\nevaluators: [tool_trajectory]\n"
    "cases: [{id: a, turns: [{user: x}]}, {id: b, turns: [{user: y}]}, {id: c, turns: [{user: z}]}]"
)
TEXTS = {"a": "x", "b": "y", "c": "z"}


def run_of(scores: dict[str, float], metric: str = "tool_trajectory") -> list[dict]:
    return [
        turn(f"{case}{value}", TEXTS[case], case=case, evaluations=[result(metric, value)], conversation=f"c-{case}")
        for case, value in scores.items()
    ]


def compared(before: dict[str, float], after: dict[str, float], *, metric: str = "tool_trajectory") -> Report:
    turns = run_of(after)
    conversations = follow(turns, SUITE)
    made = build_report("tuesday", turns, run_verdict(SUITE, conversations).to_dict(), suite=SUITE)
    comparison = compare(run_of(before, metric), turns, names=("<monday>", "tuesday"))
    return replace(made, baseline=comparison)


def test_a_tile_says_what_is_decided_and_leads_to_the_page() -> None:
    page = html_report(compared({"a": 1.0, "b": 0.5}, {"a": 0.0, "b": 1.0, "c": 1.0}))
    assert "compared with &lt;monday&gt;" in page
    assert "<b>not enough runs to decide</b>" in page
    assert "1 newly failing, 1 fixed, 1 new" in page
    assert '<a href="comparison.html">' in page


def test_the_other_forms_name_the_baseline() -> None:
    made = compared({"a": 1.0}, {"a": 0.0})
    assert "Compared with &lt;monday&gt;: not enough runs to decide \\(1 newly failing" in markdown_summary(made)
    gone = compared({"a": 1.0, "b": 1.0}, {"a": 1.0})
    assert "Compared with &lt;monday&gt;: worse \\(1 missing, 1 unchanged\\)" in markdown_summary(gone)
    assert json.loads(json_report(made))["baseline"]["counts"] == {"newly_failing": 1}
    assert json.loads(json_report(replace(made, baseline=None)))["baseline"] is None
