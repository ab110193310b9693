"""Texts made of templates: Markdown for a CI job's page ($GITHUB_STEP_SUMMARY), and a turn for a terminal.

Texts of the agent are escaped: they cannot contain links, images or HTML.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..outcomes.calibration import MIN_LABELS, scope_of
from ..outcomes.comparison import Comparison
from ..outcomes.conversations import TurnJson
from ..texts import duration_text, gate_name, gate_sign, printable
from .causes import causes
from .compared import change_line, shown_comparison
from .model import OUTCOMES, Report, seconds_between
from .templating import LONGEST, markdown, plain_text

MAX_ROWS = 50
"""Maximum number of rows of a table; the number of further rows follows."""


def markdown_summary(report: Report) -> str:
    """Verdict, causes, gates and scores; at most about 100 kB for any run."""
    return markdown(
        "summary.md",
        report=report,
        took=duration_text(seconds_between(report.started_at, report.ended_at)),
        causes=causes(report),
        outcomes=OUTCOMES,
        change_line=change_line,
        gate_name=gate_name,
        gate_sign=gate_sign,
        max_rows=MAX_ROWS,
    )


def comparison_markdown(comparison: Comparison) -> str:
    """The answer, each case that changed, then the figures."""
    return markdown("comparison.md", shown=shown_comparison(comparison))


def turn_text(turn: TurnJson) -> str:
    """All of a turn, for a terminal: messages, calls with their results, scores with their reasons, annotations,
    findings."""
    seconds = seconds_between(turn["started_at"], turn["ended_at"])
    return printable(plain_text("turn.txt", turn=turn, seconds=seconds, longest=LONGEST))


def calibration_lines(made: Mapping[str, Any]) -> list[str]:
    """A calibration in sentences, the most important first; without the disagreements."""
    return plain_text("calibration.txt", made=made, scope=scope_of(made), least=MIN_LABELS).splitlines()
