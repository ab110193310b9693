"""What a comparison of two runs says: the values, and their JSON form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from a2a_tool_capture.models import ToolCall

from ..matching.call_diff import CallChange
from .comparability import NotJudged
from .regression import Sight

RATE = "pass rate"
"""How `Comparison.pass_rate` is named among the metrics: the share of conversations that pass."""

CaseStatus = Literal["worse", "newly_failing", "fixed", "gone", "new", "changed", "same"]
"""`worse`: its repetitions alone show a fall that is no chance. `newly_failing`: it always passed and does no more,
which may be chance. `fixed`: it did not always pass and does now. `gone` and `new`: only the run before, or only the
run after, has the case. `changed`: calls, scores or how often it passes, but none of these."""


@dataclass(frozen=True, slots=True)
class ScoreChange:
    """A metric before and after: means, None where it was not measured, and how many scores they are of.

    `interval` (95 %, bootstrap) and `p_value` (one-sided: how likely chance alone lowers it so far) are of the change,
    None where there are too few scores for them, or the metric is not judged. `fell`: it is lower by more than chance
    explains, as one of all tests of the comparison.
    """

    metric: str
    before: float | None
    after: float | None
    counts: tuple[int, int]
    interval: tuple[float, float] | None = None
    p_value: float | None = None
    fell: bool = False

    @property
    def delta(self) -> float | None:
        return None if self.before is None or self.after is None else self.after - self.before


@dataclass(frozen=True, slots=True)
class TurnChange:
    """The calls of a turn (from 1) that differ, with the calls their indices point into.

    With repetitions it is the most frequent calls of either side that are compared; `shares` says how many of the
    repetitions made just these.
    """

    turn: int
    changes: tuple[CallChange, ...]
    before: tuple[ToolCall, ...]
    after: tuple[ToolCall, ...]
    shares: tuple[tuple[int, int], tuple[int, int]]


@dataclass(frozen=True, slots=True)
class CaseChange:
    """A case before and after. `passed` counts, for both sides, conversations that passed and all there were."""

    case: str
    status: CaseStatus
    passed: tuple[tuple[int, int], tuple[int, int]]
    turns: tuple[TurnChange, ...] = ()
    scores: tuple[ScoreChange, ...] = ()
    failures: tuple[str, ...] = ()
    """What fails after and did not before: names of metrics, `failed_turn`, `missing_turn`."""
    fixes: tuple[str, ...] = ()
    """What failed before and does not after."""

    @property
    def regressed(self) -> bool:
        """It is gone, or passes less often, or a score of it fell, by more than chance explains."""
        return self.status in ("worse", "gone")


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs. `cases` are in the order of the run before; `scores` are over all cases that both runs have.

    `pass_rate`: the share of conversations that pass by the metrics that are judged. `not_judged`: the metrics that
    are not, as the runs did not measure them alike. `sight`: how large a fall would have been seen.
    """

    before: str
    after: str
    cases: tuple[CaseChange, ...]
    scores: tuple[ScoreChange, ...]
    pass_rate: ScoreChange
    not_judged: tuple[NotJudged, ...]
    sight: Sight
    comparable: bool = True
    """False where the runs have metrics, and none of which they can be compared."""

    @property
    def regressed(self) -> bool:
        """Whether anything got worse by more than chance explains. Of an unchanged agent that has all its cases, at
        most `regression.FALSE_ALARMS` of all comparisons say so."""
        scores = (self.pass_rate, *self.scores)
        return any(case.regressed for case in self.cases) or any(score.fell for score in scores)

    @property
    def counts(self) -> dict[CaseStatus, int]:
        """How many cases have which status; only those there are."""
        return dict(Counter(case.status for case in self.cases))

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "before": self.before,
            "after": self.after,
            "regressed": self.regressed,
            "comparable": self.comparable,
            "not_judged": [asdict(entry) for entry in self.not_judged],
            "sight": asdict(self.sight),
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
