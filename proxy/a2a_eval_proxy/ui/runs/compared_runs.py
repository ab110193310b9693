"""Comparisons of two runs for the pages: off the event loop, one at a time, and kept until a run changes."""

from __future__ import annotations

from a2a_tool_capture.recent import Recent
from markupsafe import Markup
from tool_call_evaluators.report import comparison_body

from ...one_at_a_time import OneAtATime
from ...runs.compare import compare_stored
from ...store import RunSummary, Store

MAX_KEPT = 8
"""Comparisons in memory."""


class ComparedRuns:
    """Compares runs of a store, and keeps the last comparisons until one of their runs changes."""

    def __init__(self, store: Store, work: OneAtATime) -> None:
        self._store = store
        self._work = work
        self._kept: Recent[tuple[RunSummary, RunSummary], Markup] = Recent(MAX_KEPT)

    async def body(self, before: RunSummary, after: RunSummary, within_s: float | None = None) -> Markup | None:
        """The comparison as HTML; None if it takes longer than `within_s`. Raises StoreError."""
        key = (before, after)
        if key in self._kept:
            return self._kept[key]
        return await self._work.run(key, lambda: self._compared(before, after), within_s)

    async def _compared(self, before: RunSummary, after: RunSummary) -> Markup:
        comparison = await compare_stored(self._store, before.name, after.name)
        body = Markup(comparison_body(comparison))  # noqa: S704  # every text in it is escaped
        self._kept[before, after] = body
        return body
