"""The `worker` command: works until SIGTERM or SIGINT.

It takes jobs, tries them again, and takes over those of workers that died. Of a job it scores the turns of each agent
by the settings that this has, and the conversations that are over with them.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from itertools import groupby
from typing import Any, NamedTuple

import click
from tool_call_evaluators.judge.budget import JudgeBudget
from tool_call_evaluators.outcomes.conversations import agent_of_conversation
from tool_call_evaluators.texts import counted, one_line

from ...admin.api import worker_app
from ...admin.guard import AdminTokens
from ...net.client_limits import operator_limits
from ...net.file_watcher import FileWatch
from ...net.http_server import HttpServer
from ...net.tls import TlsFiles, server_tls
from ...privacy.policy import together
from ...scoring.agent_scoring import Scoring, Scorings, judge_budget
from ...scoring.case_book import CaseBook
from ...scoring.conversations import turns_of_conversation
from ...scoring.evidence import awaited_tree, trees_read_by
from ...scoring.scorer import MAX_EARLIER, Results, TurnJson
from ...settings.parts import AdminPortOptions, ScoringOptions
from ...settings.store_url import masked_url
from ...signals import stop_signal
from ...store import ConversationKey, Scored, ScoredConversation, Store, StoreError
from ...store.postgres.store import PostgresStore
from ...store.postgres.work import MOST_TRIES, Claim, Job, WorkStore
from ...telemetry.counters import SCORED, Metrics, Source
from ...telemetry.logs import LOG_LINE, start_logging
from ...telemetry.prometheus import BacklogWatch, process_registry
from ...turn import Turn
from .options import WorkerOptions

logger = logging.getLogger(__name__)

_POLL_S = 0.25  # how long a job may wait that nobody announces
_LONGEST_WAIT_S = 300
_RECONNECT_S = 2.0
_SIGN_OF_LIFE_S = 10.0  # longest time between two: `WORKER_ALIVE_S` counts on it
_GOODBYE_S = 5.0  # time to report to the database that this worker ends
_AWAY = "the database cannot be reached"


class Engine:
    """Takes jobs of one database and has them scored until it is cancelled. A database that goes away is waited for.

    A job belongs to a worker as long as the worker puts off when it is due; one that is due again goes to any worker.
    """

    def __init__(
        self, options: WorkerOptions, work: WorkStore, score: Callable[[Sequence[str]], Awaitable[int]]
    ) -> None:
        self._work = work
        self._options = options
        self._score = score
        self._name = secrets.token_hex(8)
        self._running: dict[asyncio.Task[None], Job] = {}
        self._sign_at = 0.0
        """When the next sign of life is due."""
        self.scored = 0  # turns so far
        self._problem = "the worker is connecting"  # why it takes no jobs; "" while it does

    async def run(self) -> None:
        """Work until cancelled; then jobs that are under way may end."""
        try:
            while True:
                try:
                    await self._take_jobs()
                except StoreError as error:
                    self._lost(error)
                    await asyncio.sleep(_RECONNECT_S)
        finally:
            await self._end()

    async def _take_jobs(self) -> None:
        """Begin jobs for which there is room, and wait a moment. Raises StoreError."""
        options = self._options
        if time.monotonic() >= self._sign_at:
            await self._work.alive(self._name)
            await self._work.due_in(options.stalled_after, self._running.values())
            if queued := await self._work.queue_abandoned():
                logger.warning("%d abandoned pending turn(s) were queued for scoring", queued)
            self._sign_at = time.monotonic() + min(options.stalled_after / 3, _SIGN_OF_LIFE_S)
            self._found()
        if room := options.concurrency - len(self._running):
            for job in await self._work.take(room, options.stalled_after):
                if job.tries > 1:
                    logger.warning("job %d is tried again: it failed, or its worker gave no sign of life", job.id)
                task = asyncio.create_task(self._do(job))
                self._running[task] = job
                task.add_done_callback(self._running.pop)
            self._found()
        if self._running:
            await asyncio.wait(self._running, timeout=_POLL_S, return_when=asyncio.FIRST_COMPLETED)
        else:
            await asyncio.sleep(_POLL_S)

    async def _do(self, job: Job) -> None:
        try:
            scored = await self._score(job.turn_ids)
            self.scored += scored  # jobs run at the same time
            await self._work.done(job)
        except StoreError as error:  # the job is due again later
            self._lost(error)
        except Exception:  # one job ends no worker: it is due again later
            last = job.tries >= MOST_TRIES
            later = f"after {MOST_TRIES} tries, they stay pending" if last else "they are tried again later"
            logger.exception("%d turn(s) could not be scored; %s", len(job.turn_ids), later)
            with suppress(StoreError):
                await self._work.due_in(min(2**job.tries, _LONGEST_WAIT_S), [job])

    async def _end(self) -> None:
        """Wait for jobs that are under way, give back those that do not end, and take leave."""
        if self._running:
            await asyncio.wait(self._running, timeout=self._options.timeouts.shutdown)
        left = dict(self._running)
        for task in left:
            task.cancel()
        with suppress(StoreError, TimeoutError):
            async with asyncio.timeout(_GOODBYE_S):
                await self._work.due_in(0.0, left.values(), given_back=True)
                await self._work.ended(self._name)

    def problems(self) -> list[str]:
        """Why it takes no jobs; [] while it does."""
        return [self._problem] if self._problem else []

    def _lost(self, error: StoreError) -> None:
        if self._problem != _AWAY:
            logger.error("%s: %s; trying again", _AWAY, one_line(str(error), 300))
        self._problem = _AWAY

    def _found(self) -> None:
        if self._problem == _AWAY:
            logger.info("the database can be reached again")
        self._problem = ""


async def work_until_stopped(settings: WorkerOptions) -> None:
    """Score what is pending, and what comes, until the first signal; then end what is under way.

    Raises SuiteError, StoreError, ConfigError or ListenError.
    """
    start_logging("info", LOG_LINE, together(one.privacy() for one in (settings, *settings.each_agent.values())))
    store = PostgresStore(settings.store)
    try:
        metrics = Metrics()
        scorer = JobScorer(store, WorkerAgents(store, settings, settings.each_agent), metrics)
        engine = Engine(settings, store.work, scorer.score)
        stop = stop_signal()
        suite = f"suite {settings.suite}" if settings.suite else "no suite"
        of_agents = f", {counted(len(settings.agents), 'agent')}" if settings.agents else ""
        place, jobs = masked_url(settings.store), settings.concurrency
        ready = f"a2a-eval-proxy worker ready: store {place}, {suite}{of_agents}, {jobs} jobs at once"
        async with AsyncExitStack() as stack:
            watched = FileWatch()
            if settings.admin is not None:
                ready += f", admin {await _admin(stack, settings.admin, settings, engine, store, metrics, watched)}"
            watched.start()
            stack.push_async_callback(watched.close)
            working = asyncio.create_task(engine.run())
            stopping = asyncio.create_task(stop.wait())
            click.echo(ready)
            await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()
            working.cancel()
            await asyncio.wait({working}, timeout=settings.timeouts.shutdown + 2 * _GOODBYE_S)
            if working.done() and not working.cancelled():
                working.result()  # raises the error that ended it: the engine itself ends by no other way
        click.echo(f"a2a-eval-proxy worker stopped: {engine.scored} turns scored", err=True)
    finally:
        await asyncio.to_thread(store.close)


async def _admin(
    stack: AsyncExitStack,
    address: str,
    options: AdminPortOptions,
    engine: Engine,
    store: PostgresStore,
    metrics: Metrics,
    files: FileWatch,
) -> str:
    """The URL of the worker's port, which `stack` closes. Raises ConfigError or ListenError."""
    backlog = BacklogWatch(store.work.backlog)
    stack.callback(asyncio.create_task(backlog.watch()).cancel)
    registry = process_registry(Source(SCORED, lambda: metrics), backlog.source)
    tokens = AdminTokens(options.admin_token, options.metrics_token) if options.admin_token else None
    app = worker_app(registry, engine.problems, tokens)
    tls = server_tls(TlsFiles.of(*options.tls_of("admin")), files, "TLS of the admin port")
    server = HttpServer(app, address, setting="--admin", limits=operator_limits(), tls=tls)
    await server.open(stack)
    return server.url


