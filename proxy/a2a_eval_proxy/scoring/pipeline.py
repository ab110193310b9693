"""Closed turns on their way: stored as pending, settled with traces, scored, stored as done. Beside the traffic."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from a2a_tool_capture import Finding
from tool_call_evaluators.turn_health import TURN_SUCCEEDED, turn_failure_of

from ..otlp.trace_service import Tracing
from ..privacy.content_removal import lacks_content
from ..privacy.policy import Privacy
from ..store import ConversationKey, Scored, ScoredConversation, Store, TurnQuery, every_turn
from ..telemetry.counters import Metrics
from ..telemetry.event_bus import EventBus
from ..telemetry.problem_log import ProblemLog
from ..traces.trace_book import Evidence
from ..turn import Turn
from .case_book import CaseBook
from .conversations import Conversations
from .executor import Job, ScoreFirst, Scoring, ScoringThread, StoredJob
from .job_queue import PAGE, JobQueue, ScoredJobs
from .scorer import Results, Scorer, TurnJson

logger = logging.getLogger(__name__)

_GATHER_S = 0.02
"""Under load, turns are handed to the store in batches this far apart; a lone turn goes at once."""

_LATE_S = 0.5
"""Late spans of a turn are gathered for so long before it is scored again."""

_REMEMBERED = 100_000

_LIVE_BYTES = 4 * 1024 * 1024
"""With more than that waiting for the store, turns wait as encoded text alone, and are read back to be scored."""

_UNREDACTED_BYTES = 32 * 1024 * 1024
"""Of turns that wait to be redacted."""

_UNREADABLE_BYTES = 32 * 1024 * 1024
"""Of turns that wait for the store and cannot be read back, since only their shapes are kept."""

_MOST_UNREDACTED = 10_000
"""Turns that wait to be redacted; more than that, and the machine does not keep up."""

_Views = tuple[Turn, Turn, Turn]
"""A turn as captured, as shown to evaluators, and as stored."""

MAX_HISTORY = 50
"""Turns before it that a turn is judged in the light of."""


class Pipeline:
    """Takes closed turns from the event loop; the store's thread commits them; another thread scores them.

    A case's conversation is scored as a whole when all its turns are done, and again when more come.

    A turn is pending in the store before it is scored, so a crash loses no stored turn: `resume` scores what an
    earlier process left pending. A turn's results are replaced as a whole, so scoring twice is harmless. Where
    scoring takes microseconds and no traces are awaited, it comes first: one write instead of two.
    """

    def __init__(
        self,
        store: Store,
        cases: CaseBook,
        scorer: Scorer | None,
        bus: EventBus,
        metrics: Metrics,
        tracing: Tracing | None = None,
        privacy: Privacy | None = None,
        scoring: Scoring | None = None,
    ) -> None:
        """`scoring` is done there, for `scorer`; None: in a thread of its own. It is closed with the pipeline."""
        self._store = store
        self._cases = cases
        self._scorer = scorer
        self._bus = bus
        self._metrics = metrics
        self._tracing = tracing
        self._privacy = privacy
        self._redacting = ThreadPoolExecutor(1, thread_name_prefix="redacting") if privacy is not None else None
        self._unredacted = 0
        self._unredacted_bytes = self._unreadable_bytes = 0
        self._redaction_behind = ProblemLog(logger, "redaction does not keep up: {count} turn(s) were dropped")
        self._store_behind = ProblemLog(logger, "the store does not keep up: {count} turn(s) were dropped")
        self.on_scored: Callable[[Turn, list[dict[str, Any]], bool], None] | None = None
        """Called with a scored turn, its results, and whether it was scored before; set by who wires telemetry.

        Must neither wait nor raise."""
        self.on_conversation_scored: Callable[[ScoredConversation], None] | None = None
        """The same for a conversation as a whole."""
        self._loop = asyncio.get_running_loop()
        self._closed: list[Turn] = []
        self._next_batch_at = 0.0
        self._settling: dict[str, tuple[Job | StoredJob, asyncio.TimerHandle]] = {}
        self._finished = ScoredJobs()
        self._readable = privacy is None or privacy.keeps_content
        """Whether the store has all that scoring needs of a turn."""
        self._jobs = JobQueue(store, readable=self._readable, on_read=self._publish_closed, on_gone=self._gone)
        self.moved: dict[str, str] = {}
        """The cases of rescored turns, by turn id, that were stored with another or none."""
        self._scoring: Scoring | None = None
        self._conversations: Conversations | None = None
        self._workers: list[asyncio.Task[None]] = []
        if scorer is not None:
            self._scoring = scoring = scoring or ScoringThread(scorer, privacy)
            self._conversations = Conversations(
                store, cases, scorer, scoring, self.moved, self._count_up, self._conversations_done, privacy
            )
            self._workers = [self._loop.create_task(work) for work in (self._work(scoring), self._conversations.work())]
        elif tracing is not None:
            self._scoring = ScoringThread(None, privacy)
            self._workers = [self._loop.create_task(self._work(self._scoring))]
        self._unfinished = 0
        self._idle = asyncio.Event()
        self._idle.set()
        store.on_ended = partial(self._loop.call_soon_threadsafe, self._idle.set)
        self._positions: OrderedDict[tuple[str, str, str], int] = OrderedDict()

    @property
    def depth(self) -> int:
        """Turns taken and not yet done."""
        return self._unfinished

    @property
    def store_ended(self) -> bool:
        """Whether no turn is stored any more; `drained` raises why."""
        return self._store.ended_by is not None

    def take(self, turn: Turn) -> None:
        """Take a closed turn. Called on the event loop; never waits, never raises for a slow store."""
        metrics = self._metrics
        metrics.turns_closed += 1
        for finding in turn.findings:
            metrics.findings[finding.code] += 1
        failure = turn_failure_of(turn.state, "", turn.findings)
        if failure is not None:
            metrics.turns_failed[failure.code] += 1
        if self._privacy is None:
            turn.case_id = self._cases.match(turn.case_id, turn.conversation_id, turn.user_text)
        self._count_up(1)
        self._closed.append(turn)
        if len(self._closed) == 1:
            self._loop.call_at(self._next_batch_at, self._hand_over)

    def keep_open(self, turn: Turn) -> bool:
        """Keep a turn in the store that is open still; whether it is taken. Never waits."""
        if self._privacy is None or self._redacting is None:
            return self._store.add([turn], _nothing)
        if self._unredacted >= _MOST_UNREDACTED:
            return False
        self._redacting.submit(self._keep_open_redacted, self._privacy, turn)
        return True

    def _keep_open_redacted(self, privacy: Privacy, turn: Turn) -> None:
        self._store.add([privacy.stored(privacy.shown(turn))], _nothing)

    async def written(self) -> None:
        """Returns when every turn taken so far is in the store."""
        if self._closed:
            await asyncio.sleep(2 * _GATHER_S)
        if self._redacting is not None:
            await self._loop.run_in_executor(self._redacting, _nothing)
        await self._store.drained()

    def evidence_changed(self, turn: Turn, tells: bool = True) -> None:
        """Spans came for a turn: settle it if they were the last to wait for, score it again if it is done.

        `tells` says whether any is about an agent's work; others change nothing in a turn that is done.
        """
        waiting = self._settling.get(turn.turn_id)
        if waiting is not None:
            job, timer = waiting
            if self._tracing is not None and self._tracing.complete(turn):
                timer.cancel()
                self._settle(job)
        elif tells and (job_done := self._finished.take(turn.turn_id)):
            self._count_up(1)
            job = self._jobs.at_rest(replace(job_done, late=True))
            self._set_out([job])
            self._settling[turn.turn_id] = (job, self._loop.call_later(_LATE_S, self._settle, job))

    async def resume(self, run: str | None = None) -> int:
        """Score what is pending in the store from before, or in one run of it; returns how many turns that were.

        In a shared store without a run: none, since what is pending may be on its way in another process.
        """
        if self._conversations is None or (self._store.shared and run is None):
            return 0
        for key, count in (await self._store.positions(_REMEMBERED)).items():
            self._positions[key] = self._positions.get(key, 0) + count  # turns may have come before the store was there
        for _, case_id, conversation_id in self._positions:
            self._cases.remember(conversation_id, case_id)
        total = 0
        jobs: list[Job] = []
        async for item in every_turn(self._store, TurnQuery(run=run, status="pending"), PAGE):
            turn = Turn.from_dict(item)
            jobs.append(self._job(turn, turn, turn))
            total += 1
            if len(jobs) == PAGE:
                self._score_again(jobs)
                jobs = []
        self._score_again(jobs)
        await self._conversations.resume(run, _REMEMBERED)
        return total

    @asynccontextmanager
    async def rescoring(self) -> AsyncIterator[Callable[[Iterable[TurnJson]], None]]:
        """A function to which stored turns are given, oldest first, to be scored again with the cases they match now.

        A turn belongs to the case that it was stored with, where there is such a case, else to the one with its text;
        `moved` tells, the store keeps what it has. Results by other evaluators stay. At the end of the block
        conversations are scored, those without a case too: no more is going to come.
        """
        if self._conversations is None:
            raise RuntimeError("a pipeline without a scorer cannot score again")
        self._conversations.hold()
        yield self._rescore
        await self.drained()
        self._conversations.release()
        await self.drained()

    def _rescore(self, items: Iterable[TurnJson]) -> None:
        jobs = []
        for item in items:
            turn = Turn.from_dict(dict(item))
            known = turn.case_id if turn.case_id and self._cases.case(turn.case_id) else None
            case_id = self._cases.match(known, turn.conversation_id, turn.user_text)
            if case_id is not None and case_id != turn.case_id:
                turn.case_id = self.moved[turn.turn_id] = case_id
            shown = turn if self._privacy is None else self._privacy.shown(turn)
            job = self._job(turn, shown, turn, ended=True)
            jobs.append(replace(job, late=item["status"] == "done", kept=item["evaluations"]))
        self._score_again(jobs)

    async def drained(self) -> None:
        """Returns when every turn taken so far is done (or, without evaluation, stored).

        Raises what ended the scoring, where that was lost, and StoreError where the store writes nothing more."""
        if self._store.ended_by is not None:
            self._idle.set()
        idle = self._loop.create_task(self._idle.wait())
        try:
            ended, _ = await asyncio.wait({idle, *self._workers}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            idle.cancel()
        for task in ended - {idle}:
            task.result()
        if self._store.ended_by is not None:
            raise self._store.ended_by

    async def close(self) -> None:
        """Stop scoring; what is not done stays pending in the store."""
        for _, timer in self._settling.values():
            timer.cancel()
        for worker in self._workers:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)
        if self._scoring is not None:
            await asyncio.to_thread(self._scoring.close)
        if self._redacting is not None:
            await asyncio.to_thread(self._redacting.shutdown)
        for problem in (self._redaction_behind, self._store_behind):
            problem.close()

    # ── on the event loop ───────────────────────────────────────────────────────────────────────────────

    def _hand_over(self) -> None:
        self._next_batch_at = self._loop.time() + _GATHER_S
        turns, self._closed = self._closed, []
        if self._privacy is None or self._redacting is None:
            self._keep([(turn, turn, turn) for turn in turns])
        elif self._unredacted + len(turns) > _MOST_UNREDACTED:
            self._drop(len(turns), self._redaction_behind)
        else:
            self._unredacted += len(turns)
            redacting = self._redacting.submit(_redacted, self._privacy, turns)
            redacting.add_done_callback(lambda done: self._loop.call_soon_threadsafe(self._redacted, done.result()))

    def _redacted(self, found: list[tuple[_Views, str | None]]) -> None:
        """Turns come back from redaction. Their cases go by the words that were said, and by ids that are hashed."""
        self._unredacted -= len(found)
        for (turn, shown, stored), named in found:
            known = turn.case_id if turn.case_id and self._cases.case(turn.case_id) else named
            case_id = self._cases.match(known, shown.conversation_id, turn.user_text)
            turn.case_id = shown.case_id = stored.case_id = case_id
        self._keep([views for views, _ in found])

    def _keep(self, views: list[_Views]) -> None:
        """Closed turns, as captured, as shown and as stored, go to the store and to be scored."""
        stored = [view[2] for view in views]
        live = [self._job(*view) for view in views] if self._scoring is not None else []
        jobs: Sequence[Job | StoredJob] = live
        held = self._held(stored)
        first = None
        size = 0
        tight = self._store.health.waiting_bytes > _LIVE_BYTES
        if tight and self._readable:
            jobs = [job.stored_only() for job in live]
        elif self._scorer is not None and self._scorer.swift and not (self._tracing and self._tracing.heard):
            first = ScoreFirst(self._scorer, live, self._privacy)
            size = sum(job.size for job in live) if tight else 0
        told = () if tight else stored
        committed = partial(
            self._loop.call_soon_threadsafe, self._committed, len(stored), told, jobs, held, first, size
        )
        if self._unreadable_bytes + size <= _UNREADABLE_BYTES and self._store.add(
            stored, partial(self._loop.call_soon_threadsafe, committed), first, held
        ):
            self._unreadable_bytes += size
            self._set_out(jobs)
        else:
            self._drop(len(stored), self._store_behind)

    def _drop(self, count: int, problem: ProblemLog) -> None:
        self._metrics.turns_dropped += count
        problem.seen(count)
        self._count_down(count)

    def _held(self, turns: list[Turn]) -> set[str]:
        """The ids of those that others are to score, when what traces tell of them is merged in."""
        tracing = self._tracing
        if self._scorer is not None or tracing is None:
            return set()
        return {turn.turn_id for turn in turns if tracing.wait_s(turn) > 0 or tracing.evidence(turn) is not None}

    def _committed(
        self,
        count: int,
        told: Sequence[Turn],
        jobs: Sequence[Job | StoredJob],
        held: set[str],
        first: ScoreFirst | None,
        size: int,
    ) -> None:
        """So many turns are in the store; live events tell of those in `told` now."""
        self._unreadable_bytes -= size
        for turn in told:
            self._publish_closed(turn)
        if self._scoring is None:
            self._count_down(count)
            return
        ready: list[Job | StoredJob] = []
        done: list[Job | StoredJob] = []
        for job in jobs:
            if isinstance(job, Job) and first is not None and (results := first.results.get(job.turn_id)) is not None:
                self._scored(job, job.stored, results, None)
                done.append(job)
            elif self._scorer is None and job.turn_id not in held:
                if isinstance(job, Job):
                    self._look_again(job, None)
                done.append(job)
            elif (wait_s := self._wait_s(job)) > 0:
                at_rest = self._jobs.at_rest(job)
                self._settling[job.turn_id] = (at_rest, self._loop.call_later(wait_s, self._settle, at_rest))
            else:
                ready.append(self._jobs.at_rest(job))
        if ready:
            self._jobs.put(ready)
        self._done([job.conversation for job in done])

    def _wait_s(self, job: Job | StoredJob) -> float:
        """Seconds it should still wait for spans. One that waited for the store has waited long enough."""
        return self._tracing.wait_s(job.turn) if self._tracing is not None and isinstance(job, Job) else 0.0

    def _publish_closed(self, turn: Turn) -> None:
        if self._bus.listened:
            self._bus.publish("turn.closed", {**turn.to_dict(), "evaluations": []})

    def _gone(self, job: StoredJob) -> None:
        """Its turn was deleted, or another process has scored it."""
        self._done([job.conversation])

    def _settle(self, job: Job | StoredJob) -> None:
        self._settling.pop(job.turn_id, None)
        self._jobs.put([job])

    async def _work(self, scoring: Scoring) -> None:
        async for jobs in self._jobs.parts():
            await self._score(scoring, jobs)

    async def _score(self, scoring: Scoring, jobs: list[Job]) -> None:
        evidence = [self._tracing.evidence(job.turn) if self._tracing is not None else None for job in jobs]
        histories = [await self._history(job.stored) for job in jobs]
        outcome = await scoring.score(list(zip(jobs, evidence, histories, strict=True)))
        if self._scorer is None:
            for job, seen in zip(jobs, evidence, strict=True):
                self._look_again(job, seen)
            turns = [self._stored(turn) for turn, _ in outcome]
            self._store.settle(turns, partial(self._loop.call_soon_threadsafe, self._count_down, len(turns)))
            return
        scored = []
        for job, seen, (turn, results) in zip(jobs, evidence, outcome, strict=True):
            merged = None if turn is job.shown else self._stored(turn)
            self._scored(job, merged or job.stored, results, seen)
            scored.append(Scored(turn.turn_id, _with_kept(job.kept, results), merged))
        conversations = [job.conversation for job in jobs]
        self._store.finish(scored, partial(self._loop.call_soon_threadsafe, self._done, conversations))

    async def _history(self, turn: Turn) -> list[TurnJson]:
        """The turns before it, where an evaluator may want to know them: built-in ones that compute do not."""
        if self._scorer is None or self._scorer.evaluators(turn.case_id).swift:
            return []
        try:
            earlier = await self._store.earlier(turn, MAX_HISTORY)
        except Exception as error:  # noqa: BLE001  # the wall: a store that cannot be read costs the turn its context
            logger.error("the turns before %s could not be read: %s", turn.turn_id, error)
            return []
        if self._privacy is None:
            return list(earlier)
        return [self._privacy.stored_turn(item) for item in earlier if not lacks_content(item["user_text"])]

    def _stored(self, turn: Turn) -> Turn:
        return turn if self._privacy is None else self._privacy.stored(turn)

    def _scored(self, job: Job, turn: Turn, results: list[dict[str, Any]], seen: Evidence | None) -> None:
        """A turn has its results; `seen` is the evidence that they rest on."""
        self._count(job, turn, results)
        if self.on_scored is not None:
            self.on_scored(turn, results, job.late)
        if self._bus.listened:
            self._bus.publish("turn.done", {**turn.to_dict(), "status": "done", "evaluations": results})
        self._look_again(job, seen)

    def _look_again(self, job: Job, seen: Evidence | None) -> None:
        """Spans that come late, or came while it was scored, settle the turn anew."""
        if self._tracing is not None:
            self._remember(job)
            now_there = self._tracing.evidence(job.turn)
            if now_there is not None and now_there.size > (seen.size if seen is not None else 0):
                self.evidence_changed(job.turn)  # more came while it was scored

    def _count(self, job: Job, turn: Turn, results: list[dict[str, Any]]) -> None:
        metrics = self._metrics
        if not job.late:
            for call in turn.tool_calls:
                metrics.calls[str(call.source)] += 1
        if turn is not job.stored:  # traces were merged into it
            metrics.findings += _codes(turn.findings) - _codes(job.turn.findings)
        metrics.count_results(results)

    def _remember(self, job: Job) -> None:
        """Late spans may make it necessary to score this turn again."""
        self._finished.put(job)

    def _done(self, conversations: Sequence[ConversationKey | None]) -> None:
        """So many turns are done, of these conversations."""
        if self._conversations is not None:
            for conversation in conversations:
                self._conversations.arrived(conversation)
        self._metrics.turns_scored += len(conversations) if self._scorer is not None else 0
        self._count_down(len(conversations))

    def _job(self, turn: Turn, shown: Turn, stored: Turn, *, ended: bool = False) -> Job:
        """The views are Job's. `ended` says that nothing more will come of its conversation."""
        conversation = self._conversations.key(shown, ended=ended) if self._conversations is not None else None
        return Job(turn, shown, stored, self._position(shown), conversation=conversation)

    def _set_out(self, jobs: Sequence[Job | StoredJob]) -> None:
        """Turns are on their way to be scored, which have been counted."""
        if self._conversations is not None:
            for job in jobs:
                self._conversations.set_out(job.conversation)

    def _score_again(self, jobs: list[Job]) -> None:
        """Turns that are stored already go to be scored."""
        if jobs:
            self._count_up(len(jobs))
            self._set_out(jobs)
            self._jobs.put([self._jobs.at_rest(job) for job in jobs])

    def _conversations_done(self, scored: Sequence[ScoredConversation], taken: int) -> None:
        for conversation in scored:
            self._metrics.count_results(conversation.evaluations)
            if self.on_conversation_scored is not None:
                self.on_conversation_scored(conversation)
            if self._bus.listened:
                said = {**conversation.key._asdict(), "evaluations": conversation.evaluations}
                self._bus.publish("conversation.done", said)
        self._count_down(taken)

    def _count_up(self, count: int) -> None:
        self._unfinished += count
        self._idle.clear()

    def _count_down(self, count: int) -> None:
        self._unfinished -= count
        if self._unfinished == 0:
            self._idle.set()

    def _position(self, turn: Turn) -> int:
        """How many earlier turns this conversation had in its case, in this run."""
        if not turn.case_id or not turn.conversation_id:
            return 0
        key = (turn.run, turn.case_id, turn.conversation_id)
        position = self._positions.get(key, 0)
        self._positions[key] = position + 1
        self._positions.move_to_end(key)
        if len(self._positions) > _REMEMBERED:
            self._positions.popitem(last=False)
        return position


def _nothing() -> None:
    pass


def _redacted(privacy: Privacy, turns: Iterable[Turn]) -> list[tuple[_Views, str | None]]:
    """The views of each turn, and the case that its client named."""
    found = []
    for turn in turns:
        shown = privacy.shown(turn)
        found.append(((turn, shown, privacy.stored(shown)), turn.case_id and privacy.identifier(turn.case_id)))
    return found


def _codes(findings: Iterable[Finding]) -> Counter[str]:
    return Counter(finding.code for finding in findings)


def _with_kept(kept: Sequence[dict[str, Any]], results: Results) -> Results:
    """`results`, and of the results there were before those of other evaluators."""
    new = {TURN_SUCCEEDED, *(result["evaluator"] for result in results)}
    return [*(result for result in kept if result["evaluator"] not in new), *results]
