"""Tests whether a run is significantly worse than another, how large a drop the tests detect, and decides.

An unchanged agent counts as regressed in at most `FALSE_ALARMS` of all comparisons, for any number of cases,
repetitions and metrics. Three families of tests share that level:

- the share of conversations that pass, over all cases, and each metric's mean, over all cases: `drawn`, a mean for each
  run of each case. Repetitions of a case within a run need not be independent of one another for that.
- each single case, its passes and its scores: `permutation` over its `observations`.

Within a family `significant_drops` corrects for the number of tests.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import NormalDist, fmean, mode, stdev
from typing import Literal, NamedTuple, TypeAlias

from .significance import Draw, DropTest, drawn, draws_in_units, permutation, significant_drops, testable_at

FALSE_ALARMS = 0.05
SINGLE_CASES = 0.01
"""The part of `FALSE_ALARMS` for the tests of single cases."""
LEAST_CASES = 5
"""With fewer cases, no test over all of them can reject: 0.5 ** 4 is more than `FALSE_ALARMS`."""
POWER = 0.8
"""The share of comparisons that must detect a drop for it to count as detectable."""

EVIDENCE = 3
"""The number of scored attempts at a case from which on a baseline of several runs says something about it."""

Measure: TypeAlias = str | None
"""The name of a metric; None: whether a conversation passed, as 0 or 1."""


class Sides(NamedTuple):
    """A case's scores, one for each repetition: of each earlier run, the newest first, and of the later run."""

    before: Sequence[Sequence[float]]
    after: Sequence[float]

    @property
    def pooled(self) -> tuple[float, ...]:
        """The scores of all earlier runs."""
        return tuple(score for run in self.before for score in run)

    @property
    def draw(self) -> Draw | None:
        """A mean for each run, over the same number of repetitions, the first ones: means of different numbers of
        scores are not exchangeable. Earlier runs with fewer than the later one count only if no other has as many.
        None if a side has no scores."""
        runs = [run for run in self.before if len(run) >= len(self.after)] or [run for run in self.before if run]
        shared = min(map(len, [*runs, self.after]))
        if not (runs and shared):
            return None
        return [fmean(run[:shared]) for run in runs], fmean(self.after[:shared])


def observations(cases: Mapping[str, Mapping[Measure, Sides]]) -> dict[str, dict[Measure, Sides]]:
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
    alike = {measure for measure, more_within in varied.items() if more_within <= 0}
    return {
        case: {measure: _one_of_each(sides) if measure in alike else sides for measure, sides in found.items()}
        for case, found in cases.items()
    }


def _one_of_each(sides: Sides) -> Sides:
    """The first attempt of each run whose attempts are alike."""
    *before, after = (run[:1] if len(set(run)) == 1 else run for run in (*sides.before, sides.after))
    return Sides(before, after)


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """The drops that a comparison detects.

    `cases`: the number of cases of both runs; `repetitions`: the mean per case, of the run with fewer. `pass_rate` and
    `detected_rate`: the pass rate before, and the highest one after that is seen as a drop in at least `POWER` of
    comparisons; None if none is. `single_case`: the largest number of passes, and the number of repetitions, with which
    a case that always passed counts as regressed; None if no case can. `asked`: the drop of the pass rate that a user
    wants to see, and `asked_repetitions` the smallest number with which it is, in these cases; None if none does.
    """

    cases: int
    repetitions: float
    pass_rate: float | None
    detected_rate: float | None
    single_case: tuple[int, int] | None
    asked: float | None = None
    asked_repetitions: int | None = None
    runs: float = 1.0
    """The mean number of earlier runs of a case that are compared."""


@dataclass(frozen=True, slots=True)
class Drops:
    """The tests of a comparison, by measure and by case and measure, and which of them report a drop."""

    overall: Mapping[Measure, DropTest]
    single: Mapping[tuple[str, Measure], DropTest]
    dropped: frozenset[Measure]
    dropped_single: frozenset[tuple[str, Measure]]
    level: float
    """Of the test of the pass rate over all cases ..."""
    single_level: float
    """... and of each single case."""

    @property
    def found(self) -> bool:
        return bool(self.dropped or self.dropped_single)


