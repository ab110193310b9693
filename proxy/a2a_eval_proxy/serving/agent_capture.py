"""The turns of one agent: folded from what its exchanges show, and passed on to be stored and scored."""

from __future__ import annotations

import asyncio
import heapq
import logging
import secrets
from collections.abc import Awaitable, Callable

from ..capture.observations import Observation
from ..capture.task_fold import FoldRules
from ..capture.turn_book import MAX_HELD_BYTES, TurnBook
from ..capture.turn_changes import ChangeTracker, TurnChanges
from ..capture.visibility import CallVisibility
from ..clock import CLOCK
from ..privacy.policy import Privacy
from ..scoring.pipeline import Pipeline
from ..settings.settings import Agent
from ..store import Store, observations_in_memory
from ..telemetry.counters import Metrics
from ..telemetry.problem_log import ProblemLog
from ..telemetry.turn_listener import TurnListener
from ..turn import Turn
from .task_log import MAX_UNSENT_BYTES, TaskLog

logger = logging.getLogger(__name__)

_LOOK_EVERY_S = 0.1

_MAX_WAIT_S = 1.0
"""Longest time that a turn waits for what was observed of its conversation before."""

_PAUSE_S = 0.05
"""Least time between two live reports: an agent may send thousands of chunks per second."""

_MOST_TURNS = 10
"""Maximum number of turns in one live report: the others follow in the next, traffic goes first."""


class AgentCapture:
    """What exchanges report to is `book`; what is more than one exchange goes through the log (`TaskLog`).

    Belongs to one event loop.
    """

    def __init__(
        self,
        agent: Agent,
        store: Store,
        pipeline: Pipeline,
        listeners: TurnListener,
        visibility: CallVisibility,
        privacy: Privacy,
        metrics: Metrics,
        *,
        awaits: Callable[[str], Awaitable[bool]] | None,
        keeps_open_turns: bool,
        parts: int,
    ) -> None:
        """`awaits`: see `TaskLog`. `keeps_open_turns`: a later process may continue them.
        `parts`: into how many the memory is divided."""
        settings = agent.settings
        rules = FoldRules(settings.turn_timeout, settings.require_artifact_uri, settings.dialects)
        self._pipeline = pipeline
        self._listeners = listeners
        self._visibility = visibility
        self._metrics = metrics
        self._no_room = ProblemLog(logger, "open turns take too much memory: {count} turn(s) were closed as incomplete")
        self._loop = asyncio.get_running_loop()
        self._next_report_at = 0.0
        self._waiting: dict[asyncio.Task[None], Turn | None] = {}
        """Turns that wait for what was observed of their conversation before; None: the log closes it."""
        self._running: asyncio.Task[None] | None = None
        self.book = TurnBook(
            rules,
            secrets.token_hex(8),
            self._observed,
            self._closed_in_order,
            on_opened=listeners.opened,
            on_evicted=self._evicted,
            max_bytes=MAX_HELD_BYTES // parts,
        )
        self._log = TaskLog(
            observations_in_memory(agent.key) if privacy.changes_turns else store.observations(agent.key),
            store,
            pipeline,
            agent,
            rules,
            privacy,
            self.book,
            self.pass_on,
            awaits=awaits,
            keeps_open=keeps_open_turns and not privacy.changes_turns,
            max_unsent_bytes=MAX_UNSENT_BYTES // parts,
        )

    @property
    def open_turns(self) -> list[Turn]:
        """The open turns, as they began, or as they were folded last."""
        return [*self.book.open_turns, *self._log.open_turns]

    @property
    def number_answered(self) -> int:
        """Number of open turns that have their answer."""
        return self.book.number_answered + self._log.number_answered

    @property
    def behind(self) -> int:
        """Number of tasks of which something was observed that is not folded yet: a turn may have its answer."""
        return self._log.behind

    def latest_open(self, most: int, turn_id: str | None = None) -> list[Turn]:
        """Copies of the latest open turns, at most `most`, or of the one with this id, as far as they are known."""
        logged = [turn for turn in self._log.open_turns if turn_id in (None, turn.turn_id)]
        return heapq.nlargest(most, [*self.book.latest_open(most, turn_id), *logged], key=lambda turn: turn.started_at)

    def report_changes(self, live: bool) -> None:
        """Start or stop to report what changes in open turns."""
        self.book.live = ChangeTracker(self._schedule) if live else None

    def start(self) -> None:
        """Requests may come."""
        self._running = self._loop.create_task(self._log.run())

    async def settled(self) -> None:
        """Returns when what was captured so far is folded, and no turn that has its answer is open."""
        while self.book.number_answered:  # noqa: ASYNC110  # the book is sans-io
            await asyncio.sleep(_LOOK_EVERY_S)
        await self._log.settled()
        await asyncio.gather(*self._waiting)

    async def close(self, timeout_s: float) -> None:
        """No more requests come: fold what is left, and leave open turns to a later process, or close them."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
        self.book.close_all(CLOCK.now())
        try:
            async with asyncio.timeout(timeout_s):
                await self._log.close()
        except TimeoutError:
            logger.error("what was observed last of tasks is not in their turns: the store takes too long")
        await asyncio.gather(*self._waiting)
        self._no_room.close()

    # ── turns ───────────────────────────────────────────────────────────────────────────────────────────

    def pass_on(self, turn: Turn, again: bool = False) -> None:
        """A turn has ended. `again`: it was passed on before, and shows more now."""
        if self.book.live is not None and (new := self.book.live.closed(turn)) is not None:
            self._changed(new)
        if not again:
            self._listeners.ended(turn)
        self._visibility.judge(turn)
        self._pipeline.take(turn, again=again)

    def _closed_in_order(self, turn: Turn) -> None:
        """Turns of a conversation are passed on in their order, unless what was observed before takes long to fold."""
        if self._log.is_behind(turn.conversation_id):
            waits = self._loop.create_task(self._wait_for_earlier(turn))
            self._waiting[waits] = turn
            waits.add_done_callback(self._waited)
        else:
            self.pass_on(turn)

    async def _wait_for_earlier(self, turn: Turn) -> None:
        try:
            async with asyncio.timeout(_MAX_WAIT_S):
                await self._log.folded()
        except TimeoutError:
            logger.debug("turn %s is passed on before the earlier ones of its conversation", turn.turn_id)

    def _waited(self, waits: asyncio.Task[None]) -> None:
        if (turn := self._waiting.pop(waits)) is not None:
            self.pass_on(turn)

    def _observed(self, task_id: str, observation: Observation) -> None:
        """A turn that is observed itself while it waits is the log's, which closes it in its order."""
        if observation["kind"] == "sent":
            for waits, turn in self._waiting.items():
                if turn is not None and turn.turn_id == observation["turn"]["turn_id"]:
                    self._waiting[waits] = None
        self._log.put(task_id, observation)

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
            self._listeners.changed(new)
        except Exception:  # who listens is not part of capture
            logger.exception("a live event could not be published; the turn itself is captured")
