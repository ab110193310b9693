"""The result of a comparison of two runs, and its JSON form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from a2a_tool_capture.models import ToolCall

from ..matching.call_diff import CallChange
from .comparability import NotJudged
from .decision import Decision
from .regression import Sensitivity

RATE = "pass rate"
"""The metric name of `Comparison.pass_rate`, the share of conversations that pass."""

CaseStatus = Literal["worse", "newly_failing", "fixed", "gone", "new", "changed", "same"]
"""`worse`: its repetitions alone show a significant drop. `newly_failing`: it always passed before but not now, which
may be chance. `fixed`: it always passes now but did not before. `gone` and `new`: only the run before, or only the run
after, has the case. `changed`: other changes of calls, scores or pass rate."""


FailOn = Literal["regression", "newly-failing", "undecided"]
"""On what a pipeline stops: `newly-failing` also on a regression; `undecided` if there are too few runs."""


@dataclass(frozen=True, slots=True)
class ScoreChange:
    """A metric before and after: the means (None if not measured) and the numbers of scores.

    `interval` (95 %, bootstrap) and `p_value` (one-sided probability of such a drop by chance) describe the change;
    None with too few scores or for a metric that is not compared. `dropped`: the drop is significant, corrected for all
    tests of the comparison.
    """

    metric: str
    before: float | None
    after: float | None
    counts: tuple[int, int]
    interval: tuple[float, float] | None = None
    p_value: float | None = None
    dropped: bool = False

    @property
    def delta(self) -> float | None:
        return None if self.before is None or self.after is None else self.after - self.before


@dataclass(frozen=True, slots=True)
class TurnChange:
    """The differing calls of a turn (from 1), with the calls that their indices refer to.

    With repetitions, the most frequent calls of each side are compared; `shares` is the number of repetitions with
    these calls and the total.
    """

    turn: int
    changes: tuple[CallChange, ...]
    before: tuple[ToolCall, ...]
    after: tuple[ToolCall, ...]
    shares: tuple[tuple[int, int], tuple[int, int]]


@dataclass(frozen=True, slots=True)
class CaseChange:
    """A case before and after. `passed` holds, for each side, the numbers of passed and of all conversations."""

    case: str
    status: CaseStatus
    passed: tuple[tuple[int, int], tuple[int, int]]
    turns: tuple[TurnChange, ...] = ()
    scores: tuple[ScoreChange, ...] = ()
    failures: tuple[str, ...] = ()
    """New failures: names of metrics, `failed_turn`, `missing_turn`."""
    fixes: tuple[str, ...] = ()
    """Failures of the run before that are fixed."""

    @property
    def regressed(self) -> bool:
        """Whether the case is missing, or its pass rate or a score dropped significantly."""
        return self.status in ("worse", "gone")


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs. `cases` are in the order of the run before; `scores` are over all cases that both runs have.

    `pass_rate`: the share of conversations that pass by the compared metrics. `not_judged`: the metrics that are not
    compared because the runs measured them differently. `sensitivity`: how large a drop the comparison detects.
    """

    before: str
    after: str
    cases: tuple[CaseChange, ...]
    scores: tuple[ScoreChange, ...]
    pass_rate: ScoreChange
    not_judged: tuple[NotJudged, ...]
    sensitivity: Sensitivity
    decision: Decision
    comparable: bool = True
    """False if the runs have metrics but share none that can be compared."""

    @property
    def regressed(self) -> bool:
        """Whether a case is missing, any drop is significant, or a deterministic agent fails a case that passed before.

        For an unchanged agent with all its cases, this is true in at most `regression.FALSE_ALARMS` of all comparisons.
        """
        return self.decision.answer == "worse"

    def fails_on(self, conditions: Collection[FailOn]) -> bool:
        """Whether one of the conditions on which a pipeline stops is met."""
        met = {
            "regression": self.regressed,
            "newly-failing": self.regressed or "newly_failing" in self.counts,
            "undecided": self.decision.answer == "undecided" or not self.comparable,
        }
        return any(met[condition] for condition in conditions)

    @property
    def counts(self) -> dict[CaseStatus, int]:
        """The number of cases of each status that occurs."""
        return dict(Counter(case.status for case in self.cases))

    def to_dict(self) -> dict[str, Any]:
        return {
            "before": self.before,
            "after": self.after,
            "regressed": self.regressed,
            "decision": asdict(self.decision),
            "comparable": self.comparable,
            "not_judged": [asdict(entry) for entry in self.not_judged],
            "sensitivity": asdict(self.sensitivity),
            "counts": self.counts,
            "pass_rate": _score_dict(self.pass_rate),
            "scores": [_score_dict(score) for score in self.scores],
            "cases": [
                {
                    "case": case.case,
                    "status": case.status,
                    "regressed": case.regressed,
                    "passed": [{"passed": passed, "of": total} for passed, total in case.passed],
                    "failures": list(case.failures),
                    "fixes": list(case.fixes),
                    "scores": [_score_dict(score) for score in case.scores],
                    "turns": [_turn_dict(turn) for turn in case.turns],
                }
                for case in self.cases
            ],
        }


def _score_dict(score: ScoreChange) -> dict[str, Any]:
    return {**asdict(score), "delta": score.delta}


def _turn_dict(turn: TurnChange) -> dict[str, Any]:
    return {
        "turn": turn.turn,
        "changes": [_change_dict(change, turn) for change in turn.changes],
        "shares": [{"made": made, "of": total} for made, total in turn.shares],
    }


def _change_dict(change: CallChange, turn: TurnChange) -> Mapping[str, Any]:
    def call_json(calls: Sequence[ToolCall], index: int | None) -> dict[str, Any] | None:
        return None if index is None else {"name": calls[index].name, "arguments": calls[index].arguments}

    return {
        **change.to_dict(),
        "before": call_json(turn.before, change.left),
        "after": call_json(turn.after, change.right),
    }
