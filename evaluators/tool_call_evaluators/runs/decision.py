"""What a comparison of two runs decides: worse, better, equivalent, or not enough runs to decide."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, stdev
from typing import Literal

from .regression import FALSE_ALARMS, POWER, Drops, Measure, Sides, find_drops, power

Answer = Literal["worse", "better", "equivalent", "undecided"]

MARGIN = 0.05
"""Pass rates that differ by less are equivalent, unless a user says otherwise."""
ATTEMPTS = 3
"""With this number of equal attempts at each case, in both runs, an agent is deterministic: a change is not chance."""
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
    """All attempts of each case were alike: no statistics are needed."""


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
    `deterministic`: see `ATTEMPTS`. An unchanged agent is called better in at most `FALSE_ALARMS` of all comparisons,
    as it is called worse, and a changed one equivalent in at most `FALSE_ALARMS`.
    """
    rates = [measures[None] for measures in cases.values() if None in measures and all(measures[None])]
    means = [(fmean(before), fmean(after)) for before, after in rates]
    if missing or drops.dropped or drops.dropped_single or (deterministic and newly_failing):
        return Decision("worse", is_deterministic=deterministic)
    if deterministic and means:
        risen = any(after > before for before, after in means)
        return Decision("better" if risen else "equivalent", is_deterministic=True)
    mirrored = {case: {name: (new, old) for name, (old, new) in found.items()} for case, found in cases.items()}
    rises = find_drops(mirrored)
    if rises.dropped or rises.dropped_single:
        return Decision("better")
    if means and _largest_difference([after - before for before, after in means]) <= margin:
        return Decision("equivalent")
    return Decision("undecided", _deciding(rates))


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
    """The upper limit of Clopper and Pearson's one-sided interval of a share, to 1e-6."""
    low, high = found / total, 1.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        terms = (math.comb(total, k) * middle**k * (1 - middle) ** (total - k) for k in range(found + 1))
        low, high = (middle, high) if math.fsum(terms) > FALSE_ALARMS else (low, middle)
    return high


def _deciding(rates: Sequence[Sides]) -> int | None:
    """The smallest number of repetitions that would show a deterministic agent, or that such a drop is not chance."""
    if not rates:
        return None
    done = min(min(len(before), len(after)) for before, after in rates)
    if done < ATTEMPTS:
        return ATTEMPTS
    before, after = (fmean(fmean(side[index]) for side in rates) for index in (0, 1))
    more = range(done + 1, _MOST_REPETITIONS + 1)
    enough = (count for count in more if power(before, after, len(rates), count, FALSE_ALARMS / 2) >= POWER)
    return next(enough, None) if after < before else None