class ScoredBy:
    """By what the turns of an agent with these settings are scored."""

    def __init__(self, scoring: Scoring, store: Store, budget: JudgeBudget | None) -> None:
        suite = scoring.cases.suite
        self.scoring = scoring
        self.scorer = scoring.scorer(store, budget)
        self.alone = self.scorer.evaluators(None).is_cheap and not (suite and suite.cases)
        """Whether the turns before it make no difference to any turn."""


class WorkerAgents:
    """The agents of the settings; turns of any other are scored by the common settings."""

    def __init__(
        self,
        store: Store,
        common: ScoringOptions,
        agents: Mapping[str, ScoringOptions],
    ) -> None:
        """Raises SuiteError, ConfigError."""
        self._store = store
        self._scorings = Scorings()
        self._common = self._made(None, common)
        self._agents = {name: self._made(name, settings) for name, settings in agents.items()}

    def of(self, agent_name: str | None) -> ScoredBy:
        return self._agents.get(agent_name or "", self._common)

    def known(self, agent_name: str | None) -> str | None:
        """The name of an agent, if the settings have it: others are no labels of metrics."""
        return agent_name if agent_name in self._agents else None

    def _made(self, name: str | None, settings: ScoringOptions) -> ScoredBy:
        budget = judge_budget(settings.judge_budget, name)
        return ScoredBy(self._scorings.of(settings), self._store, budget)


