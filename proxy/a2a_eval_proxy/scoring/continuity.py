"""Tasks and turns across restarts and replicas: asks the store what the turn book does not know."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any

from a2a_tool_capture import Finding

from ..capture.held_bytes import HeldBytes
from ..capture.lookups import TaskHistory
from ..capture.turn_book import TurnBook
from ..clock import CLOCK
from ..privacy.policy import Privacy
from ..store import Scored, Store
from ..store.base import TurnJson
from ..telemetry.problem_log import ProblemLog
from ..telemetry.turn_listener import TurnListener
from ..turn import Turn
from .pipeline import Pipeline
from .turn_memory import memory_of

logger = logging.getLogger(__name__)

MAX_TURNS = 200
"""Maximum number of turns of a task that are read, the newest ones."""

_PATIENCE_S = 10.0
"""Longest time that a store may take to answer; then the turn continues without."""

_PAUSES_S = (0.3, 0.7)
"""Pauses before the store is asked what a message continues, and again where it knows nothing new: another process may
be about to write the turn before, and that process may have paused itself. The agent is at work meanwhile."""

_AT_ONCE, _MOST_QUESTIONS = 8, 1_000
_MOST_TAKEN_OVER = 100

_CONFIRMING_BYTES = 16 * 1024 * 1024
"""Maximum memory of closed turns that wait for the store; others do not wait: the store keeps a turn's first end."""


GoesOn = Callable[[str], Awaitable[bool]]
"""Whether a silent task, whose id is as in the store, may continue. Raises StoreError."""


