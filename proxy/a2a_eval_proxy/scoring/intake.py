"""Closed turns on their way to the store, in the order in which they came; where rules redact, through a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from tool_call_evaluators.agent_tree import AgentTurn

from ..privacy.policy import Privacy
from ..store import ConversationKey, Store
from ..store.encoding import nothing
from ..turn import Turn
from .executor import at_once
from .scorer import Results, Scorer
from .turn_memory import memory_of

T = TypeVar("T")

MAX_UNSTORED = 10_000
"""Turns that wait to be redacted and given to the store."""

_GATHER_S = 0.004
"""Under load, batches are at least this far apart. At 20 ms, the writer of the store delays one request of a hundred by
2.6 ms, at 4 ms by 1.4 ms for 5 % more CPU; at 2 ms by as much for 16 %."""


@dataclass(slots=True, eq=False)
class Work:
    """A turn on its way. One that is taken again has another `Work`, and only the last one is done."""

    turn_id: str
    turn: Turn | None
    """As it was captured; None: only the store has it, from where it is read when it is scored."""
    size: int = 0
    """Bytes of it that are held until it is done; 0 where it is read from the store."""
    again: bool = False
    """Whether the store has it already: it is replaced."""
    late: bool = False
    """Whether spans came after it was scored."""
    merged: bool = False
    """Whether it comes from the store, done, with what its traces show."""
    quick: bool = False
    """Whether it is scored before it is stored."""
    held: bool = False
    """Whether others are to score it when its traces are merged, and not before."""
    tree: AgentTurn | None = None
    has_tree: bool = False
    conversations: Sequence[ConversationKey | None] = ()
    """To score when it is done: its own, and the one that it has left."""


Stored = Callable[[Sequence[tuple[Work, Turn | None]], Mapping[str, Results]], None]


class TurnIntake:
    """Gives turns to the store, redacted, and those that are `quick` with their results. Never waits.

    `stored` is called with turns that the store has (None: one that is not held), and the results of those with some;
    `not_stored` with those for which it has no room. Belongs to one event loop.
    """

    def __init__(
        self,
        store: Store,
        privacy: Privacy,
        scorer: Scorer | None,
        stored: Stored,
        not_stored: Callable[[Sequence[Work]], None],
        memory: int,
    ) -> None:
        """`memory` limits the bytes of turns that wait to be redacted; one alone may have more."""
        self._store = store
        self._privacy = privacy
        self._scorer = scorer
        self._stored = stored
        self._not_stored = not_stored
        self._memory = memory
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="redacting")
        self._batch: list[tuple[Work, Turn, int]] = []
        self._next_batch_at = 0.0
        self._given, self._given_bytes = 0, 0
        self._taken, self._taken_bytes = 0, 0
        """What `_redact_and_store` was given so far, and what of it it has passed on; it alone writes the last two."""

    def is_full(self, size: int) -> bool:
        """Whether there is no room for a turn of that many bytes."""
        turns, total = self._given - self._taken, self._given_bytes - self._taken_bytes
        return turns > 0 and (turns >= MAX_UNSTORED or total + size > self._memory)

    def put(self, work: Work, turn: Turn, size: int) -> None:
        """Have a turn stored: alone at once, under load in batches that are 4 ms apart."""
        self._count_given(size)
        if not self._batch:
            self._loop.call_at(self._next_batch_at, self._flush)
        self._batch.append((work, turn, size))

    def keep_open(self, turn: Turn) -> bool:
        """Store a copy of an open turn, after the turns before it; False where there is no room for it."""
        self._flush()
        size = memory_of(turn)
        if self.is_full(size):
            return False

        def redact_and_store() -> None:
            self._store.add([self._privacy.stored(self._privacy.redacted(turn))], nothing)
            self._count_taken(size)

        self._count_given(size)
        self._run(redact_and_store)
        return True

    def redacted(self, turn: Turn) -> Turn:
        """The turn as evaluators see it."""
        redacted = self._privacy.redacted(turn)
        redacted.case_id = turn.case_id  # it is one of the suite, or redacted
        return redacted

    async def in_thread(self, function: Callable[[], T]) -> T:
        """What the function returns, called where turns are redacted."""
        return await self._loop.run_in_executor(self._thread, function)

    async def passed_on(self) -> None:
        """Returns when the store was given every turn so far."""
        self._flush()
        await self.in_thread(nothing)

    async def close(self) -> None:
        """What was taken is given to the store."""
        self._flush()
        await asyncio.to_thread(self._thread.shutdown)

    def _flush(self) -> None:
        if self._batch:
            self._next_batch_at = self._loop.time() + _GATHER_S
            batch, self._batch = self._batch, []
            self._run(partial(self._redact_and_store, batch))

    def _run(self, redact_and_store: Callable[[], None]) -> None:
        """In the redacting thread, which rules may keep busy; without rules a thread costs more than the work."""
        if self._privacy.changes_turns:
            self._thread.submit(redact_and_store)
        else:
            redact_and_store()

    def _count_given(self, size: int) -> None:
        self._given += 1
        self._given_bytes += size

    def _count_taken(self, size: int) -> None:
        self._taken += 1
        self._taken_bytes += size

    def _redact_and_store(self, batch: Sequence[tuple[Work, Turn, int]]) -> None:
        """See `_run`."""
        stored: tuple[list[tuple[Work, Turn]], list[tuple[Work, Turn]]] = [], []
        results: dict[str, Results] = {}
        for work, turn, size in batch:
            seen = self.redacted(turn)
            if work.quick and self._scorer is not None:
                results[work.turn_id] = at_once(self._scorer.score(seen))
            stored[work.again].append((work, self._privacy.stored(seen)))
            self._count_taken(size)
            if not work.size:
                work.turn = None
        on_loop = self._loop.call_soon_threadsafe
        for again, turns in enumerate(stored):
            known = [(work, turn if work.size else None) for work, turn in turns]
            committed = partial(on_loop, self._stored, known, results)
            held = {work.turn_id for work, _ in turns if work.held}
            given = [turn for _, turn in turns]
            if given and not self._store.add(given, committed, results, held, again=bool(again)):
                on_loop(self._not_stored, [work for work, _ in turns])
