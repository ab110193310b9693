"""From measured rounds to the figures and tables of the report: pure functions."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

DIRECT = "direct"
"""The call without a proxy: what latency is measured against."""

NOTHING = "–"

Values = dict[str, float | None]
"""Measured values by metric key; None or absent where a metric does not apply to a target."""

Round = dict[str, Values]
"""One round: the values of each target by its name."""

Figures = Mapping[str, Mapping[str, float]]
"""Medians by metric key and target."""


@dataclass(frozen=True)
class Metric:
    """A row of the table, or a column of one by target.

    `minus_direct`: the direct call's value of the same round is subtracted. `compared`: whether ratios are of interest.
    """

    key: str
    group: str
    label: str
    minus_direct: bool = False
    compared: bool = True


def figures(rounds: Sequence[Round], metrics: Sequence[Metric]) -> dict[str, dict[str, float]]:
    """Median over the rounds by metric key and target. Targets a metric does not apply to are left out.

    The difference to the direct call is taken within a round, before the median; it has no value for the call itself.
    """
    return {metric.key: _medians(rounds, metric) for metric in metrics}


def _medians(rounds: Sequence[Round], metric: Metric) -> dict[str, float]:
    values: dict[str, list[float]] = {}
    for measured in rounds:
        base = measured.get(DIRECT, {}).get(metric.key) if metric.minus_direct else 0.0
        for target, of_target in measured.items():
            value = of_target.get(metric.key)
            if value is None or base is None or (metric.minus_direct and target == DIRECT):
                continue
            values.setdefault(target, []).append(value - base)
    return {target: statistics.median(found) for target, found in values.items()}


def ratio(figure: Mapping[str, float], target: str, to: str) -> float | None:
    """`target` divided by `to`; None where either is missing or not positive (a difference lost in noise)."""
    above, below = figure.get(target), figure.get(to)
    if above is None or below is None or above <= 0 or below <= 0:
        return None
    return above / below


def table(
    found: Figures, metrics: Sequence[Metric], targets: Sequence[str], subject: str, baselines: Sequence[str]
) -> str:
    """Metrics as rows under their groups, targets as columns, then the ratios of the subject to the baselines.

    Subject and baselines that are not among the targets have no ratios.
    """
    baselines = [name for name in baselines if subject in targets and name in targets]
    columns = ["", *targets, *(f"{subject} / {name}" for name in baselines)]
    rows = []
    group = None
    for metric in metrics:
        figure = found[metric.key]
        if metric.group != group:
            group = metric.group
            rows.append([f"**{group}**", *[""] * (len(columns) - 1)])
        cells = [number(figure.get(name)) for name in targets]
        rows.append([metric.label, *cells, *(number(ratio(figure, subject, name)) for name in baselines)])
    return markdown(columns, rows)


def table_by_target(found: Figures, metrics: Sequence[Metric], targets: Sequence[str], baselines: Sequence[str]) -> str:
    """Targets as rows, metrics as columns, each followed by its ratios to the baselines."""
    baselines = [name for name in baselines if name in targets]
    columns = [""]
    for metric in metrics:
        columns += [f"{metric.group}, {metric.label}", *(f"/ {name}" for name in baselines if metric.compared)]
    rows = []
    for target in targets:
        row = [target]
        for metric in metrics:
            figure = found[metric.key]
            row.append(number(figure.get(target)))
            row += [number(ratio(figure, target, name)) for name in baselines if metric.compared]
        rows.append(row)
    return markdown(columns, rows)


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


def ms(microseconds: float | None) -> float | None:
    return None if microseconds is None else microseconds / 1e3
