"""How far raters agree, a judge with people or people with each other, and what a judge's errors do to a pass rate.

Everything is deterministic and needs no numerical library. Intervals are two-sided, at `LEVEL`. The methods:

- `proportion`: E. B. Wilson's interval (1927).
- `cohen_kappa`: J. Cohen (1960), with the standard error of J. L. Fleiss, J. Cohen and B. S. Everitt (1969).
- `gwet_ac1`: K. L. Gwet (2008), with the standard error of the same article, over items.
- `krippendorff_alpha`: K. Krippendorff (2011), with a jackknife over items: delete-one up to `GROUPS` items, beyond
  that delete-a-group.
- `corrected_rate`: W. J. Rogan and B. Gladen (1978), with the delta-method variance; whether a judge knows anything at
  all is decided by the interval of R. G. Newcombe (1998) for a sum of two rates.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import NormalDist, fmean
from typing import Any, Literal

from .significance import LEVEL

Z = NormalDist().inv_cdf((1 + LEVEL) / 2)

GROUPS = 100
"""Parts of the items that a jackknife leaves out, one after the other, at most."""

Interval = tuple[float, float]


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
    """The share of `successes`, with Wilson's interval; undefined for none of none."""
    if not n:
        return Estimate(None, None, 0, "there are no such items")
    share, spread = successes / n, Z * Z / n
    middle = (share + spread / 2) / (1 + spread)
    width = Z / (1 + spread) * math.sqrt(share * (1 - share) / n + spread / n / 4)
    low = 0.0 if successes == 0 else middle - width
    return Estimate(share, (low, 1.0 if successes == n else middle + width), n)


def cohen_kappa(pairs: Sequence[tuple[Hashable, Hashable]]) -> Estimate:
    """Agreement of two raters beyond chance, -1 to 1; undefined if both always give the same one rating."""
    n = len(pairs)
    cells, first, second = Counter(pairs), Counter(pair[0] for pair in pairs), Counter(pair[1] for pair in pairs)
    observed = sum(count for (one, other), count in cells.items() if one == other) / n if n else 0.0
    expected = sum(first[rating] * second[rating] for rating in first) / n**2 if n else 1.0
    if expected == 1:
        return Estimate(None, None, n, "all ratings are the same" if n else "there are no such items")
    kappa = (observed - expected) / (1 - expected)
    same = mixed = 0.0
    for (one, other), count in cells.items():
        if one == other:
            same += count / n * (1 - (first[one] + second[one]) / n * (1 - kappa)) ** 2
        else:
            mixed += count / n * ((second[one] + first[other]) / n) ** 2
    variance = same + (1 - kappa) ** 2 * mixed - (kappa - expected * (1 - kappa)) ** 2
    return _around(kappa, math.sqrt(max(0.0, variance) / n) / (1 - expected), n)


def gwet_ac1(pairs: Sequence[tuple[bool, bool]]) -> Estimate:
    """Agreement of two raters on what passes, beyond chance; a skewed base rate does not lower it as it does kappa."""
    n = len(pairs)
    if not n:
        return Estimate(None, None, 0, "no item has two ratings")
    passing = sum(map(sum, pairs)) / (2 * n)
    chance = 2 * passing * (1 - passing)
    ac1 = (sum(one == other for one, other in pairs) / n - chance) / (1 - chance)
    if n == 1:
        return Estimate(ac1, None, n)
    of_items = []
    for one, other in pairs:
        by_chance = fmean(1 - passing if rating else passing for rating in (one, other)) - chance
        of_items.append(((one == other) - chance - 2 * (1 - ac1) * by_chance) / (1 - chance))
    variance = sum((value - ac1) ** 2 for value in of_items) / (n * (n - 1))
    return _around(ac1, math.sqrt(variance), n)


Level = Literal["nominal", "ordinal"]


def krippendorff_alpha(items: Iterable[Sequence[float]], level: Level) -> Estimate:
    """Reliability of any number of raters, some of whose ratings may be missing: 1 is perfect, 0 is chance.

    Ratings are numbers; at level nominal they are names. Items with fewer than two ratings do not count. Undefined
    without such items, or if all ratings are equal.
    """
    rated = [tuple(sorted(item)) for item in items if len(item) > 1]
    n = len(rated)
    alpha = _alpha(Counter(rated), level)
    if alpha is None:
        return Estimate(None, None, n, "all ratings are the same" if n else "no item has two ratings")
    random.Random(0).shuffle(rated)  # noqa: S311  # no secret depends on it
    groups = min(n, GROUPS)
    whole = Counter(rated)
    without = [_alpha(whole - Counter(rated[group::groups]), level) for group in range(groups)]
    known = [value for value in without if value is not None]
    if len(known) < max(2, groups):  # one of few items has all the variety
        return Estimate(alpha, None, n)
    mean = fmean(known)
    variance = (groups - 1) / groups * sum((value - mean) ** 2 for value in known)
    return _around(alpha, math.sqrt(variance), n)


