"""Runs that were measured by different judges, prompts, evaluators or thresholds are not compared silently."""

from __future__ import annotations

from collections import Counter

import pytest
from support.turn_samples import finding, result, turn
from tool_call_evaluators.outcomes.comparison import compare
from tool_call_evaluators.report import comparison_markdown, comparison_text

JUDGE = {"model": "small", "prompt": "helpfulness@1", "votes": 1}


def run(score: float | None, *others, judge=JUDGE, **fields):
    """Twenty cases, each with a judged metric and perhaps others."""
    said = result("helpfulness", score, **{"threshold": 3.0, "scale": [1.0, 5.0], "details": {"judge": judge}} | fields)
    return [turn(str(n), evaluations=[said, *others], case=f"case-{n}", start=n) for n in range(20)]


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"judge": JUDGE | {"model": "large"}}, "judge model small in monday, large in tuesday"),
        (
            {"judge": JUDGE | {"prompt": "helpfulness@2"}},
            "judge prompt helpfulness@1 in monday, helpfulness@2 in tuesday",
        ),
        ({"judge": JUDGE | {"votes": 3}}, "judge votes 1 in monday, 3 in tuesday"),
        ({"version": "2"}, "evaluator version 1 in monday, 2 in tuesday"),
        ({"threshold": 4.0}, "threshold 3 in monday, 4 in tuesday"),
        ({"threshold": None}, "threshold 3 in monday, none in tuesday"),
        ({"scale": [0.0, 5.0]}, "scale 1 to 5 in monday, 0 to 5 in tuesday"),
    ],
)
def test_a_metric_that_was_measured_otherwise_is_named_and_not_judged(changed, reason):
    other = result("tool_error", 1.0)
    comparison = compare(run(5.0, other), run(1.0, other, **changed), names=("monday", "tuesday"))
    assert comparison.not_judged == {"helpfulness": reason}
    assert not comparison.regressed
    assert comparison.comparable
    assert {case.status for case in comparison.cases} == {"same"}
    assert comparison.pass_rate.delta == 0
    assert f"not compared: helpfulness: {reason}" in comparison_text(comparison)
    assert "not compared: helpfulness" in comparison_markdown(comparison)
    assert comparison.to_dict()["not_judged"] == [{"metric": "helpfulness", "reason": reason}]


def test_other_metrics_are_judged_all_the_same():
    before, after = run(5.0, result("tool_error", 1.0)), run(1.0, result("tool_error", 0.0), threshold=4.0)
    comparison = compare(before, after)
    assert comparison.regressed
    assert {case.failures for case in comparison.cases} == {("tool_error",)}


def test_a_metric_that_only_one_run_measured_fails_no_case():
    comparison = compare(run(5.0), run(5.0, result("tool_error", 0.0)), names=("monday", "tuesday"))
    assert comparison.not_judged == {"tool_error": "only tuesday measured it"}
    assert not comparison.regressed
    assert {case.status for case in comparison.cases} == {"same"}


def test_where_nothing_was_measured_alike_nothing_is_said_to_be_well():
    comparison = compare(run(5.0), run(1.0, version="2"))
    assert not comparison.comparable
    assert "cannot be compared" in comparison_text(comparison)
    assert comparison_markdown(comparison).startswith("## ❌")


@pytest.mark.parametrize(
    ("after", "reason"),
    [
        (run(None, status="errored", details={}), "evaluator_error"),
        (run(5.0, result("tool_error", None, label="calls_unseen")), "calls_unseen"),
        ([item | {"findings": [finding("agent_unreachable", "error")]} for item in run(5.0)], "unreachable"),
    ],
)
def test_attempts_that_show_nothing_about_the_agent_are_no_failures(after, reason):
    """A judge that is down, calls that are not visible, an agent that could not be reached: neither well nor bad."""
    comparison = compare(run(5.0, result("tool_error", 1.0)), after)
    assert not comparison.regressed
    assert not comparison.comparable
    assert comparison.fails_on(["undecided"])
    assert comparison.exclusions == ({}, {reason: 20})
    assert {(case.status, case.passed[1], case.excluded) for case in comparison.cases} == {("unscored", (0, 0), (0, 1))}
    assert "20 attempts excluded in after" in comparison_text(comparison)


def test_excluded_attempts_leave_the_others_as_they_are():
    good = run(5.0)
    some = [*run(None, status="errored", details={})[:10], *good[10:]]
    comparison = compare(good, some)
    assert comparison.comparable
    assert comparison.sensitivity.cases == 10
    assert comparison.pass_rate.after == 1.0
    assert Counter(case.status for case in comparison.cases) == {"unscored": 10, "same": 10}


def test_runs_without_metrics_are_compared_by_turns_that_failed():
    before = [turn(str(n), case=f"case-{n}") for n in range(10)]
    after = [item | {"state": "TASK_STATE_FAILED"} for item in before]
    assert compare(before, after).comparable
    assert compare(before, after).regressed
