"""Whether a run is worse or better than another by more than chance explains, and how large a drop would be seen.

An unchanged agent counts as regressed in at most `FALSE_ALARMS` of all comparisons, for any number of cases,
repetitions and metrics. Two families of tests share that level:

- the share of conversations that pass and each metric's mean, over all cases: `drawn`, a mean for each run of a case.
  Repetitions of a case within a run need not be independent of one another for that.
- each single case, its passes and its scores: `permutation` over its `observations`.

Within a family, `significant_drops` corrects for the number of tests. Both tests count every rearrangement of the
scores: they hold for any distribution of scores, near 1 too, and for any number of them.
"""

from __future__ import annotations

import math
import random
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from statistics import NormalDist, fmean, pstdev, quantiles, stdev
from typing import Generic, Literal, NamedTuple, TypeAlias, TypeVar

FALSE_ALARMS = 0.05
SINGLE_CASES = 0.01
"""The part of `FALSE_ALARMS` for the tests of single cases."""
LEAST_CASES = 5
"""With fewer cases, no test over all of them can reject: 0.5 ** 4 is more than `FALSE_ALARMS`."""
POWER = 0.8
"""The share of comparisons that must detect a drop for it to count as detectable."""
LEVEL = 0.95
RESAMPLES = 1_000
"""Of intervals: their level, and what bootstraps draw."""
EVIDENCE = 3
"""The number of scored attempts at a case from which on a baseline of several runs says something about it."""

_UNITS = 120
"""Steps of the grid between 0 and the largest difference: halves, thirds, quarters, fifths ... are exact. Rounding
keeps the tests exact, as it is the same for every rearrangement."""
_LARGEST_SUM = 30_000
"""Of the units of many cases: with more, the grid is coarser, and counting takes two seconds at most."""
_MOST_COUNTED = 45_000
"""Graded scores of one case, times those of the smaller side: above, their arrangements are not counted."""
_NOISE = 1e-9
"""Smaller differences are rounding errors of floating-point numbers."""

Measure: TypeAlias = str | None
"""The name of a metric; None: whether a conversation passed, as 0 or 1."""


class Sides(NamedTuple):
    """A case's scores, one for each repetition: of each earlier run, the newest first, and of the later run."""

    before: Sequence[Sequence[float]]
    after: Sequence[float]

    @property
    def pooled(self) -> list[float]:
        """The scores of all earlier runs."""
        return [score for run in self.before for score in run]

    @property
    def draw(self) -> list[float]:
        """A mean for each run, the later one last, over the same number of repetitions, the first ones: means of
        different numbers of scores are not exchangeable. Earlier runs with fewer than the later one count only if no
        other has as many. Empty if a side has no scores."""
        runs = [run for run in self.before if len(run) >= len(self.after)] or [run for run in self.before if run]
        shared = min(map(len, [*runs, self.after]))
        return [fmean(run[:shared]) for run in [*runs, self.after]] if runs and shared else []


Cases: TypeAlias = Mapping[str, Mapping[Measure, Sides]]
"""The scores by case and measure."""


def observations(cases: Cases) -> dict[str, dict[Measure, Sides]]:
    """The scores that are independent of one another: attempts that are alike within a run, as at temperature 0, are
    one observation of it.

    They are of a measure if no attempts of a run differ, or if more cases differ between runs alone than within one.
    """
    varied: dict[Measure, int] = {}
    for found in cases.values():
        for measure, sides in found.items():
            runs = [run for run in (*sides.before, sides.after) if run]
            within = any(len(set(run)) > 1 for run in runs)
            between = not within and max(map(len, runs), default=0) > 1 and len({run[0] for run in runs}) > 1
            varied[measure] = varied.get(measure, 0) + within - between
    return {
        case: {measure: sides if varied[measure] > 0 else _one_of_each(sides) for measure, sides in found.items()}
        for case, found in cases.items()
    }


