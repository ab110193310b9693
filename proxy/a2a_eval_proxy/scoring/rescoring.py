"""Stored turns, scored again with another suite: in it they may belong to other cases."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from operator import methodcaller
from typing import TYPE_CHECKING, Any

from tool_call_evaluators.visibility import TURN_SUCCEEDED

from ..privacy.policy import Privacy
from ..store import ConversationKey, Scored, Store
from ..store.encoding import nothing
from ..telemetry.turn_listener import TurnListener
from ..turn import Turn
from .case_book import CaseBook
from .conversations import conversation_of, scored_conversations
from .evidence import AwaitedEvidence, completed, earlier_turns, trees_read_by
from .scorer import Results, Scorer, ScoringExecutor, TurnJson, in_its_case

if TYPE_CHECKING:
    from ..otlp.trace_service import Tracing

_SIDE_BY_SIDE = 32
"""Conversations that are scored at once; their turns are in memory."""


_MOST_SHARING = 1_000
"""Turns of one trace, that of their client, whose spans are told apart."""


async def with_traces(
    items: Sequence[TurnJson], store: Store, tracing: Tracing, privacy: Privacy
) -> Sequence[TurnJson]:
    """These stored turns; those without calls and spans with what their traces show, as the store has them from then
    on.

    Calls that were seen before, perhaps redacted since, could not be told from those in the trace. A turn whose trace
    cannot be had stays as it is. Raises StoreError.
    """
    bare = [item for item in items if item["trace_id"] and not item["tool_calls"] and not item.get("spans")]
    for item in bare:
        for linked in await store.linked_by("trace_id", item["trace_id"], 0, _MOST_SHARING):
            turn = replace(Turn.from_dict(dict(linked.turn)), parent_span_id=linked.parent_span_id)
            tracing.opened(turn)
            tracing.ended(turn)
    awaited, merged = AwaitedEvidence([tracing], lambda _: None, None, 0), []
    for item in bare:
        turn, ready = Turn.from_dict(dict(item)), asyncio.Event()
        awaited.wait(turn, ready.set, late=False)
        await ready.wait()
        evidence = tracing.evidence(turn)
        if evidence is not None and evidence.spans and not evidence.lost:
            turn.findings = [one for one in turn.findings if (one.code, one.where) != ("calls_missed", "traces")]
            seen = privacy.redacted(completed(turn, [evidence], late=False))
            merged.append(Scored(turn.turn_id, item["evaluations"], privacy.stored(seen)))
    awaited.close()
    store.finish(merged, nothing)
    await store.drained()
    fresh = {one.turn_id: await store.turn(one.turn_id) for one in merged}
    return [fresh.get(item["turn_id"]) or item for item in items]


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
