"""A comparison of two runs as text, Markdown and JSON, and in the report of one of the runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias, cast

from ..outcomes.comparison import CaseChange, Comparison, ScoreChange
from ..outcomes.regression import EVIDENCE, FALSE_ALARMS, LEAST_CASES
from ..texts import counted, cut_within, printable, report_json, score_text
from .templating import plain_lines, plain_text

MAX_CASES = 100
"""Maximum number of cases listed one by one; the number of further cases follows."""

Tone: TypeAlias = Literal["worse", "better", "changed", "quiet"]
"""The meaning of a piece of the text, which decides its colour."""
Paint: TypeAlias = Callable[[str, Tone], str]
_Line: TypeAlias = tuple[str, Tone | None]

STATUSES: dict[str, _Line] = {
    "worse": ("regressed", "worse"),
    "gone": ("missing", "worse"),
    "newly_failing": ("newly failing", "changed"),
    "unscored": ("not scored", "changed"),
    "changed": ("changed", "changed"),
    "fixed": ("fixed", "better"),
    "new": ("new", "quiet"),
    "same": ("unchanged", None),
}
"""The word and the tone of each status of a case, in the order of the text."""

_LONGEST_NAME = 24
"""Characters of the name of a run above a column."""


def shown_comparison(comparison: Comparison) -> dict[str, Any]:
    """What every form shows of a comparison: the answer in a sentence, the cases that changed, the worst first, then
    the figures and what qualifies them. Of `rows`: the cells of each mean, and whether it dropped significantly."""
    found, tone = answer(comparison)
    changed = [case for case in comparison.cases if case.status != "same"]
    changed.sort(key=lambda case: list(STATUSES).index(case.status))
    more = len(changed) - MAX_CASES
    scores = [comparison.pass_rate, *comparison.scores] if comparison.sensitivity.cases else comparison.scores
    rows = [(_score_cells(score), score.dropped) for score in scores]
    return {
        "sentence": f"{comparison.before} → {comparison.after}: {found} ({_count_texts(comparison)})",
        "answer": found,
        "tone": tone,
        "counts": _count_texts(comparison),
        "cases": list(map(_shown_case, changed[:MAX_CASES])),
        "more": [f"… and {counted(more, 'more case')}."] if more > 0 else [],
        "head": (
            "mean of cases",
            *(cut_within(name, _LONGEST_NAME) for name in (comparison.before, comparison.after)),
            "change",
            "95 % interval",
            "p of a drop",
        ),
        "rows": rows,
        "notes": _lines(
            "notes",
            comparison=comparison,
            p_values=any(cells[-1] != "–" for cells, _ in rows),
            evidence=EVIDENCE,
            false_alarms=FALSE_ALARMS,
            least_cases=LEAST_CASES,
        ),
    }


def comparison_json(comparison: Comparison) -> str:
    """The sentence, and `Comparison.to_dict`, as JSON text."""
    return report_json({"sentence": shown_comparison(comparison)["sentence"], **comparison.to_dict()}) + "\n"


def comparison_text(comparison: Comparison, paint: Paint = lambda text, tone: text) -> str:
    """For a terminal. `paint(piece, tone)` returns a piece of a line with colour codes."""
    shown = shown_comparison(comparison)

    def painted(text: str, tone: Tone | None) -> str:
        return printable(text) if tone is None else paint(printable(text), tone)

    rows = [(cells, "worse" if dropped else None) for cells, dropped in shown["rows"]]
    rows = [(shown["head"], "quiet"), *rows] if rows else []
    widths = [max(map(len, column)) for column in zip(*(cells for cells, _ in rows), strict=True)]
    return plain_text("comparison.txt", shown=shown, rows=rows, widths=widths, painted=painted).rstrip() + "\n"


def _count_texts(comparison: Comparison) -> str:
    counts = comparison.counts
    parts = [f"{counts[status]:,} {word}" for status, (word, _) in STATUSES.items() if status in counts]
    return ", ".join(parts) or "no cases"


def answer(comparison: Comparison) -> tuple[str, Tone]:
    """The decision in a few words, and its tone."""
    decision = comparison.decision.answer
    if decision == "worse":
        return "worse", "worse"
    if not comparison.comparable:
        return "cannot be compared", "worse"
    return ("not enough runs to decide", "changed") if decision == "undecided" else (decision, "better")


def _lines(part: str, **values: Any) -> list[_Line]:
    """The lines of a part of the comparison, each with its tone."""
    found = (line.partition(" ") for line in plain_lines("comparison_lines.txt", part=part, **values))
    return [(text, None if tone == "plain" else cast(Tone, tone)) for tone, _, text in found]


def _shown_case(case: CaseChange) -> dict[str, Any]:
    """What fails or passes now, the differences of its calls, and its scores, as lines."""
    sides = [
        f"{passed} of {total} passed" if total else "not scored" if excluded else "missing"
        for (passed, total), excluded in zip(case.passed, case.excluded, strict=True)
    ]
    word, tone = STATUSES[case.status]
    return {
        "change": case,
        "name": case.case,
        "word": word,
        "title": f"{word}: {case.case}",
        "tone": tone,
        "rate": f"{sides[0]}, now {sides[1]}",
        **{part: _lines(part, case=case, cells=_score_cells) for part in ("outcome", "calls", "scores")},
    }


def _score_cells(score: ScoreChange) -> tuple[str, ...]:
    return (
        score.metric,
        score_text(score.before),
        score_text(score.after),
        "–" if score.delta is None else f"{score.delta:+.2f}",
        "–" if score.interval is None else "{:+.2f} to {:+.2f}".format(*score.interval),
        "–" if score.p_value is None or not (score.delta or 0) < 0 else f"{score.p_value:.2g}",
    )


def change_line(comparison: Comparison) -> str:
    """`monday: not enough runs to decide (1 newly failing, 2 unchanged)`, for the end of a run."""
    return f"{comparison.before}: {answer(comparison)[0]} ({_count_texts(comparison)})"
