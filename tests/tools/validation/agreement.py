"""How often evaluators and the source of a trajectory agree, and where they do not."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist

from tool_call_evaluators import ToolTrajectory, evaluate_sync
from tool_call_evaluators.evaluator import EvaluatorBase

from .sources import Judged

BFCL_AS_WRITTEN = (ToolTrajectory(mode="any_order"),)
BFCL = (
    ToolTrajectory(
        mode="any_order",
        matcher={"case_insensitive": True, "ignored_characters": " ,./-_*^", "typed_lists": True},
    ),
)
TAU_ALL = (ToolTrajectory(mode="any_order"),)
TAU_WRITES = (ToolTrajectory(id="writes", mode="any_order", only_succeeded=True, ignored_tools=("reads",)),)
TAU = (
    *TAU_WRITES,
    ToolTrajectory(id="reads", mode="superset", ignored_tools=("calculate", "think", "transfer_*")),
)
"""Exactly the expected writes succeeded, in any order, and the expected reads were made."""


@dataclass
class Agreement:
    """Counts of trajectories by both verdicts."""

    right: int = 0
    """Both say right."""
    wrong: int = 0
    """Both say wrong."""
    passed_alone: list[Judged] = field(default_factory=list)
    """Only the evaluators say right."""
    failed_alone: list[Judged] = field(default_factory=list)
    """Only the source says right."""

    @property
    def total(self) -> int:
        return self.right + self.wrong + len(self.passed_alone) + len(self.failed_alone)

    @property
    def share(self) -> float:
        return (self.right + self.wrong) / self.total

    @property
    def precision(self) -> float:
        """The share of trajectories that pass which the source calls right."""
        return self.right / (self.right + len(self.passed_alone))


def agreement(judged: Iterable[Judged], evaluators: Sequence[EvaluatorBase]) -> dict[str, Agreement]:
    """By category, and of all as ``."""
    found: dict[str, Agreement] = {"": Agreement()}
    for item in judged:
        passes = all(result.passed for result in evaluate_sync(item.case, evaluators))
        for category in ("", item.category):
            counts = found.setdefault(category, Agreement())
            if passes and item.right:
                counts.right += 1
            elif not passes and not item.right:
                counts.wrong += 1
            else:
                (counts.passed_alone if passes else counts.failed_alone).append(item)
    return found


def wilson(found: int, total: int) -> tuple[float, float]:
    """The 95 % score interval of a share (E. B. Wilson, 1927)."""
    z = NormalDist().inv_cdf(0.975)
    share, spread = found / total, z * z / total
    middle = (share + spread / 2) / (1 + spread)
    half = z * math.sqrt(share * (1 - share) / total + spread / (4 * total)) / (1 + spread)
    return middle - half, middle + half
