"""What several attempts at a case show: pass@k and pass^k, without bias, and which cases are flaky."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from math import comb
from statistics import fmean
from typing import Any, Literal

MOST_K = 10
"""The largest k for which reports have a rate."""

AttemptStatus = Literal["passed", "failed", "excluded"]
"""Of an attempt at a case. An excluded one shows nothing about the agent: the agent or the infrastructure could not be
reached, the simulated user was at fault, or scores are missing."""

Exclusion = Literal[
    "unreachable",
    "history",
    "simulated_user",
    "evaluator_error",
    "calls_unseen",
    "over_budget",
    "not_scored",
    "incomplete",
    "not_measured",
]
"""Why an attempt is excluded."""

EXCLUSIONS: Mapping[Exclusion, str] = {
    "unreachable": "agent not reachable",
    "history": "history could not be made",
    "simulated_user": "simulated user at fault",
    "evaluator_error": "judge, probe or evaluator failed",
    "calls_unseen": "tool calls not visible",
    "over_budget": "judge budget spent",
    "not_scored": "not scored yet",
    "incomplete": "incomplete",
    "not_measured": "nothing measured",
}
"""In words."""


NOT_THE_AGENTS: Collection[Exclusion] = (
    "unreachable",
    "history",
    "evaluator_error",
    "calls_unseen",
    "over_budget",
    "not_scored",
)
"""Reasons that lie neither in the agent, nor in the plan, nor in the simulated user."""

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
    exclusions: Mapping[str, Exclusion] = field(default_factory=dict)
    """Why the excluded ones are, by the name of the conversation."""
    whole: bool = False
    """Whether all planned attempts were made although fewer could have decided the verdict."""

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
    def may_end_early(self) -> bool:
        """Whether the number of attempts depends on their outcomes: then the share that passed is biased."""
        if self.must_pass is None or self.whole:
            return False
        return self.passed <= self.must_pass and self.failed <= self.planned - self.must_pass + 1

    @property
    def pass_rate(self) -> float | None:
        """An unbiased estimate of the probability that an attempt passes; None if it cannot be estimated.

        The share that passed; where attempts may end early, `early_pass_rate`, if none is excluded.
        """
        if not self.scored:
            return None
        if self.must_pass is None or not self.may_end_early:
            return self.passed / self.scored
        if self.excluded or not self.decided:
            return None
        return early_pass_rate(self.passed, self.scored, self.planned, self.must_pass)

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
            "excluded_for": dict(Counter(self.exclusions.values())),
            "planned": self.planned,
            "must_pass": self.must_pass,
            "verdict": self.verdict,
        }


def attempt_seed(seed: int, case_id: str, attempt: int) -> int:
    """The seed of an attempt at a case, from 0 to 2**31 - 1: that of the run alone would make all attempts alike."""
    digest = sha256(f"{seed}\n{case_id}\n{attempt}".encode("utf-8", "replace")).digest()
    return int.from_bytes(digest[:4]) >> 1


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


def early_pass_rate(passed: int, scored: int, planned: int, must_pass: int) -> float | None:
    """An unbiased estimate of the probability that an attempt passes, from attempts that ended with the `must_pass`-th
    pass, or with the failure that left too few of `planned`. None if one pass, or one failure, decides.

    M. A. Girshick, F. Mosteller and L. J. Savage, Unbiased Estimates for Certain Binomial Sampling Problems, 1946.
    """
    if not 1 < must_pass < planned:
        return None
    return (passed - (passed == must_pass)) / (scored - 1)


@dataclass(frozen=True, slots=True)
class PassRates:
    """The means over the cases: `at` and `hat` by k, as far as every scored case has k attempts.

    `short`: the number of cases with fewer attempts than the largest number, for which further k are not estimable.
    `ended_early`: the number of cases whose attempts may end early: of these, only k = 1 is estimable, and so of all
    cases together. `not_estimable`: the number of scored cases without any rate, which none includes.
    """

    at: Sequence[float]
    hat: Sequence[float]
    short: int
    ended_early: int = 0
    not_estimable: int = 0

    def to_dict(self) -> dict[str, Any]:
        return {
            "pass_at": {str(k): value for k, value in enumerate(self.at, start=1)},
            "pass_hat": {str(k): value for k, value in enumerate(self.hat, start=1)},
            "cases_with_fewer_attempts": self.short,
            "cases_ended_early": self.ended_early,
            "cases_not_estimable": self.not_estimable,
        }


def pass_rates(attempts: Iterable[Attempts]) -> PassRates:
    """The rates for k from 1 to the smallest number of scored attempts of a case, at most `MOST_K`."""
    scored = [item for item in attempts if item.scored]
    rates = [rate for item in scored if (rate := item.pass_rate) is not None]
    early = sum(item.may_end_early for item in scored)
    at = [fmean(rates)] if rates else []
    hat = list(at)
    fewest = min((item.scored for item in scored), default=0)
    for k in () if early else range(2, min(fewest, MOST_K) + 1):
        at.append(fmean(pass_at(item.passed, item.scored, k) or 0.0 for item in scored))
        hat.append(fmean(pass_hat(item.passed, item.scored, k) or 0.0 for item in scored))
    whole = [item.scored for item in scored if not item.may_end_early]
    short = sum(count < max(whole) for count in whole)
    return PassRates(at, hat, short, early, len(scored) - len(rates))
