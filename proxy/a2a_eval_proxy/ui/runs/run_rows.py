"""The table of runs, and the trend of runs of the same suite."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tool_call_evaluators.report.model import seconds_between
from tool_call_evaluators.report.wording import duration_text

from ...store import RunSummary
from .run_view import RunView

MAX_BARS = 20
"""Runs of a trend."""
_STAMP = re.compile(r"-\d{8}T\d{6}(\.\d+)?Z$")
"""The end of names that `ids.new_run_name` makes."""


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run in the table. `view` is None until it is judged, and for very long runs."""

    run: RunSummary
    view: RunView | None
    lags: bool
    """Whether the run is still to be judged, or has changed since it was."""
    when: str
    took: str


@dataclass(frozen=True, slots=True)
class Bar:
    """A run of a trend: its left edge, and its height up to `Trend.HEIGHT`, in the units of the drawing."""

    run: str
    x: int
    height: float
    status: str
    text: str


@dataclass(frozen=True, slots=True)
class Trend:
    """The pass rates of the last runs of a suite, the oldest first."""

    name: str
    bars: tuple[Bar, ...]

    HEIGHT = 48
    STEP = 18

    @property
    def width(self) -> int:
        return self.STEP * len(self.bars)

    @property
    def text(self) -> str:
        """The drawing in words."""
        return "; ".join(bar.text for bar in self.bars)


def run_row(run: RunSummary, view: RunView | None, *, lags: bool = False) -> RunRow:
    return RunRow(run, view, lags, moment(run.started_at), duration_text(seconds_between(run.started_at, run.ended_at)))


def moment(time: str | None) -> str:
    """`2026-11-22 09:00:00` of an RFC 3339 time; a dash for None."""
    return "–" if time is None else time[:19].replace("T", " ")


def trends(rows: Iterable[RunRow]) -> list[Trend]:
    """A trend for each suite with at least two judged runs. `rows` are the newest first.

    Runs are of the same suite if they have a case in common.
    """
    groups: list[tuple[set[str], list[RunRow]]] = []
    for row in rows:
        if row.view is None or row.view.rate is None or not row.view.case_ids:
            continue
        cases, found = next((group for group in groups if group[0] & row.view.case_ids), (set(), []))
        if not found:
            groups.append((cases, found))
        cases |= row.view.case_ids
        found.append(row)
    return [_trend(found[:MAX_BARS]) for _, found in groups if len(found) > 1]


def _trend(newest_first: Sequence[RunRow]) -> Trend:
    newest = newest_first[0]
    name = (
        newest.view.title if newest.view and newest.view.title != newest.run.name else _STAMP.sub("", newest.run.name)
    )
    return Trend(name, tuple(_bar(index, row) for index, row in enumerate(reversed(newest_first))))


def _bar(index: int, row: RunRow) -> Bar:
    view = row.view
    assert view is not None  # noqa: S101  # `trends` leaves out others
    text = f"{row.run.name}: {view.passed} of {view.judged} passed"
    height = max(1.0, Trend.HEIGHT * (view.rate or 0.0))
    return Bar(row.run.name, index * Trend.STEP, height, view.status, text)
