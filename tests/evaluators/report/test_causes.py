"""Each cause of failures once, with its count and its cases, in every form of the report."""

from __future__ import annotations

import json
from pathlib import Path

from support.turn_samples import call, finding, result, turn
from tool_call_evaluators import EvalResult, load_suite, parse_suite
from tool_call_evaluators.outcomes.conversations import follow, run_verdict
from tool_call_evaluators.report import build_report, html_report, json_report, markdown_summary
from tool_call_evaluators.report.causes import causes
from tool_call_evaluators.report.model import Report

DEMO = Path(__file__).parents[3] / "proxy/a2a_eval_proxy/features/demo/suite.yaml"
BAD = [result("tool_trajectory", 0.5, reason="in_order: 1 of 2"), result("tool_call_args", 0.5, reason="1 of 2 calls")]


def report(turns, suite, **more) -> Report:
    conversations = follow(turns, suite, more.get("conversation_results"))
    return build_report("nightly", turns, run_verdict(suite, conversations).to_dict(), suite=suite, **more)


def refunds(count: int, gates: str = "") -> Report:
    cases = ", ".join(
        f"{{id: c{n}, turns: [{{user: x, expect: {{tool_calls: [{{name: pay, arguments: {{amount: {n}}}}}]}}}}]}}"
        for n in range(count)
    )
    suite = parse_suite(f"suite: s\nevaluators: [tool_trajectory, tool_call_args]\n{gates}\ncases: [{cases}]")
    turns = [turn(f"{n}", "x", [call("pay", amount=n + 1000)], BAD, case=f"c{n}", start=n) for n in range(count)]
    return report(turns, suite)


def test_metrics_that_fail_for_the_same_difference_of_calls_report_one_cause():
    made = refunds(7)
    (cause,) = causes(made)
    assert cause.sentence == (
        "pay: amount: expected 0, got 1000 (tool_trajectory, tool_call_args; 7 times: c0, c1, c2, c3, c4 and 2 more)"
    )
    assert "7 | pay: amount: expected 0, got 1000" in markdown_summary(made)
    page = html_report(made)
    assert "1 distinct error" in page
    assert "tool_trajectory, tool_call_args" in page
    (listed,) = json.loads(json_report(made))["causes"]
    assert (listed["labels"], len(listed["occurrences"])) == (["tool_trajectory", "tool_call_args"], 7)


def test_the_demo_has_three_weaknesses_and_the_error_of_a_call():
    lines = (Path(__file__).parents[1] / "fixtures" / "demo-turns.jsonl").read_text("utf-8").splitlines()
    made = report([json.loads(line) for line in lines], load_suite(DEMO))
    assert [(cause.text, cause.labels, cause.cases) for cause in causes(made)] == [
        (
            "issue_refund: amount_eur: expected 14.5, got 29.0",
            ("tool_trajectory", "tool_call_args"),
            ("partial-refund",),
        ),
        (
            "cancel_order missing; issue_refund not expected",
            ("tool_trajectory", "tool_call_args"),
            ("cancellation",),
        ),
        (
            '1 of 2 calls succeeded: call 2 (issue_refund): error "refund refused: ORD-1003 is processing, not '
            'delivered".',
            ("tool_error",),
            ("cancellation",),
        ),
        ("check_stock not expected", ("tool_trajectory",), ("double-question",)),
    ]


def test_what_concerns_the_run_comes_first_and_what_a_gate_tolerates_last():
    suite = parse_suite(
        "suite: s\nevaluators: [tool_error, {tool_efficiency: {id: tone}}]\n"
        "gates: {tone: 0.4, tool_error: {mean: 0.9, conversation_mean: 0.9}}"
    )
    turns = [
        turn("a", evaluations=[result("tool_error", 1.0), result("tone", 0.0)], conversation="a"),
        turn("b", evaluations=[result("tool_error", 0.0), result("tone", 1.0)], conversation="b", start=1),
    ]
    made = report(turns, suite)
    assert [(cause.text, cause.cases, cause.note) for cause in causes(made)] == [
        ("tool_error: mean 0.50 is below 0.90", (), ""),
        ("tool_error: mean 0.00 is below 0.90", ("b",), ""),
        ("tool_error said so", ("b",), ""),
        ("tone said so", ("a",), "below threshold, tolerated by the gate"),
    ]


def test_calls_that_are_missing_because_the_turn_failed_are_no_cause_of_their_own():
    expect = "{tool_calls: [{name: pay}, {name: mail}]}"
    suite = parse_suite(
        f"suite: s\nevaluators: [tool_trajectory]\ncases: [{{id: a, turns: [{{user: x, expect: {expect}}}]}}]"
    )
    unseen = result("tool_trajectory", None) | {"label": "calls_unseen"}
    broken_off = {**turn("t", "x", [], [unseen], case="a"), "state": "TASK_STATE_FAILED"}
    broken_off["findings"] = [finding("task_failed", "info", "no stock")]
    of_run, cause = causes(report([broken_off], suite))
    assert of_run.text.endswith("captured in this run: every turn that expects some failed or was not executed")
    assert cause.sentence == "a: the task ended as TASK_STATE_FAILED: no stock"
    called = broken_off | {"tool_calls": [call("refund")], "evaluations": [result("tool_trajectory", 0.0)]}
    assert [cause.text for cause in causes(report([called], suite))] == [
        "the task ended as TASK_STATE_FAILED: no stock",
        "pay missing; mail missing; refund not expected",
    ]


def test_what_a_gate_does_not_tolerate_follows_the_gate():
    suite = parse_suite("suite: s\nevaluators: [tool_efficiency, tool_error]\ngates: {tool_error: 0.9}")
    turns = [
        turn("a", evaluations=[result("tool_efficiency", 0.0)], conversation="a"),
        turn("b", evaluations=[result("tool_error", 0.0)], conversation="b", start=1),
    ]
    assert [(cause.text, cause.of_gate) for cause in causes(report(turns, suite))] == [
        ("tool_error: mean 0.00 is below 0.90", False),
        ("tool_error said so", True),
        ("tool_efficiency said so", False),
    ]


def test_a_cause_that_happened_once_names_the_turn():
    suite = parse_suite("suite: s\nevaluators: [tool_error]\ncases: [{id: a, turns: [{user: x}, {user: y}]}]")
    turns = [
        turn(
            user, user, evaluations=[result("tool_error", float(user == "x"))], case="a", conversation="c", start=start
        )
        for start, user in enumerate("xy")
    ]
    (cause,) = causes(report(turns, suite))
    assert cause.sentence == "a, turn 2: tool_error said so (tool_error)"


def test_one_unreachable_judge_is_one_cause():
    suite = parse_suite("suite: s\nevaluators: [tool_error]")
    errored = [EvalResult.errored(name, "the judge is unreachable").to_dict() for name in ("helpfulness", "relevance")]
    made = report([turn(f"{n}", evaluations=errored, start=n) for n in range(3)], suite)
    assert [cause.labels for cause in causes(made) if cause.places] == [("helpfulness", "relevance")]
