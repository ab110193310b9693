"""The report on stdout: one Markdown table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .results import ratio
from .sections import Metric

NOTHING = "–"


def markdown_table(
    figures: Mapping[str, dict[str, float]],
    metrics: Sequence[Metric],
    targets: Sequence[str],
    subject: str,
    baselines: Sequence[str],
) -> str:
    """Metrics as rows under their groups, targets as columns, then the ratios of the subject to the baselines.

    Subject and baselines that are not among the targets have no ratios.
    """
    baselines = [name for name in baselines if subject in targets and name in targets]
    columns = ["", *targets, *(f"{subject} / {name}" for name in baselines)]
    lines = [_row(columns), _row(["---", *["---:"] * (len(columns) - 1)])]
    group = None
    for metric in metrics:
        figure = figures[metric.key]
        if metric.group != group:
            group = metric.group
            lines.append(_row([f"**{group}**", *[""] * (len(columns) - 1)]))
        cells = [number(figure.get(name)) for name in targets]
        ratios = [number(ratio(figure, subject, name)) for name in baselines]
        lines.append(_row([metric.label, *cells, *ratios]))
    return "\n".join(lines)


def transposed_table(
    figures: Mapping[str, dict[str, float]],
    metrics: Sequence[Metric],
    targets: Sequence[str],
    baselines: Sequence[str],
) -> str:
    """Targets as rows, metrics as columns, each followed by its ratios to the baselines."""
    baselines = [name for name in baselines if name in targets]
    columns = [""]
    for metric in metrics:
        columns += [f"{metric.group}, {metric.label}", *(f"/ {name}" for name in baselines if metric.compared)]
    lines = [_row(columns), _row(["---", *["---:"] * (len(columns) - 1)])]
    for target in targets:
        cells = []
        for metric in metrics:
            figure = figures[metric.key]
            cells.append(number(figure.get(target)))
            cells += [number(ratio(figure, target, name)) for name in baselines if metric.compared]
        lines.append(_row([target, *cells]))
    return "\n".join(lines)


def number(value: float | None) -> str:
    """Three significant digits, thousands separated, no exponent; a dash for None."""
    if value is None:
        return NOTHING
    if abs(value) >= 100:
        digits = len(str(int(abs(value))))
        return f"{round(value, 3 - digits):,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
