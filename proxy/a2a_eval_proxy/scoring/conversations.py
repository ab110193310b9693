"""Conversations as a whole: each is scored when none of its turns is on its way any more."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain

from ..privacy.policy import NO_PRIVACY, Privacy
from ..store import ConversationKey, ScoredConversation, Store, TurnQuery, every_turn
from ..store.base import StoreUnreachableError
from ..store.store import once_readable
from ..turn import Turn
from .awaited_trees import trees_read_by
from .case_book import CaseBook
from .executor import ExecutorLostError, ScoringExecutor
from .scorer import Scorer, TurnJson, in_its_case

logger = logging.getLogger(__name__)

_SIDE_BY_SIDE = 32
"""Conversations that are scored at once; their turns are in memory."""


class Conversations:
    """Keeps count of turns on their way, and scores what is over. Lives on one event loop.

    `under_way` is called with 1 for a conversation that is going to be scored. `done` is called with the results of
    conversations, and the number of conversations that were taken: some may not be over yet, and have no results.
    `moved` has the cases of turns, by turn id, that differ from the stored ones.
    """

    def __init__(
        self,
        store: Store,
        cases: CaseBook,
        scorer: Scorer,
        executor: ScoringExecutor,
        moved: Mapping[str, str],
        under_way: Callable[[int], None],
        done: Callable[[Sequence[ScoredConversation], int], None],
        privacy: Privacy = NO_PRIVACY,
        agent_name: str | None = None,
    ) -> None:
        """`agent_name`: see `Pipeline`."""
        self._agent_name = agent_name
        self._store = store
        self._cases = cases
        self._scorer = scorer
        self._executor = executor
        self._moved = moved
        self._under_way = under_way
        self._done = done
        self._privacy = privacy
        self._turns: Counter[ConversationKey] = Counter()
        self._over: asyncio.Queue[ConversationKey] = asyncio.Queue()
        self._held: dict[ConversationKey, None] | None = None
        self._left: set[ConversationKey] = set()

    def key(self, turn: Turn, *, ended: bool = False) -> ConversationKey | None:
        """The conversation of a turn; None for one without evaluators for conversations, or whose end is not known.

        That is one without a case, unless it has `ended`, and a turn without a conversation id if its case has several:
        the turn of a case with one is a conversation of its own, whose id is that of the turn.
        """
        if not self._scorer.evaluators(turn.case_id).conversation:
            return None
        case = self._cases.case(turn.case_id or "")
        if not turn.conversation_id:
            is_alone = case is not None and len(case.turns) == 1 and case.simulate is None
            return (
                ConversationKey(turn.run, turn.turn_id, turn.case_id, turn.agent_of_conversation) if is_alone else None
            )
        if not ended and case is None:
            return None
        return ConversationKey(turn.run, turn.conversation_id, turn.case_id, turn.agent_of_conversation)

    def set_out(self, key: ConversationKey) -> None:
        """One of its turns is on its way to be scored."""
        self._turns[key] += 1

    def leave(self, key: ConversationKey) -> None:
        """One of its turns is going to belong to another case: it is scored again without, or has no results."""
        self._left.add(key)
        self.set_out(key)

    def arrived(self, key: ConversationKey) -> None:
        """One of its turns is scored, and the store has it."""
        self._turns[key] -= 1
        if self._turns[key] == 0:
            del self._turns[key]
            self._is_over(key)

    async def resume(self, run: str | None, newest: int) -> None:
        """Score what an earlier process did not come to, in a run or (None) in all, among the `newest` turns."""
        for key in await self._store.unscored_conversations(newest, self._agent_name):
            looked_at = self._scorer.evaluators(key.case_id).conversation
            if looked_at and run in (None, key.run) and key not in self._turns:
                self._is_over(key)

    def hold(self) -> None:
        """Score none for now: further turns of them are coming."""
        self._held = {}

    def release(self) -> None:
        """Score those that were held."""
        held, self._held = self._held or {}, None
        for key in held:
            self._is_over(key)

    async def work(self) -> None:
        """Score what is over, as it comes. Ends by being cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            keys = {await self._over.get(): None}
            taken = 1
            while not self._over.empty() and len(keys) < _SIDE_BY_SIDE:
                keys[self._over.get_nowait()] = None
                taken += 1
            scored = await self._score(list(keys))
            done = partial(loop.call_soon_threadsafe, self._done, scored, taken)
            self._store.finish_conversations(scored, done)

    def _is_over(self, key: ConversationKey) -> None:
        if self._held is not None:
            self._held[key] = None
        else:
            self._under_way(1)
            self._over.put_nowait(key)

    async def _score(self, keys: Sequence[ConversationKey]) -> list[ScoredConversation]:
        """The results of those that are over."""
        try:
            reads = (partial(self._turns_of, key) for key in keys)
            turns = [await once_readable(self._store, read, StoreUnreachableError) for read in reads]
            trees = await trees_read_by(self._scorer, self._store, chain.from_iterable(turns), self._privacy)
            results = await self._executor.score_conversations(turns, trees)
        except (ExecutorLostError, StoreUnreachableError):
            raise
        except Exception as error:  # error boundary: what could not be evaluated has not passed
            logger.error("conversations could not be scored", exc_info=error)
            reason = f"it could not be evaluated: {error!r}"
            return [ScoredConversation(key, 0, self._scorer.conversation_errors(key.case_id, reason)) for key in keys]
        scored = [
            ScoredConversation(key, len(found), self._privacy.stored_results(said))
            for key, found, said in zip(keys, turns, results, strict=True)
            if said is not None
        ]
        emptied = [key for key, found in zip(keys, turns, strict=True) if key in self._left and not found]
        self._left.difference_update(keys)
        return scored + [ScoredConversation(key, 0, []) for key in emptied]

    async def _turns_of(self, key: ConversationKey) -> list[TurnJson]:
        query = TurnQuery(run=key.run, conversation=key.conversation_id, agent=key.agent_name)
        found = [turn async for turn in every_turn(self._store, query)]
        if not found and (alone := await self._store.turn(key.conversation_id)) is not None:
            found = [alone]
        turns = [in_its_case(turn, self._moved) for turn in found]
        ours = [turn for turn in turns if turn["case_id"] == key.case_id]
        return [self._privacy.stored_turn(turn) for turn in ours]
