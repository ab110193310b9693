"""Each cause of failures once, with its count and its cases, in every form of the report."""

from __future__ import annotations

import json

import pytest
from support.reports import demo_suite, demo_turns, report
from support.turn_samples import call, finding, result, turn
from tool_call_evaluators import SuiteError, load_suite, parse_suite
from tool_call_evaluators.outcomes.conversations import follow, run_verdict
from tool_call_evaluators.report import html_report, json_report, markdown_summary
from tool_call_evaluators.report.causes import causes
from tool_call_evaluators.report.focus import MAX_FILES, focus_suites
from tool_call_evaluators.report.model import Report

BAD = [result("tool_trajectory", 0.5, reason="in_order: 1 of 2"), result("tool_call_args", 0.5, reason="1 of 2 calls")]


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
        "pay: amount: expected 0, got 1000, elsewhere with other values "
        "(tool_trajectory, tool_call_args; 7 times: c0, c1, c2, c3, c4 and 2 more)"
    )
    assert "7 | pay: amount: expected 0, got 1000" in markdown_summary(made)
    page = html_report(made)
    assert "tool_trajectory, tool_call_args · 7 times: " in page
    (listed,) = json.loads(json_report(made))["causes"]
    assert (listed["labels"], len(listed["occurrences"])) == (["tool_trajectory", "tool_call_args"], 7)


def test_the_demo_has_three_weaknesses_and_the_error_of_a_call():
    made = report(demo_turns(), demo_suite())
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


def test_what_never_came_is_run_again():
    suite = parse_suite("suite: x\ncases: [{id: a, repeat: 2, turns: [{user: hi}]}, {id: b, turns: [{user: ho}]}]")
    turns = [turn("1", "hi", case="a"), turn("2", "ho", case="b")]
    focused = focus_suites(report(turns, suite))
    assert list(focused) == ["all-failures", "error-01-missing-turn"]
    for text in focused.values():
        assert [(case.id, case.conversations) for case in parse_suite(text).cases] == [("a", 2)]


def test_a_focus_suite_passes_once_its_cases_do():
    suite = parse_suite(
        "suite: x\nevaluators: [tool_error, contains]\ngates: {captured: 0.5}\ncases:\n"
        "  - {id: good, turns: [{user: hi, expect: {response_contains: hello, tool_calls_order: [greet]}}]}\n"
        "  - {id: bad, turns: [{user: ho}]}"
    )
    skipped = result("contains", None)
    good = turn("1", "hi", [call("greet")], [result("tool_error", 1.0), result("contains", 1.0)], case="good")
    broken = turn("2", "ho", [call("sing")], [result("tool_error", 0.0), skipped], case="bad", start=1)
    mended = turn("3", "ho", [call("sing")], [result("tool_error", 1.0), skipped], case="bad")
    everything, error = focus_suites(report([good, broken], suite)).values()
    for text in (everything, error):
        again = parse_suite(text)
        assert [case.id for case in again.cases] == ["bad"]
        assert run_verdict(again, follow([mended], again)).passed
        assert not run_verdict(again, follow([broken], again)).passed


def test_what_all_cases_leave_unmeasured_still_fails_when_all_are_run_again():
    suite = parse_suite("suite: x\nevaluators: [tool_error, contains]\ncases: [{id: a, turns: [{user: hi}]}]")
    said = [result("tool_error", 0.0), result("contains", None)]
    everything, *_ = focus_suites(report([turn("1", "hi", evaluations=said, case="a")], suite)).values()
    assert parse_suite(everything).tolerate == suite.tolerate


def test_a_suite_with_plugins_says_how_to_run_its_focus_suites(tmp_path):
    """They lie elsewhere, and no suite may vouch for files outside its folder."""
    (tmp_path / "mine.py").write_text("")
    (tmp_path / "s.yaml").write_text("suite: x\nplugins: [mine.py]\nevaluators: [tool_error]")
    failed = [turn("1", "hi", evaluations=[result("tool_error", 0.0)])]
    everything, error = focus_suites(report(failed, load_suite(tmp_path / "s.yaml"))).values()
    for text in (everything, error):
        assert "\n# Its plug-ins are outside its directory: run it with --allow-plugins.\nsuite: x\n" in text
        (tmp_path / "focus").mkdir(exist_ok=True)
        again = tmp_path / "focus" / "again.yaml"
        again.write_text(text)
        with pytest.raises(SuiteError, match="--allow-plugins"):
            load_suite(again)
        assert load_suite(again, allow_plugins=True).plugins == (tmp_path / "mine.py",)
    without = parse_suite("suite: x\nevaluators: [tool_error]")
    assert "plug-ins" not in focus_suites(report(failed, without))["all-failures"]


def test_traffic_without_cases_is_said_again():
    bad = [
        turn("1", "First: this", conversation="c\n1", start=1, evaluations=[result("tool_error", 1.0)]),
        turn("2", "Then that", conversation="c\n1", start=2, evaluations=[result("tool_error", 0.0)]),
        turn("3", " ", evaluations=[result("tool_error", 0.0)]),
    ]
    everything, _ = focus_suites(report(bad)).values()
    (case,) = parse_suite(everything).cases
    assert (case.id, [item.user for item in case.turns]) == ("c 1", ["First: this", "Then that"])


def test_there_are_only_so_many_files():
    bad = [turn(f"{n}", evaluations=[result(f"metric_{n}", 0.0)], start=n) for n in range(MAX_FILES + 5)]
    focused = focus_suites(report(bad))
    assert len(focused) == MAX_FILES + 1
    assert len(parse_suite(focused["all-failures"]).cases) == MAX_FILES + 5
