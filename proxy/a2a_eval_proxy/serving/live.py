"""Reports what changes in the open turns of a data port, while it is watched."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from ..capture.live_turns import LiveTurns, TurnChanges
from ..capture.turn_book import TurnBook
from ..turn import Turn

logger = logging.getLogger(__name__)

_PAUSE_S = 0.05
"""Least time between two reports: an agent may send thousands of chunks per second."""

_MOST_TURNS = 10
"""Maximum number of turns in one report: the others follow in the next, traffic goes first."""


class LiveReports:
    """Watches the turns of `book`; `report` receives what is new. Lives on one event loop; no method raises."""

    def __init__(self, book: TurnBook, report: Callable[[TurnChanges], None]) -> None:
        self._book = book
        self._report = report
        self._loop = asyncio.get_running_loop()
        self._next_at = 0.0

    def watch(self, live: bool) -> None:
        """Start or stop."""
        self._book.live = LiveTurns(self._schedule) if live else None

    def closed(self, turn: Turn) -> None:
        """Report what is new in a turn that is about to be closed."""
        if self._book.live is not None and (new := self._book.live.closed(turn)) is not None:
            self._send(new)

    def _schedule(self) -> None:
        self._loop.call_at(self._next_at, self._tick)

    def _tick(self) -> None:
        live = self._book.live
        if live is None:
            return
        self._next_at = self._loop.time() + _PAUSE_S
        found, more = live.changes(_MOST_TURNS)
        for new in found:
            self._send(new)
        if more:
            self._schedule()

    def _send(self, new: TurnChanges) -> None:
        try:
            self._report(new)
        except Exception:
            logger.exception("a live event could not be published; the turn itself is captured")