def find_drops(cases: Mapping[str, Mapping[Measure, Sides]]) -> Drops:
    """Test every measure over all cases, and in each case with scores on both sides."""
    draws: dict[Measure, dict[str, Draw]] = {}
    single: dict[tuple[str, Measure], DropTest] = {}
    by_scores: dict[Hashable, list[tuple[str, Measure]]] = {}
    for case, measures in cases.items():
        for measure, sides in measures.items():
            draw, test, outline = _tested(tuple(map(tuple, sides.before)), tuple(sides.after))
            if draw is not None:
                draws.setdefault(measure, {})[case] = draw
                single[case, measure] = test
                by_scores.setdefault((case, outline), []).append((case, measure))
    groups = list(by_scores.values())  # equal tests need no correction for one another
    alone = [single[group[0]] for group in groups]
    single_level = SINGLE_CASES if len(cases) >= LEAST_CASES else FALSE_ALARMS
    testable = len(testable_at(alone, single_level))
    overall, dropped, level = _overall_drops(draws, FALSE_ALARMS - single_level if testable else FALSE_ALARMS)
    dropped_single = {key for index in significant_drops(alone, single_level) if testable for key in groups[index]}
    return Drops(overall, single, frozenset(dropped), frozenset(dropped_single), level, single_level / max(1, testable))


@lru_cache(1024)  # many cases have the same scores
def _tested(
    before: tuple[tuple[float, ...], ...], after: tuple[float, ...]
) -> tuple[Draw | None, DropTest, tuple[Hashable, ...]]:
    """The draw of such scores of a case, their test, and what is equal where they differ alike."""
    sides = Sides(before, after)
    draw, pooled = sides.draw, sides.pooled
    return draw, permutation(pooled, after), _outline(pooled, after) if draw else ()


def _overall_drops(
    draws: Mapping[Measure, Mapping[str, Draw]], level: float
) -> tuple[dict[Measure, DropTest], set[Measure], float]:
    """The tests over all cases, which measures dropped, and the level of the test of the pass rate.

    The pass rate and all other measures have half of `level` each; one has all of `level` if the other cannot reject.
    """
    groups: dict[tuple[tuple[str, ...], tuple[tuple[int, ...], ...]], list[Measure]] = {}  # that change alike
    for measure in sorted(draws, key=lambda measure: measure or ""):  # the pass rate first
        varying = {case: draw for case, draw in draws[measure].items() if any(value != draw[1] for value in draw[0])}
        alike = tuple(varying), tuple(draws_in_units(varying.values()))
        groups.setdefault(alike, []).append(measure)
    of_groups = {group[0]: drawn(alike[1]) for alike, group in groups.items()}
    tests = {measure: of_groups[group[0]] for group in groups.values() for measure in group}
    rates = [group for group in groups.values() if None in group]
    others = [group for group in groups.values() if None not in group]
    rate_level = other_level = level / 2
    if not testable_at([tests[group[0]] for group in others], level / 2):
        rate_level, other_level = level, 0.0
    elif not testable_at([tests[group[0]] for group in rates], level / 2):
        rate_level, other_level = 0.0, level
    dropped: set[Measure] = set()
    for family, share in ((rates, rate_level), (others, other_level)):
        for index in significant_drops([tests[group[0]] for group in family], share) if share else ():
            dropped.update(family[index])
    return tests, dropped, rate_level or level / 2


def _outline(before: Sequence[float], after: Sequence[float]) -> tuple[Hashable, ...]:
    """Equal for scores that differ alike, on whatever scale."""
    low, high = min(*before, *after), max(*before, *after)
    span = (high - low) or 1.0
    return tuple(tuple((score - low) / span for score in side) for side in (before, after))


