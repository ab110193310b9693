"""The turns that one process folds, and what is reported of them while they are open."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Container
from typing import Protocol

from a2a_tool_capture import Finding

from ..capture.live_turns import TurnChanges
from ..capture.lookups import AskStore
from ..capture.turn_book import TurnBook
from ..settings import Settings
from ..telemetry.counters import Metrics
from ..telemetry.problem_log import ProblemLog
from ..turn import Turn
from .live import LiveReports

logger = logging.getLogger(__name__)

_LOOK_EVERY_S = 0.1


class TurnReports(Protocol):
    """Receives what is captured. No method waits or raises."""

    def opened(self, turn: Turn) -> None: ...

    def changed(self, changes: TurnChanges) -> None: ...

    def closed(self, turn: Turn) -> None: ...


class TurnCapture:
    """A turn book with the settings of this proxy, and the live reports of its turns."""

    def __init__(
        self,
        settings: Settings,
        metrics: Metrics,
        reports: TurnReports,
        *,
        on_outliving: Callable[[Turn], bool] = lambda turn: False,
        look_up: AskStore | None = None,
        on_late: Callable[[str, Finding], None] = lambda task_id, finding: None,
        notified: Container[str] = (),
    ) -> None:
        """For the callbacks, see `TurnBook`."""
        self._metrics = metrics
        self._reports = reports
        self._no_room = ProblemLog(logger, "open turns take too much memory: {count} turn(s) were closed as incomplete")
        self.book = TurnBook(
            self._closed,
            on_opened=reports.opened,
            on_outliving=on_outliving,
            on_evicted=self._evicted,
            look_up=look_up,
            on_late=on_late,
            turn_timeout_s=settings.turn_timeout,
            require_artifact_uri=settings.require_artifact_uri,
            dialects=settings.dialects,
            notified=notified,
        )
        self.live = LiveReports(self.book, reports.changed)

    async def answered_closed(self) -> None:
        """Returns when no turn that has its answer is open: a stream lingers until the book ends it."""
        while self.book.answered:  # noqa: ASYNC110  # the book is sans-io
            await asyncio.sleep(_LOOK_EVERY_S)

    def close(self) -> None:
        self._no_room.close()

    def _closed(self, turn: Turn) -> None:
        self.live.closed(turn)
        self._reports.closed(turn)

    def _evicted(self, turns: int) -> None:
        """Turns were closed before their time, because there was no room for them."""
        self._metrics.turns_evicted += turns
        self._no_room.seen(turns)