class Continuity:
    """Answers the turn book's questions, and sees to turns that the store has as open. Lives on one event loop.

    `book`, set before anything else is called, is the turn book that asks. `agent` is the URL whose turns are ours;
    `listener` receives the turns of other processes that continue here, as opened.
    """

    def __init__(
        self,
        store: Store,
        pipeline: Pipeline,
        listener: TurnListener,
        *,
        agent: str,
        turn_timeout_s: float,
        privacy: Privacy,
        goes_on: GoesOn | None = None,
    ) -> None:
        """`goes_on` None: a silent task is over."""
        self._goes_on = goes_on
        self._store = store
        self._pipeline = pipeline
        self._agent = agent
        self._silent_s = 1.5 * turn_timeout_s + 1.0
        self._privacy = privacy
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._at_once = asyncio.Semaphore(_AT_ONCE)
        self._unread = ProblemLog(logger, "the store could not be asked about earlier turns of a task {count} time(s)")
        self._asking: set[asyncio.Task[None]] = set()
        self._confirming: dict[asyncio.Task[None], Turn] = {}
        self._confirming_bytes = HeldBytes(_CONFIRMING_BYTES)
        self.book: TurnBook

    @property
    def busy(self) -> bool:
        """Whether turns wait for the store here."""
        return bool(self._asking or self._confirming)

    @property
    def waiting(self) -> int:
        """Closed turns that wait for the store here."""
        return len(self._confirming)

    # ── called by the turn book ─────────────────────────────────────────────────────────────────────────

    def look_up(self, task_id: str, again: bool, captured: Sequence[str]) -> None:
        """Ask the store about a task (`capture.lookups.AskStore`)."""
        if len(self._asking) >= _MOST_QUESTIONS:
            self._loop.call_soon(self._answer, task_id, TaskHistory(known=False))
        else:
            self._start(self._ask(task_id, again, captured))

    def outlives(self, turn: Turn) -> bool:
        """Keep a copy of an open turn in the store; whether it takes it."""
        return self._pipeline.keep_open(turn)

    def closed(self, turn: Turn) -> None:
        """Take a closed turn. One that the store has as open is taken only if no other process has closed it."""
        if turn.in_store and self._confirming_bytes.take(turn.turn_id, memory_of(turn)):
            task = self._loop.create_task(self._confirm(turn))
            self._confirming[task] = turn
            task.add_done_callback(self._confirmed)
        else:
            self._pipeline.take(turn)

    def found_late(self, task_id: str, finding: Finding) -> None:
        """Add a finding to the last turn of a task that is not open in this process."""
        if len(self._asking) < _MOST_QUESTIONS:
            self._start(self._add_late(task_id, finding))

    # ── called by the proxy ─────────────────────────────────────────────────────────────────────────────

    async def watch_over(self) -> None:
        """Close turns that other processes left open, as they are found. Ends by being cancelled."""
        while True:
            await asyncio.sleep(max(1.0, self._silent_s / 6))
            try:
                items = await self._store.take_over(self._silent_s, _MOST_TAKEN_OVER)
                if self._goes_on is not None:
                    items = [item for item in items if not await self._goes_on(item["task_id"])]
            except Exception as error:  # noqa: BLE001  # error boundary: it is tried again
                logger.debug("open turns could not be looked for: %s", error)
                continue
            for item in items:
                if item["agent"] == self._agent and not self.book.knows(item["turn_id"]):
                    self.book.give_up(_turn(item), CLOCK.now())

    async def answered(self, timeout_s: float) -> None:
        """Returns when no question is open any more, at the latest after `timeout_s`."""
        if self._asking:
            await asyncio.wait(self._asking, timeout=timeout_s)

    async def close(self) -> None:
        """Ask no more; turns whose state in the store is not known by now count as ours."""
        self._unread.close()
        left = list(self._confirming.values())
        for task in [*self._asking, *self._confirming]:
            task.cancel()
        await asyncio.gather(*self._asking, *self._confirming, return_exceptions=True)
        for turn in left:
            self._pipeline.take(turn)

    # ── inside ──────────────────────────────────────────────────────────────────────────────────────────

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    def _answer(self, task_id: str, history: TaskHistory) -> None:
        self.book.found(task_id, history, CLOCK.now())

    async def _ask(self, task_id: str, again: bool, captured: Sequence[str]) -> None:
        history = TaskHistory(known=False)
        try:
            async with asyncio.timeout(_PATIENCE_S):
                for pause_s in _PAUSES_S if again else (0.0,):
                    await asyncio.sleep(pause_s)
                    async with self._at_once:
                        await self._pipeline.written()
                        history = await self._history(task_id)
                    if any(turn.turn_id not in captured for turn in (*history.closed, history.open) if turn):
                        break
        except Exception as error:  # noqa: BLE001  # error boundary: an unreadable store costs the turn its history
            logger.debug("the store could not be asked about a task or turn: %r", error)
            self._unread.seen()
        if history.open is not None and not self.book.knows(history.open.turn_id):
            self._listener.opened(history.open)
        self._answer(task_id, history)

    async def _add_late(self, task_id: str, finding: Finding) -> None:
        for pause_s in (0.0, *_PAUSES_S):
            await asyncio.sleep(pause_s)
            try:
                await self._pipeline.written()
                items = await self._store.of_task(self._privacy.identifier(task_id), 1)
            except Exception as error:  # noqa: BLE001  # error boundary: the finding is in the log, too
                logger.debug("the store could not be asked about a task or turn: %r", error)
                self._unread.seen()
                return
            if items and items[0]["status"] != "pending":  # its results would be lost
                self._store_with(finding, items[0])
                return

    def _store_with(self, finding: Finding, item: TurnJson) -> None:
        turn = _turn(item)
        if finding in turn.findings:
            return
        turn.findings.append(finding)
        if turn.status == "open":
            self._store.add([turn], _nothing)
        else:
            self._store.finish([Scored(turn.turn_id, item["evaluations"], turn)], _nothing)

    async def _history(self, task_id: str) -> TaskHistory:
        items = await self._store.of_task(self._privacy.identifier(task_id), MAX_TURNS)
        turns = [_turn(item) for item in items if item["agent"] == self._agent]
        if self._privacy.changes_turns:
            turns = [_as_seen_redacted(turn) for turn in turns]
        last = turns[-1] if turns else None
        open_turn = last if last is not None and last.status == "open" else None
        return TaskHistory([turn for turn in turns if turn is not open_turn], open_turn, known=bool(turns))

    async def _confirm(self, turn: Turn) -> None:
        try:
            async with asyncio.timeout(_PATIENCE_S):
                status = await self._store.status(turn.turn_id)
        except Exception as error:  # noqa: BLE001  # error boundary: the store itself keeps the first end of a turn
            logger.debug("the store could not be asked about a task or turn: %r", error)
            self._unread.seen()
            status = None
        if status in (None, "open"):
            self._pipeline.take(turn)
        else:
            logger.debug("turn %s was closed by another process", turn.turn_id)

    def _confirmed(self, task: asyncio.Task[None]) -> None:
        turn = self._confirming.pop(task, None)
        if turn is not None:
            self._confirming_bytes.drop(turn.turn_id)


def _nothing() -> None: ...


def _turn(item: TurnJson) -> Turn:
    turn = Turn.from_dict(item)
    turn.in_store = turn.status == "open"
    return turn


def _as_seen_redacted(turn: Turn) -> Turn:
    """With nothing in it that is compared with what an agent says again: the one is redacted, the other is not."""
    if turn.status == "open":
        return turn
    calls = [replace(call, arguments=None, result=None, error=None) for call in turn.tool_calls]
    return replace(turn, tool_calls=calls, response_text="")
