"""The end of a test session: its turns held against the suite's gates, and the report."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from tool_call_evaluators.gates import Verdict
from tool_call_evaluators.outcomes import follow, judge
from tool_call_evaluators.report import Report
from tool_call_evaluators.report.wording import counted, one_line, printable
from tool_call_evaluators.suite import EvaluatorSpec, Suite

from ..reporting import publish_report
from ..scoring import DEFAULT_EVALUATORS

_SHOWN_REASONS = 50


@dataclass(frozen=True)
class SessionResult:
    """What came of a session. `page` is the HTML report, None where none was asked for."""

    report: Report
    verdict: Verdict
    page: Path | None

    @property
    def failed(self) -> bool:
        """Whether the suite's gates failed; without a suite there are none."""
        return self.report.suite is not None and not self.verdict.passed

    def lines(self) -> list[str]:
        """The result for a terminal."""
        report = self.report
        told = f"{counted(len(report.turns), 'turn')}, {counted(report.tool_call_count, 'tool call')}"
        lines = []
        if report.suite is None:
            lines.append(f"{told}; no suite, no gates")
        else:
            conversations = counted(len(report.conversations), "conversation")
            lines.append(f"suite {report.suite.name}: {report.counts['passed']} of {conversations} passed ({told})")
            reasons = self.verdict.reasons
            lines.append(f"gates failed, {counted(len(reasons), 'reason')}:" if reasons else "gates passed")
            lines += [f"  {one_line(reason.message, 500)}" for reason in reasons[:_SHOWN_REASONS]]
            if len(reasons) > _SHOWN_REASONS:
                lines.append(f"  … and {len(reasons) - _SHOWN_REASONS} more")
        if self.page is not None:
            lines.append(f"report: {self.page}")
        return [printable(line) for line in lines]


def finish_session(run: str, exported: list[str], suite: Suite | None, folder: Path | None) -> SessionResult:
    """Judge the turns of a session, given as JSON texts, and write the report into `folder` if there is one.

    A case of the suite without a turn fails the gates, unless the suite tolerates it. Raises OSError where the
    report cannot be written.
    """
    turns = [json.loads(line) for line in exported]
    plan = suite or Suite(name=run, evaluators=tuple(EvaluatorSpec(name) for name in DEFAULT_EVALUATORS))
    verdict = judge(plan, follow(turns, suite))
    report = Report.build(run, turns, verdict.to_dict(), suite=suite)
    return SessionResult(report, verdict, publish_report(report, folder))
