"""Turns that are scored with those that they caused: they wait until these are over."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from tool_call_evaluators.agent_tree import AgentTurn, walk

from ..clock import CLOCK
from ..graph.trees import tree_below
from ..privacy.policy import Privacy
from ..store import Store
from ..store.base import StoreUnreachableError
from ..store.store import once_readable
from ..turn import Turn
from .executor import Job
from .scorer import Scorer, TurnJson

logger = logging.getLogger(__name__)

_AFTER_S = 0.5
"""How long after the end of a turn its tree is read: the turns of others may be stored a little later."""

_AGAIN_S = 0.25
_PATIENCE_S = 30.0
"""How long a turn waits for those that it caused. After that it is scored without waiting: what is open is unknown."""


class AwaitedTrees:
    """Belongs to one event loop. `again` is called with a job that has waited for a while."""

    def __init__(self, store: Store, scorer: Scorer, again: Callable[[Job], None], privacy: Privacy) -> None:
        self._store = store
        self._privacy = privacy
        self._scorer = scorer
        self._again = again
        self._loop = asyncio.get_running_loop()
        self._waiting_until: dict[str, float] = {}
        self._timers: set[asyncio.TimerHandle] = set()
        """Of the jobs that wait, of which a turn may have several: it can be scored again meanwhile."""

    async def ready(self, jobs: Sequence[Job]) -> list[tuple[Job, AgentTurn | None]]:
        """The jobs that can be scored now, with their trees where something reads them; the others wait."""
        found: list[tuple[Job, AgentTurn | None]] = []
        for job in jobs:
            if not self._scorer.reads_trees(job.turn.case_id):
                found.append((job, None))
                continue
            young_s = _AFTER_S - (CLOCK.now() - (job.turn.ended_at or job.turn.started_at))
            tree = None if young_s > 0 else await self._tree(job)
            until = self._waiting_until.setdefault(job.turn_id, self._loop.time() + _PATIENCE_S)
            unfinished = tree is not None and _is_unfinished(tree) and self._loop.time() < until
            if young_s > 0 or unfinished:
                pause_s = young_s if young_s > 0 else _AGAIN_S
                self._ask_again_in(pause_s, job)
            else:
                del self._waiting_until[job.turn_id]
                found.append((job, tree))
        return found

    def close(self) -> None:
        """Waiting ends; nothing becomes ready any more."""
        for timer in self._timers:
            timer.cancel()

    def _ask_again_in(self, pause_s: float, job: Job) -> None:
        def ask_again() -> None:
            self._timers.discard(timer)
            self._again(job)

        timer = self._loop.call_later(pause_s, ask_again)
        self._timers.add(timer)

    async def _tree(self, job: Job) -> AgentTurn | None:
        try:
            read = partial(tree_below, self._store, job.turn_id, self._privacy)
            return await once_readable(self._store, read, StoreUnreachableError)
        except Exception as error:  # noqa: BLE001  # error boundary: an unreadable store costs the turn its tree
            logger.error("the turns that %s caused could not be read: %s", job.turn_id, error)
            return None


async def awaited_tree(store: Store, turn: Turn, privacy: Privacy) -> AgentTurn | None:
    """The turn with those that it caused, once these are done; after 30 s, as they are then. Raises StoreError."""
    loop = asyncio.get_running_loop()
    until = loop.time() + _PATIENCE_S
    await asyncio.sleep(max(0.0, _AFTER_S - (CLOCK.now() - (turn.ended_at or turn.started_at))))
    while (tree := await tree_below(store, turn.turn_id, privacy)) and _is_unfinished(tree):
        if loop.time() >= until:
            break
        await asyncio.sleep(_AGAIN_S)
    return tree


async def trees_read_by(
    scorer: Scorer, store: Store, turns: Iterable[TurnJson], privacy: Privacy
) -> dict[str, AgentTurn]:
    """The trees below those of these turns that are scored with them, by the ids of the turns. Raises StoreError."""
    read = [turn["turn_id"] for turn in turns if scorer.reads_trees(turn["case_id"])]
    return {turn_id: tree for turn_id in read if (tree := await tree_below(store, turn_id, privacy))}


def _is_unfinished(tree: AgentTurn) -> bool:
    return any(placed.turn.status != "done" for placed in walk(tree) if placed.parent is not None)