def _alpha(patterns: Mapping[tuple[float, ...], int], level: Level) -> float | None:
    """Alpha of items by the number of each: what they have in common is counted once."""
    totals: Counter[float] = Counter()
    for pattern, count in patterns.items():
        for rating in pattern:
            totals[rating] += count
    values = sorted(totals)
    if len(values) < 2:
        return None
    distance = _distances(values, [totals[value] for value in values], level)
    number = totals.total()
    index = {value: place for place, value in enumerate(values)}
    observed = sum(
        count * 2 * _within([index[rating] for rating in pattern], distance) / (len(pattern) - 1)
        for pattern, count in patterns.items()
    )
    expected = sum(
        totals[one] * totals[other] * distance[place][place + 1 + further]
        for place, one in enumerate(values)
        for further, other in enumerate(values[place + 1 :])
    )
    return 1 - (number - 1) * observed / (2 * expected)


def _within(places: Sequence[int], distance: Sequence[Sequence[float]]) -> float:
    return sum(distance[one][other] for number, one in enumerate(places) for other in places[number + 1 :])


def _distances(values: Sequence[float], counts: Sequence[int], level: Level) -> list[list[float]]:
    """The squared distance of each rating (ascending) from each."""
    if level == "nominal":
        return [[float(one != other) for other in values] for one in values]
    ranks = [until - count / 2 for until, count in zip(accumulate(counts), counts, strict=True)]
    return [[(one - other) ** 2 for other in ranks] for one in ranks]


def _around(value: float, error: float, n: int) -> Estimate:
    return Estimate(value, (max(-1.0, value - Z * error), min(1.0, value + Z * error)), n)


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

    @property
    def tpr(self) -> Estimate:
        """The share of what passes that the judge passes: q1."""
        return proportion(self.k1, self.m1)

    @property
    def tnr(self) -> Estimate:
        """The share of what fails that the judge fails: q0."""
        return proportion(self.k0, self.m0)

    @property
    def agreement(self) -> Estimate:
        return proportion(self.k1 + self.k0, self.m1 + self.m0)

    @property
    def base_rate(self) -> Estimate:
        """The share of all items that passes."""
        return proportion(self.m1, self.m1 + self.m0)


def corrected_rate(shares: Sequence[float], judge: Confusion, sizes: Sequence[int] | None = None) -> Estimate:
    """The pass rate that people would have found, from the judge's.

    `shares` are those of passed results, one of each case; `sizes` is how many results each case has (by default 1).
    The standard error is over cases, never over their repetitions. Undefined if the judge may do no better than
    chance: TPR + TNR - 1 is not above 0, or its interval touches 0.
    """
    n = len(shares)
    tpr, tnr = judge.tpr, judge.tnr
    if tpr.value is None or tnr.value is None or tpr.interval is None or tnr.interval is None or not n:
        missing = "passes" if tpr.value is None else "fails"
        return Estimate(None, None, n, f"no label says {missing}" if n else "there are no such items")
    known = tpr.value + tnr.value - 1
    if known - math.hypot(tpr.value - tpr.interval[0], tnr.value - tnr.interval[0]) <= 0:
        return Estimate(None, None, n, "by these labels, the judge may do no better than chance")
    rate = fmean(shares)
    if sizes is None or all(size == 1 for size in sizes):
        variance = rate * (1 - rate) / n
    else:
        variance = sum((share - rate) ** 2 for share in shares) / (n * max(1, n - 1))
    theta = min(1.0, max(0.0, (rate + tnr.value - 1) / known))
    variance += (1 - theta) ** 2 * tnr.value * (1 - tnr.value) / judge.m0
    variance += theta**2 * tpr.value * (1 - tpr.value) / judge.m1
    width = Z * math.sqrt(variance) / known
    return Estimate(theta, (max(0.0, theta - width), min(1.0, theta + width)), n)


Scored = tuple[float, bool]
"""A judge's score, and whether people pass the item."""


def halves(items: Sequence[Scored], seed: str) -> tuple[list[Scored], list[Scored]]:
    """Two random halves with about equally many of each verdict; the same items and `seed` give the same halves."""
    first: list[Scored] = []
    second: list[Scored] = []
    chance = random.Random(seed)  # noqa: S311  # no secret depends on it
    for verdict in (True, False):
        same = [item for item in items if item[1] is verdict]
        chance.shuffle(same)
        first += same[::2]
        second += same[1::2]
    return first, second


def best_threshold(items: Sequence[Scored], near: float) -> float | None:
    """The lowest score to pass with which TPR + TNR is highest; of equal ones the one nearest to `near`.

    None unless the items have both verdicts.
    """
    if len({passes for _, passes in items}) < 2:
        return None

    def rank(threshold: float) -> tuple[float, float, float]:
        found = confusion_at(items, threshold)
        return (-(found.k1 / found.m1 + found.k0 / found.m0), abs(threshold - near), threshold)

    return min({score for score, _ in items}, key=rank)


def confusion_at(items: Iterable[Scored], threshold: float) -> Confusion:
    """The judge's verdicts if scores from `threshold` on pass."""
    return Confusion.of((passes, score >= threshold) for score, passes in items)
