"""How often `compare --fail-on-regression` fires for an unchanged agent, and how often it sees one that regressed.

Run from the repository root: `PYTHONPATH=tests .venv/bin/python -m bench.gate` prints the tables of
evaluators/docs/runs.md. Agents are simulated: a case passes with a probability of its own, drawn again in each
repetition; each further metric fails for a cause of its own, or is a grade.
"""

from __future__ import annotations

import argparse
import random
from dataclasses import dataclass
from functools import cache

from tool_call_evaluators.runs.regression import Drops, Measure, Sides, find_drops


@dataclass(frozen=True)
class Setting:
    """`rate` is the mean pass rate; with `mixed`, cases differ around it. Further `metrics` are graded or pass and
    fail, by turns."""

    cases: int
    repetitions: int
    rate: float
    metrics: int = 0
    mixed: bool = False

    def __str__(self) -> str:
        return f"{self.cases}x{self.repetitions}-{self.rate:g}-{self.metrics}{'-mixed' if self.mixed else ''}"

    def sample(self, chance: random.Random, after: float | None = None) -> dict[str, dict[Measure, Sides]]:
        """The scores of two runs; the agent of the second passes at a rate of `after`, by default unchanged."""
        return {str(number): self._case(chance, after) for number in range(self.cases)}

    def _case(self, chance: random.Random, after: float | None) -> dict[Measure, Sides]:
        rate = self.rate
        if self.mixed and rate < 1:
            rate = chance.betavariate(2 * rate, 2 * (1 - rate))
        rates = rate, rate if after is None else after
        before, after_ = ([float(chance.random() < each) for _ in range(self.repetitions)] for each in rates)
        passes = Sides([before], after_)
        measures: dict[Measure, Sides] = {None: passes, "whether": passes}
        for metric in range(self.metrics):
            measures[f"metric-{metric}"] = Sides([self._scores(chance, metric)], self._scores(chance, metric))
        return measures

    def _scores(self, chance: random.Random, metric: int) -> list[float]:
        if metric % 2:
            return [float(chance.random() < self.rate) for _ in range(self.repetitions)]
        return [round(chance.betavariate(8, 2), 2) for _ in range(self.repetitions)]


SETTINGS = (
    *(Setting(cases, 1, rate) for cases in (20, 50, 100, 200) for rate in (0.8, 0.9, 0.95, 1.0)),
    *(Setting(cases, repetitions, rate) for cases in (20, 50) for repetitions in (3, 5, 10) for rate in (0.8, 0.95)),
    *(Setting(cases, repetitions, 0.9) for cases, repetitions in ((100, 5), (200, 3), (200, 10))),
    *(Setting(20, repetitions, 0.9, mixed=True) for repetitions in (1, 5, 10)),
    *(Setting(cases, repetitions, 0.95, 10) for cases, repetitions in ((20, 1), (50, 1), (20, 3))),
    Setting(50, 1, 0.95, 40),
)


def fired(drops: Drops) -> bool:
    """Whether the comparison says that the second run regressed."""
    return bool(drops.dropped or drops.dropped_single)


@cache
def false_alarms(setting: Setting, comparisons: int) -> float:
    """The share of comparisons of an unchanged agent that say: worse."""
    chance = random.Random(str(setting))
    return sum(fired(find_drops(setting.sample(chance))) for _ in range(comparisons)) / comparisons


def seen(setting: Setting, after: float, comparisons: int) -> float:
    """The share of comparisons that see the pass rate drop to `after`."""
    chance = random.Random(f"{setting} {after}")
    return sum(fired(find_drops(setting.sample(chance, after))) for _ in range(comparisons)) / comparisons


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--comparisons", type=int, default=2_000, help="of each line (default: 2000)")
    count = parser.parse_args().comparisons
    print("| cases | repetitions | pass rate | further metrics | false alarms |\n|---|---|---|---|---|")
    for setting in SETTINGS:
        alarms = false_alarms(setting, count)
        rate = f"{setting.rate:g}{', cases differ' if setting.mixed else ''}"
        print(f"| {setting.cases} | {setting.repetitions} | {rate} | {setting.metrics} | {alarms:.1%} |", flush=True)
    print("\n| cases | repetitions | .90 to .80 | .90 to .70 | .90 to .50 |\n|---|---|---|---|---|")
    for cases in (20, 50, 100, 200):
        for repetitions in (1, 3, 5):
            shares = (seen(Setting(cases, repetitions, 0.9), after, count // 4) for after in (0.8, 0.7, 0.5))
            print(f"| {cases} | {repetitions} | {' | '.join(f'{share:.0%}' for share in shares)} |", flush=True)


if __name__ == "__main__":
    main()
