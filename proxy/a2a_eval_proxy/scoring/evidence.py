"""With what a closed turn is scored: what else shows its calls, the turns before it, and those that it caused."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from a2a_tool_capture import Finding, Severity
from tool_call_evaluators.agent_tree import AgentTurn

from ..clock import CLOCK
from ..feature import provided
from ..privacy.policy import Privacy
from ..store import Store
from ..store.base import StoreUnreachableError
from ..store.store import once_readable
from ..turn import Turn
from .scorer import MAX_EARLIER, Scorer, TurnJson

logger = logging.getLogger(__name__)

_LATE_S = 0.5
"""Evidence that comes after a turn was scored is gathered for this time before it is scored again."""

_MOST_REMEMBERED = 100_000

_AFTER_S = 0.5
"""How long after the end of a turn its tree is read: the turns of others may be stored a little later."""

_PATIENCE_S = 30.0
"""How long a turn waits for those that it caused. After that it is scored without waiting: what is open is unknown."""

FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.25, 2.0
"""Pauses while turns are not over; each is twice as long as the one before."""


class Evidence(Protocol):
    """What a source shows of a turn at one time."""

    @property
    def size(self) -> int:
        """How much it is, as far as it may change the calls; it only grows."""

    def added_to(self, turn: Turn, *, late: bool) -> Turn:
        """The turn, as it was captured, with what this shows. `late`: it was scored before without that."""


class EvidenceSource(Protocol):
    """What shows calls of turns besides their exchanges: the traces of agents, see `otlp.trace_service.Tracing`."""

    def listen(self, agent_name: str | None, changed: Callable[[Turn, bool], None]) -> Callable[[], None]:
        """`changed` receives each turn of this agent (None: of any) of which more came, and whether that may change its
        calls, until what this returns is called."""

    def heard(self, agent_name: str | None) -> bool:
        """Whether evidence is to be expected of this agent."""

    def wait_s(self, turn: Turn) -> float:
        """For how many seconds a closed turn waits for its evidence; 0 if none is expected, or all is there."""

    def complete(self, turn: Turn) -> bool:
        """Whether nothing is left to wait for."""

    def evidence(self, turn: Turn) -> Evidence | None:
        """What there is so far; None where there is nothing."""


class AwaitedEvidence:
    """Turns that wait for their evidence, and scored ones, as they were captured, of which some may come late.

    `late` is called with such a turn, which is no longer remembered; `memory` limits the bytes of those that are.
    With several sources, a turn waits for all that are heard of. Belongs to one event loop.
    """

    def __init__(
        self, sources: Sequence[EvidenceSource], late: Callable[[Turn], None], agent_name: str | None, memory: int
    ) -> None:
        self._sources = sources
        self._agent_name = agent_name
        self._late = late
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[str, tuple[Callable[[], None], asyncio.TimerHandle]] = {}
        self._scored: OrderedDict[str, tuple[Turn, int]] = OrderedDict()
        """Turns with the memory that each takes."""
        self._held, self._memory = 0, memory
        self._stops = [source.listen(agent_name, self._changed) for source in sources]

    @property
    def expected(self) -> bool:
        """Whether evidence is to be expected of the agent."""
        return any(source.heard(self._agent_name) for source in self._sources)

    def of(self, turn: Turn) -> list[Evidence]:
        """What there is of the turn, from each source that has something."""
        return [found for source in self._sources if (found := source.evidence(turn)) is not None]

    def awaits(self, turn: Turn) -> bool:
        """Whether evidence of the turn has come, or may still come in time."""
        return self._wait_s(turn) > 0 or bool(self.of(turn))

    def wait(self, turn: Turn, then: Callable[[], None], *, late: bool) -> None:
        """Call `then` when the evidence of the turn has come, or need not be waited for any more."""
        wait_s = self._wait_s(turn)
        if late and self.of(turn):
            wait_s = max(wait_s, _LATE_S)
        self._release(turn.turn_id)
        if wait_s > 0:
            self._waiting[turn.turn_id] = then, self._loop.call_later(wait_s, self._release, turn.turn_id)
        else:
            then()

    def remember(self, turn: Turn, size: int, used: Iterable[Evidence]) -> None:
        """The turn, as it was captured, which takes `size` bytes, is scored with the evidence `used`."""
        if not self._sources:
            return
        self.forget(turn.turn_id)
        self._scored[turn.turn_id] = turn, size
        self._held += size
        while len(self._scored) > _MOST_REMEMBERED or self._held > self._memory:
            self.forget(next(iter(self._scored)))
        if _size(self.of(turn)) > _size(used):
            self._changed(turn, changes_calls=True)  # more came while it was scored

    def remembered(self, turn_id: str) -> Turn | None:
        """The turn as it was captured, while it is remembered."""
        return self._scored.get(turn_id, (None, 0))[0]

    def forget(self, turn_id: str) -> bool:
        """Whether the turn was remembered, which it is not any more."""
        turn, size = self._scored.pop(turn_id, (None, 0))
        self._held -= size
        return turn is not None

    def close(self) -> None:
        """Waiting ends; nothing becomes ready any more."""
        for stop in self._stops:
            stop()
        for _, timer in self._waiting.values():
            timer.cancel()

    def _wait_s(self, turn: Turn) -> float:
        return max((source.wait_s(turn) for source in self._sources), default=0.0)

    def _changed(self, turn: Turn, changes_calls: bool) -> None:
        """More came of a turn. What cannot change its calls changes nothing in a scored one."""
        if turn.turn_id in self._waiting:
            if all(source.complete(turn) for source in self._sources if source.heard(self._agent_name)):
                self._release(turn.turn_id)
        elif changes_calls and (scored := self.remembered(turn.turn_id)) is not None:
            self.forget(turn.turn_id)
            self._late(scored)

    def _release(self, turn_id: str) -> None:
        then, timer = self._waiting.pop(turn_id, (None, None))
        if then is not None and timer is not None:
            timer.cancel()
            then()


def completed(turn: Turn, evidence: Iterable[Evidence], *, late: bool) -> Turn:
    """The turn, as it was captured, with all of the evidence; a finding says which could not be merged."""
    for one in evidence:
        try:
            turn = one.added_to(turn, late=late)
        except Exception as error:  # error boundary: an unreadable trace costs the turn its trace only
            logger.error("traces of turn %s could not be merged", turn.turn_id, exc_info=error)
            problem = Finding("capture_error", f"its traces could not be read: {error!r}", Severity.ERROR, "traces")
            turn = replace(turn, findings=[*turn.findings, problem])
    return turn


def _size(evidence: Iterable[Evidence]) -> int:
    return sum(one.size for one in evidence)


async def earlier_turns(store: Store, scorer: Scorer, turn: Turn, privacy: Privacy) -> list[TurnJson] | None:
    """The last turns of its conversation before it, redacted, if it is scored in their light; None where they cannot be
    read."""
    if not scorer.evaluators(turn.case_id).reads_earlier:
        return []
    read = partial(store.earlier, turn, MAX_EARLIER, turn.agent_of_conversation)
    try:
        earlier = await once_readable(store, read, StoreUnreachableError)
    except Exception as error:  # noqa: BLE001  # error boundary: what the turn is to be seen with, its evaluators lack
        logger.error("the turns before %s could not be read: %s", turn.turn_id, error)
        return None
    return [privacy.stored_turn(item) for item in earlier]


class TurnTrees:
    """Who asked whom, by what a store has; as it is here, nothing is known of that."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def below(self, turn_id: str, privacy: Privacy | None = None) -> AgentTurn | None:
        """The turn with all that it caused, redacted; None where that is not known. Raises StoreError."""
        return None

    async def around(self, turn_id: str) -> AgentTurn | None:
        """The tree to which a turn belongs, from its root; None where that is not known. Raises StoreError."""
        return None

    async def relations(self, turn_id: str) -> dict[str, Any]:
        """`parent` and `children` of a turn as in its JSON, those that are known. Raises StoreError."""
        return {}


