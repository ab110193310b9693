"""How far raters agree, a judge with people or people with each other, and what a judge's errors do to a pass rate.

Everything is deterministic. Intervals are two-sided, at `LEVEL`: those of shares are E. B. Wilson's (1927), those of
coefficients are bootstrapped over items.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import NormalDist, fmean
from typing import Any, Literal, TypeVar

from .regression import LEVEL, RESAMPLES, middle

Interval = tuple[float, float]
_Z = NormalDist().inv_cdf((1 + LEVEL) / 2)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A statistic over `n` items. `value` is None where it is undefined, `interval` where it is unknown;
    `undefined` says why there is no value."""

    value: float | None
    interval: Interval | None
    n: int
    undefined: str = ""

    def to_dict(self) -> dict[str, Any]:
        why = {"undefined": self.undefined} if self.undefined else {}
        return {"value": self.value, "interval": self.interval and list(self.interval), "n": self.n, **why}


def proportion(successes: int, n: int) -> Estimate:
    """The share of `successes`; undefined for none of none."""
    if not n:
        return Estimate(None, None, 0, "there are no such items")
    share, unit = successes / n, _Z**2 / n
    centre, margin = share + unit / 2, math.sqrt(unit * (share * (1 - share) + unit / 4))
    interval = max(0.0, (centre - margin) / (1 + unit)), min(1.0, (centre + margin) / (1 + unit))
    return Estimate(share, interval, n)


def cohen_kappa(pairs: Sequence[tuple[bool, bool]]) -> Estimate:
    """Agreement of two raters on what passes beyond chance, -1 to 1 (J. Cohen, 1960)."""

    def kappa(counts: Counter[tuple[bool, bool]]) -> float:
        n, both, neither = counts.total(), counts[True, True], counts[False, False]
        first, second = (both + counts[True, False]) / n, (both + counts[False, True]) / n
        chance = first * second + (1 - first) * (1 - second)
        return ((both + neither) / n - chance) / (1 - chance) if chance < 1 else math.nan

    return _resampled(kappa, pairs)


Level = Literal["nominal", "ordinal"]


def krippendorff_alpha(items: Iterable[Sequence[float]], level: Level) -> Estimate:
    """Reliability of any number of raters, some of whose ratings may be missing: 1 is perfect, 0 is chance
    (K. Krippendorff, 2011). Ratings are numbers; at level nominal they are names. Items with fewer than two ratings do
    not count."""

    def alpha(counts: Counter[tuple[float, ...]]) -> float:
        totals: Counter[float] = Counter()
        for item, count in counts.items():
            totals.update({rating: count * times for rating, times in Counter(item).items()})
        ranks, below = {}, 0
        for rating in sorted(totals):
            ranks[rating] = below + totals[rating] / 2
            below += totals[rating]

        def distance(one: float, other: float) -> float:
            return (ranks[one] - ranks[other]) ** 2 if level == "ordinal" else float(one != other)

        observed = sum(
            count * sum(distance(*pair) for pair in combinations(item, 2)) / (len(item) - 1)
            for item, count in counts.items()
        )
        expected = sum(totals[one] * totals[other] * distance(one, other) for one, other in combinations(totals, 2))
        return 1 - observed * (below - 1) / expected if expected else math.nan

    return _resampled(alpha, [tuple(sorted(item)) for item in items if len(item) > 1])


T = TypeVar("T")


def _resampled(coefficient: Callable[[Counter[T]], float], items: Sequence[T]) -> Estimate:
    """A coefficient of the numbers of equal items, and its percentiles over resampled items (B. Efron, 1979), as far as
    it is defined there."""
    n = len(items)
    value = coefficient(Counter(items)) if n else math.nan
    if math.isnan(value):
        return Estimate(None, None, n, "all ratings are the same" if n else "there are no such items")
    chance = random.Random(0)  # noqa: S311  # no secret
    found = [coefficient(Counter(chance.choices(items, k=n))) for _ in range(RESAMPLES)]
    known = [one for one in found if not math.isnan(one)]
    return Estimate(value, middle(known) if n > 1 and len(known) > 1 else None, n)


@dataclass(frozen=True, slots=True)
class Confusion:
    """A judge's verdicts by those of people: of `m1` items that pass, it passed `k1`; of `m0` that fail, it failed
    `k0`."""

    k1: int
    m1: int
    k0: int
    m0: int

    @classmethod
    def of(cls, pairs: Iterable[tuple[bool, bool]]) -> Confusion:
        """Of (people's verdict, judge's verdict)."""
        counts = Counter(pairs)
        passed, failed = counts[True, True], counts[False, False]
        return cls(passed, passed + counts[True, False], failed, failed + counts[False, True])

    def shares(self) -> dict[str, Estimate]:
        """`tpr`, the share of what passes that the judge passes; `tnr`, that of what fails that it fails; `agreement`;
        and `base_rate`, the share of all items that passes."""
        n = self.m1 + self.m0
        counts = {
            "base_rate": (self.m1, n),
            "agreement": (self.k1 + self.k0, n),
            "tpr": (self.k1, self.m1),
            "tnr": (self.k0, self.m0),
        }
        return {name: proportion(*count) for name, count in counts.items()}


def corrected_rate(shares: Sequence[float], judge: Confusion, sizes: Sequence[int] | None = None) -> Estimate:
    """The pass rate that people would have found, from the judge's (W. J. Rogan and B. Gladen, 1978, with the
    delta-method variance).

    `shares` are those of passed results, one of each case; `sizes` is how many results each case has (by default 1).
    The standard error is over cases, never over their repetitions. Undefined if the judge may do no better than
    chance: TPR + TNR - 1 is not above 0, or its interval (R. G. Newcombe, 1998) touches 0.
    """
    n = len(shares)
    if not (n and judge.m1 and judge.m0):
        missing = "passes" if not judge.m1 else "fails"
        return Estimate(None, None, n, f"no label says {missing}" if n else "there are no such items")
    found = judge.shares()
    q1, q0 = judge.k1 / judge.m1, judge.k0 / judge.m0
    margins = (one.value - one.interval[0] for one in (found["tpr"], found["tnr"]) if one.interval and one.value)
    known = q1 + q0 - 1
    if known <= math.hypot(*margins):
        return Estimate(None, None, n, "by these labels, the judge may do no better than chance")
    rate = fmean(shares)
    variance = rate * (1 - rate) / n
    if sizes is not None and any(size != 1 for size in sizes):
        variance = sum((share - rate) ** 2 for share in shares) / (n * max(1, n - 1))
    theta = min(1.0, max(0.0, (rate + q0 - 1) / known))
    variance += (1 - theta) ** 2 * q0 * (1 - q0) / judge.m0 + theta**2 * q1 * (1 - q1) / judge.m1
    width = _Z * math.sqrt(variance) / known
    return Estimate(theta, (max(0.0, theta - width), min(1.0, theta + width)), n)
