"""The report of a run as files: HTML and Markdown for people, JUnit XML and JSON for machines, suites to run again.

With ArkSim's files as the suite, also in ArkSim's format. In GitHub Actions, failed cases are annotations of the suite.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import quote

from tool_call_evaluators.arksim.files.results import ArksimResults
from tool_call_evaluators.grouping import grouped
from tool_call_evaluators.report import Report, html_report, json_report, junit_xml, markdown_summary
from tool_call_evaluators.report.focus import focus_suites
from tool_call_evaluators.suite.files import read_source
from tool_call_evaluators.suite.yaml_document import SuiteError
from tool_call_evaluators.texts import excerpt, printable

from ..files import refuse_link, write_file
from .compare import write_page

PAGE = "report.html"
_FORMS = {"report.json": json_report, "junit.xml": junit_xml, "summary.md": markdown_summary}
_FOCUS = "focus"
_FOCUS_FILES = ("all-failures.yaml", "error-[0-9][0-9]*.yaml", "all_failures.json", "error_[0-9]*.json")

STEP_SUMMARY = "GITHUB_STEP_SUMMARY"

logger = logging.getLogger(__name__)


def publish_report(
    report: Report,
    folder: Path | None,
    environ: Mapping[str, str] = os.environ,
    *,
    page: str = PAGE,
    arksim: ArksimResults | None = None,
) -> Path | None:
    """Write all forms of `report` into `folder` (created if necessary); the HTML page's path, None without a folder.

    `folder` gets report.html, report.json, junit.xml, summary.md, with a baseline comparison.html, and in focus/ a
    suite of everything that failed and one for each distinct error; those of an earlier report go. `page` is the name
    of the HTML page, "" for none; `arksim` adds evaluation.json, and to focus/ scenario files. The Markdown summary is
    also appended to the file that GITHUB_STEP_SUMMARY names, with or without a folder; where that cannot be written, a
    warning is logged: the CI has set it, and the run is no worse for it. Raises OSError where a file of `folder` cannot
    be written, or is a symbolic link.
    """
    if summary := environ.get(STEP_SUMMARY):
        try:
            with Path(summary).open("a", encoding="utf-8") as file:
                file.write(markdown_summary(report) + "\n")
        except OSError as error:
            logger.warning("%s names %s, which cannot be written: %s", STEP_SUMMARY, summary, error.strerror)
    if folder is None:
        return None
    folder.mkdir(parents=True, exist_ok=True)
    for name, form in {**_FORMS, page: html_report}.items():
        if name:
            write_file(folder / name, form(report))
    if report.baseline is not None:
        write_page(report.baseline, folder)
    if arksim is not None:
        write_file(folder / "evaluation.json", arksim.evaluation())
    focus = {f"{focus.name}.yaml": focus.text for focus in focus_suites(report)}
    _write_focus(folder / _FOCUS, focus | (arksim.focus() if arksim else {}))
    return folder / (page or "report.json")


def _write_focus(folder: Path, files: Mapping[str, str]) -> None:
    refuse_link(folder)
    for pattern in _FOCUS_FILES:
        for old in folder.glob(pattern):
            old.unlink()
    for name, text in files.items():
        folder.mkdir(exist_ok=True)
        write_file(folder / name, text)


MAX_ANNOTATIONS = 10  # GitHub shows this many errors of a step
_MAX_MESSAGE = 4_000  # characters; the report has the rest


def github_annotations(reports: Mapping[Path, Report], environ: Mapping[str, str]) -> list[str]:
    """An `::error` command for each failed case, at its line, and for each reason of the run; none outside of Actions.

    `reports` has the report of each suite by its file. Its path is relative to GITHUB_WORKSPACE if it is in there. The
    form is that of GitHub's workflow commands (`::error file={name},line={line}::{message}`).
    """
    if environ.get("GITHUB_ACTIONS") != "true":
        return []
    commands = [command for suite, report in reports.items() for command in _errors(environ, suite, report)]
    if (rest := len(commands) - MAX_ANNOTATIONS) > 0:
        more = f"{rest + 1} more failures are in the log and in the report"
        commands[MAX_ANNOTATIONS - 1 :] = [_error(environ, next(iter(reports)), None, more)]
    return commands


def _errors(environ: Mapping[str, str], suite: Path, report: Report) -> Iterator[str]:
    if not report.reasons:
        return
    lines = _lines_of_cases(suite)
    by_case = grouped((reason["case_id"] or reason["message"], reason) for reason in report.reasons)
    for reasons in by_case.values():
        message = "\n".join(reason["message"] for reason in reasons)
        yield _error(environ, suite, lines.get(reasons[0]["case_id"] or ""), message)


def _error(environ: Mapping[str, str], suite: Path, line: int | None, message: str) -> str:
    workspace = Path(environ.get("GITHUB_WORKSPACE") or Path.cwd())
    path = suite.absolute()
    name = str(path.relative_to(workspace) if path.is_relative_to(workspace) else suite)
    place = f"file={_escaped(name, ':,')}" + (f",line={line}" if line else "")
    return f"::error {place}::{_escaped(printable(excerpt(message, _MAX_MESSAGE)))}"


def _escaped(text: str, more: str = "") -> str:
    """`text` without characters that end the line of a command, or one of its properties."""
    for character in "%\r\n" + more:
        text = text.replace(character, quote(character, safe=""))
    return text


def _lines_of_cases(suite: Path) -> dict[str, int]:
    """Lines by case id; empty for a file in another format, or that can no longer be read."""
    try:
        cases = [(case, case.text_at("id")) for case in read_source(suite).items_at("cases")]
    except SuiteError:
        return {}
    places = ((name, case.document.position(case.path)) for case, name in cases)
    return {name: place[0] for name, place in places if name and place}
