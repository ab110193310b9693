"""Conversations as a whole: each is scored when all its turns are."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from functools import partial
from itertools import chain
from operator import methodcaller
from types import MappingProxyType

from tool_call_evaluators.outcomes.conversations import agent_of_conversation

from ..privacy.policy import NO_PRIVACY, Privacy
from ..store import ConversationKey, ScoredConversation, Store, TurnQuery, every_turn
from ..store.base import StoreUnreachableError
from ..store.store import once_readable
from ..turn import Turn
from .case_book import CaseBook
from .evidence import trees_read_by
from .scorer import ExecutorLostError, Results, Scorer, ScoringExecutor, TurnJson, in_its_case

logger = logging.getLogger(__name__)

NOT_MOVED: Mapping[str, str] = MappingProxyType({})


def conversation_of(
    turn: Turn, cases: CaseBook, scorer: Scorer | None, *, ended: bool = False
) -> ConversationKey | None:
    """The conversation of a turn; None for one without evaluators for conversations, or whose end is not known.

    That is one without a case, unless it has `ended`, and a turn without a conversation id if its case has several:
    the turn of a case with one is a conversation of its own, whose id is that of the turn.
    """
    if scorer is None or not scorer.evaluators(turn.case_id).conversation:
        return None
    case = cases.case(turn.case_id or "")
    if turn.conversation_id:
        known = ended or case is not None
        key = ConversationKey(turn.run, turn.conversation_id, turn.case_id, turn.agent_of_conversation)
    else:
        known = case is not None and len(case.turns) == 1 and case.simulate is None
        key = ConversationKey(turn.run, turn.turn_id, turn.case_id, turn.agent_of_conversation)
    return key if known else None


async def scored_conversations(
    keys: Collection[ConversationKey],
    store: Store,
    scorer: Scorer,
    executor: ScoringExecutor,
    privacy: Privacy = NO_PRIVACY,
    moved: Mapping[str, str] = NOT_MOVED,
) -> list[ScoredConversation]:
    """The results of those of these conversations that are over; none for one that has no turns any more.

    `moved` has the cases of turns, by turn id, that differ from the stored ones. Raises ExecutorLostError, and
    StoreUnreachableError when the store's patience ends.
    """
    try:
        reads = (partial(turns_of_conversation, key, store, privacy, moved) for key in keys)
        turns = [await once_readable(store, read, StoreUnreachableError) for read in reads]
        trees = await trees_read_by(scorer, store, chain.from_iterable(turns), privacy)
        calls = []
        for one in turns:
            own = {turn["turn_id"]: trees[turn["turn_id"]] for turn in one if turn["turn_id"] in trees}
            calls.append(methodcaller("score_conversation", one, own))
        results: list[Results | None] = await executor.ask(calls)
    except (ExecutorLostError, StoreUnreachableError):
        raise
    except Exception as error:  # error boundary: what could not be evaluated has not passed
        logger.error("conversations could not be scored", exc_info=error)
        reason = f"it could not be evaluated: {error!r}"
        return [ScoredConversation(key, 0, scorer.conversation_errors(key.case_id, reason)) for key in keys]
    return [
        ScoredConversation(key, len(found), said or [])
        for key, found, said in zip(keys, turns, results, strict=True)
        if said is not None or not found
    ]


async def turns_of_conversation(
    key: ConversationKey, store: Store, privacy: Privacy, moved: Mapping[str, str] = NOT_MOVED
) -> list[TurnJson]:
    """Its turns, redacted. Raises StoreError."""
    query = TurnQuery(run=key.run, conversation=key.conversation_id, agent=key.agent_name)
    found = [turn async for turn in every_turn(store, query)]
    if not found and (alone := await store.turn(key.conversation_id)) is not None:
        found = [alone]
    place = key.case_id, key.agent_name
    turns = [in_its_case(turn, moved) for turn in found]
    return [privacy.stored_turn(turn) for turn in turns if (turn["case_id"], agent_of_conversation(turn)) == place]
