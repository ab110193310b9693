"""Tests whether a drop is significant: exact permutation tests, Holm's correction, a bootstrap interval.

Everything is deterministic and needs no numerical library. The methods:

- `drawn`: the permutation test stratified by case: which of its values came last is chance. With one earlier value for
  each case it is Fisher's test for pairs (R. A. Fisher, The Design of Experiments, 1935, section 21), and for scores of
  0 and 1 McNemar's exact test.
- `permutation`: the permutation test of two groups (E. J. G. Pitman, 1937). For scores of 0 and 1 it is Fisher's exact
  test.
- `significant_drops`: S. Holm's step-down correction (1979) among the tests that could reject at all (R. E. Tarone,
  1990).

Both tests count every rearrangement of the scores. They hold for any distribution of scores, near 1 too, and for any
number of them: scores are only rounded to a grid of `UNITS` steps, which is the same for every rearrangement.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, stdev
from typing import TypeAlias

RESAMPLES = 1_000
LEVEL = 0.95
MAX_RESAMPLED = 500
"""Larger samples get the normal approximation of the same interval: they agree, and it is fast."""

UNITS = 120
"""Steps of the grid between 0 and the largest difference: halves, thirds, quarters, fifths ... are exact."""
MAX_EXACT = 300
"""More scores of one case than these are tested by the normal approximation of the same test."""
MAX_BITS = 2 * 10**10
"""Bits that are shifted and added. Where counting takes more, over a second, an approximation is used."""
_NEAR_THE_MEAN = 1e-4
"""The formula for tails has no value at the mean, and the same next to it."""
_NOISE = 1e-9
"""Smaller differences are rounding errors of floating-point numbers."""


@dataclass(frozen=True, slots=True)
class DropTest:
    """`p_value`: the probability of such a drop for an unchanged agent. `least`: the smallest p-value possible with the
    same scores, whichever run they belong to."""

    p_value: float
    least: float


UNTESTABLE = DropTest(1.0, 1.0)

Draw: TypeAlias = tuple[Sequence[float], float]
"""The values of a case in the earlier runs, one for each, and in the later run."""


def drawn(strata: Sequence[tuple[int, ...]]) -> DropTest:
    """One-sided test that the last values of the cases have a lower mean than the earlier ones: of cases that vary, as
    `draws_in_units` has them. For an unchanged agent, the last value of a case is equally likely any of its values."""
    if not strata:
        return UNTESTABLE
    total = math.prod(map(len, strata))
    observed = sum(values[-1] for values in strata)
    least = math.prod(values.count(0) for values in strata) / total
    width = total.bit_length() + 1
    if width * observed * sum(len(set(values)) for values in strata) > MAX_BITS:
        return DropTest(_by_saddlepoint(strata, observed), least)
    mask = (1 << (observed + 1) * width) - 1
    ways = 1  # a polynomial: its coefficient n, in `width` bits, counts the draws that sum up to n
    for values in sorted(strata, key=max):  # small ones first: the polynomial grows late
        terms = (
            ways << value * width if count == 1 else (ways << value * width) * count
            for value, count in Counter(values).items()
        )
        ways = sum(terms) & mask
    return DropTest(_coefficients(ways, width) / total, least)


def _by_saddlepoint(strata: Sequence[Sequence[int]], observed: int) -> float:
    """The probability that draws sum up to at most `observed`, to some percent (R. Lugannani and S. Rice, 1980; with
    the second continuity correction of H. E. Daniels, 1987)."""
    kinds = Counter(tuple(sorted(values)) for values in strata)
    if observed >= sum(kind[-1] * count for kind, count in kinds.items()):
        return 1.0

    def cumulants(tilt: float) -> tuple[float, float, float]:
        """Of the sum, tilted: the logarithm of the generating function, and its first two derivatives."""
        total = mean = variance = 0.0
        for kind, count in kinds.items():
            top = max(tilt * kind[0], tilt * kind[-1])
            weights = [math.exp(tilt * value - top) for value in kind]
            weight = sum(weights)
            first = sum(map(math.prod, zip(weights, kind, strict=True))) / weight
            second = sum(part * value**2 for part, value in zip(weights, kind, strict=True)) / weight
            total += count * (math.log(weight / len(kind)) + top)
            mean += count * first
            variance += count * (second - first**2)
        return total, mean, variance

    low, high = -60.0, 60.0
    while high - low > 1e-9:
        tilt = (low + high) / 2
        low, high = (tilt, high) if cumulants(tilt)[1] < observed + 0.5 else (low, tilt)
    tilt = (low + high) / 2 if abs(low + high) > _NEAR_THE_MEAN else _NEAR_THE_MEAN
    total, mean, variance = cumulants(tilt)
    root = math.copysign(math.sqrt(2 * (tilt * mean - total)), tilt)
    slope = 2 * math.sinh(tilt / 2) * math.sqrt(variance)
    normal = NormalDist()
    return min(1.0, max(0.0, normal.cdf(root) + normal.pdf(root) * (1 / root - 1 / slope)))


def permutation(before: Sequence[float], after: Sequence[float]) -> DropTest:
    """One-sided test that `after` has a lower mean than `before`: unpaired scores.

    For an unchanged agent, each score is equally likely in either run.
    """
    low, span = min((*before, *after), default=0.0), 0.0
    if before and after:
        span = max(*before, *after) - low
    if span < _NOISE:
        return UNTESTABLE
    units = sorted(round((score - low) / span * UNITS) for score in (*before, *after))
    observed, taken = sum(round((score - low) / span * UNITS) for score in after), len(after)
    arrangements = math.comb(len(units), taken)
    boundary = units[taken - 1]
    lower = sum(unit < boundary for unit in units)
    least = math.comb(units.count(boundary), taken - lower) / arrangements
    if set(units) == {0, UNITS}:
        ones, zeros = units.count(UNITS), units.count(0)
        as_low = range(observed // UNITS + 1)
        ways = sum(math.comb(ones, count) * math.comb(zeros, taken - count) for count in as_low if count <= taken)
        return DropTest(ways / arrangements, least)
    if len(units) > MAX_EXACT:
        mean = fmean(units)
        variance = sum((unit - mean) ** 2 for unit in units) / (len(units) - 1) * taken * (1 - taken / len(units))
        return DropTest(NormalDist().cdf((observed + 0.5 - taken * mean) / math.sqrt(variance)), least)
    return DropTest(_lower_sums(units, taken, observed) / arrangements, least)


def significant_drops(tests: Sequence[DropTest], level: float) -> set[int]:
    """The positions of the tests that reject, with a probability of at most `level` for any false rejection."""
    testable = testable_at(tests, level)
    rejected: set[int] = set()
    for rank, index in enumerate(sorted(testable, key=lambda index: tests[index].p_value)):
        if tests[index].p_value > level / (len(testable) - rank):
            break
        rejected.add(index)
    return rejected


def testable_at(tests: Sequence[DropTest], level: float) -> list[int]:
    """The positions of the tests that can reject at all at `level`, corrected for their number."""
    least = sorted(test.least for test in tests)
    count = 1
    while bisect_right(least, level / count) > count:
        count += 1
    return [index for index, test in enumerate(tests) if test.least <= level / count]


def draws_in_units(cases: Iterable[Draw]) -> list[tuple[int, ...]]:
    """The values of the cases that vary as whole numbers from 0, in proportion to them, without a common divisor; the
    last is that of the later run."""
    lowest = [(min(*before, after), (*before, after)) for before, after in cases]
    spans = [max(values) - low for low, values in lowest]
    largest = max(spans, default=0.0)
    if largest < _NOISE:
        return []
    units = [tuple(round((value - low) / largest * UNITS) for value in values) for low, values in lowest]
    units = [values for values in units if any(values)]
    divisor = math.gcd(*(value for values in units for value in values))
    return [tuple(value // divisor for value in values) for values in units]


def _lower_sums(units: Sequence[int], taken: int, limit: int) -> int:
    """The number of subsets of `taken` of these numbers with a sum of at most `limit`."""
    width = len(units) + 1
    mask = (1 << (limit + 1) * width) - 1
    ways = [1] + [0] * taken  # by the number of choices made, polynomials as in `sign_flip`
    for unit in units:
        for chosen in range(taken, 0, -1):
            if ways[chosen - 1]:
                ways[chosen] = (ways[chosen] + (ways[chosen - 1] << unit * width)) & mask
    return _coefficients(ways[taken], width)


def _coefficients(polynomial: int, width: int) -> int:
    """The sum of the coefficients of `width` bits each, where it fits into `width` bits: casting out nines."""
    return polynomial % ((1 << width) - 1)


def mean_interval(after: Sequence[float], before: Sequence[float] | None, seed: str) -> tuple[float, float] | None:
    """Bootstrap interval of mean(after) - mean(before), each side resampled; without `before`, of mean(after).

    Percentiles of resampled means at `LEVEL`; None for fewer than two values of a side. The same values and `seed`
    always give the same interval.
    """
    sides = [after] if before is None else [after, before]
    if min(map(len, sides)) < 2:
        return None
    if max(map(len, sides)) > MAX_RESAMPLED:
        error = math.hypot(*(stdev(side) / math.sqrt(len(side)) for side in sides))
        middle, width = _first_less_others(map(fmean, sides)), NormalDist().inv_cdf((1 + LEVEL) / 2) * error
        return middle - width, middle + width
    chance = random.Random(seed)  # noqa: S311  # no secret depends on it
    drawn = sorted(
        _first_less_others(sum(chance.choices(side, k=len(side))) / len(side) for side in sides)
        for _ in range(RESAMPLES)
    )
    cut = round(RESAMPLES * (1 - LEVEL) / 2)
    return drawn[cut], drawn[-cut - 1]


def _first_less_others(means: Iterable[float]) -> float:
    first, *others = means
    return first - sum(others)
