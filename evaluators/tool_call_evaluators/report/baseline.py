"""What a report shows of its comparison with a baseline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..runs.changes import CaseChange, Comparison, ScoreChange
from .compared import STATUSES, answer, count_texts
from .wording import score_text


def baseline_tile(comparison: Comparison) -> tuple[str, str, str]:
    """The title, the change of the pass rate over the cases of both runs, and what changed."""
    rate = comparison.pass_rate
    if not comparison.comparable:
        return change_title(comparison), "–", "cannot be compared: they share no metric"
    more = f"pass rate {_values(rate)}; {count_texts(comparison)}"
    return change_title(comparison), change_text(rate), more


def change_line(comparison: Comparison) -> str:
    """`monday: not enough runs to decide (1 newly failing, 2 unchanged)`, for the end of a run."""
    return f"{comparison.before}: {answer(comparison)[0]} ({count_texts(comparison)})"


def change_title(comparison: Comparison) -> str:
    return f"change from {comparison.before}"


def metric_change(comparison: Comparison, metric: str) -> str:
    """The change of the mean over the cases of both runs; – if it is not compared."""
    aside = {item.metric for item in comparison.not_judged}
    found = (score for score in comparison.scores if score.metric == metric and metric not in aside)
    return next(map(change_text, found), "–")


def change_text(score: ScoreChange) -> str:
    """`▲ +0.25`, `▼ −0.25` or `= 0.00`; – without two values."""
    if score.delta is None:
        return "–"
    sign = "▲ +" if score.delta > 0 else "▼ −" if score.delta < 0 else "= "
    return f"{sign}{abs(score.delta):.2f}"


def case_data(change: CaseChange | None) -> Mapping[str, Any] | None:
    """The data of the page: the status of the case, and of each metric whose mean differs the change and the values."""
    if change is None or change.status == "same":
        return None
    word, tone = STATUSES[change.status]
    scores = {score.metric: [change_text(score), _values(score)] for score in change.scores}
    return {"status": word, "tone": tone} | ({"scores": scores} if scores else {})


def _values(score: ScoreChange) -> str:
    return f"{score_text(score.before)} → {score_text(score.after)}"
