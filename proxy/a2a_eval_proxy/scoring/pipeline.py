"""From closed turns to stored results."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from operator import methodcaller
from sys import getsizeof
from typing import TypeVar

from a2a_tool_capture import Finding, Severity
from tool_call_evaluators.agent_tree import AgentTurn
from tool_call_evaluators.visibility import AUTH_REQUIRED, NO_CAPTURE, turn_failure_of

from ..errors import log_once
from ..memory import measured, share
from ..privacy.policy import NO_PRIVACY, Privacy
from ..store import ConversationKey, Scored, ScoredConversation, Store, StoreError, TurnQuery, every_turn
from ..store.encoding import nothing
from ..store.store import once_readable
from ..telemetry.counters import Metrics
from ..telemetry.problem_log import ProblemLog
from ..telemetry.turn_listener import ScoredTurn, TurnListener
from ..turn import Turn
from .case_book import CaseBook
from .conversations import conversation_of, scored_conversations
from .evidence import AwaitedEvidence, Evidence, EvidenceSource, awaited_tree, completed, earlier_turns
from .scorer import Results, Scorer, ScoringExecutor, ThreadExecutor, TurnJson, at_once

logger = logging.getLogger(__name__)
T = TypeVar("T")

QUEUE_BYTES = share(32)
"""Limit of what the turns of all agents may take in each place where they wait, until they are scored."""

_TURN_BYTES, _FINDING_BYTES, _CALL_BYTES = 2_000, 400, 900
"""Of the objects without their texts and arguments: about what CPython takes."""

_GATHER_S = 0.004
"""Under load, batches are at least this far apart. At 20 ms, the writer of the store delays one request of a hundred by
2.6 ms, at 4 ms by 1.4 ms for 5 % more CPU; at 2 ms by as much for 16 %."""

_QUICK_BYTES = 20_000
"""A turn of that size at most is scored before it is stored, where its evaluators allow it; it has at most 20 calls.
Two writes take 280 us of CPU more than the 350 of one (one turn at a time, SQLite)."""

_PART, _PART_BYTES, _CONVERSATIONS = 200, 8 * 1024 * 1024, 32
"""Turns, their bytes, and conversations that are scored together, at most."""

_REMEMBERED = 100_000
"""Maximum number of stored turns and conversations that `resume` reads."""

_NEEDS_CREDENTIALS = Finding(
    "auth_required",
    "the task ended with the request for credentials, which nobody gave: let the agent have them, or write "
    "`expect: {state: auth-required}` in the turn of the case",
    Severity.WARNING,
)


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
    """Whether evidence came after it was scored."""
    merged: bool = False
    """Whether it comes from the store, with what the evidence shows."""
    quick: bool = False
    """Whether it is scored before it is stored."""
    held: bool = False
    """Whether others are to score it when its evidence is merged, and not before."""
    tree: AgentTurn | None = None
    has_tree: bool = False
    used: Sequence[Evidence] = ()
    """With which it is scored."""
    conversations: Sequence[ConversationKey | None] = ()
    """To score when it is done: its own, and the one that it has left."""


class Pipeline:
    """Takes closed turns, and has each redacted, stored as pending, scored and stored as done, in this order:

    `take`, `_begin`, `_redact_and_store`, `_stored`, `_await_evidence`, `_await_tree`, `_score`, `_done`.

    A turn may be taken again at any time, when more is known of it: then it replaces itself, is pending, and is scored
    again. So it is with everything that comes late. Results are replaced as a whole, so that scoring twice is harmless.
    Where no evidence is awaited, and scoring takes microseconds, it comes before storing: one write in place of two.

    Belongs to one event loop.
    """

    def __init__(
        self,
        store: Store,
        cases: CaseBook,
        scorer: Scorer | None,
        listener: TurnListener,
        metrics: Metrics,
        evidence: Sequence[EvidenceSource] = (),
        privacy: Privacy = NO_PRIVACY,
        executor: ScoringExecutor | None = None,
        agent_name: str | None = None,
        memory: int = QUEUE_BYTES,
    ) -> None:
        """`scorer` None: turns are stored for others to score. `evidence`: the sources that complete them.
        `executor` (None: a thread) is closed by `close`.

        `agent_name`: which of several agents the turns are of, and those of the store that concern them; None: any.

        `memory` limits the bytes of turns that are not in the store's queue yet (one alone may have more), of those
        held until they are scored (others are read back then), and of those that are remembered for late evidence.
        """
        self._agent_name = agent_name
        self._store = store
        self._cases = cases
        self._scorer = scorer
        self._listener = listener
        self.metrics = metrics
        self._privacy = privacy
        self._executor = executor or (None if scorer is None else ThreadExecutor(scorer))
        self._loop = asyncio.get_running_loop()
        self._memory = memory
        self._evidence = AwaitedEvidence(evidence, self._evidence_came_late, agent_name, memory)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="redacting")
        self._batch: list[tuple[Work | None, Turn, int]] = []
        """To redact and store, with the memory that each takes; without work: open turns."""
        self._next_batch_at = 0.0
        self._given_bytes = self._taken_bytes = 0
        """What was given to be stored so far, and what of it is on its way there, which `_add` alone writes."""
        self._behind = ProblemLog(logger, "the store does not keep up: {count} turn(s) were dropped")
        self._under_way: dict[str, Work] = {}
        self._held_bytes = 0
        self._ready: deque[Work] = deque()
        self._over: dict[ConversationKey, None] = {}
        """Conversations to score."""
        self._wake, self._idle = asyncio.Event(), asyncio.Event()
        self._idle.set()
        self._conversations_under_way = 0
        self._trees: set[asyncio.Task[None]] = set()
        self._worker = self._loop.create_task(self._work())
        self._store_ended = partial(self._loop.call_soon_threadsafe, self._idle.set)
        store.on_ended.add(self._store_ended)

    @property
    def depth(self) -> int:
        """Turns taken and not yet done, and conversations to score."""
        return len(self._under_way) + len(self._over) + self._conversations_under_way

    @property
    def scores(self) -> bool:
        """Whether turns are scored here, and stay pending until they are."""
        return self._scorer is not None

    @property
    def store_ended(self) -> bool:
        """Whether no turn is stored any more; `drained` raises why."""
        return self._store.ended_by is not None

    # ── taking turns ────────────────────────────────────────────────────────────────────────────────────

    def take(self, turn: Turn, *, again: bool = False) -> None:
        """Take a closed turn. Never waits, never raises for a slow store.

        `again`: the store may have it as closed already, and now more is known of it. It replaces that one."""
        again = again or turn.turn_id in self._under_way or self._evidence.forget(turn.turn_id)
        turn.case_id = self._cases.case_of(turn, closed=True)
        turn.given = self._cases.is_given(turn) or None
        if turn.state == AUTH_REQUIRED and not again and not self._cases.states_of(turn, 0):
            turn.findings.append(_NEEDS_CREDENTIALS)
        if not again:
            self._count(turn)
        self._begin(Work(turn.turn_id, turn, again=again), turn)

    def keep_open(self, turn: Turn) -> bool:
        """Store a copy of an open turn, after the turns before it; False where there is no room for it. Never waits."""
        return self._give(None, turn, memory_of(turn))

    async def written(self) -> None:
        """Returns when every turn taken so far is in the store."""
        self._flush()
        await self._in_thread(nothing)
        await self._store.drained()

    async def resume(self, run: str | None = None) -> int:
        """Score turns that an earlier process left pending, in one run or all; returns their number.

        In a shared store without a run: 0, since another process may be at work on what is pending.
        """
        if self._scorer is None or (self._store.shared and run is None):
            return 0
        for _, case_id, conversation_id in await self._store.positions(_REMEMBERED, self._agent_name):
            self._cases.remember(conversation_id, case_id, self._agent_name)
        query = TurnQuery(run=run, status="pending", agent=self._agent_name, summary=True)
        left = [item["turn_id"] async for item in every_turn(self._store, query)]
        for turn_id in left:
            if turn_id not in self._under_way:
                self._under_way[turn_id] = work = Work(turn_id, None)
                self._score_soon(work)
        for key in await self._store.unscored_conversations(_REMEMBERED, self._agent_name):
            if run in (None, key.run) and self._scorer.evaluators(key.case_id).conversation:
                self._over[key] = None
        self._go_on()
        return len(left)

    def revise(self, item: TurnJson, *, case_id: str | None = None, findings: Sequence[Finding] = ()) -> bool:
        """A turn of the store, which is done, is of this case, or these findings are of it, too: it is scored again.

        Returns whether what is known of its calls changes. If it does not, findings are added, and its results stay."""
        turn = Turn.from_dict(dict(item))
        known, left = turn.visibility, conversation_of(turn, self._cases, self._scorer, ended=True)
        captured = self._evidence.remembered(turn.turn_id)
        for one in (turn, captured) if captured is not None else (turn,):
            one.case_id = case_id or one.case_id
            one.findings += findings
        if case_id is not None:
            self._cases.remember(turn.conversation_id, case_id, turn.agent_name)
        self.metrics.findings += _codes(findings)
        changes = turn.visibility != known
        if turn.status == "done" and case_id is None and not changes:
            self._store.finish([Scored(turn.turn_id, item["evaluations"], turn)], nothing)
        elif captured is not None and not self._privacy.keeps_content:
            self.take(captured, again=True)
        else:
            self._begin(Work(turn.turn_id, turn, again=True, merged=True, conversations=[left]), turn)
        return changes

    def _evidence_came_late(self, turn: Turn) -> None:
        """What the store has stays until there is more: it has the calls of earlier evidence, which may be gone by
        now."""
        work = Work(turn.turn_id, turn, again=True, late=True, held=True)
        self._enter(work, memory_of(turn))
        self._await_evidence(work)

    def _count(self, turn: Turn) -> None:
        metrics = self.metrics
        metrics.turns_closed += 1
        for finding in turn.findings:
            if finding.code != NO_CAPTURE or self._scorer is None:  # evidence may show the calls until it is scored
                metrics.findings[finding.code] += 1
        failure = turn_failure_of(turn.state, "", turn.findings)
        if failure is not None:
            metrics.turns_failed[failure.code] += 1
        if (name := self._agent_name) is not None:
            metrics.agent_turns[name] += 1
            metrics.agent_failures[name] += failure is not None

    # ── redacted, and stored as pending ─────────────────────────────────────────────────────────────────

    def _begin(self, work: Work, turn: Turn) -> None:
        """Have a turn stored, and scored."""
        size = memory_of(turn)
        if not self._give(work, turn, size):
            self._dropped(1)
            return
        self._enter(work, size)
        if self._held_bytes > self._memory:
            self._held_bytes -= size
            work.turn, work.size = None, 0
        if self._scorer is None:
            work.held = self._evidence.awaits(turn) and not work.merged
        elif 0 < work.size <= _QUICK_BYTES and not (work.again or self._evidence.expected):
            work.quick = self._scorer.evaluators(turn.case_id).is_quick

    def _enter(self, work: Work, size: int) -> None:
        """It is under way now, in place of what was taken of the turn before."""
        before = self._under_way.get(work.turn_id)
        if before is not None:
            self._leave(before)
            work.conversations = [*work.conversations, *before.conversations]
        self._under_way[work.turn_id] = work
        self._idle.clear()
        work.size = size
        self._held_bytes += size

    def _give(self, work: Work | None, turn: Turn, size: int) -> bool:
        """Have a turn redacted and stored: alone at once, under load in batches; whether there is room for it."""
        waiting = self._given_bytes - self._taken_bytes
        if waiting and waiting + size > self._memory:
            return False
        self._given_bytes += size
        if not self._batch:
            self._loop.call_at(self._next_batch_at, self._flush)
        self._batch.append((work, turn, size))
        return True

    def _flush(self) -> None:
        """In the redacting thread, which rules may keep busy; without rules a thread costs more than the work."""
        if self._batch:
            self._next_batch_at = self._loop.time() + _GATHER_S
            batch, self._batch = self._batch, []
            if self._privacy.changes_turns:
                self._thread.submit(self._redact_and_store, batch)
            else:
                self._redact_and_store(batch)

    def _redact_and_store(self, batch: Sequence[tuple[Work | None, Turn, int]]) -> None:
        for again in (False, True):
            part = [one for one in batch if (one[0] is not None and one[0].again) is again]
            try:
                is_taken = not part or self._add(part, again=again)
            except Exception as error:  # noqa: BLE001  # error boundary: nobody waits for what is not stored
                log_once(logger, "turns could not be stored", error)
                is_taken = False
            if not is_taken:
                works = [work for work, _, _ in part if work is not None]
                self._loop.call_soon_threadsafe(self._not_stored, works)

    def _add(self, part: Sequence[tuple[Work | None, Turn, int]], *, again: bool) -> bool:
        """Whether the store has taken these turns. Before anybody learns of that, there is room for others."""
        works: list[tuple[Work, Turn | None]] = []
        turns: list[Turn] = []
        results: dict[str, Results] = {}
        try:
            for work, turn, _ in part:
                seen = self._privacy.redacted(turn)
                stored = self._privacy.stored(seen)
                turns.append(stored)
                if work is None:
                    continue
                if work.quick and self._scorer is not None:
                    results[work.turn_id] = at_once(self._scorer.score(seen))
                works.append((work, stored if work.size else None))
        finally:
            self._taken_bytes += sum(size for _, _, size in part)
        committed = partial(self._loop.call_soon_threadsafe, self._stored, works, results)
        held = {work.turn_id for work, _ in works if work.held}
        return self._store.add(turns, committed, results, held, again=again)

    async def _in_thread(self, function: Callable[[], T]) -> T:
        """What the function returns, called where turns are redacted."""
        return await self._loop.run_in_executor(self._thread, function)

    def _not_stored(self, works: Sequence[Work]) -> None:
        for work in works:
            self._leave(work)
        self._dropped(len(works))
        self._go_on()

    def _dropped(self, count: int) -> None:
        self._behind.seen(count)
        self.metrics.turns_dropped += count

    def _stored(self, batch: Sequence[tuple[Work, Turn | None]], results: Mapping[str, Results]) -> None:
        """The store has these turns, some with their results."""
        self._listener.stored([turn for _, turn in batch if turn is not None])
        scored: list[ScoredTurn] = []
        done: list[Work] = []
        for work, turn in batch:
            if not self._is_last(work):
                continue
            if turn is not None and work.quick:
                scored.append(self._scored(work, turn, results[work.turn_id]))
                done.append(work)
            else:
                self._await_evidence(work)
        if done:
            self._listener.scored(scored)
            self._done(done)

    # ── evidence ────────────────────────────────────────────────────────────────────────────────────────

    def _await_evidence(self, work: Work) -> None:
        if self._scorer is None and not work.held:
            self._done([work])
        elif work.turn is None or work.merged:
            self._score_soon(work)
        else:
            self._evidence.wait(work.turn, partial(self._score_soon, work), late=work.late)

    async def _await_tree(self, work: Work, turn: Turn) -> None:
        try:
            work.tree = await awaited_tree(self._store, turn, self._privacy)
        except Exception as error:  # noqa: BLE001  # error boundary: an unreadable store costs the turn its tree
            logger.error("the turns that %s caused could not be read: %s", work.turn_id, error)
        work.has_tree = True
        self._score_soon(work)

    def _score_soon(self, work: Work) -> None:
        self._ready.append(work)
        self._go_on()

    def _go_on(self) -> None:
        if self.depth:
            self._idle.clear()
        else:
            self._idle.set()
        if self._ready or self._over:
            self._wake.set()

    # ── scored, and stored as done ──────────────────────────────────────────────────────────────────────

    async def _work(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._ready or self._over:
                if part := await self._next_part():
                    await self._score(part)
                if self._over and self._scorer is not None:
                    await self._score_conversations(self._scorer)

    async def _next_part(self) -> list[tuple[Work, Turn]]:
        """Turns to score together. One that cannot be read now is waited for. Raises StoreError once the store's
        patience ends."""
        part: list[tuple[Work, Turn]] = []
        size = 0
        while self._ready and len(part) < _PART and size < _PART_BYTES:
            work = self._ready.popleft()
            if not self._is_last(work):
                continue
            turn = work.turn or await self._read_back(work)
            if turn is None:
                continue
            if self._scorer is not None and self._scorer.evaluators(turn.case_id).reads_trees and not work.has_tree:
                waiting = self._loop.create_task(self._await_tree(work, turn))
                self._trees.add(waiting)
                waiting.add_done_callback(self._trees.discard)
                continue
            part.append((work, turn))
            size += work.size or memory_of(turn)
        return part

    async def _read_back(self, work: Work) -> Turn | None:
        """None where it was deleted, or another process has scored it."""
        item = await once_readable(self._store, partial(self._store.turn, work.turn_id))
        if item is None or item["status"] != "pending":
            self._leave(work)
            self._go_on()
            return None
        turn = Turn.from_dict(item)
        if not work.has_tree:
            self._listener.stored([turn])
        return turn

    async def _score(self, part: Sequence[tuple[Work, Turn]]) -> None:
        for work, turn in part:
            work.used = [] if work.merged else self._evidence.of(turn)
        turns = await self._in_thread(partial(self._complete, part))
        found: list[Results] = [[] for _ in turns]
        if self._executor is not None and self._scorer is not None:
            earlier = [await earlier_turns(self._store, self._scorer, turn, self._privacy) for turn in turns]
            given = zip(turns, earlier, [work.tree for work, _ in part], strict=True)
            found = await self._executor.ask([methodcaller("score", *one) for one in given])
        scored: list[Scored] = []
        reported: list[ScoredTurn] = []
        works: list[Work] = []
        for (work, _), turn, results in zip(part, turns, found, strict=True):
            if not self._is_last(work):  # it was taken again meanwhile
                continue
            stored = self._privacy.stored(turn)
            works.append(work)
            reported.append(self._scored(work, stored, results))
            scored.append(Scored(turn.turn_id, results, stored if work.used or self._scorer is None else None))
        done = partial(self._loop.call_soon_threadsafe, self._done, works)
        if self._scorer is None:
            if not self._store.add([one.merged for one in scored if one.merged is not None], done, again=True):
                self._not_stored(works)
            return
        self._listener.scored(reported)
        if not _is_handed_over("turns", partial(self._store.finish, scored, done)):  # these turns stay pending
            for work in works:
                self._leave(work)
            self._go_on()

    def _complete(self, part: Sequence[tuple[Work, Turn]]) -> list[Turn]:
        """The turns with what their traces show, redacted: calls are compared as captured, since two that are masked
        may look the same. In the redacting thread."""
        turns = []
        for work, turn in part:
            merged = completed(turn, work.used, late=work.late)
            turns.append(self._privacy.redacted(merged) if work.used or work.size else turn)
        return turns

    def _scored(self, work: Work, turn: Turn, results: Results) -> ScoredTurn:
        """A turn has its results; returns what listeners get."""
        metrics = self.metrics
        if not work.again:
            for call in turn.tool_calls:
                metrics.calls[str(call.source)] += 1
        if turn.findings:
            before = work.turn.findings if work.turn is not None else ()
            counted = _codes(found for found in before if work.again or found.code != NO_CAPTURE)
            metrics.findings += _codes(turn.findings) - counted
        metrics.count_results(results, self._agent_name)
        work.conversations = [*work.conversations, conversation_of(turn, self._cases, self._scorer, ended=work.merged)]
        return turn, results, work.again

    def _done(self, works: Sequence[Work]) -> None:
        """The store has the results of these turns."""
        for work in works:
            if self._leave(work):
                self.metrics.turns_scored += self._scorer is not None
                for key in filter(None, work.conversations):
                    self._over[key] = None
                if work.turn is not None and not work.merged:  # evidence is merged into the turn as it was captured
                    self._evidence.remember(work.turn, work.size, work.used)
        self._go_on()

    def _is_last(self, work: Work) -> bool:
        return self._under_way.get(work.turn_id) is work

    def _leave(self, work: Work) -> bool:
        """Whether it was under way, which it is not any more."""
        if not self._is_last(work):
            return False
        del self._under_way[work.turn_id]
        self._held_bytes -= work.size
        return True

    async def _score_conversations(self, scorer: Scorer) -> None:
        assert self._executor is not None  # noqa: S101
        # those with a turn that is about to be done are scored after that, once
        awaited = {key for work in self._under_way.values() for key in work.conversations}
        self._over = {key: None for key in self._over if key not in awaited}
        keys = list(self._over)[:_CONVERSATIONS]
        for key in keys:
            del self._over[key]
        self._conversations_under_way += len(keys)
        scored = await scored_conversations(keys, self._store, scorer, self._executor, self._privacy)
        done = partial(self._loop.call_soon_threadsafe, self._conversations_done, scored, len(keys))
        if not _is_handed_over("conversations", partial(self._store.finish_conversations, scored, done)):
            self._conversations_done([], len(keys))

    def _conversations_done(self, scored: Sequence[ScoredConversation], taken: int) -> None:
        for conversation in scored:
            self.metrics.count_results(conversation.evaluations, self._agent_name)
            self._listener.conversation_scored(conversation)
        self._conversations_under_way -= taken
        self._go_on()

    # ── the end ─────────────────────────────────────────────────────────────────────────────────────────

    async def drained(self) -> None:
        """Returns when every turn taken so far is done (or, without evaluation, stored), or stays pending: it closes.

        Raises ExecutorLostError where the executor was lost, and StoreError where the store writes nothing more."""
        if self._store.ended_by is not None:
            self._idle.set()
        idle = self._loop.create_task(self._idle.wait())
        try:
            await asyncio.wait({idle, self._worker}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            idle.cancel()
        if self._worker.done() and not self._worker.cancelled():
            self._worker.result()
        if self._store.ended_by is not None:
            raise self._store.ended_by

    async def close(self) -> None:
        """Stop scoring; what is not done stays pending in the store."""
        self._evidence.close()
        for task in (*self._trees, self._worker):
            task.cancel()
        await asyncio.gather(*self._trees, self._worker, return_exceptions=True)
        if self._executor is not None:
            await asyncio.to_thread(self._executor.close)
        self._flush()
        await asyncio.to_thread(self._thread.shutdown)
        self._behind.close()
        self._store.on_ended.discard(self._store_ended)


def _is_handed_over(scored: str, write: Callable[[], object]) -> bool:
    """Whether the store has taken results of what was scored. A bug there is logged, and ends no scoring. Raises
    StoreError."""
    try:
        write()
    except StoreError:
        raise
    except Exception as error:  # noqa: BLE001  # error boundary: others are scored all the same
        log_once(logger, f"results of {scored} could not be stored", error)
        return False
    return True


def memory_of(turn: Turn) -> int:
    """Bytes that a turn takes while it is held as Python objects, about."""
    size = _TURN_BYTES + getsizeof(turn.user_text) + getsizeof(turn.response_text)
    size += measured(turn.user_parts or turn.approvals) if turn.user_parts or turn.approvals else 0
    for finding in turn.findings:
        size += _FINDING_BYTES + getsizeof(finding.message)
    for call in turn.tool_calls:
        size += _CALL_BYTES + getsizeof(call.name) + getsizeof(call.result) + getsizeof(call.error)
        size += measured(call.arguments)
    return size + measured(turn.world)


def _codes(findings: Iterable[Finding]) -> Counter[str]:
    return Counter(finding.code for finding in findings)
