"""The end of a test session: its turns compared with the suite's gates, and the report."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from tool_call_evaluators.suite import Suite
from tool_call_evaluators.texts import counted, one_line, printable

from ..runs.report_files import publish_report
from ..runs.run_result import RunResult, judge_turns
from .proxies import Export

_SHOWN_REASONS, _LONGEST_REASON = 50, 500


class SessionResult(NamedTuple):
    """Whether the session `failed` for more than its tests, the result for a terminal, as lines, and each reason."""

    failed: bool
    lines: list[str]
    reasons: list[str]


def finish_session(run: str, exports: list[Export], suite: Suite | None, folder: Path | None) -> SessionResult:
    """Judge what the proxies of a session have captured, and write the report into `folder` if there is one.

    A case of the suite without a turn fails the gates, unless the suite tolerates it. A report that cannot be written
    fails the session.
    """
    turns = [turn for export in exports for turn in export["turns"]]
    results = {key: found for export in exports for key, found in export["conversation_results"].items()}
    conclusion = judge_turns(suite, turns, results, run)
    try:
        page = publish_report(conclusion.report, folder)
    except OSError as error:
        problem = f"the report could not be written: {error}"
        return SessionResult(True, [problem], [problem])
    lines = [*_lines(conclusion), *([f"report: {page}"] if page else [])]
    reasons = [] if suite is None else conclusion.verdict.reasons
    shown = [printable(one_line(reason.message, _LONGEST_REASON)) for reason in reasons[:_SHOWN_REASONS]]
    return SessionResult(bool(reasons), list(map(printable, lines)), shown)


def _lines(conclusion: RunResult) -> list[str]:
    report, reasons = conclusion.report, conclusion.verdict.reasons
    captured = f"{counted(len(report.turns), 'turn')}, {counted(report.tool_call_count, 'tool call')}"
    if report.suite is None:
        lines = [f"{captured}; no suite, no gates"]
    else:
        conversations = counted(len(report.conversations), "conversation")
        lines = [f"suite {report.suite.name}: {report.counts['passed']} of {conversations} passed ({captured})"]
        lines.append(f"gates failed, {counted(len(reasons), 'reason')}:" if reasons else "gates passed")
        lines += [f"  {one_line(reason.message, _LONGEST_REASON)}" for reason in reasons[:_SHOWN_REASONS]]
        if len(reasons) > _SHOWN_REASONS:
            lines.append(f"  … and {len(reasons) - _SHOWN_REASONS} more")
    costs = [f"{who}: {cost}" for who, cost in report.costs.items()]
    return [*lines, *filter(None, (report.visibility_text, report.excluded_text)), *costs]
