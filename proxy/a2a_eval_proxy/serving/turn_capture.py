"""The turns that one process folds, and what is reported of them while they are open."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Container
from typing import NamedTuple, Protocol

from ..capture.lookups import TaskStore
from ..capture.turn_book import TurnBook
from ..capture.turn_changes import ChangeTracker, TurnChanges
from ..settings.settings import TrafficSettings
from ..telemetry.counters import Metrics
from ..telemetry.problem_log import ProblemLog
from ..turn import Turn

logger = logging.getLogger(__name__)

_LOOK_EVERY_S = 0.1

_PAUSE_S = 0.05
"""Least time between two live reports: an agent may send thousands of chunks per second."""

_MOST_TURNS = 10
"""Maximum number of turns in one live report: the others follow in the next, traffic goes first."""


class TurnReports(Protocol):
    """Receives what is captured. No method waits or raises."""

    def opened(self, turn: Turn) -> None: ...

    def changed(self, changes: TurnChanges) -> None: ...

    def closed(self, turn: Turn) -> None: ...


class CaptureRules(NamedTuple):
    """What the settings say of turns while they are captured."""

    silent_s: float
    """See `TurnTimeouts`."""
    require_artifact_uri: bool
    dialects: Collection[str]
    open_turns: int
    """Memory of the open turns of this agent, in bytes."""

    @classmethod
    def of(cls, settings: TrafficSettings, open_turns: int) -> CaptureRules:
        return cls(settings.turn_timeout, settings.require_artifact_uri, settings.dialects, open_turns)


class TurnCapture:
    """A turn book whose turns are reported. Belongs to one event loop."""

    def __init__(
        self,
        rules: CaptureRules,
        metrics: Metrics,
        reports: TurnReports,
        *,
        store: TaskStore | None = None,
        notified: Container[str] = (),
    ) -> None:
        """For `store` and `notified`, see `TurnBook`."""
        self.rules = rules
        self._metrics = metrics
        self._reports = reports
        self._no_room = ProblemLog(logger, "open turns take too much memory: {count} turn(s) were closed as incomplete")
        self._loop = asyncio.get_running_loop()
        self._next_report_at = 0.0
        self.book = TurnBook(
            self._closed,
            on_opened=reports.opened,
            on_evicted=self._evicted,
            store=store,
            turn_timeout_s=rules.silent_s,
            max_open_bytes=rules.open_turns,
            require_artifact_uri=rules.require_artifact_uri,
            dialects=rules.dialects,
            notified=notified,
        )

    def follow(self, rules: CaptureRules, store: TaskStore) -> None:
        """Go by these rules from now on (`TurnBook.follow`)."""
        self.rules = rules
        self.book.follow(
            store,
            turn_timeout_s=rules.silent_s,
            require_artifact_uri=rules.require_artifact_uri,
            dialects=rules.dialects,
        )

    def watch(self, live: bool) -> None:
        """Start or stop to report what changes in open turns."""
        self.book.live = ChangeTracker(self._schedule) if live else None

    async def answered_closed(self) -> None:
        """Returns when no turn that has its answer is open: a stream lingers until the book ends it."""
        while self.book.answered:  # noqa: ASYNC110  # the book is sans-io
            await asyncio.sleep(_LOOK_EVERY_S)

    def close(self) -> None:
        self._no_room.close()

    def _closed(self, turn: Turn) -> None:
        if self.book.live is not None and (new := self.book.live.closed(turn)) is not None:
            self._changed(new)
        self._reports.closed(turn)

    def _evicted(self, turns: int) -> None:
        """Turns were closed before their time, because there was no room for them."""
        self._metrics.turns_evicted += turns
        self._no_room.seen(turns)

    # ── live ────────────────────────────────────────────────────────────────────────────────────────────

    def _schedule(self) -> None:
        self._loop.call_at(self._next_report_at, self._report)

    def _report(self) -> None:
        if self.book.live is None:
            return
        self._next_report_at = self._loop.time() + _PAUSE_S
        found, more = self.book.live.changes(_MOST_TURNS)
        for new in found:
            self._changed(new)
        if more:
            self._schedule()

    def _changed(self, new: TurnChanges) -> None:
        try:
            self._reports.changed(new)
        except Exception:
            logger.exception("a live event could not be published; the turn itself is captured")
