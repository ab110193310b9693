"""Figures of the newest turns, for people who watch: counts, and how long turns took."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

MAX_COUNTED = 1_000
"""The newest turns that `calls` and the following figures count: they cost the same in a store of any size."""

ERRORED, FAILED = 1, 2

FigureRow = tuple[str, int, int | None, float | None]
"""Of a turn: status, number of calls, the worst of `ERRORED` and `FAILED` among its results, seconds."""


@dataclass(frozen=True, slots=True)
class TurnFigures:
    """`turns` is the number of all turns of the query; `failed` and `errored` count turns. `seconds` is sorted."""

    turns: int
    counted: int
    calls: int
    failed: int
    errored: int
    seconds: tuple[float, ...]


def turn_figures(turns: int, rows: Iterable[FigureRow]) -> TurnFigures:
    """The figures of `rows`, at most `MAX_COUNTED`, of `turns` turns."""
    counted = list(rows)
    worst = [row[2] for row in counted]
    seconds = sorted(round(row[3], 3) for row in counted if row[3] is not None)
    calls = sum(row[1] for row in counted)
    return TurnFigures(turns, len(counted), calls, worst.count(FAILED), worst.count(ERRORED), tuple(seconds))