class _Placed(NamedTuple):
    """A turn in its case, and those before it in theirs."""

    by: ScoredBy
    turn: Turn
    earlier: Sequence[TurnJson]


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
        placed = await self._placed([claim.turn for claim in pending])
        groups: dict[str, list[tuple[_Placed, Claim]]] = {}
        for one, claim in zip(placed, pending, strict=True):
            # One that waits for its tree is stored for itself: the turns that caused it wait for that.
            alone = one.turn.turn_id if one.by.scorer.evaluators(one.turn.case_id).reads_trees else ""
            groups.setdefault(alone, []).append((one, claim))
        finished = sum(await asyncio.gather(*map(self._score_turns, groups.values())))
        cases = {one.turn.turn_id: one.turn.case_id for one in placed}
        for agent_name in dict.fromkeys(turn.get("agent_name") for turn, _ in found):
            of_agent = [turn for turn, _ in found if turn.get("agent_name") == agent_name]
            keys = [_key(turn, cases.get(turn["turn_id"], turn["case_id"])) for turn in of_agent]
            await self._score_conversations(agent_name, keys)
        return finished

    async def _score_turns(self, placed: Sequence[tuple[_Placed, Claim]]) -> int:
        results = await asyncio.gather(*(self._results(one) for one, _ in placed))
        scored = []
        for (one, claim), result in zip(placed, results, strict=True):
            merged = one.turn if one.turn.case_id != claim.turn["case_id"] else None
            scored.append((Scored(one.turn.turn_id, result, merged), claim))
        finished = await self._work.finish(scored)
        self._metrics.turns_scored += len(finished)
        for done, claim in scored:
            if done.turn_id in finished:
                self._metrics.count_results(done.evaluations, self._agents.known(claim.turn.get("agent_name")))
        return len(finished)

    async def _results(self, one: _Placed) -> Results:
        scorer = one.by.scorer
        reads_tree = scorer.evaluators(one.turn.case_id).reads_trees
        tree = await awaited_tree(self._store, one.turn, one.by.scoring.privacy) if reads_tree else None
        return await scorer.score(one.turn, one.earlier, tree)

    async def _placed(self, pending: Sequence[TurnJson]) -> list[_Placed]:
        by = {turn["turn_id"]: self._agents.of(turn.get("agent_name")) for turn in pending}
        alone = [turn for turn in pending if by[turn["turn_id"]].alone]
        placed = {turn["turn_id"]: _Placed(by[turn["turn_id"]], Turn.from_dict(dict(turn)), ()) for turn in alone}
        for conversation in await self._conversations([turn for turn in pending if turn["turn_id"] not in placed]):
            agent = next((by[turn["turn_id"]] for turn in conversation if turn["turn_id"] in by), None)
            if agent is None:  # only its id is that of a conversation with another agent
                continue
            in_cases = in_their_cases(agent.scoring.cases, conversation)
            for index, turn in enumerate(in_cases):
                if turn["turn_id"] in by:
                    placed[turn["turn_id"]] = _Placed(agent, Turn.from_dict(turn), in_cases[:index])
        return [placed[turn["turn_id"]] for turn in pending]

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
        looked_at = [key for key in dict.fromkeys(keys) if _is_scored_whole(by, key)]
        said = await self._work.said(looked_at) if looked_at else {}
        scored = []
        for key in looked_at:
            turns = await turns_of_conversation(key, self._store, by.scoring.privacy)
            if len(turns) > said.get(key, 0):
                results = await by.scorer.score_conversation(
                    turns, await trees_read_by(by.scorer, self._store, turns, by.scoring.privacy)
                )
                scored += [] if results is None else [ScoredConversation(key, len(turns), results)]
        if scored:
            await self._work.finish_conversations(scored)
            for conversation in scored:
                self._metrics.count_results(conversation.evaluations, self._agents.known(agent_name))


def _is_scored_whole(by: ScoredBy, key: ConversationKey) -> bool:
    """Whether it is scored as a whole: there is an evaluator for that, and its case defines its end."""
    return (
        by.scoring.cases.case(key.case_id or "") is not None
        and bool(key.conversation_id)
        and bool(by.scorer.evaluators(key.case_id).conversation)
    )


def _key(turn: TurnJson, case_id: str | None) -> ConversationKey:
    return ConversationKey(turn["run"], turn["conversation_id"], case_id, agent_of_conversation(turn))


def _conversation(turn: TurnJson) -> tuple[str, str, str]:
    return turn["run"], turn["conversation_id"], turn.get("agent_name") or ""


def in_their_cases(cases: CaseBook, conversation: Sequence[TurnJson]) -> list[dict[str, Any]]:
    """The turns of one conversation, given in order, each with its case; a turn without conversation is given alone.

    What comes out depends on these turns alone, not on what `cases` has seen before.
    """
    if conversation:
        cases.forget(conversation[0]["conversation_id"], conversation[0].get("agent_name"))
    return [
        {
            **turn,
            "case_id": cases.match(turn["case_id"], turn["conversation_id"], turn["user_text"], turn.get("agent_name")),
        }
        for turn in conversation
    ]
