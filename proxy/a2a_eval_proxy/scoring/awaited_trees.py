"""Turns that are scored with those that they caused: they wait until these are over."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence

from tool_call_evaluators.agent_tree import AgentTurn

from ..clock import CLOCK
from ..graph.trees import tree_below
from ..privacy.policy import Privacy
from ..store import Store
from ..store.base import StoreUnreachableError
from ..store.store import once_readable
from ..turn import Turn
from .executor import Job, StoredJob
from .scorer import Scorer, TurnJson

logger = logging.getLogger(__name__)

_AFTER_S = 0.5
"""How long after the end of a turn its tree is read: the turns of others may be stored a little later."""

_PATIENCE_S = 30.0
"""How long a turn waits for those that it caused. After that it is scored without waiting: what is open is unknown."""

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.25, 2.0
"""Pauses while turns are not over; each is twice as long as the one before."""


class TreeWait:
    """One turn, which waits for those that it caused. Belongs to one event loop.

    The tree is read again only when the turns are over that were not: until then, a look reads one turn.
    """

    def __init__(self, store: Store, turn: Turn, privacy: Privacy) -> None:
        self._store = store
        self._privacy = privacy
        self._turn_id = turn.turn_id
        self._from = (turn.ended_at or turn.started_at) + _AFTER_S
        self._until = asyncio.get_running_loop().time() + _PATIENCE_S
        self._pause_s = _FIRST_PAUSE_S
        self._unfinished: list[str] = []

    async def look(self) -> tuple[float, AgentTurn | None]:
        """0 and the turn with those that it caused, once these are done, or the patience ends; else the seconds after
        which to look again, and None. The tree is None, too, where the store does not have the turn. Raises
        StoreError."""
        if (young_s := self._from - CLOCK.now()) > 0:
            return young_s, None
        is_last = asyncio.get_running_loop().time() >= self._until
        while self._unfinished and not is_last:
            first = await self._store.turn(self._unfinished[0])
            if first is not None and first["status"] != "done":
                return self._next_pause(), None
            del self._unfinished[0]
        tree = await tree_below(self._store, self._turn_id, self._privacy)
        self._unfinished = [] if tree is None or is_last else _unfinished_below(tree)
        return (self._next_pause(), None) if self._unfinished else (0.0, tree)

    def _next_pause(self) -> float:
        pause_s, self._pause_s = self._pause_s, min(2 * self._pause_s, _LONGEST_PAUSE_S)
        return pause_s


def _unfinished_below(tree: AgentTurn) -> list[str]:
    """Turns that are not done, without those below them, which are over before."""
    found = []
    for child in tree.children:
        found += [child.turn_id] if child.status != "done" else _unfinished_below(child)
    return found


async def awaited_tree(store: Store, turn: Turn, privacy: Privacy) -> AgentTurn | None:
    """See `TreeWait.look`."""
    wait = TreeWait(store, turn, privacy)
    while True:
        pause_s, tree = await wait.look()
        if not pause_s:
            return tree
        await asyncio.sleep(pause_s)


class AwaitedTrees:
    """Belongs to one event loop. `rest` returns a job as it may wait, `again` is called with it after a while."""

    def __init__(
        self,
        store: Store,
        scorer: Scorer,
        rest: Callable[[Job], Job | StoredJob],
        again: Callable[[Job | StoredJob], None],
        privacy: Privacy,
    ) -> None:
        self._store = store
        self._privacy = privacy
        self._scorer = scorer
        self._rest = rest
        self._again = again
        self._loop = asyncio.get_running_loop()
        self._waits: dict[str, TreeWait] = {}
        self._timers: set[asyncio.TimerHandle] = set()
        """Of the jobs that wait, of which a turn may have several: it can be scored again meanwhile."""

    async def ready(self, jobs: Sequence[Job]) -> list[tuple[Job, AgentTurn | None]]:
        """The jobs that can be scored now, with their trees where something reads them; the others wait."""
        found: list[tuple[Job, AgentTurn | None]] = []
        for job in jobs:
            pause_s, tree = await self._look(job) if self._scorer.reads_trees(job.turn.case_id) else (0.0, None)
            if pause_s:
                self._ask_again_in(pause_s, self._rest(job))
            else:
                self._waits.pop(job.turn_id, None)
                found.append((job, tree))
        return found

    def close(self) -> None:
        """Waiting ends; nothing becomes ready any more."""
        for timer in self._timers:
            timer.cancel()

    def _ask_again_in(self, pause_s: float, job: Job | StoredJob) -> None:
        def ask_again() -> None:
            self._timers.discard(timer)
            self._again(job)

        timer = self._loop.call_later(pause_s, ask_again)
        self._timers.add(timer)

    async def _look(self, job: Job) -> tuple[float, AgentTurn | None]:
        wait = self._waits.setdefault(job.turn_id, TreeWait(self._store, job.turn, self._privacy))
        try:
            return await once_readable(self._store, wait.look, StoreUnreachableError)
        except Exception as error:  # noqa: BLE001  # error boundary: an unreadable store costs the turn its tree
            logger.error("the turns that %s caused could not be read: %s", job.turn_id, error)
            return 0.0, None


async def trees_read_by(
    scorer: Scorer, store: Store, turns: Iterable[TurnJson], privacy: Privacy
) -> dict[str, AgentTurn]:
    """The trees below those of these turns that are scored with them, by the ids of the turns. Raises StoreError."""
    read = [turn["turn_id"] for turn in turns if scorer.reads_trees(turn["case_id"])]
    return {turn_id: tree for turn_id in read if (tree := await tree_below(store, turn_id, privacy))}
