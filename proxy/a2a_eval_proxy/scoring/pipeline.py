"""From closed turns to stored results: the queue of turns and the states they go through."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from a2a_tool_capture import Finding, Severity
from tool_call_evaluators.visibility import AUTH_REQUIRED, NO_CAPTURE, TURN_SUCCEEDED, turn_failure_of

from ..memory import HeldBytes
from ..otlp.trace_service import Tracing
from ..privacy.content_removal import lacks_content
from ..privacy.policy import NO_PRIVACY, Privacy
from ..store import ConversationKey, Scored, ScoredConversation, Store, TurnQuery, every_turn
from ..store.base import StoreUnreachableError
from ..store.encoding import nothing
from ..store.store import once_readable
from ..telemetry.counters import Metrics
from ..telemetry.problem_log import ProblemLog
from ..telemetry.turn_listener import ScoredTurn, TurnListener
from ..traces.trace_records import Evidence
from ..turn import Turn
from .awaited_trees import AwaitedTrees
from .case_book import CaseBook, TurnPositions
from .conversations import Conversations
from .executor import Job, ScoringExecutor, StoredJob, ThreadExecutor, ToScore
from .intake import Batches, RedactingIntake, TurnIntake, TurnViews
from .job_queue import PAGE, JobQueue
from .late_spans import LateSpans, NoSpans
from .scorer import NoScorer, Results, Scorer, TurnJson
from .turn_memory import QUEUE_BYTES

logger = logging.getLogger(__name__)

_REMEMBERED = 100_000
"""Maximum number of stored turns and conversations that `resume` reads."""

_LIVE_BYTES = 4 * 1024 * 1024
"""With more than that waiting for the store, turns wait as encoded text alone, and are read back to be scored."""

_NEEDS_CREDENTIALS = Finding(
    "auth_required",
    "the task ended with the request for credentials, which nobody gave: let the agent have them, or write "
    "`expect: {state: auth-required}` in the turn of the case",
    Severity.WARNING,
)

MAX_HISTORY = 50
"""Maximum number of earlier turns that evaluators receive with a turn."""


class Pipeline:
    """Has closed turns stored, scored in another thread, and stored again with their results.

    A case's conversation is scored as a whole when all its turns are done, and again when more come.

    A turn is pending in the store before it is scored, so a crash loses no stored turn: `resume` scores what an
    earlier process left pending. A turn's results are replaced as a whole, so scoring twice is harmless. Where
    scoring takes microseconds and no traces are awaited, it comes first, on the event loop: one write instead of two.

    Belongs to one event loop. See `TurnIntake` for what comes before the store, and `LateSpans` for spans.
    """

    def __init__(
        self,
        store: Store,
        cases: CaseBook,
        scorer: Scorer | None,
        listener: TurnListener,
        metrics: Metrics,
        tracing: Tracing | None = None,
        privacy: Privacy = NO_PRIVACY,
        executor: ScoringExecutor | None = None,
        agent_name: str | None = None,
        memory: int = QUEUE_BYTES,
    ) -> None:
        """`scorer` None: turns are stored for others to score. `executor` (None: a thread) is closed by `close`.

        `agent_name`: which of several agents the turns are of, and those of the store that concern them; None: any.
        `memory`: bytes of the turns that wait to be redacted (one turn alone may have more), that wait for the store
        and cannot be read back, that wait to be scored with what they say, and that were scored: of each.
        """
        self._agent_name = agent_name
        self._store = store
        self._cases = cases
        self._scores = scorer is not None
        self._scorer = scorer = scorer or NoScorer()
        self._listener = listener
        self._metrics = metrics
        self._privacy = privacy
        self._executor = executor = executor or ThreadExecutor(scorer, privacy)
        self._store_behind = ProblemLog(logger, "the store does not keep up: {count} turn(s) were dropped")
        self._loop = asyncio.get_running_loop()
        self._intake = (
            RedactingIntake(store, cases, self._ready, self._dropped, privacy, memory)
            if privacy.changes_turns
            else TurnIntake(store, cases, self._ready, self._dropped)
        )
        self._batches = Batches(self._add)
        self._readable = privacy.keeps_content
        """Whether the store has all that scoring needs of a turn."""
        self._unreadable = HeldBytes(memory)
        self._jobs = JobQueue(store, memory, readable=self._readable, on_read=listener.closed, on_gone=self._gone)
        put = self._jobs.put
        self._spans: NoSpans = NoSpans()
        if tracing is not None:
            self._spans = LateSpans(tracing, lambda job: put([job]), self._score_late, agent_name, memory)
        self._trees = AwaitedTrees(store, scorer, self._jobs.at_rest, lambda job: put([job]), privacy)
        self.moved: dict[str, str] = {}
        """The cases of rescored turns, by turn id, that were stored with another or none."""
        self._conversations = Conversations(
            store,
            cases,
            scorer,
            executor,
            self.moved,
            self._count_up,
            self._conversations_done,
            privacy,
            agent_name,
        )
        self._workers = [self._loop.create_task(work) for work in (self._work(), self._conversations.work())]
        self._unfinished = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._store_ended = partial(self._loop.call_soon_threadsafe, self._idle.set)
        store.on_ended.add(self._store_ended)
        self._positions = TurnPositions(_REMEMBERED)
        self._again: set[str] = set()
        """Turns that the store has as done, and that are being scored again."""

    @property
    def depth(self) -> int:
        """Turns taken and not yet done."""
        return self._unfinished

    @property
    def store_ended(self) -> bool:
        """Whether no turn is stored any more; `drained` raises why."""
        return self._store.ended_by is not None

    def take(self, turn: Turn) -> None:
        """Take a closed turn. Never waits, never raises for a slow store."""
        metrics = self._metrics
        metrics.turns_closed += 1
        for finding in turn.findings:
            if finding.code != NO_CAPTURE or not self._scores:  # spans may show the calls until it is scored
                metrics.findings[finding.code] += 1
        failure = turn_failure_of(turn.state, "", turn.findings)
        if failure is not None:
            metrics.turns_failed[failure.code] += 1
        if (name := self._agent_name) is not None:
            metrics.agent_turns[name] += 1
            metrics.agent_failures[name] += failure is not None
        self._count_up(1)
        self._intake.take(turn)

    def keep_open(self, turn: Turn) -> bool:
        """Store a copy of an open turn, after the turns before it; False where there is no room for it. Never waits."""
        self._batches.flush()
        return self._intake.keep_open(turn)

    async def written(self) -> None:
        """Returns when every turn taken so far is in the store."""
        await self._intake.passed_on()
        self._batches.flush()
        await self._store.drained()

    async def resume(self, run: str | None = None) -> int:
        """Score turns that an earlier process left pending, in one run or all; returns their number.

        In a shared store without a run: 0, since another process may be at work on what is pending.
        """
        if not self._scores or (self._store.shared and run is None):
            return 0
        self._positions.add(await self._store.positions(_REMEMBERED, self._agent_name), self._agent_name)
        for _, case_id, conversation_id, agent in self._positions:
            self._cases.remember(conversation_id, case_id, agent)
        total = 0
        query = TurnQuery(run=run, status="pending", agent=self._agent_name)
        async for item in every_turn(self._store, query, PAGE):
            turn = Turn.from_dict(item)
            self._score_again([self._job(TurnViews(turn, turn, turn))])
            total += 1
        await self._conversations.resume(run, _REMEMBERED)
        return total

    def bind(self, item: TurnJson, case_id: str) -> None:
        """Score a turn of the store, which is done, again as a turn of this case, to which it then belongs."""
        turn = Turn.from_dict(dict(item))
        left = self._conversations.key(turn, ended=True)
        turn.case_id = case_id
        self._cases.remember(turn.conversation_id, case_id, turn.agent_name)
        self._spans.bind(turn.turn_id, case_id)
        job = self._job(TurnViews(turn, self._privacy.redacted(turn), turn), ended=True)
        if left is not None:
            self._conversations.leave(left)
        self._again.add(turn.turn_id)
        self._score_again([replace(job, late=True, bound=True, left=left)])

    async def found_late(self, item: TurnJson, findings: Sequence[Finding]) -> bool:
        """Add findings to a closed turn of the store; whether what is known of its calls changes: then it is pending
        until it is scored again. Nothing happens while it is being scored. Raises StoreError."""
        turn = Turn.from_dict(dict(item))
        place = turn.agent_of_conversation, turn.case_id
        earlier = await self._store.earlier(turn, _REMEMBERED, *place) if turn.case_id and self._scores else ()
        if turn.turn_id in self._again or (self._scores and turn.status == "pending"):
            return False
        known = turn.visibility
        turn.findings += findings
        self._metrics.findings += _codes(findings)
        remembered = self._spans.found_late(turn.turn_id, findings)
        if turn.visibility == known and turn.status == "done":
            self._store.finish([Scored(turn.turn_id, item["evaluations"], turn)], nothing)
            return False
        scored_again: Callable[[], object] = nothing
        if self._scores:
            conversation = self._conversations.key(turn, ended=True)
            views = TurnViews(turn, self._privacy.redacted(turn), turn)
            job = Job(*views, len(earlier), late=True, conversation=conversation, bound=True)
            if remembered is not None and not self._readable:
                job = replace(remembered, late=True)
            scored_again = partial(self._loop.call_soon_threadsafe, self._jobs.put, [self._score_late(job)])
        self._store.settle([turn], scored_again)
        return True

    @asynccontextmanager
    async def rescoring(
        self, only: Collection[str] | None = None
    ) -> AsyncIterator[Callable[[Iterable[TurnJson]], None]]:
        """A function that takes stored turns, oldest first, to score them again with the cases they match now.

        With `only`, turns of other cases, or of none, are left as they are.

        A turn belongs to the case that it was stored with, where there is such a case, else to the one with its text;
        `moved` has the difference, the store keeps what it has. Results by other evaluators stay. At the end of the
        block conversations are scored, those without a case too: no further turn is going to come.
        """
        if not self._scores:
            raise RuntimeError("a pipeline without a scorer cannot score again")
        self._conversations.hold()
        yield partial(self._rescore, only)
        await self.drained()
        self._conversations.release()
        await self.drained()

    def _rescore(self, only: Collection[str] | None, items: Iterable[TurnJson]) -> None:
        jobs = []
        for item in items:
            turn = Turn.from_dict(dict(item))
            known = turn.case_id if turn.case_id and self._cases.case(turn.case_id) else None
            case_id = self._cases.match(known, turn.conversation_id, turn.user_text, turn.agent_name)
            if case_id is not None and case_id != turn.case_id:
                turn.case_id = self.moved[turn.turn_id] = case_id
            if only is not None and case_id not in only:
                continue
            job = self._job(TurnViews(turn, self._privacy.redacted(turn), turn), ended=True)
            jobs.append(replace(job, late=item["status"] == "done", kept=item["evaluations"]))
        self._score_again(jobs)

    async def drained(self) -> None:
        """Returns when every turn taken so far is done (or, without evaluation, stored), or stays pending: it closes.

        Raises ExecutorLostError where the executor was lost, and StoreError where the store writes nothing more."""
        if self._store.ended_by is not None:
            self._idle.set()
        idle = self._loop.create_task(self._idle.wait())
        try:
            ended, _ = await asyncio.wait({idle, *self._workers}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            idle.cancel()
        for task in ended - {idle}:
            if not task.cancelled():
                task.result()
        if self._store.ended_by is not None:
            raise self._store.ended_by

    async def close(self) -> None:
        """Stop scoring; what is not done stays pending in the store."""
        self._spans.close()
        self._trees.close()
        for worker in self._workers:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)
        await asyncio.to_thread(self._executor.close)
        await self._intake.close()
        self._store_behind.close()
        self._store.on_ended.discard(self._store_ended)

    # ── to the store ────────────────────────────────────────────────────────────────────────────────────

    def _ready(self, views: TurnViews) -> None:
        """Score a closed turn where that takes next to no time; others are stored first."""
        job = self._job(views)
        if job.turn.state == AUTH_REQUIRED and not self._cases.states_of(job.turn, job.earlier):
            for findings in {id(view.findings): view.findings for view in views}.values():
                findings.append(_NEEDS_CREDENTIALS)
            self._metrics.findings[_NEEDS_CREDENTIALS.code] += 1
        at_once = not (self._privacy.changes_turns or self._spans.expected)
        self._batches.add((job, self._scorer.score_at_once(job.turn, job.earlier) if at_once else None))

    def _add(self, batch: Sequence[tuple[Job, Results | None]]) -> None:
        """Add closed turns to the store."""
        live = [job for job, _ in batch]
        stored = [job.stored for job in live]
        results = {job.turn.turn_id: found for job, found in batch if found is not None}
        jobs: Sequence[Job | StoredJob] = live
        held = set() if self._scores else {turn.turn_id for turn in stored if self._spans.awaited(turn)}
        size = 0
        tight = self._store.health.waiting_bytes > _LIVE_BYTES
        if tight and self._readable:
            jobs, results = [job.stored_only() for job in live], {}
        elif tight:
            size = sum(job.size for job in live)
        announced = () if tight else stored
        committed = partial(self._committed, len(stored), announced, jobs, held, results, size)
        if self._unreadable.total + size <= self._unreadable.limit and self._store.add(
            stored, partial(self._loop.call_soon_threadsafe, committed), results, held
        ):
            self._unreadable.add(None, size)
            self._set_out(jobs)
        else:
            self._store_behind.seen(len(stored))
            self._dropped(len(stored))

    def _dropped(self, count: int) -> None:
        self._metrics.turns_dropped += count
        self._count_down(count)

    def _committed(
        self,
        count: int,
        announced: Sequence[Turn],
        jobs: Sequence[Job | StoredJob],
        held: set[str],
        results: Mapping[str, Results],
        size: int,
    ) -> None:
        """The store has `count` turns. `held` are those that others score when their traces are merged."""
        self._unreadable.add(None, -size)
        self._listener.closed(announced)
        scored: list[ScoredTurn] = []
        ready: list[Job | StoredJob] = []
        done: list[ConversationKey | None] = []
        for job in jobs:
            if isinstance(job, Job) and (found := results.get(job.turn.turn_id)) is not None:
                scored.append(self._scored(job, job.stored, found, None))
                done.append(job.conversation)
            elif not self._scores and job.turn_id not in held:
                self._spans.scored(job, None)
                done.append(job.conversation)
            elif not self._spans.wait(job, resting := self._jobs.at_rest(job)):
                ready.append(resting)
        self._listener.scored(scored)
        if ready:
            self._jobs.put(ready)
        self._done(done)

    # ── to be scored ────────────────────────────────────────────────────────────────────────────────────

    def _gone(self, job: StoredJob) -> None:
        """Its turn was deleted, or another process has scored it."""
        self._done([job.conversation])

    async def _work(self) -> None:
        async for jobs in self._jobs.parts():
            await self._score(jobs)

    async def _score(self, waiting: Sequence[Job]) -> None:
        ready = await self._trees.ready(waiting)
        if not ready:
            return
        jobs = [job for job, _ in ready]
        evidence = [None if job.bound else self._spans.evidence(job.turn) for job in jobs]  # merged into those already
        outcome = await self._executor.score(
            [
                ToScore(job, seen, await self._history(job.stored), tree)
                for (job, tree), seen in zip(ready, evidence, strict=True)
            ]
        )
        if not self._scores:
            for job, seen in zip(jobs, evidence, strict=True):
                self._spans.scored(job, seen)
            turns = [self._privacy.stored(turn) for turn, _ in outcome]
            settled = partial(self._loop.call_soon_threadsafe, self._count_down, len(turns))
            self._store.settle(turns, settled)
            self._again.difference_update(job.turn_id for job in jobs)
            return
        scored: list[Scored] = []
        reported: list[ScoredTurn] = []
        for job, seen, (turn, results) in zip(jobs, evidence, outcome, strict=True):
            merged = None if turn is job.redacted and not job.bound else self._privacy.stored(turn)
            reported.append(self._scored(job, merged or job.stored, results, seen))
            scored.append(Scored(turn.turn_id, _with_kept(job.kept, results), merged))
        self._listener.scored(reported)
        conversations, left = [job.conversation for job in jobs], [job.left for job in jobs if job.left is not None]
        done = partial(self._loop.call_soon_threadsafe, self._done, conversations, left)
        self._store.finish(scored, done)
        self._again.difference_update(job.turn_id for job in jobs)

    async def _history(self, turn: Turn) -> list[TurnJson]:
        """The turns before it, where an evaluator may use them; cheap ones do not."""
        if not self._scores or self._scorer.evaluators(turn.case_id).is_cheap:
            return []
        try:
            read = partial(self._store.earlier, turn, MAX_HISTORY, self._agent_name)
            earlier = await once_readable(self._store, read, StoreUnreachableError)
        except Exception as error:  # noqa: BLE001  # error boundary: an unreadable store costs the turn its context
            logger.error("the turns before %s could not be read: %s", turn.turn_id, error)
            return []
        return [self._privacy.stored_turn(item) for item in earlier if not lacks_content(item["user_text"])]

    def _scored(self, job: Job, turn: Turn, results: Results, used: Evidence | None) -> ScoredTurn:
        """A turn has its results, with the evidence `used`; returns what listeners get."""
        metrics = self._metrics
        if not job.late:
            for call in turn.tool_calls:
                metrics.calls[str(call.source)] += 1
        if turn.findings:
            counted = _codes(found for found in job.turn.findings if job.late or found.code != NO_CAPTURE)
            metrics.findings += _codes(turn.findings) - counted
        metrics.count_results(results, self._agent_name)
        if not job.bound:  # spans are merged into the turn as it was captured
            self._spans.scored(job, used)
        return turn, results, job.late

    def _done(self, conversations: Sequence[ConversationKey | None], left: Sequence[ConversationKey] = ()) -> None:
        """Turns of these conversations, one each, are scored and stored; they were in those that they `left`."""
        for conversation in (*conversations, *left):
            if conversation is not None:
                self._conversations.arrived(conversation)
        self._metrics.turns_scored += len(conversations) if self._scores else 0
        self._count_down(len(conversations))

    def _job(self, views: TurnViews, *, ended: bool = False) -> Job:
        """`ended`: no further turn of its conversation is going to come."""
        redacted = views.redacted
        conversation = self._conversations.key(redacted, ended=ended)
        earlier = self._positions.next(redacted) if redacted.case_id else 0
        return Job(*views, earlier, conversation=conversation)

    def _set_out(self, jobs: Sequence[Job | StoredJob]) -> None:
        """Turns that were counted are going to be scored."""
        for job in jobs:
            if job.conversation is not None:
                self._conversations.set_out(job.conversation)

    def _score_again(self, jobs: list[Job]) -> None:
        """Score turns that are in the store."""
        if jobs:
            self._count_up(len(jobs))
            self._set_out(jobs)
            self._jobs.put([self._jobs.at_rest(job) for job in jobs])

    def _score_late(self, job: Job) -> Job | StoredJob:
        self._count_up(1)
        self._set_out([job])
        self._again.add(job.turn_id)
        return self._jobs.at_rest(job)

    def _conversations_done(self, scored: Sequence[ScoredConversation], taken: int) -> None:
        for conversation in scored:
            self._metrics.count_results(conversation.evaluations, self._agent_name)
            self._listener.conversation_scored(conversation)
        self._count_down(taken)

    def _count_up(self, count: int) -> None:
        if self._unfinished == 0:
            self._idle.clear()
        self._unfinished += count

    def _count_down(self, count: int) -> None:
        self._unfinished -= count
        if self._unfinished == 0:
            self._idle.set()


def _codes(findings: Iterable[Finding]) -> Counter[str]:
    return Counter(finding.code for finding in findings)


def _with_kept(kept: Sequence[dict[str, Any]], results: Results) -> Results:
    """`results`, after the earlier results of other evaluators."""
    new = {TURN_SUCCEEDED, *(result["evaluator"] for result in results)}
    return [*(result for result in kept if result["evaluator"] not in new), *results]
