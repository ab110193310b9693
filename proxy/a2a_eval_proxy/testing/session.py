"""The end of a test session: its turns held against the suite's gates, and the report."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tool_call_evaluators.report.wording import counted, one_line, printable
from tool_call_evaluators.suite import Suite

from ..runs.report_files import publish_report
from ..runs.run_result import RunResult, judge_turns
from ..runs.tables import usage_line
from .proxies import Export

_SHOWN_REASONS = 50


@dataclass(frozen=True)
class SessionResult:
    """What came of a session. `page` is the HTML report, None where none was asked for."""

    conclusion: RunResult
    page: Path | None

    @property
    def failed(self) -> bool:
        """Whether the suite's gates failed; False without a suite."""
        return self.conclusion.report.suite is not None and not self.conclusion.verdict.passed

    def lines(self) -> list[str]:
        """The result for a terminal."""
        report, reasons = self.conclusion.report, self.conclusion.verdict.reasons
        told = f"{counted(len(report.turns), 'turn')}, {counted(report.tool_call_count, 'tool call')}"
        lines = []
        if report.suite is None:
            lines.append(f"{told}; no suite, no gates")
        else:
            conversations = counted(len(report.conversations), "conversation")
            lines.append(f"suite {report.suite.name}: {report.counts['passed']} of {conversations} passed ({told})")
            lines.append(f"gates failed, {counted(len(reasons), 'reason')}:" if reasons else "gates passed")
            lines += [f"  {one_line(reason.message, 500)}" for reason in reasons[:_SHOWN_REASONS]]
            if len(reasons) > _SHOWN_REASONS:
                lines.append(f"  … and {len(reasons) - _SHOWN_REASONS} more")
        if usage := usage_line(self.conclusion.usage):
            lines.append(usage)
        if self.page is not None:
            lines.append(f"report: {self.page}")
        return [printable(line) for line in lines]


def finish_session(run: str, exports: list[Export], suite: Suite | None, folder: Path | None) -> SessionResult:
    """Judge what the proxies of a session have captured, and write the report into `folder` if there is one.

    A case of the suite without a turn fails the gates, unless the suite tolerates it. Raises OSError where the
    report cannot be written.
    """
    turns = [turn for export in exports for turn in export["turns"]]
    results = {key: said for export in exports for key, said in export["conversation_results"].items()}
    conclusion = judge_turns(suite, turns, results, run)
    return SessionResult(conclusion, publish_report(conclusion.report, folder))
