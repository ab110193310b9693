"""Failed cases as annotations of the suite's file, which GitHub Actions shows at its lines in a pull request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import quote

from tool_call_evaluators.grouping import grouped
from tool_call_evaluators.report import Report
from tool_call_evaluators.report.wording import cut, printable
from tool_call_evaluators.suite.files import read_source
from tool_call_evaluators.suite.yaml_document import SuiteError

MAX_ANNOTATIONS = 10
"""GitHub shows this many errors of a step."""
_MAX_MESSAGE = 4_000
"""Characters; the report has the rest."""


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
    return f"::error {place}::{_escaped(printable(cut(message, _MAX_MESSAGE)))}"


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
