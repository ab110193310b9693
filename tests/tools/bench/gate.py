"""How often a comparison says *worse* of an unchanged agent, and how often it sees one that regressed.

Run from the repository root: `make simulate` prints the figures of evaluators/docs/comparing.md, in about an hour.
Agents are simulated with fixed seeds: a case passes with a probability of its own, drawn again for each attempt. The
scores are drawn here, and the comparison decides (`tool_call_evaluators.outcomes.regression`).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product
from multiprocessing import Pool
from typing import Any

import numpy as np
from support.later import Later
from tool_call_evaluators.outcomes.regression import (
    DETERMINISTIC_RUNS,
    Measure,
    Sides,
    find_drops,
    is_worse,
    observations,
)

stats = Later("scipy.stats")

Scores = list[list[float]]
Cases = dict[str, dict[Measure, Sides]]


@dataclass(frozen=True)
class Setting:
    """What is compared: `cases`, attempts at each in both runs (`repetitions`), and their mean pass `rate`.

    With `mixed`, cases differ around the rate. Further `metrics` are graded or pass and fail, by turns. `runs`: the
    number of earlier ones; `before`: their attempts at each case, if other than in the later run. `enough`: attempts
    end once that many passed, or cannot any more. `excluded`: the share of attempts that show nothing. `alike`:
    attempts at a case within a run have the same outcome.
    """

    cases: int
    repetitions: int
    rate: float
    metrics: int = 0
    mixed: bool = False
    runs: int = 1
    before: int | None = None
    enough: int | None = None
    excluded: float = 0.0
    alike: bool = False

    @property
    def remarks(self) -> str:
        said = {
            "cases differ": self.mixed,
            f"{self.metrics} further metrics": self.metrics,
            f"{self.runs} earlier runs": self.runs > 1,
            f"of {self.before} attempts": self.before,
            f"ends once {self.enough} passed": self.enough,
            f"{self.excluded:.0%} excluded": self.excluded,
            "attempts of a run alike": self.alike,
        }
        return ", ".join(words for words, holds in said.items() if holds)

    def __str__(self) -> str:
        return f"{self.cases}x{self.repetitions}-{self.rate:g}" + (f"-{self.remarks}" if self.remarks else "")

    def samples(self, count: int, after: float | None = None) -> Iterator[Cases]:
        """Comparisons of two runs; the agent of the second passes at a rate of `after`, by default unchanged."""
        chance = np.random.default_rng(list(f"{self} {after}".encode()))
        for _ in range(count):
            rates = np.full(self.cases, self.rate)
            if self.mixed and self.rate < 1:
                rates = chance.beta(2 * self.rate, 2 * (1 - self.rate), self.cases)
            earlier = [self._run(chance, rates, self.before or self.repetitions) for _ in range(self.runs)]
            later = self._run(chance, rates if after is None else np.full(self.cases, after), self.repetitions)
            metrics = [[self._metric(chance, metric) for _ in range(2)] for metric in range(self.metrics)]
            yield {
                str(case): {
                    None: Sides([run[case] for run in earlier], later[case]),
                    "whether": Sides([run[case] for run in earlier], later[case]),
                    **{f"metric-{n}": Sides([old[case]], new[case]) for n, (old, new) in enumerate(metrics)},
                }
                for case in range(self.cases)
            }

    def _run(self, chance: np.random.Generator, rates: Any, attempts: int) -> Scores:
        drawn = chance.random((self.cases, 1 if self.alike else attempts)) < rates[:, None]
        outcomes: Scores = np.repeat(drawn, attempts // drawn.shape[1], axis=1).astype(float).tolist()
        if self.enough is not None:  # the first ones are made in any case
            return [case[: min(self.enough, attempts - self.enough + 1)] for case in outcomes]
        if self.excluded:
            kept = (chance.random((self.cases, attempts)) >= self.excluded).tolist()
            pairs = zip(outcomes, kept, strict=True)
            return [[one for one, stays in zip(*pair, strict=True) if stays] for pair in pairs]
        return outcomes

    def _metric(self, chance: np.random.Generator, metric: int) -> Scores:
        shape = self.cases, self.repetitions
        drawn = (chance.random(shape) < self.rate).astype(float) if metric % 2 else chance.beta(8, 2, shape).round(2)
        return drawn.tolist()


def facts(cases: Cases) -> dict[str, Any]:
    """What a decision depends on in addition to the tests. Calls count as alike where outcomes are."""
    passes = [measures[None] for measures in cases.values()]
    sides = [side for pair in passes for side in (pair.pooled, pair.after)]
    runs = min(len(pair.before) for pair in passes)
    return {
        "missing": False,
        "newly_failing": sum(min(pair.pooled, default=0.0) == 1 > min(pair.after, default=1.0) for pair in passes),
        "deterministic": runs >= DETERMINISTIC_RUNS and all(len(set(side)) == 1 for side in sides),
    }


@cache
def worse(setting: Setting, comparisons: int, after: float | None = None) -> int:
    """In how many comparisons the gate on regressions turns red."""
    samples = setting.samples(comparisons, after)
    return sum(is_worse(find_drops(observations(cases)), **facts(cases)) for cases in samples)


RATES = (0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0)
CASES = (5, 10, 20, 50, 100, 200, 500)
REPETITIONS = (1, 2, 3, 5, 10)
GRID = tuple(Setting(*each) for each in product(CASES, REPETITIONS, RATES))
SPECIAL = (
    *(Setting(20, repetitions, 0.9, mixed=True) for repetitions in (1, 5, 10)),
    *(Setting(cases, repetitions, 0.95, 10) for cases, repetitions in ((20, 1), (50, 1), (20, 3))),
    Setting(50, 1, 0.95, 40),
    *(
        Setting(20, repetitions, rate, runs=runs)
        for repetitions in (1, 3)
        for rate in (0.8, 0.95)
        for runs in (2, 5, 20)
    ),
    *(Setting(200, 1, rate, runs=10) for rate in (0.8, 0.99)),
    Setting(20, 1, 0.9, before=10),
    Setting(20, 5, 0.9, before=2, runs=5),
    *(Setting(50, 3, rate, enough=2, runs=runs) for rate in (0.8, 0.95) for runs in (1, 5)),
    *(Setting(50, 3, 0.9, excluded=0.2, runs=runs) for runs in (1, 5)),
    *(Setting(cases, 3, rate, alike=True, runs=runs) for cases, rate in ((20, 0.95), (50, 0.9)) for runs in (1, 2, 5)),
    *(Setting(20, 10, rate, alike=True, runs=runs) for rate in (0.8, 0.99) for runs in (1, 5, 20)),
)
ALIKE = tuple((Setting(20, 3, 0.95, alike=True, runs=runs), 0.75) for runs in (1, 2, 5))
"""An agent at temperature 0: its attempts of a run are one observation, of which 20 cases show less."""
LOSSES = tuple(
    (Setting(cases, repetitions, rate, runs=runs), rate - drop)
    for cases, repetitions, rate, drop, runs in (
        *((50, 3, rate, 0.2, 1) for rate in (1.0, 0.95, 0.9, 0.8, 0.7, 0.6)),
        *(
            (cases, repetitions, 0.9, drop, 1)
            for cases in (20, 100)
            for repetitions in (1, 3, 5)
            for drop in (0.1, 0.2)
        ),
        *((20, 1, 0.9, 0.2, runs) for runs in (5, 20)),
    )
)


def _worse(work: tuple[Setting, int, float | None]) -> int:
    return worse(*work)


def table(settings: Iterable[Setting], alarms: Iterable[int], comparisons: int) -> Iterator[str]:
    """For each number of cases and attempts the largest share over the rates, and the upper limit of its 95 % interval
    (C. J. Clopper and E. S. Pearson, 1934)."""
    worst: dict[tuple[int, int, str], tuple[int, float]] = {}
    for setting, found in zip(settings, alarms, strict=True):
        key = setting.cases, setting.repetitions, setting.remarks
        worst[key] = max(worst.get(key, (0, 0.0)), (found, setting.rate))
    yield "| cases | attempts | | largest share | 95 % limit | at pass rate |\n|---|---|---|---|---|---|"
    for (cases, repetitions, remarks), (found, rate) in worst.items():
        limit = float(stats.beta.ppf(0.95, found + 1, comparisons - found))
        yield f"| {cases} | {repetitions} | {remarks} | {found / comparisons:.1%} | {limit:.1%} | {rate:g} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--comparisons", type=int, default=2_000, help="for each setting (default: 2000)")
    parser.add_argument("--most-cases", type=int, default=500, help="leave out larger suites (default: 500)")
    parser.add_argument("--processes", type=int, default=2, help="default: 2")
    options = parser.parse_args()
    count = options.comparisons
    with Pool(options.processes) as pool:
        for settings in ([one for one in GRID if one.cases <= options.most_cases], SPECIAL):
            alarms = pool.imap(_worse, [(setting, count, None) for setting in settings])
            print(*table(settings, alarms, count), sep="\n", end="\n\n", flush=True)
        print("| cases | attempts | earlier runs | pass rate | seen |\n|---|---|---|---|---|")
        seen = pool.imap(_worse, [(setting, count, after) for setting, after in (*LOSSES, *ALIKE)])
        for (setting, after), found in zip((*LOSSES, *ALIKE), seen, strict=True):
            where = f"| {setting.cases} | {setting.repetitions} | {setting.runs} |"
            print(f"{where} {setting.rate:.2f} to {after:.2f} | {found / count:.0%} |", flush=True)


if __name__ == "__main__":
    main()