def turn_trees(store: Store) -> TurnTrees:
    """The trees of a store, as a feature makes them."""
    return (provided(lambda feature: feature.trees) or TurnTrees)(store)


async def awaited_tree(store: Store, turn: Turn, privacy: Privacy) -> AgentTurn | None:
    """The turn with those that it caused, once these are done, or its patience ends; None where the store does not have
    it. Raises StoreError."""
    loop = asyncio.get_running_loop()
    until, pause_s = loop.time() + _PATIENCE_S, FIRST_PAUSE_S
    read = partial(turn_trees(store).below, turn.turn_id, privacy)
    await asyncio.sleep(max(0.0, (turn.ended_at or turn.started_at) + _AFTER_S - CLOCK.now()))
    while True:
        tree = await once_readable(store, read, StoreUnreachableError)
        unfinished = [] if tree is None else _unfinished_below(tree)
        if not unfinished or loop.time() >= until:
            return tree
        while unfinished and loop.time() < until:  # the tree is read again only when these are over: it takes longer
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            while unfinished and await _is_over(store, unfinished[0]):
                del unfinished[0]


async def _is_over(store: Store, turn_id: str) -> bool:
    found = await once_readable(store, partial(store.turn, turn_id), StoreUnreachableError)
    return found is None or found["status"] == "done"


def _unfinished_below(tree: AgentTurn) -> list[str]:
    """Turns that are not done, without those below them, which are over before."""
    found = []
    for child in tree.children:
        found += [child.turn_id] if child.status != "done" else _unfinished_below(child)
    return found


async def trees_read_by(
    scorer: Scorer, store: Store, turns: Iterable[TurnJson], privacy: Privacy
) -> dict[str, AgentTurn]:
    """The trees below those of these turns that are scored with them, by the ids of the turns. Raises StoreError."""
    trees = turn_trees(store)
    read = [turn["turn_id"] for turn in turns if scorer.evaluators(turn["case_id"]).reads_trees]
    return {turn_id: tree for turn_id in read if (tree := await trees.below(turn_id, privacy))}
