"""The turns of this proxy, on their way to be stored and scored."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ..capture.turn_changes import TurnChanges
from ..capture.visibility import CallVisibility
from ..clock import CLOCK
from ..push.capture import NotifiedTasks
from ..scoring.pipeline import Pipeline
from ..scoring.stored_tasks import StoredTasks
from ..telemetry.counters import Metrics
from ..telemetry.turn_listener import TurnListeners
from ..turn import Turn
from .turn_capture import CaptureRules, TurnCapture

_ANSWER_S = 3.0
"""What the store has to answer questions about tasks when the proxy stops."""

_LOOK_EVERY_S = 0.1


class ScoringReports:
    """Folds the turns of this proxy, and passes them on to be stored and scored.

    Those that need no other proxy are folded apart (`CapturedHere`): they are only announced here.
    """

    def __init__(
        self,
        rules: CaptureRules,
        pipeline: Pipeline,
        listeners: TurnListeners,
        visibility: CallVisibility,
        stored_tasks: StoredTasks,
        metrics: Metrics,
        notified: NotifiedTasks,
    ) -> None:
        self._listeners = listeners
        self._pipeline = pipeline
        self._visibility = visibility
        self._announced: dict[str, Turn] = {}
        self.notified = notified
        self.stored_tasks = stored_tasks
        self.capture = TurnCapture(rules, metrics, self, store=stored_tasks, notified=self.notified)
        stored_tasks.book = self.capture.book

    def follow(
        self,
        rules: CaptureRules,
        pipeline: Pipeline,
        listeners: TurnListeners,
        visibility: CallVisibility,
        stored_tasks: StoredTasks,
    ) -> None:
        """The agent has other settings from now on: its open turns continue, and what closes is scored by these."""
        self._listeners, self._pipeline, self._visibility = listeners, pipeline, visibility
        self.stored_tasks = stored_tasks
        stored_tasks.book = self.capture.book
        self.capture.follow(rules, stored_tasks)

    @property
    def open_turns(self) -> list[Turn]:
        """The open turns; those that are folded apart as they were opened."""
        return [*self._announced.values(), *self.capture.book.open_turns]

    @property
    def waiting(self) -> int:
        """Number of turns that have their answer and are not closed."""
        return self.capture.book.answered

    # ── called by the proxy ─────────────────────────────────────────────────────────────────────────────

    async def settled(self) -> None:
        """Returns when nothing is `waiting`."""
        await self.capture.answered_closed()
        while self.stored_tasks.busy:  # noqa: ASYNC110  # a store is slow to answer
            await asyncio.sleep(_LOOK_EVERY_S)

    async def written(self) -> None:
        """Returns when every turn closed so far is in the store."""
        await self._pipeline.written()

    async def close_turns(self, timeout_s: float, still: Callable[[], bool] = lambda: True) -> None:
        """No more requests come: close the turns that no other process continues, if that is `still` so when the store
        has answered."""
        await self.stored_tasks.answered(min(_ANSWER_S, timeout_s))
        if still():
            self.capture.book.close_all(CLOCK.now())

    async def close(self) -> None:
        """End what waits for the store."""
        await self.stored_tasks.close()
        self.capture.close()

    # ── called by the turn book ─────────────────────────────────────────────────────────────────────────

    def opened(self, turn: Turn) -> None:
        if self._announced.pop(turn.turn_id, None) is None:
            self._listeners.opened(turn)

    def changed(self, changes: TurnChanges) -> None:
        self._listeners.changed(changes)

    def closed(self, turn: Turn) -> None:
        self._listeners.ended(turn)
        self._visibility.judge(turn)
        self._pipeline.take(turn)

    # ── turns that need no other proxy ─────────────────────────────────────────────────────

    def announced(self, turn: Turn) -> None:
        self._announced[turn.turn_id] = turn
        self._listeners.opened(turn)

    def closed_elsewhere(self, turn: Turn) -> None:
        if self._announced.pop(turn.turn_id, None) is not None:
            self.closed(turn)

    def lost(self, turn_id: str) -> None:
        """An announced turn ends elsewhere."""
        self._announced.pop(turn_id, None)