def _one_of_each(sides: Sides) -> Sides:
    """The first attempt of each run whose attempts are alike."""
    *before, after = (run[:1] if len(set(run)) == 1 else run for run in (*sides.before, sides.after))
    return Sides(before, after)


class DropTest(NamedTuple):
    """`p_value`: the probability of such a drop for an unchanged agent. `least`: the smallest p-value possible with the
    same scores, whichever run they belong to."""

    p_value: float
    least: float


UNTESTABLE = DropTest(1.0, 1.0)

Units: TypeAlias = tuple[int, ...]


def in_units(strata: Sequence[Sequence[float]]) -> list[Units]:
    """The values of each stratum as whole numbers from 0, in proportion to the differences within strata, without a
    common divisor. Values that differ by a rounding error are equal."""
    lowest = list(map(min, strata))
    largest = max((max(values) - low for low, values in zip(lowest, strata, strict=True)), default=0.0)
    if largest < _NOISE:
        return [(0,) * len(values) for values in strata]
    steps = max(1, min(_UNITS, _LARGEST_SUM // len(strata)))
    units = [
        tuple(round((value - low) / largest * steps) for value in values)
        for low, values in zip(lowest, strata, strict=True)
    ]
    divisor = math.gcd(*(value for values in units for value in values))
    return [tuple(value // divisor for value in values) for values in units]


def drawn(strata: Sequence[Units]) -> DropTest:
    """One-sided test that the last values of the strata (cases) have a lower mean than the earlier ones.

    The permutation test stratified by case: for an unchanged agent, the last value of a case is equally likely any of
    its values. With one earlier value for each case it is Fisher's test for pairs (R. A. Fisher, The Design of
    Experiments, 1935, section 21), and for scores of 0 and 1 McNemar's exact test.
    """
    observed = sum(values[-1] for values in strata)
    shares = [1.0]  # of the draws, by their sum
    for values in sorted(strata, key=max):  # small ones first: the sums grow late
        top = max(values)
        moved = [[0.0] * value + shares + [0.0] * (top - value) for value in values]
        shares = [sum(found) / len(values) for found in zip(*moved, strict=True)][: observed + 1]
    return DropTest(min(1.0, sum(shares)), math.prod(values.count(0) / len(values) for values in strata))


@lru_cache(1024)  # many cases have the same scores
def permutation(units: Units, taken: int) -> DropTest:
    """One-sided test that the last `taken` of the values have a lower mean than those before: unpaired scores of one
    case, each of which is equally likely in either run for an unchanged agent.

    The permutation test of two groups (E. J. G. Pitman, 1937); for two values Fisher's exact test. For very many
    graded scores, its normal approximation.
    """
    if not 0 < taken < len(units) or not any(units):
        return UNTESTABLE
    rest, arrangements = len(units) - taken, math.comb(len(units), taken)
    if taken > rest:  # the same arrangements, by the others, which are high where these are low
        mirrored = [max(units) - unit for unit in units]
        units, taken, rest = (*mirrored[rest:], *mirrored[:rest]), rest, taken
    observed, in_order = sum(units[rest:]), sorted(units)
    if max(units) == 1:
        ones = sum(units)
        found = sum(
            math.comb(ones, count) * math.comb(len(units) - ones, taken - count) for count in range(observed + 1)
        )
    elif len(units) * taken > _MOST_COUNTED:
        spread = pstdev(units) * math.sqrt(taken * rest / (len(units) - 1))
        return DropTest(NormalDist(taken * fmean(units), spread).cdf(observed + 0.5), 0.0)
    else:
        bits = arrangements.bit_length() + 1  # of a digit of a whole number: how many have the sum of its place
        kept = (1 << bits * (observed + 1)) - 1
        ways = [1] + [0] * taken  # by the number of values chosen
        for unit in in_order:
            ways[1:] = [more + (less << bits * unit & kept) for less, more in pairwise(ways)]
        found = ways[taken] % ((1 << bits) - 1)  # the sum of the digits
    boundary = in_order[taken - 1]
    lowest = math.comb(units.count(boundary), taken - sum(unit < boundary for unit in units))
    return DropTest(found / arrangements, lowest / arrangements)


K = TypeVar("K", bound=Hashable)
T = TypeVar("T", bound=Hashable)


def testable_at(tests: Mapping[K, DropTest], level: float) -> list[K]:
    """The tests that can reject at all at `level`, corrected for their number (R. E. Tarone, 1990)."""
    count = 1
    while sum(test.least <= level / count for test in tests.values()) > count:
        count += 1
    return [key for key, test in tests.items() if test.least <= level / count]


def significant_drops(tests: Mapping[K, DropTest], level: float) -> set[K]:
    """The tests that reject, with a probability of at most `level` for any false rejection: S. Holm's step-down
    correction (1979) among those that could reject."""
    testable = sorted(testable_at(tests, level), key=lambda key: tests[key].p_value)
    rejected: set[K] = set()
    for rank, key in enumerate(testable):
        if tests[key].p_value > level / (len(testable) - rank):
            break
        rejected.add(key)
    return rejected


@dataclass(frozen=True, slots=True)
class DropTests(Generic[K]):
    """Tests that share a level, by the name of what is tested. `level` is that of each test."""

    tests: Mapping[K, DropTest]
    dropped: frozenset[K]
    level: float

    @classmethod
    def of(cls, alike: Mapping[T, Sequence[K]], tests: Mapping[T, DropTest], level: float) -> DropTests[K]:
        """Names whose scores are alike have one test: they need no correction for one another."""
        rejected = significant_drops(tests, level)
        return cls(
            {name: tests[key] for key, names in alike.items() for name in names},
            frozenset(name for key in rejected for name in alike[key]),
            level / max(1, len(testable_at(tests, level))),
        )


class Drops(NamedTuple):
    """The tests of a comparison, and which of them report a drop."""

    overall: DropTests[Measure]
    single: DropTests[tuple[str, Measure]]

    @property
    def found(self) -> bool:
        return bool(self.overall.dropped or self.single.dropped)


def find_drops(cases: Cases) -> Drops:
    """Test every measure over all cases, and in each case with scores on both sides."""
    overall: dict[tuple[tuple[str, Units], ...], list[Measure]] = {}
    single: dict[tuple[str, Units, int], list[tuple[str, Measure]]] = {}
    for measure in dict.fromkeys(measure for found in cases.values() for measure in found):
        draws = {case: found[measure].draw for case, found in cases.items() if measure in found}
        tested = [case for case, draw in draws.items() if draw]
        strata = zip(tested, in_units([draws[case] for case in tested]), strict=True)
        overall.setdefault(tuple((case, values) for case, values in strata if any(values)), []).append(measure)
        for case in tested:
            sides = cases[case][measure]
            (values,) = in_units([[*sides.pooled, *sides.after]])
            single.setdefault((case, values, len(sides.after)), []).append((case, measure))
    of_cases = {key: permutation(*key[1:]) for key in single}
    share = SINGLE_CASES if len(cases) >= LEAST_CASES else FALSE_ALARMS
    rest = FALSE_ALARMS - share if testable_at(of_cases, share) else FALSE_ALARMS
    over_all = {key: drawn([values for _, values in key]) if key else UNTESTABLE for key in overall}
    return Drops(DropTests.of(overall, over_all, rest), DropTests.of(single, of_cases, share))


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """The drops of the pass rate that a comparison detects.

    `pass_rate` before, in `cases` with `repetitions` of each (a harmonic mean) in the later run, and as many in each of
    `runs` earlier ones (a mean). `detected_rate`: the pass rate to which a drop is detected in `POWER` of comparisons;
    None if none is. `asked`: the drop that a user wants to see, and `asked_repetitions` the smallest number with which
    it is, in these cases; None if none does.
    """

    cases: int
    repetitions: float = 0.0
    pass_rate: float = 0.0
    runs: float = 1.0
    detected_rate: float | None = None
    asked: float | None = None
    asked_repetitions: int | None = None

    def power(self, lower: float, level: float, repetitions: float | None = None) -> float:
        """The share of comparisons that detect a drop to the pass rate `lower`: normal approximation of `drawn`, for
        equal pass rates of all cases. If these differ, the share is larger."""
        rate, runs, repetitions = self.pass_rate, self.runs, repetitions or self.repetitions
        if self.cases < LEAST_CASES:
            return 0.0
        drop = rate - lower
        spread = (rate * (1 - rate) / runs + lower * (1 - lower)) / repetitions
        pooled = (rate * runs + lower) / (runs + 1)
        unchanged = pooled * (1 - pooled) * (1 + 1 / runs) / repetitions if runs > 1 else spread + drop**2
        limit = -NormalDist().inv_cdf(level) * math.sqrt(unchanged)
        distance = math.sqrt(self.cases) * drop - limit - 0.5 / (repetitions * math.sqrt(self.cases))  # in steps
        return NormalDist().cdf(distance / math.sqrt(spread)) if spread else float(distance > 0)

    def repetitions_for(self, lower: float, level: float) -> int | None:
        """The smallest number with which a drop to that pass rate is detected."""
        counts = range(1, _MOST_REPETITIONS + 1)
        return next((count for count in counts if self.power(max(0.0, lower), level, count) >= POWER), None)


_MOST_REPETITIONS = 100


def sensitivity_of(cases: Cases, level: float, detect: float | None = None) -> Sensitivity:
    """What a comparison detects whose test of the pass rate has this level; `detect`: see `Sensitivity.asked`."""
    compared = [found[None] for found in cases.values() if None in found and found[None].draw]
    if not compared:
        return Sensitivity(len(cases))
    each = [min(len(sides.pooled), len(sides.after)) for sides in compared]
    rate = fmean(fmean(sides.pooled) for sides in compared)
    runs = fmean(len(sides.draw) - 1 for sides in compared)
    found = Sensitivity(len(compared), len(compared) / sum(1 / count for count in each), rate, runs, asked=detect)
    steps = (rate - step / 100 for step in range(1, math.floor(rate * 100 + 1e-6) + 1))
    return replace(
        found,
        detected_rate=next((lower for lower in steps if found.power(lower, level) >= POWER), None),
        asked_repetitions=None if detect is None else found.repetitions_for(rate - detect, level),
    )


Answer = Literal["worse", "better", "equivalent", "undecided"]

MARGIN = 0.05
"""Pass rates that differ by less are equivalent, unless a user says otherwise."""
DETERMINISTIC_RUNS = round(1 / FALSE_ALARMS) - 1
"""With this number of equal earlier runs, an agent is deterministic: of so many runs and one more, an unchanged agent
seldom makes the last one the first that differs. Attempts within one run, which may be alike by a seed or a cache, do
not show it."""
_VARYING_CASES = 20
"""With fewer cases that differ between the runs, Student's t is not used for their mean."""


@dataclass(frozen=True, slots=True)
class Decision:
    """`answer` for the pass rate and all metrics. `repetitions`: the number for each case with which an undecided
    comparison would decide, for the same pass rates; None if it is decided, or no reasonable number is enough."""

    answer: Answer
    repetitions: int | None = None
    is_deterministic: bool = False
    """All earlier runs were alike: no statistics are needed."""


def decide(
    cases: Cases, drops: Drops, *, missing: bool, newly_failing: int, deterministic: bool, margin: float = MARGIN
) -> Decision:
    """Decide from the scores of the cases that both runs have, and the tests for drops.

    `missing`: the later run lacks a case; `newly_failing`: how many cases always passed before and fail now;
    `deterministic`: see `DETERMINISTIC_RUNS`. An unchanged agent is called better in at most `FALSE_ALARMS` of all
    comparisons, as it is called worse, and a changed one equivalent in at most `FALSE_ALARMS`.
    """
    rates = [found[None] for found in cases.values() if None in found and found[None].draw]
    changes = [fmean(sides.after) - fmean(sides.pooled) for sides in rates]
    if is_worse(drops, missing=missing, newly_failing=newly_failing, deterministic=deterministic):
        return Decision("worse", is_deterministic=deterministic)
    if deterministic and changes:
        return Decision("better" if max(changes) > 0 else "equivalent", is_deterministic=True)
    if find_drops({case: {name: _mirrored(one) for name, one in found.items()} for case, found in cases.items()}).found:
        return Decision("better")
    if not changes or largest_difference(changes) <= margin:
        return Decision("equivalent" if changes else "undecided")
    now = fmean(fmean(sides.after) for sides in rates)
    found = sensitivity_of(cases, FALSE_ALARMS / 2)
    return Decision("undecided", found.repetitions_for(now, FALSE_ALARMS / 2) if fmean(changes) < 0 else None)


def is_worse(drops: Drops, *, missing: bool, newly_failing: int, deterministic: bool) -> bool:
    """Whether a gate on regressions turns red; see `decide`."""
    return missing or drops.found or (deterministic and newly_failing > 0)


def _mirrored(sides: Sides) -> Sides:
    """Scores that drop where these rise."""
    return Sides([[-score for score in run] for run in sides.before], [-score for score in sides.after])


def largest_difference(differences: Sequence[float]) -> float:
    """The upper bound of |mean|, exceeded in at most `FALSE_ALARMS` of comparisons.

    Where few cases differ, from the share of cases that may differ at all (C. J. Clopper and E. S. Pearson, 1934), each
    by as much as 1; else by Student's two one-sided tests (D. J. Schuirmann, 1987).
    """
    differing, n = sum(difference != 0 for difference in differences), len(differences)
    if differing >= _VARYING_CASES:
        return abs(fmean(differences)) + _student(n - 1) * stdev(differences) / math.sqrt(n)
    low, high = 0.0, 1.0
    for _ in range(60):  # each halves what lies between
        share = (low + high) / 2
        if sum(math.comb(n, k) * share**k * (1 - share) ** (n - k) for k in range(differing + 1)) > FALSE_ALARMS:
            low = share
        else:
            high = share
    return high


def _student(freedom: float) -> float:
    """What Student's t exceeds with a probability of `FALSE_ALARMS`: the expansion of M. Abramowitz and I. A. Stegun
    (1964, 26.7.5), whose error is below 1e-5 from `_VARYING_CASES` on."""
    z = NormalDist().inv_cdf(1 - FALSE_ALARMS)
    terms = (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96, (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + sum(term / freedom**power for power, term in enumerate(terms, 1))


def mean_interval(after: Sequence[float], before: Sequence[float] = (0.0, 0.0)) -> tuple[float, float] | None:
    """Bootstrap interval at `LEVEL` of mean(after) - mean(before), each side resampled; without `before`, of
    mean(after). None for fewer than two values of a side. The same values always give the same interval."""
    if min(len(after), len(before)) < 2:
        return None
    chance = random.Random(0)  # noqa: S311  # no secret
    return middle(
        [
            fmean(chance.choices(after, k=len(after))) - fmean(chance.choices(before, k=len(before)))
            for _ in range(RESAMPLES)
        ]
    )


def middle(values: Sequence[float]) -> tuple[float, float]:
    """The limits between which `LEVEL` of the values lie, as many below as above."""
    cuts = quantiles(values, n=round(2 / (1 - LEVEL)), method="inclusive")
    return cuts[0], cuts[-1]