def sensitivity_of(
    cases: Mapping[str, Mapping[Measure, Sides]], drops: Drops, detect: float | None = None
) -> Sensitivity:
    """What a comparison with these tests detects; `detect`: see `Sensitivity.asked`."""
    sides = [measures[None] for measures in cases.values() if None in measures]
    compared = [(side, draw) for side in sides if (draw := side.draw) is not None]
    if not compared:
        return Sensitivity(len(cases), 0.0, None, None, None)
    rate = fmean(fmean(side.pooled) for side, _ in compared)
    shared = [min(len(side.pooled), len(side.after)) for side, _ in compared]
    repetitions = len(compared) / sum(1 / count for count in shared)
    runs = fmean(len(before) for _, (before, _) in compared)
    single = _single_case([side for side, _ in compared], drops.single_level)
    found = Sensitivity(len(compared), repetitions, rate, None, single, runs=runs)
    steps = (rate - step / 100 for step in range(1, math.floor(rate * 100 + 1e-6) + 1))
    seen = (lower for lower in steps if _power(found, lower, repetitions, drops.level) >= POWER)
    found = replace(found, detected_rate=next(seen, None))
    if detect is not None:
        found = replace(found, asked=detect, asked_repetitions=_showing(detect, found, drops.level))
    return found


def _power(found: Sensitivity, lower: float, repetitions: float, level: float) -> float:
    return power(found.pass_rate or 0.0, lower, found.cases, repetitions, level, found.runs)


def _showing(drop: float, found: Sensitivity, level: float) -> int | None:
    """The smallest number of repetitions with which a drop from the pass rate is detected, or one to 0."""
    lower = max(0.0, (found.pass_rate or 0.0) - drop)
    counts = range(1, _MOST_REPETITIONS + 1)
    return next((count for count in counts if _power(found, lower, count, level) >= POWER), None)


def power(rate: float, lower: float, cases: int, repetitions: float, level: float, runs: float = 1.0) -> float:
    """The share of comparisons that detect a drop of the pass rate from `rate`, in that many earlier runs, to `lower`:
    normal approximation of `drawn`, for equal pass rates of all cases. If these differ, the share is larger."""
    if cases < LEAST_CASES:
        return 0.0
    drop = rate - lower
    spread = (rate * (1 - rate) / runs + lower * (1 - lower)) / repetitions
    pooled = (rate * runs + lower) / (runs + 1)
    unchanged = pooled * (1 - pooled) * (1 + 1 / runs) / repetitions if runs > 1 else spread + drop**2
    limit = -NormalDist().inv_cdf(level) * math.sqrt(unchanged)
    distance = math.sqrt(cases) * drop - limit - 0.5 / (repetitions * math.sqrt(cases))  # scores come in steps
    return NormalDist().cdf(distance / math.sqrt(spread)) if spread else float(distance > 0)


def _single_case(compared: Sequence[Sides], level: float) -> tuple[int, int] | None:
    before, repetitions = mode(len(side.pooled) for side in compared), mode(len(side.after) for side in compared)
    for passes in range(repetitions - 1, -1, -1):
        after = [1.0] * passes + [0.0] * (repetitions - passes)
        if permutation([1.0] * before, after).p_value <= level:
            return passes, repetitions
    return None


Answer = Literal["worse", "better", "equivalent", "undecided"]

MARGIN = 0.05
"""Pass rates that differ by less are equivalent, unless a user says otherwise."""
DETERMINISTIC_RUNS = round(1 / FALSE_ALARMS) - 1
"""With this number of equal earlier runs, an agent is deterministic: of so many runs and one more, an unchanged agent
seldom makes the last one the first that differs. Attempts within one run, which may be alike by a seed or a cache, do
not show it."""
_MOST_REPETITIONS = 100
_VARYING_CASES = 20
"""With fewer cases that differ between the runs, the normal approximation of their mean is not used."""


