"""Failed cases as annotations of the suite's file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from a2a_eval_proxy.runs.report_files import MAX_ANNOTATIONS, github_annotations
from tool_call_evaluators.gates import Reason
from tool_call_evaluators.report import Report
from tool_call_evaluators.verdict import Verdict

SUITE = """\
suite: shop
evaluators: [tool_error]
cases:
  - id: delivery
    turns: [{user: When?}]

  - tags: [money]
    id: refund
    turns: [{user: Money back}]
"""
IN_ACTIONS = {"GITHUB_ACTIONS": "true"}


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    path = tmp_path / "suite.yaml"
    path.write_text(SUITE)
    return path


def report(*reasons: Reason) -> Report:
    return Report("r", Verdict(reasons, (), ()).to_dict(), [])


def failed(case: str | None, message: str) -> Reason:
    return Reason("failed", message, "tool_error", case, case)


def test_each_failed_case_is_one_annotation_at_its_line(suite: Path) -> None:
    found = report(
        failed("refund", "refund, turn 1: a"), failed("delivery", "delivery: b"), failed("refund", "refund, turn 2: c")
    )
    assert github_annotations({suite: found}, IN_ACTIONS | {"GITHUB_WORKSPACE": str(suite.parent)}) == [
        "::error file=suite.yaml,line=7::refund, turn 1: a%0Arefund, turn 2: c",
        "::error file=suite.yaml,line=4::delivery: b",
    ]


def test_reasons_of_the_whole_run_and_cases_of_another_format_have_the_file(tmp_path: Path) -> None:
    evalset = tmp_path / "evalset.json"
    evalset.write_text(json.dumps({"eval_cases": [{"eval_id": "hello"}]}))
    found = report(failed("hello", "hello: a"), failed(None, "tool_error: mean 0.5 is below 0.9"))
    assert github_annotations({evalset: found}, IN_ACTIONS) == [
        f"::error file={evalset}::hello: a",
        f"::error file={evalset}::tool_error: mean 0.5 is below 0.9",
    ]


def test_a_suite_outside_the_workspace_keeps_its_path_and_one_that_is_gone_has_no_lines(tmp_path: Path) -> None:
    given = github_annotations(
        {tmp_path / "gone.yaml": report(failed("refund", "a"))}, IN_ACTIONS | {"GITHUB_WORKSPACE": "/elsewhere"}
    )
    assert given == [f"::error file={tmp_path / 'gone.yaml'}::a"]


@pytest.mark.parametrize("environ", [{}, {"GITHUB_ACTIONS": "false"}])
def test_elsewhere_there_are_none(environ: dict[str, str], suite: Path) -> None:
    assert github_annotations({suite: report(failed("refund", "a"))}, environ) == []


def test_texts_of_an_agent_neither_end_the_line_nor_steer_a_terminal(suite: Path) -> None:
    said = "100 %\r\n::stop-commands::x\n\x1b]0;title\x07\u202e" + "y" * 10_000
    (line,) = github_annotations({suite: report(failed("refund", said))}, IN_ACTIONS)
    assert "100 %25%0D%0A::stop-commands::x%0A\N{REPLACEMENT CHARACTER}]0;title" in line
    assert line.isprintable()
    assert len(line) < 5_000


def test_a_name_of_a_file_cannot_add_properties(tmp_path: Path) -> None:
    (line,) = github_annotations({tmp_path / "x,line=1::y.yaml": report(failed("a", "b"))}, IN_ACTIONS)
    assert line.startswith("::error file=")
    assert line.endswith("x%2Cline=1%3A%3Ay.yaml::b")


def test_their_number_is_limited_and_the_last_says_so(suite: Path) -> None:
    many = report(*(failed(f"case-{number}", f"case-{number}: a") for number in range(MAX_ANNOTATIONS + 5)))
    lines = github_annotations({suite: many}, IN_ACTIONS)
    assert len(lines) == MAX_ANNOTATIONS
    assert lines[-1] == f"::error file={suite}::6 more failures are in the log and in the report"


def test_each_suite_of_a_run_has_its_own_file_and_lines(suite: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text("suite: other\ncases:\n  - {id: status, turns: [{user: Hi}]}\n")
    found = {suite: report(failed("refund", "a")), other: report(failed("status", "b"), failed(None, "c"))}
    assert github_annotations(found, IN_ACTIONS) == [
        f"::error file={suite},line=7::a",
        f"::error file={other},line=3::b",
        f"::error file={other}::c",
    ]
