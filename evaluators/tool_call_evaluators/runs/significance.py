"""Tests whether a drop is significant: exact permutation tests, Holm's correction, a bootstrap interval.

Everything is deterministic and needs no numerical library. The methods:

- `sign_flip`: Fisher's permutation test for pairs (R. A. Fisher, The Design of Experiments, 1935, section 21). For
  scores of 0 and 1 it is McNemar's exact test.
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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, stdev

RESAMPLES = 1_000
LEVEL = 0.95
MAX_RESAMPLED = 500
"""Larger samples get the normal approximation of the same interval: they agree, and it is fast."""

UNITS = 120
"""Steps of the grid between 0 and the largest difference: halves, thirds, quarters, fifths ... are exact."""
MAX_EXACT = 300
"""More differences, or scores, than these are tested by the normal approximation of the same test."""
_NOISE = 1e-9
"""Smaller differences are rounding errors of floating-point numbers."""


@dataclass(frozen=True, slots=True)
class DropTest:
    """`p_value`: the probability of such a drop for an unchanged agent. `least`: the smallest p-value possible with the
    same scores, whichever run they belong to."""

    p_value: float
    least: float


UNTESTABLE = DropTest(1.0, 1.0)


def sign_flip(differences: Sequence[float]) -> DropTest:
    """One-sided test that the mean of `differences` (after minus before, one for each case) is below 0.

    For an unchanged agent, both signs of a difference are equally likely. Zeros have no effect.
    """
    steps = signed_units(differences)
    sizes = [abs(step) for step in steps]
    if not sizes:
        return UNTESTABLE
    risen = sum(step for step in steps if step > 0)
    if len(sizes) > MAX_EXACT:
        distance = (2 * risen - sum(sizes) + 1) / math.sqrt(sum(size**2 for size in sizes))
        return DropTest(NormalDist().cdf(distance), 0.0)
    width = len(sizes) + 1
    mask = (1 << (risen + 1) * width) - 1
    ways = 1  # a polynomial: its coefficient n, in `width` bits, counts the sets of differences that sum up to n
    for size in sizes:
        ways = (ways + (ways << size * width)) & mask
    return DropTest(_coefficients(ways, width) / 2 ** len(sizes), 0.5 ** len(sizes))


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


def signed_units(differences: Sequence[float]) -> list[int]:
    """The differences that are not 0 as whole numbers in proportion to them, without a common divisor."""
    largest = max((abs(difference) for difference in differences), default=0.0)
    if largest < _NOISE:
        return []
    steps = [round(difference / largest * UNITS) for difference in differences]
    divisor = math.gcd(*steps)
    return [step // divisor for step in steps if step]


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