@dataclass(frozen=True, slots=True)
class Decision:
    """`answer` for the pass rate and all metrics. `repetitions`: the number for each case with which an undecided
    comparison would decide, for the same pass rates; None if it is decided, or no reasonable number is enough."""

    answer: Answer
    repetitions: int | None = None
    is_deterministic: bool = False
    """All earlier runs were alike: no statistics are needed."""


def decide(
    cases: Mapping[str, Mapping[Measure, Sides]],
    drops: Drops,
    *,
    missing: bool,
    newly_failing: int,
    deterministic: bool,
    margin: float = MARGIN,
) -> Decision:
    """Decide from the scores of the cases that both runs have, and the tests for drops.

    `missing`: the later run lacks a case; `newly_failing`: how many cases always passed before and fail now;
    `deterministic`: see `DETERMINISTIC_RUNS`. An unchanged agent is called better in at most `FALSE_ALARMS` of all
    comparisons, as it is called worse, and a changed one equivalent in at most `FALSE_ALARMS`.
    """
    rates = [measures[None] for measures in cases.values() if None in measures and measures[None].draw]
    means = [(fmean(sides.pooled), fmean(sides.after)) for sides in rates]
    if is_worse(drops, missing=missing, newly_failing=newly_failing, deterministic=deterministic):
        return Decision("worse", is_deterministic=deterministic)
    if deterministic and means:
        risen = any(after > before for before, after in means)
        return Decision("better" if risen else "equivalent", is_deterministic=True)
    rises = find_drops(
        {case: {name: _mirrored(sides) for name, sides in found.items()} for case, found in cases.items()}
    )
    if rises.found:
        return Decision("better")
    if means and _largest_difference([after - before for before, after in means]) <= margin:
        return Decision("equivalent")
    return Decision("undecided", _deciding(rates))


def is_worse(drops: Drops, *, missing: bool, newly_failing: int, deterministic: bool) -> bool:
    """Whether a gate on regressions turns red; see `decide`."""
    return missing or drops.found or (deterministic and newly_failing > 0)


def _mirrored(sides: Sides) -> Sides:
    """Scores that drop where these rise."""
    return Sides([[-score for score in run] for run in sides.before], [-score for score in sides.after])


def _largest_difference(differences: Sequence[float]) -> float:
    """The upper bound of |mean|, exceeded in at most `FALSE_ALARMS` of comparisons.

    Where few cases differ, from the share of cases that may differ at all (C. J. Clopper and E. S. Pearson, 1934), each
    by as much as 1; else by Student's two one-sided tests (D. J. Schuirmann, 1987) in the normal approximation.
    """
    differing = sum(difference != 0 for difference in differences)
    if differing < _VARYING_CASES:
        return _upper_share(differing, len(differences))
    error = stdev(differences) / math.sqrt(len(differences))
    return abs(fmean(differences)) + NormalDist().inv_cdf(1 - FALSE_ALARMS) * error


def _upper_share(found: int, total: int) -> float:
    """The upper limit of Clopper and Pearson's one-sided interval of a share, to 1e-12."""
    low, high = found / total, 1.0
    while high - low > 1e-12:
        middle = (low + high) / 2
        terms = (math.comb(total, k) * middle**k * (1 - middle) ** (total - k) for k in range(found + 1))
        low, high = (middle, high) if math.fsum(terms) > FALSE_ALARMS else (low, middle)
    return high


def _deciding(rates: Sequence[Sides]) -> int | None:
    """The smallest number of repetitions that would show that such a drop is not chance."""
    if not rates:
        return None
    done = min(min(len(sides.pooled), len(sides.after)) for sides in rates)
    before, after = fmean(fmean(sides.pooled) for sides in rates), fmean(fmean(sides.after) for sides in rates)
    runs = fmean(len(sides.draw[0]) for sides in rates if sides.draw)
    more = range(done + 1, _MOST_REPETITIONS + 1)
    level = FALSE_ALARMS / 2
    enough = (count for count in more if power(before, after, len(rates), count, level, runs) >= POWER)
    return next(enough, None) if after < before else None
