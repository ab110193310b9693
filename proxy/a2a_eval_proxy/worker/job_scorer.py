"""What a worker does with a job: it scores the job's turns, and the conversations that are over with them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from tool_call_evaluators.runs.outcomes import agent_of_conversation

from ..scoring.awaited_trees import awaited_tree, trees_read_by
from ..scoring.case_book import CaseBook
from ..scoring.pipeline import MAX_HISTORY
from ..scoring.scorer import Results, TurnJson
from ..store import ConversationKey, Scored, ScoredConversation
from ..store.postgres.store import PostgresStore
from ..store.postgres.work import Claim
from ..telemetry.counters import Metrics
from ..turn import Turn
from .agents import ScoredBy, WorkerAgents

MAX_EARLIER = 200  # turns before it by which a turn's position in its case is found


class CasePosition(NamedTuple):
    """The case of a turn (None: of no case), and how many earlier turns of its conversation are of that case."""

    case_id: str | None
    earlier: int


class _ToScore(NamedTuple):
    by: ScoredBy
    turn: Turn
    position: CasePosition
    history: Sequence[TurnJson]

    @property
    def reads_tree(self) -> bool:
        """Whether it is scored with the turns that it caused."""
        return self.by.scorer.reads_trees(self.turn.case_id)


class JobScorer:
    """Scores turns by their ids. It may be asked again for the same ones: what is done stays as it is.

    Turns are stored redacted; where an agent has the rules of who stored them, the suite's expectations are, too.
    """

    def __init__(self, store: PostgresStore, agents: WorkerAgents, metrics: Metrics | None = None) -> None:
        """`metrics` counts the results that were stored."""
        self._metrics = metrics or Metrics()
        self._store = store
        self._work = store.work
        self._agents = agents

    async def score(self, turn_ids: Sequence[str]) -> int:
        """Score those of these turns that are pending; returns how many.

        Raises StoreUnreachableError while the database is away; a turn is stored completely or not at all.
        """
        found = await self._work.turns(turn_ids)
        pending = [claim for claim in found if claim.turn["status"] == "pending"]
        to_score = await self._placed([claim.turn for claim in pending])
        placed = list(zip(to_score, pending, strict=True))
        alone = [item for item in placed if not item[0].reads_tree]
        # Each is stored for itself: the turns that caused it wait for that, all at the same time.
        with_trees = [[item] for item in placed if item[0].reads_tree]
        finished = sum(await asyncio.gather(*map(self._score_turns, (alone, *with_trees))))
        cases = {one.turn.turn_id: one.position.case_id for one in to_score}
        keys: dict[str | None, list[ConversationKey]] = {}
        for turn, _ in found:
            case_id = cases.get(turn["turn_id"], turn["case_id"])
            keys.setdefault(turn.get("agent_name"), []).append(_key(turn, case_id))
        for agent_name, of_agent in keys.items():
            await self._score_conversations(agent_name, of_agent)
        return finished

    async def _score_turns(self, placed: Sequence[tuple[_ToScore, Claim]]) -> int:
        """Score these turns, and store their results; returns how many are done."""
        results = await asyncio.gather(*(self._results(one) for one, _ in placed))
        scored = []
        for (one, claim), result in zip(placed, results, strict=True):
            merged = one.turn if one.turn.case_id != claim.turn["case_id"] else None
            scored.append((Scored(one.turn.turn_id, one.by.scoring.privacy.stored_results(result), merged), claim))
        finished = await self._work.finish(scored) if scored else set()
        self._metrics.turns_scored += len(finished)
        for done, claim in scored:
            if done.turn_id in finished:
                self._metrics.count_results(done.evaluations, self._agents.known(claim.turn.get("agent_name")))
        return len(finished)

    async def _results(self, one: _ToScore) -> Results:
        tree = await awaited_tree(self._store, one.turn, one.by.scoring.privacy) if one.reads_tree else None
        return await one.by.scorer.score(one.turn, one.position.earlier, one.history, tree)

    async def _placed(self, pending: Sequence[TurnJson]) -> list[_ToScore]:
        by = {turn["turn_id"]: self._agents.of(turn.get("agent_name")) for turn in pending}
        around = {
            turn["turn_id"]: _ToScore(one, Turn.from_dict(dict(turn)), CasePosition(turn["case_id"], 0), ())
            for turn in pending
            if (one := by[turn["turn_id"]]).alone
        }
        for conversation in await self._conversations([turn for turn in pending if turn["turn_id"] not in around]):
            agent = next((by[turn["turn_id"]] for turn in conversation if turn["turn_id"] in by), None)
            if agent is None:  # only its id is that of a conversation with another agent
                continue
            positions = case_positions(agent.scoring.cases, conversation)
            for index, (turn, position) in enumerate(zip(conversation, positions, strict=True)):
                if turn["turn_id"] in by:
                    history = conversation[max(0, index - MAX_HISTORY) : index]
                    read = Turn.from_dict(dict(turn))
                    read.case_id = position.case_id
                    around[read.turn_id] = _ToScore(agent, read, position, history)
        return [around[turn["turn_id"]] for turn in pending]

    async def _conversations(self, pending: Sequence[TurnJson]) -> list[list[TurnJson]]:
        """The conversations of these turns, as far as the last of these; turns without one each alone."""
        of_conversations = [turn for turn in pending if turn["conversation_id"]]
        until = [turn["turn_id"] for turn in of_conversations]
        known = await self._work.conversations(of_conversations, MAX_EARLIER, until) if of_conversations else []
        known.sort(key=_conversation)  # stable: within one, in order
        grouped: list[list[TurnJson]] = [list(turns) for _, turns in groupby(known, _conversation)]
        return [*grouped, *([turn] for turn in pending if not turn["conversation_id"])]

    async def _score_conversations(self, agent_name: str | None, keys: Sequence[ConversationKey]) -> None:
        """Score those with this agent that are over, and were not scored since."""
        by = self._agents.of(agent_name)
        privacy = by.scoring.privacy
        looked_at = [key for key in dict.fromkeys(keys) if _is_scored_whole(by, key)]
        if not looked_at:
            return
        turns: dict[ConversationKey, list[TurnJson]] = {key: [] for key in looked_at}
        for turn in await self._work.conversations([key._asdict() for key in looked_at]):
            key = _key(turn, turn["case_id"])
            if key in turns:
                turns[key].append(turn)
        said = await self._work.said(looked_at)
        new = [key for key in looked_at if len(turns[key]) > said.get(key, 0)]
        read = [turn for key in new for turn in turns[key]]
        trees = await trees_read_by(by.scorer, self._store, read, privacy)
        results = await asyncio.gather(*(by.scorer.score_conversation(turns[key], trees) for key in new))
        scored = [
            ScoredConversation(key, len(turns[key]), privacy.stored_results(result))
            for key, result in zip(new, results, strict=True)
            if result is not None
        ]
        if scored:
            await self._work.finish_conversations(scored)
            for conversation in scored:
                self._metrics.count_results(conversation.evaluations, self._agents.known(agent_name))


def _is_scored_whole(by: ScoredBy, key: ConversationKey) -> bool:
    """Whether it is scored as a whole: there is an evaluator for that, and its case defines its end."""
    known = by.scoring.cases.case(key.case_id or "") is not None
    return known and bool(key.conversation_id) and bool(by.scorer.evaluators(key.case_id).conversation)


def _key(turn: TurnJson, case_id: str | None) -> ConversationKey:
    return ConversationKey(turn["run"], turn["conversation_id"], case_id, agent_of_conversation(turn))


def _conversation(turn: TurnJson) -> tuple[str, str, str]:
    return turn["run"], turn["conversation_id"], turn.get("agent_name") or ""


def case_positions(cases: CaseBook, conversation: Sequence[TurnJson]) -> list[CasePosition]:
    """The positions of the turns of one conversation, given in order; a turn without conversation is given alone.

    What comes out depends on these turns alone, not on what `cases` has seen before.
    """
    if conversation:
        cases.forget(conversation[0]["conversation_id"], conversation[0].get("agent_name"))
    found = []
    seen: Counter[str] = Counter()
    for turn in conversation:
        case_id = cases.match(turn["case_id"], turn["conversation_id"], turn["user_text"], turn.get("agent_name"))
        found.append(CasePosition(case_id, seen[case_id] if case_id else 0))
        if case_id:
            seen[case_id] += 1
    return found
