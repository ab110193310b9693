"""Tasks and turns across restarts and replicas: asks the store what the turn book does not know."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any

from a2a_tool_capture import Finding, ToolCall
from a2a_tool_capture.same_call import new_calls
from a2a_tool_capture.wire import SETTLED_STATES

from ..capture.lookups import TaskHistory
from ..capture.turn_book import TurnBook
from ..clock import CLOCK
from ..privacy.policy import Privacy
from ..settings.settings import Agent, TurnTimeouts
from ..store import Store
from ..store.base import TurnJson
from ..store.encoding import nothing
from ..telemetry.problem_log import ProblemLog
from ..telemetry.turn_listener import TurnListener
from ..turn import Turn
from .pipeline import Pipeline

logger = logging.getLogger(__name__)

MAX_TURNS = 200
"""Maximum number of turns of a task that are read, the newest ones."""

_PATIENCE_S = 10.0
"""Longest time that a store may take to answer; then the turn continues without."""

_PAUSES_S, _LONG_PAUSES_S = (0.3, 0.7, 2.0, 5.0), (30.0,) * 20
"""Pauses before the store is asked again for a turn that gets a finding late: it may be about to be written, or wait
for its spans, for turns that it caused, or for a judge. Nothing waits for the long ones."""

_AT_ONCE, _MOST_QUESTIONS = 8, 1_000
_MOST_TAKEN_OVER = 100

GoesOn = Callable[[str], Awaitable[bool]]
"""Whether a silent task, whose id is as in the store, may continue. Raises StoreError."""


class StoredTasks:
    """Answers the turn book's questions, and sees to turns that the store has as open. Lives on one event loop.

    `book`, set before anything else is called, is the turn book that asks. `agent` is the one whose turns are ours;
    `listener` receives the turns of other processes that continue here, as opened.
    """

    def __init__(
        self,
        store: Store,
        pipeline: Pipeline,
        listener: TurnListener,
        *,
        agent: Agent,
        timeouts: TurnTimeouts,
        privacy: Privacy,
        keeps_open_turns: bool = True,
        goes_on: GoesOn | None = None,
    ) -> None:
        """`keeps_open_turns` False: no other process continues a turn. `goes_on` None: a silent task is over."""
        self._keeps_open_turns = keeps_open_turns
        self._goes_on = goes_on
        self._store = store
        self._pipeline = pipeline
        self._agent = agent
        self._timeouts = timeouts
        self._privacy = privacy
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._at_once = asyncio.Semaphore(_AT_ONCE)
        self._unread = ProblemLog(logger, "the store could not be asked about earlier turns of a task {count} time(s)")
        self._late: dict[str, list[tuple[Finding, Sequence[ToolCall]]]] = {}
        """By task, what its last turn is going to get: of two changes at once, one would be lost."""
        self._asking: set[asyncio.Task[None]] = set()
        self._patient: set[asyncio.Task[None]] = set()
        self.book: TurnBook

    @property
    def busy(self) -> bool:
        """Whether the store has still to answer."""
        return bool(self._asking)

    # ── called by the turn book ─────────────────────────────────────────────────────────────────────────

    def look_up(self, task_id: str) -> None:
        """Ask the store about a task (`capture.lookups.TaskStore`)."""
        if len(self._asking) >= _MOST_QUESTIONS:
            self._loop.call_soon(self._answer, task_id, TaskHistory(known=False))
        else:
            self._start(self._ask(task_id))

    def keep_open(self, turn: Turn) -> bool:
        """Keep a copy of an open turn in the store; whether it is taken."""
        return self._keeps_open_turns and self._pipeline.keep_open(turn)

    def found_late(self, task_id: str, finding: Finding, calls: Sequence[ToolCall] = ()) -> None:
        """Add a finding to the last turn of a task that is not open in this process (`capture.lookups.TaskStore`)."""
        late = self._late.get(task_id)
        if late is not None and len(late) < _MOST_QUESTIONS:
            late.append((finding, calls))
        elif late is None and len(self._asking) + len(self._patient) < _MOST_QUESTIONS:
            self._late[task_id] = [(finding, calls)]
            self._start(self._add_late(task_id))

    # ── called by the proxy ─────────────────────────────────────────────────────────────────────────────

    async def watch_over(self) -> None:
        """Close turns that other processes left open, as they are found. Ends by being cancelled."""
        starting = not self._store.shared  # then nobody else has the turns that are open in the store
        while True:
            if not starting:
                await asyncio.sleep(self._timeouts.look_for_abandoned_s)
            try:
                silent_s = 0.0 if starting else self._timeouts.abandoned_s
                owner = self._agent.name or None, self._agent.settings.upstream
                items = await self._store.take_over(silent_s, _MOST_TAKEN_OVER, *owner)
                if starting:
                    items = [item for item in items if item["state"] in SETTLED_STATES]
                elif self._goes_on is not None:
                    items = [item for item in items if not await self._goes_on(item["task_id"])]
                starting = False
            except Exception as error:  # noqa: BLE001  # error boundary: it is tried again
                logger.debug("open turns could not be looked for: %s", error)
                starting = False
                continue
            for item in items:
                if not self.book.knows(item["turn_id"]):
                    self.book.give_up(_turn(item), CLOCK.now())

    async def answered(self, timeout_s: float) -> None:
        """Returns when no question is open any more, at the latest after `timeout_s`."""
        if self._asking:
            await asyncio.wait(self._asking, timeout=timeout_s)

    async def close(self) -> None:
        """Ask no more."""
        self._unread.close()
        asking = self._asking | self._patient
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)

    # ── inside ──────────────────────────────────────────────────────────────────────────────────────────

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)
        task.add_done_callback(self._patient.discard)

    def _answer(self, task_id: str, history: TaskHistory) -> None:
        self.book.found(task_id, history, CLOCK.now())

    async def _ask(self, task_id: str) -> None:
        history = TaskHistory(known=False)
        try:
            async with asyncio.timeout(_PATIENCE_S), self._at_once:
                await self._pipeline.written()
                history = await self._history(task_id)
        except Exception as error:  # noqa: BLE001  # error boundary: an unreadable store costs the turn its history
            logger.debug("the store could not be asked about a task or turn: %r", error)
            self._unread.seen()
        if history.open is not None and not self.book.knows(history.open.turn_id):
            self._listener.opened(history.open)
        self._answer(task_id, history)

    async def _add_late(self, task_id: str) -> None:
        """Add what was found late, and read the turn again: another process may have changed it meanwhile."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101  # it runs
        late = self._late[task_id]
        for pause_s in (0.0, *_PAUSES_S, *_LONG_PAUSES_S):
            if pause_s in _LONG_PAUSES_S:
                self._asking.discard(task)
                self._patient.add(task)
            await asyncio.sleep(pause_s)
            try:
                await self._pipeline.written()
                if (items := await self._of_task(task_id)) and not await self._lacks(items, late):
                    del self._late[task_id]
                    return
            except Exception as error:  # noqa: BLE001  # error boundary: it is logged, and tried again
                logger.debug("the store could not be asked about a task or turn: %r", error)
                self._unread.seen()
        del self._late[task_id]
        logger.warning("a finding came too late for its turn, and is not stored: %s", late[0][0].message)

    async def _lacks(self, items: Sequence[TurnJson], late: Sequence[tuple[Finding, Sequence[ToolCall]]]) -> bool:
        """Whether the last of these turns of a task lacks a finding, which it then is to get."""
        turn, known = _turn(items[-1]), [call for item in items for call in self._seen(item).tool_calls]
        news = dict.fromkeys(one for one, calls in late if not calls or new_calls(calls, known))
        findings = [finding for finding in news if finding not in turn.findings]
        if findings and turn.status == "open":
            turn.findings += findings
            self._store.add([turn], nothing)
        elif findings and await self._pipeline.found_late(items[-1], findings):
            said = await self._store.kept_verdict(turn.run)
            if said is not None and not said.of and said.status == "passed":  # what a command said of the run
                await self._store.keep_verdict(turn.run, replace(said, status="incomplete", verdict=None))
        return bool(findings)

    async def _of_task(self, task_id: str) -> list[TurnJson]:
        """The last turns of the task, oldest first."""
        found = await self._store.of_task(self._privacy.identifier(task_id), self._agent.key, MAX_TURNS)
        return [item for item in found if self._agent.owns(item)]

    def _seen(self, item: TurnJson) -> Turn:
        """A turn of the store, with nothing that cannot be compared with what agents show."""
        turn = _turn(item)
        return _as_seen_redacted(turn) if self._privacy.changes_turns else turn

    async def _history(self, task_id: str) -> TaskHistory:
        turns = [self._seen(item) for item in await self._of_task(task_id)]
        last = turns[-1] if turns else None
        open_turn = last if last is not None and last.status == "open" else None
        return TaskHistory([turn for turn in turns if turn is not open_turn], open_turn, known=bool(turns))


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
