"""A part of the benchmark: how much is measured, with what, and the table of what came out."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

NOTHING = "–"

Values = dict[str, float | None]
"""Measured values by metric key; None or absent where a metric does not apply to a target."""


class BehaviourError(RuntimeError):
    """A target does not do what it is measured for."""


class UnavailableTargetError(RuntimeError):
    """A target cannot be measured here; the message says what to install or leave out."""


@dataclass(frozen=True)
class Plan:
    """How much is measured. Times in seconds."""

    rounds: int = 3
    unary_s: float = 2.0
    events: int = 100  # per stream
    held_streams: int = 500
    held_s: float = 2.0
    warm_up_requests: int = 2000
    traces: int = 3000  # of some 14 spans each
    flood_mb: int = 64
    turns: int = 1000  # with traces of their own
    queued: int = 20_000  # turns that are scored by workers
    cases: int = 1000  # of a whole run


QUICK = Plan(1, 0.3, 25, 50, 2.0, 200, 150, 2, 50, 200, 20)
"""A look, no figures to quote."""


@dataclass(frozen=True)
class Setting:
    """What every part is measured with: how much, where files go, and the CPUs of the subject and of all else.

    `only`: the targets, by their names (None: all). `against`: a revision, or a folder, of other packages to compare.
    """

    plan: Plan
    folder: Path
    subject_cpus: set[int]
    other_cpus: set[int]
    progress: Callable[[str], None]
    only: Sequence[str] | None = None
    against: str | None = None


@dataclass(frozen=True)
class Metric:
    """A row of the table, under the title of its group."""

    key: str
    group: str
    label: str


@dataclass
class Measured:
    """What came out. `targets` are the columns, in order; `subject` is compared with each of the `baselines`.

    `rounds` have the values by target. Warnings are what a reader of the figures must know.
    """

    metrics: Sequence[Metric]
    targets: Sequence[str]
    subject: str = ""
    baselines: Sequence[str] = ()
    rounds: list[dict[str, Values]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def next_round(self) -> dict[str, Values]:
        self.rounds.append({target: {} for target in self.targets})
        return self.rounds[-1]

    def figures(self) -> dict[str, dict[str, float]]:
        """Median over the rounds by metric key and target. Targets a metric does not apply to are left out."""
        found: dict[str, dict[str, float]] = {}
        for metric in self.metrics:
            found[metric.key] = {}
            for target in self.targets:
                values = [value for one in self.rounds if (value := one[target].get(metric.key)) is not None]
                if values:
                    found[metric.key][target] = statistics.median(values)
        return found

    def report(self) -> dict[str, Any]:
        """What is written to JSON."""
        return {"targets": list(self.targets), "figures": self.figures(), "rounds": self.rounds}

    def table(self) -> str:
        """Metrics as rows under their groups, targets as columns, then the ratios of the subject to the baselines.

        Subject and baselines that are not among the targets have no ratios.
        """
        found = self.figures()
        baselines = [name for name in self.baselines if self.subject in self.targets and name in self.targets]
        columns = ["", *self.targets, *(f"{self.subject} / {name}" for name in baselines)]
        rows = []
        group = None
        for metric in self.metrics:
            figure = found[metric.key]
            if metric.group != group:
                group = metric.group
                rows.append([f"**{group}**", *[""] * (len(columns) - 1)])
            cells = [number(figure.get(name)) for name in self.targets]
            rows.append([metric.label, *cells, *(number(_ratio(figure, self.subject, name)) for name in baselines)])
        return markdown(columns, rows)


def _ratio(figure: Mapping[str, float], target: str, to: str) -> float | None:
    above, below = figure.get(target), figure.get(to)
    return above / below if above is not None and below else None


def markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; the first column is text, the others are numbers."""
    lines = [columns, ["---", *["---:"] * (len(columns) - 1)], *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def number(value: float | None) -> str:
    """Three significant digits, thousands separated, no exponent; a dash for None."""
    if value is None:
        return NOTHING
    if abs(value) >= 100:
        digits = len(str(int(abs(value))))
        return f"{round(value, 3 - digits):,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def per(cpu_s: float | None, count: int) -> float | None:
    """Microseconds of CPU time for each of `count`; None where nothing was measured."""
    return cpu_s * 1e6 / count if cpu_s is not None and count else None
