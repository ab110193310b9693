"""Suites that run again just what failed."""

from __future__ import annotations

import pytest
from support.turn_samples import call, result, turn
from tool_call_evaluators import SuiteError, load_suite, parse_suite
from tool_call_evaluators.outcomes.conversations import follow, run_verdict
from tool_call_evaluators.report import build_report
from tool_call_evaluators.report.focus import MAX_FILES, focus_suites
from tool_call_evaluators.report.model import Report


def report(turns, suite=None, **more) -> Report:
    verdict = run_verdict(suite or parse_suite("suite: none"), follow(turns, suite))
    return build_report("nightly", turns, verdict.to_dict(), suite=suite, **more)


def test_a_run_without_failures_needs_none():
    assert not focus_suites(report([turn("a", evaluations=[result("tool_error", 1.0)])]))
    assert not focus_suites(report([]))


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
