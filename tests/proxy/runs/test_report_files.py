"""The report of a run as files in a folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from a2a_eval_proxy.runs.run_plan import publish_report
from support.turn_samples import result, turn
from tool_call_evaluators import load_suite, parse_suite
from tool_call_evaluators.outcomes.conversations import follow, run_verdict
from tool_call_evaluators.report import build_report
from tool_call_evaluators.report.model import Report

SUITE = parse_suite("suite: one\nevaluators: [tool_error]\ncases: [{id: status, turns: [{user: Where is my order?}]}]")
FORMS = {"report.html", "report.json", "junit.xml", "summary.md"}


def report(score: float, **fields: Any) -> Report:
    turns = [turn("t1", case="status", evaluations=[result("tool_error", score)], **fields)]
    return build_report("nightly", turns, run_verdict(SUITE, follow(turns, SUITE)).to_dict(), suite=SUITE)


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_all_forms_and_the_suites_to_run_again(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "report"
    assert publish_report(report(0.0), folder, {}) == folder / "report.html"
    assert names(folder) == FORMS | {"focus/all-failures.yaml", "focus/error-01-tool-error.yaml"}
    assert (folder / "report.html").read_text("utf-8").startswith("<!doctype html>")
    assert json.loads((folder / "report.json").read_text("utf-8"))["passed"] is False
    assert ET.parse(folder / "junit.xml").find("testsuite/testcase/failure") is not None
    assert "Failed: one" in (folder / "summary.md").read_text("utf-8")
    assert load_suite(folder / "focus" / "all-failures.yaml").cases == SUITE.cases


def test_a_later_report_takes_the_place_of_an_earlier_one(tmp_path: Path) -> None:
    publish_report(report(0.0), tmp_path, {})
    (tmp_path / "focus" / "mine.yaml").write_text("suite: mine")
    publish_report(report(1.0), tmp_path, {})
    assert names(tmp_path) == FORMS | {"focus/mine.yaml"}
    assert json.loads((tmp_path / "report.json").read_text("utf-8"))["passed"] is True


def test_the_summary_is_appended_for_the_ci_job(tmp_path: Path) -> None:
    summary = tmp_path / "step.md"
    summary.write_text("from the step before\n")
    assert publish_report(report(0.0), None, {"GITHUB_STEP_SUMMARY": str(summary)}) is None
    text = summary.read_text("utf-8")
    assert text.startswith("from the step before\n## ❌ Failed: one\n")
    assert names(tmp_path) == {"step.md"}


def test_a_summary_that_cannot_be_written_costs_nothing_else(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    nowhere = str(tmp_path / "no" / "step.md")
    page = publish_report(report(1.0), tmp_path / "report", {"GITHUB_STEP_SUMMARY": nowhere})
    assert page is not None
    assert page.exists()
    assert f"GITHUB_STEP_SUMMARY names {nowhere}, which cannot be written: No such file or directory" in caplog.text


@pytest.mark.parametrize("name", ["report.html", "report.json", "junit.xml", "summary.md", "focus"])
def test_links_in_the_folder_are_not_followed(tmp_path: Path, name: str) -> None:
    """Another process may write to the folder, of a CI job for example."""
    victim, folder = tmp_path / "victim", tmp_path / "report"
    folder.mkdir()
    if name == "focus":
        victim.mkdir()
        (victim / "all-failures.yaml").write_text("precious")
    else:
        victim.write_text("precious")
    (folder / name).symlink_to(victim)
    with pytest.raises(OSError, match="symbolic link"):
        publish_report(report(0.0), folder, {})
    kept = victim / "all-failures.yaml" if name == "focus" else victim
    assert kept.read_text() == "precious"
