"""A summary in Markdown, short enough for a CI job's page ($GITHUB_STEP_SUMMARY)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..texts import counted, duration_text, escaped, gate_name, gate_sign
from .causes import causes
from .compared import change_line
from .model import Report, seconds_between, verdict_sign, verdict_words

_SIGNS = {"passed": "✅", "failed": "❌"}
MAX_ROWS = 50
"""Maximum number of rows of a table; the number of further rows follows."""


def markdown_summary(report: Report) -> str:
    """Verdict, causes, gates and scores; at most about 100 kB for any run.

    Texts of the agent are escaped: they cannot contain links, images or HTML.
    """
    took = duration_text(seconds_between(report.started_at, report.ended_at))
    facts = [
        counted(len(report.conversations), "conversation"),
        *report.count_texts,
        counted(len(report.turns), "turn"),
        counted(report.tool_call_count, "tool call") + report.calls_of_asked,
        took,
        *(f"{who}: {cost}" for who, cost in report.costs.items()),
    ]
    parts = [
        f"## {_SIGNS.get(report.outcome, '⚪')} {verdict_words(report)}: {escaped(report.title)}",
        f"Run {escaped(report.run)} · {' · '.join(facts)}",
    ]
    if report.baseline:
        parts.append(f"Compared with {escaped(change_line(report.baseline))}")
    noted = filter(None, (report.visibility_text, report.excluded_text))
    parts += [f"⚠️ {escaped(text, 600)}" for text in noted]
    parts += [*_suites(report), *_reasons(report), *_quarantine(report), *_tolerated(report)]
    parts += [*_gates(report), *_scores(report)]
    return "\n\n".join(parts) + "\n"


def _suites(report: Report) -> list[str]:
    rows = [[verdict_sign(part), escaped(part.title), part.share_text] for part in report.parts]
    return ["### Suites", *_table(("", "suite", "conversations passed"), rows)] if rows else []


def _reasons(report: Report) -> list[str]:
    if report.passed:
        tolerated = len(report.verdict["tolerated"])
        return [f"{counted(tolerated, 'problem')} tolerated."] if tolerated else []
    rows = [[f"{max(1, len(cause.places)):,}", escaped(cause.sentence)] for cause in causes(report) if cause.counts]
    return ["### Why", *_table(("times", "what"), rows)]


def _quarantine(report: Report) -> list[str]:
    sentences = [f"- {escaped(sentence, 600)}" for sentence in [*report.quarantined.values()][:MAX_ROWS]]
    return ["### In quarantine", "\n".join(sentences)] if sentences else []


def _tolerated(report: Report) -> list[str]:
    rows = [[f"{len(cause.places):,}", escaped(cause.sentence)] for cause in causes(report) if not cause.counts]
    return ["### Tolerated", *_table(("times", "what"), rows)] if rows else []


def _gates(report: Report) -> list[str]:
    rows = [[gate_sign(check), escaped(gate_name(check)), escaped(check["text"])] for check in report.gates]
    return ["### Gates", *_table(("", "gate", "actual"), rows)] if rows else []


def _scores(report: Report) -> list[str]:
    rows = [
        [
            escaped(metric["metric"]),
            escaped(report.mean_text(metric)),
            *(f"{metric[key]:,}" for key in ("passed", "failed", "skipped", "errored")),
        ]
        for metric in report.verdict["metrics"]
    ]
    judges = [f"- {escaped(line, 600)}" for line in report.judge_lines[:MAX_ROWS]]
    parts = ["### Scores", *_table(("metric", "mean", "passed", "failed", "skipped", "errored"), rows)] if rows else []
    return [*parts, "\n".join(judges)] if judges else parts


def _table(head: Sequence[str], rows: Sequence[Iterable[str]]) -> list[str]:
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    lines += [f"| {' | '.join(row)} |" for row in rows[:MAX_ROWS]]
    more = len(rows) - MAX_ROWS
    return ["\n".join(lines), f"… and {more:,} more."] if more > 0 else ["\n".join(lines)]
