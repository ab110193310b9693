"""Files for the user: whole, with the mode of any other file, never written through a link: alone, of a report, and
a suite to which cases are appended."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from a2a_eval_proxy.runs import files, suite_file
from a2a_eval_proxy.runs.files import write_file, write_out
from a2a_eval_proxy.runs.run_plan import publish_report
from a2a_eval_proxy.runs.suite_file import SuiteFileError, append_case
from support.turn_samples import result, turn
from tool_call_evaluators import load_suite, parse_suite
from tool_call_evaluators.outcomes.conversations import follow, run_verdict
from tool_call_evaluators.report import build_report
from tool_call_evaluators.report.model import Report
from tool_call_evaluators.suite import Case, CaseTurn, SuiteError


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600)])
def test_a_file_is_replaced_whole_with_the_mode_of_the_umask(tmp_path: Path, umask: int, mode: int) -> None:
    path = tmp_path / "report.html"
    path.write_text("before")
    path.chmod(0o640)
    before = os.umask(umask)
    try:
        write_file(path, "now \u00e9")
    finally:
        os.umask(before)
    with pytest.raises(UnicodeEncodeError):
        write_file(path, "\ud800")
    assert path.read_text("utf-8") == "now \u00e9"
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.html"]


def test_a_link_to_nothing_is_not_followed(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match=r"symbolic link.*report\.html"):
        write_file(path, "ours")
    assert [entry.name for entry in tmp_path.iterdir() if entry.is_symlink()] == ["report.html"]


def test_a_pipe_is_written_to_where_it_was_named_and_else_gives_way(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    os.mkfifo(path)
    reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    write_out(path, "hello")
    write_file(path, "ours")
    assert (os.read(reading, 10), os.read(reading, 10), path.read_text()) == (b"hello", b"", "ours")
    os.close(reading)


# ── reports ─────────────────────────────────────────────────────────────────────────────────────────────────

SUITE = parse_suite("suite: one\nevaluators: [tool_error]\ncases: [{id: status, turns: [{user: Where is my order?}]}]")
FORMS = {"report.html", "report.json", "junit.xml", "summary.md"}


def report(score: float, **fields: Any) -> Report:
    turns = [turn("t1", case="status", evaluations=[result("tool_error", score)], **fields)]
    return build_report("nightly", turns, run_verdict(SUITE, follow(turns, SUITE)).to_dict(), suite=SUITE)


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_a_report_has_all_forms_and_takes_the_place_of_an_earlier_one(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "report"
    assert publish_report(report(0.0), folder, {}) == folder / "report.html"
    assert names(folder) == FORMS | {"focus/all-failures.yaml", "focus/error-01-tool-error.yaml"}
    assert (folder / "report.html").read_text("utf-8").startswith("<!doctype html>")
    assert ET.parse(folder / "junit.xml").find("testsuite/testcase/failure") is not None
    assert "Failed: one" in (folder / "summary.md").read_text("utf-8")
    assert load_suite(folder / "focus" / "all-failures.yaml").cases == SUITE.cases
    (folder / "focus" / "mine.yaml").write_text("suite: mine")
    publish_report(report(1.0), folder, {})
    assert names(folder) == FORMS | {"focus/mine.yaml"}
    assert json.loads((folder / "report.json").read_text("utf-8"))["passed"] is True


def test_the_summary_is_appended_for_the_ci_job(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """One that cannot be written costs nothing else."""
    summary = tmp_path / "step.md"
    summary.write_text("from the step before\n")
    assert publish_report(report(0.0), None, {"GITHUB_STEP_SUMMARY": str(summary)}) is None
    assert summary.read_text("utf-8").startswith("from the step before\n## ❌ Failed: one\n")
    assert names(tmp_path) == {"step.md"}
    nowhere = str(tmp_path / "no" / "step.md")
    page = publish_report(report(1.0), tmp_path / "report", {"GITHUB_STEP_SUMMARY": nowhere})
    assert page == tmp_path / "report" / "report.html"
    assert f"GITHUB_STEP_SUMMARY names {nowhere}, which cannot be written: No such file or directory" in caplog.text


@pytest.mark.parametrize("name", ["report.html", "summary.md", "focus"])
def test_links_in_the_folder_are_not_followed(tmp_path: Path, name: str) -> None:
    """Another process may write to the folder, of a CI job for example."""
    victim, folder = tmp_path / "victim", tmp_path / "report"
    folder.mkdir()
    kept = victim / "all-failures.yaml" if name == "focus" else victim
    kept.parent.mkdir(exist_ok=True)
    kept.write_text("precious")
    (folder / name).symlink_to(victim)
    with pytest.raises(OSError, match="symbolic link"):
        publish_report(report(0.0), folder, {})
    assert kept.read_text() == "precious"


# ── a suite file ────────────────────────────────────────────────────────────────────────────────────────────

CASE = Case(id="new", turns=(CaseTurn("hi"),))
TEXT = "# ours\r\nsuite: orders\r\nevaluators: [tool_error]\r\ncases: []  # none yet\r\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "orders.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + TEXT.encode())
    path.chmod(0o640)
    return path


def test_the_file_has_the_case_and_all_it_had(path: Path) -> None:
    link = path.with_name("link.yaml")
    link.symlink_to(path)
    append_case(link, CASE)
    assert [case.id for case in load_suite(path).cases] == ["new"]
    content = path.read_bytes()
    assert content.startswith(b"\xef\xbb\xbf# ours\r\nsuite: orders\r\nevaluators: [tool_error]\r\ncases: [")
    assert content.endswith(b"]  # none yet\r\n")
    assert (link.is_symlink(), path.stat().st_mode & 0o777) == (True, 0o640)
    assert sorted(item.name for item in path.parent.iterdir()) == ["link.yaml", "orders.yaml"]


@pytest.mark.parametrize("text", ["{", "[]", "suite: a\nnonsense: 1\n"])
def test_a_file_in_another_form_stays_as_it_is(path: Path, text: str) -> None:
    path.write_text(text)
    with pytest.raises(SuiteError, match=r"orders\.yaml"):
        append_case(path, CASE)
    assert path.read_text() == text


def test_a_file_that_another_program_changed_meanwhile_stays_as_it_is(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def copymode(*_: object) -> None:
        path.write_text("suite: theirs\n")

    monkeypatch.setattr(files.shutil, "copymode", copymode)
    with pytest.raises(SuiteFileError, match="was changed by another program meanwhile; try again"):
        append_case(path, CASE)
    assert path.read_text() == "suite: theirs\n"
    assert [item.name for item in path.parent.iterdir()] == ["orders.yaml"]


def test_a_read_only_file_stays_as_it_is(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.chmod(0o440)
    monkeypatch.setattr(suite_file.os, "access", lambda *_: False)  # root may write it all the same
    with pytest.raises(SuiteFileError, match="is read-only; make it writable"):
        append_case(path, CASE)
    assert path.read_bytes().endswith(TEXT.encode())
