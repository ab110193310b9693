"""Closed turns on their way to the store: matched with their cases, and redacted where there are rules."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, NamedTuple, TypeVar

from ..memory import HeldBytes
from ..privacy.policy import Privacy
from ..store import Store
from ..store.encoding import nothing
from ..telemetry.problem_log import ProblemLog
from ..turn import Turn
from .case_book import CaseBook
from .turn_memory import memory_of

logger = logging.getLogger(__name__)

T = TypeVar("T")

_GATHER_S = 0.004
"""Under load, batches are at least this far apart. At 20 ms, the writer of the store delays one request of a hundred by
2.6 ms, at 4 ms by 1.4 ms for 5 % more CPU; at 2 ms by as much for 16 %."""

_MAX_UNREDACTED = 10_000
"""Maximum number of turns that wait to be redacted."""


class TurnViews(NamedTuple):
    """A turn as it was captured, as evaluators see it, and as it is stored."""

    captured: Turn
    redacted: Turn
    stored: Turn


class Batches(Generic[T]):
    """Gathers what comes on an event loop: a lone item is passed on at once, under load batches are 4 ms apart."""

    def __init__(self, pass_on: Callable[[list[T]], None]) -> None:
        self._pass_on = pass_on
        self._loop = asyncio.get_running_loop()
        self._items: list[T] = []
        self._next_at = 0.0

    def add(self, item: T) -> None:
        if not self._items:
            self._loop.call_at(self._next_at, self.flush)
        self._items.append(item)

    def flush(self) -> None:
        """Pass on what is gathered so far."""
        if self._items:
            self._next_at = self._loop.time() + _GATHER_S
            items, self._items = self._items, []
            self._pass_on(items)


class TurnIntake:
    """Takes closed turns without waiting, and passes them on. Belongs to one event loop.

    `ready` is called with their views, `dropped` with the number of turns for which there was no room.
    """

    def __init__(
        self,
        store: Store,
        cases: CaseBook,
        ready: Callable[[TurnViews], None],
        dropped: Callable[[int], None],
    ) -> None:
        self._store = store
        self._cases = cases
        self._ready = ready
        self._dropped = dropped

    def take(self, turn: Turn) -> None:
        """Take a closed turn."""
        turn.case_id = self._cases.match(turn.case_id, turn.conversation_id, turn.user_text, turn.agent_name)
        self._ready(TurnViews(turn, turn, turn))

    def keep_open(self, turn: Turn) -> bool:
        """Store a copy of an open turn; False where there is no room for it."""
        return self._store.add([turn], nothing)

    async def passed_on(self) -> None:
        """Returns when every turn taken so far is passed on."""

    async def close(self) -> None:
        """Nothing is passed on afterwards."""


class RedactingIntake(TurnIntake):
    """Redacts in a thread of its own. Turns that wait for it are limited in number and in bytes."""

    def __init__(
        self,
        store: Store,
        cases: CaseBook,
        ready: Callable[[TurnViews], None],
        dropped: Callable[[int], None],
        privacy: Privacy,
        memory: int,
    ) -> None:
        """`memory`: bytes of turns that wait."""
        super().__init__(store, cases, ready, dropped)
        self._privacy = privacy
        self._loop = asyncio.get_running_loop()
        self._batches = Batches[Turn](self._redact_soon)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="redacting")
        self._waiting = 0
        self._held = HeldBytes(memory)
        self._problem = ProblemLog(logger, "redaction does not keep up: {count} turn(s) were dropped")

    def take(self, turn: Turn) -> None:
        if self._reserve(turn):
            self._batches.add(turn)
        else:
            self._problem.seen()
            self._dropped(1)

    def keep_open(self, turn: Turn) -> bool:
        self._batches.flush()
        if not self._reserve(turn):
            return False
        size = memory_of(turn)  # the copy does not change
        self._thread.submit(self._keep_redacted, turn).add_done_callback(
            lambda done: self._loop.call_soon_threadsafe(self._release, 1, size)
        )
        return True

    async def passed_on(self) -> None:
        self._batches.flush()
        await self._loop.run_in_executor(self._thread, nothing)

    async def close(self) -> None:
        await asyncio.to_thread(self._thread.shutdown)
        self._problem.close()

    def _redact_soon(self, turns: list[Turn]) -> None:
        size = sum(map(memory_of, turns))

        def redacted(done: Future[list[tuple[TurnViews, str | None]]]) -> None:
            self._loop.call_soon_threadsafe(self._redacted, done.result(), size)

        self._thread.submit(self._redact, turns).add_done_callback(redacted)

    def _reserve(self, turn: Turn) -> bool:
        size = memory_of(turn)
        full = self._waiting >= _MAX_UNREDACTED or self._held.total + size > self._held.limit
        if self._waiting and full:
            return False
        self._waiting += 1
        self._held.add(None, size)
        return True

    def _release(self, turns: int, size: int) -> None:
        self._waiting -= turns
        self._held.add(None, -size)

    def _redacted(self, found: list[tuple[TurnViews, str | None]], size: int) -> None:
        """Match redacted turns with their cases: by the words of the user as captured, and by ids as stored."""
        self._release(len(found), size)
        for views, named in found:
            turn = views.captured
            known = turn.case_id if turn.case_id and self._cases.case(turn.case_id) else named
            case_id = self._cases.match(known, views.redacted.conversation_id, turn.user_text, turn.agent_name)
            for view in views:
                view.case_id = case_id
            self._ready(views)

    # ── in the redacting thread ─────────────────────────────────────────────────────────────────────────

    def _keep_redacted(self, turn: Turn) -> None:
        stored = self._privacy.stored(self._privacy.redacted(turn))
        self._store.add([stored], nothing)

    def _redact(self, turns: Sequence[Turn]) -> list[tuple[TurnViews, str | None]]:
        """The views of each turn, and the case that its client named."""
        privacy = self._privacy
        found = []
        for turn in turns:
            redacted = privacy.redacted(turn)
            views = TurnViews(turn, redacted, privacy.stored(redacted))
            found.append((views, turn.case_id and privacy.identifier(turn.case_id)))
        return found
