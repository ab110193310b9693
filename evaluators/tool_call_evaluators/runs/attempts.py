"""What several attempts at a case show: pass@k and pass^k, without bias, and which cases are flaky."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import comb
from statistics import fmean
from typing import Any, Literal

MOST_K = 10
"""The largest k for which reports have a rate."""

AttemptsVerdict = Literal["passed", "failed", "flaky", "unscored"]


@dataclass(frozen=True, slots=True)
class Attempts:
    """The attempts at one case. `excluded` ones show nothing about the agent: it or the infrastructure could not be
    reached, the simulated user was at fault, or nothing was scored."""

    case_id: str
    passed: int
    failed: int
    excluded: int = 0

    @property
    def scored(self) -> int:
        return self.passed + self.failed

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
    """The means over the cases: `at` and `hat` by k, as far as every scored case has k attempts. `short`: the number of
    cases with fewer attempts than the largest number, for which further k are not estimable."""

    at: Sequence[float]
    hat: Sequence[float]
    short: int

    def to_dict(self) -> dict[str, Any]:
        return {
            "pass_at": {str(k): value for k, value in enumerate(self.at, start=1)},
            "pass_hat": {str(k): value for k, value in enumerate(self.hat, start=1)},
            "cases_with_fewer_attempts": self.short,
        }


def pass_rates(attempts: Iterable[Attempts]) -> PassRates:
    """The rates for k from 1 to the smallest number of scored attempts of a case, at most `MOST_K`."""
    cases = [item for item in attempts if item.scored]
    fewest = min((item.scored for item in cases), default=0)
    largest = max((item.scored for item in cases), default=0)
    at, hat = [], []
    for k in range(1, min(fewest, MOST_K) + 1):
        at.append(fmean(pass_at(item.passed, item.scored, k) or 0.0 for item in cases))
        hat.append(fmean(pass_hat(item.passed, item.scored, k) or 0.0 for item in cases))
    return PassRates(at, hat, sum(item.scored < largest for item in cases))
