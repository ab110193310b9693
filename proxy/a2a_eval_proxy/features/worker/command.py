"""The `worker` command: works until SIGTERM or SIGINT.

It takes jobs, tries them again, and takes over those of workers that died.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, suppress

import click
from tool_call_evaluators.texts import counted, one_line

from ...admin.api import worker_app
from ...admin.guard import AdminTokens
from ...net.client_limits import operator_limits
from ...net.file_watcher import FileWatch
from ...net.http_server import HttpServer
from ...net.tls import TlsFiles, server_tls
from ...privacy.policy import together
from ...settings.parts import AdminPortOptions
from ...settings.store_url import masked_url
from ...signals import stop_signal
from ...store import StoreError
from ...store.postgres.store import PostgresStore
from ...store.postgres.work import MOST_TRIES, Job, WorkStore
from ...telemetry.counters import SCORED, Metrics, Source
from ...telemetry.logs import LOG_LINE, start_logging
from ...telemetry.prometheus import BacklogWatch, process_registry
from .job_scorer import JobScorer, WorkerAgents
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
