"""Stored turns, scored again with another suite: in it they may belong to other cases."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from operator import methodcaller
from typing import Any

from tool_call_evaluators.visibility import TURN_SUCCEEDED

from ..privacy.policy import Privacy
from ..store import ConversationKey, Scored, Store
from ..store.encoding import nothing
from ..telemetry.turn_listener import TurnListener
from ..turn import Turn
from .case_book import CaseBook
from .conversations import conversation_of, scored_conversations
from .evidence import earlier_turns, trees_read_by
from .scorer import Results, Scorer, ScoringExecutor, TurnJson, in_its_case

_SIDE_BY_SIDE = 32
"""Conversations that are scored at once; their turns are in memory."""


class Rescoring:
    """Scores pages of stored turns, oldest first, then their conversations: no further turn is going to come.

    A turn belongs to the case that it was stored with, where there is such a case, else to the one with its text;
    `moved` has the difference, by turn id, the store keeps what it has. Results by other evaluators stay. With `only`,
    turns of other cases, or of none, are left as they are.
    """

    def __init__(
        self,
        store: Store,
        cases: CaseBook,
        scorer: Scorer,
        executor: ScoringExecutor,
        listener: TurnListener,
        privacy: Privacy,
        only: Collection[str] | None = None,
    ) -> None:
        self._store = store
        self._cases = cases
        self._scorer = scorer
        self._executor = executor
        self._listener = listener
        self._privacy = privacy
        self._only = only
        self._over: dict[ConversationKey, None] = {}
        self.moved: dict[str, str] = {}

    async def score(self, items: Iterable[TurnJson]) -> None:
        """Score a page. Raises StoreError, ExecutorLostError."""
        placed = [(item, self._placed(item)) for item in items]
        chosen = [(item, turn) for item, turn in placed if self._only is None or turn.case_id in self._only]
        seen = [{**item, "case_id": turn.case_id} for item, turn in chosen]
        trees = await trees_read_by(self._scorer, self._store, seen, self._privacy)
        calls = [methodcaller("score", turn, await self._earlier(turn), trees.get(turn.turn_id)) for _, turn in chosen]
        scored = list(zip(chosen, await self._executor.ask(calls), strict=True))
        self._listener.scored([(turn, results, item["status"] == "done") for (item, turn), results in scored])
        self._store.finish(
            [Scored(turn.turn_id, _with_kept(item["evaluations"], results)) for (item, turn), results in scored],
            nothing,
        )
        keys = (conversation_of(turn, self._cases, self._scorer, ended=True) for _, turn in chosen)
        self._over |= {key: None for key in keys if key is not None}
        await self._store.drained()

    async def score_conversations(self) -> None:
        """Those of the turns so far. Raises StoreError, ExecutorLostError."""
        keys = list(self._over)
        for start in range(0, len(keys), _SIDE_BY_SIDE):
            part = keys[start : start + _SIDE_BY_SIDE]
            parts = self._store, self._scorer, self._executor, self._privacy, self.moved
            scored = await scored_conversations(part, *parts)
            for conversation in scored:
                self._listener.conversation_scored(conversation)
            self._store.finish_conversations(scored, nothing)
        await self._store.drained()

    def _placed(self, item: TurnJson) -> Turn:
        turn = self._privacy.redacted(Turn.from_dict(dict(item)))
        known = item["case_id"] if item["case_id"] and self._cases.case(item["case_id"]) else None
        turn.case_id = (
            self._cases.match(known, item["conversation_id"], item["user_text"], turn.agent_name) or item["case_id"]
        )
        turn.given = self._cases.is_given(turn) or None
        if turn.case_id is not None and turn.case_id != item["case_id"]:
            self.moved[turn.turn_id] = turn.case_id
        return turn

    async def _earlier(self, turn: Turn) -> Sequence[TurnJson] | None:
        earlier = await earlier_turns(self._store, self._scorer, turn, self._privacy)
        return earlier and [in_its_case(item, self.moved) for item in earlier]


def _with_kept(kept: Sequence[dict[str, Any]], results: Results) -> Results:
    """`results`, after the earlier results of other evaluators."""
    new = {TURN_SUCCEEDED, *(result["evaluator"] for result in results)}
    return [*(result for result in kept if result["evaluator"] not in new), *results]
