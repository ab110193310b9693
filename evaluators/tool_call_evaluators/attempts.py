"""What several attempts at a case show: pass@k and pass^k, without bias, and which cases are flaky."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import comb
from statistics import fmean
from typing import Any, Literal

MOST_K = 10
"""The largest k for which reports have a rate."""

AttemptStatus = Literal["passed", "failed", "excluded"]
"""Of an attempt at a case. An excluded one shows nothing about the agent: the agent or the infrastructure could not be
reached, the simulated user was at fault, or scores are missing."""

AttemptsVerdict = Literal["passed", "failed", "flaky", "unscored"]


@dataclass(frozen=True, slots=True)
class Attempts:
    """The attempts at one case."""

    case_id: str
    statuses: Mapping[str, AttemptStatus]
    """By the name of the conversation, in order."""
    planned: int
    """How many attempts the suite asks for; more than were made if the verdict was certain before."""
    must_pass: int | None = None
    """How many must pass; None: all."""

    def _count(self, status: AttemptStatus) -> int:
        return sum(found == status for found in self.statuses.values())

    @property
    def made(self) -> int:
        return len(self.statuses)

    @property
    def passed(self) -> int:
        return self._count("passed")

    @property
    def failed(self) -> int:
        return self._count("failed")

    @property
    def excluded(self) -> int:
        return self._count("excluded")

    @property
    def scored(self) -> int:
        return self.passed + self.failed

    @property
    def accepted(self) -> bool:
        """Whether enough passed, where not all need to."""
        return self.must_pass is not None and self.passed >= self.must_pass

    @property
    def decided(self) -> bool:
        """Whether further attempts cannot change if enough pass."""
        if self.must_pass is None:
            return self.made >= self.planned
        return self.accepted or self.passed + self.planned - self.made < self.must_pass

    @property
    def ended_early(self) -> bool:
        """Whether attempts were left out: then the share that passed depends on when it was certain, and is biased."""
        return self.made < self.planned

    @property
    def verdict(self) -> AttemptsVerdict:
        """Flaky: some passed and some failed."""
        if not self.scored:
            return "unscored"
        return "passed" if not self.failed else "flaky" if self.passed else "failed"

    def to_dict(self) -> dict[str, Any]:
        return {
            "case_id": self.case_id,
            "passed": self.passed,
            "failed": self.failed,
            "excluded": self.excluded,
            "planned": self.planned,
            "must_pass": self.must_pass,
            "verdict": self.verdict,
        }


def pass_at(passed: int, scored: int, k: int) -> float | None:
    """pass@k of a case: the probability that one of k attempts passes; None, not estimable, with fewer than k.

    1 - C(n - c, k) / C(n, k), without bias (M. Chen et al., Evaluating Large Language Models Trained on Code, 2021).
    """
    return None if not 0 < k <= scored else 1 - comb(scored - passed, k) / comb(scored, k)


def pass_hat(passed: int, scored: int, k: int) -> float | None:
    """pass^k of a case: the probability that all of k attempts pass; None, not estimable, with fewer than k.

    C(c, k) / C(n, k), without bias (S. Yao et al., tau-bench, 2024).
    """
    return None if not 0 < k <= scored else comb(passed, k) / comb(scored, k)


@dataclass(frozen=True, slots=True)
class PassRates:
    """The means over the cases: `at` and `hat` by k, as far as every scored case has k attempts.

    `short`: the number of cases with fewer attempts than the largest number, for which further k are not estimable.
    `ended_early`: the number of cases whose attempts ended early, which no rate includes: none is estimable from them.
    """

    at: Sequence[float]
    hat: Sequence[float]
    short: int
    ended_early: int = 0

    def to_dict(self) -> dict[str, Any]:
        return {
            "pass_at": {str(k): value for k, value in enumerate(self.at, start=1)},
            "pass_hat": {str(k): value for k, value in enumerate(self.hat, start=1)},
            "cases_with_fewer_attempts": self.short,
            "cases_ended_early": self.ended_early,
        }


def pass_rates(attempts: Iterable[Attempts]) -> PassRates:
    """The rates for k from 1 to the smallest number of scored attempts of a case, at most `MOST_K`."""
    attempts = list(attempts)
    cases = [item for item in attempts if item.scored and not item.ended_early]
    fewest = min((item.scored for item in cases), default=0)
    largest = max((item.scored for item in cases), default=0)
    at, hat = [], []
    for k in range(1, min(fewest, MOST_K) + 1):
        at.append(fmean(pass_at(item.passed, item.scored, k) or 0.0 for item in cases))
        hat.append(fmean(pass_hat(item.passed, item.scored, k) or 0.0 for item in cases))
    early = sum(item.ended_early for item in attempts)
    return PassRates(at, hat, sum(item.scored < largest for item in cases), early)
