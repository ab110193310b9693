"""Runs judged for the pages: off the event loop, one at a time, and kept until a run changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from a2a_tool_capture.recent import Recent
from tool_call_evaluators.suite import Suite

from ...long_computations import LongComputations
from ...runs.summary import MAX_TURNS, judged_run
from ...store import RunSummary, Store
from .run_view import Link, RunView, run_view

MAX_KEPT = 100
"""Runs in memory."""
MAX_AGE_S = 60.0
"""For so long a view serves for a run whose counts did not change: its scores may have."""
_REST = 10
"""A run that changes is judged again after a multiple of what its last judgement took."""


@dataclass(frozen=True, slots=True)
class _Kept:
    summary: RunSummary
    suite: Suite | None
    view: RunView
    at: float
    took_s: float


class JudgedRuns:
    """Judges runs of a store by the `suite` of that time; see `judged_run`.

    `suite_file` is its file, `current` the run that traffic belongs to now.
    """

    def __init__(
        self,
        store: Store,
        work: LongComputations,
        suite: Callable[[], Suite | None] = lambda: None,
        suite_file: str | None = None,
        current: str | None = None,
    ) -> None:
        self._store = store
        self._suite = suite
        self._suite_file = suite_file
        self._current = current
        self._kept: Recent[tuple[str, str], _Kept] = Recent(MAX_KEPT)
        self._work = work

    def lags(self, run: RunSummary, link: Link) -> bool:
        """Whether the run has changed since it was judged, or is still to be judged."""
        kept = self._kept.get((run.name, link("")))
        return run.turns <= MAX_TURNS and (kept is None or kept.summary != run or kept.suite is not self._suite())

    async def view(self, run: RunSummary, link: Link, within_s: float | None = None) -> RunView | None:
        """The run judged now, or a little earlier if it changes all the time; links in it are those of `link`.

        None beyond MAX_TURNS, and if it takes longer than `within_s`. Raises StoreError.
        """
        if run.turns > MAX_TURNS:
            return None
        key = (run.name, link(""))
        if kept := self._fresh(key, run):
            self._kept.move_to_end(key)
            return kept.view
        return await self._work.run(("view", *key), lambda: self._judged(key, run, link), within_s)

    def _fresh(self, key: tuple[str, str], run: RunSummary) -> _Kept | None:
        kept = self._kept.get(key)
        if kept is None or kept.suite is not self._suite():
            return None
        age_s = asyncio.get_running_loop().time() - kept.at
        limit_s = MAX_AGE_S if kept.summary == run else _REST * kept.took_s
        return kept if age_s < limit_s else None

    async def _judged(self, key: tuple[str, str], run: RunSummary, link: Link) -> RunView:
        clock, suite = asyncio.get_running_loop().time, self._suite()
        began = clock()
        report = (await judged_run(self._store, suite, run, current=run.name == self._current)).report
        view = await asyncio.to_thread(run_view, report, link, self._suite_file if report.suite else None)
        self._kept[key] = _Kept(run, suite, view, clock(), clock() - began)
        return view
