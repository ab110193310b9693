"""The `worker` command: works until SIGTERM or SIGINT.

The job engine, procrastinate, fetches jobs, tries them again, and takes over those of workers that died.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any

import click
import procrastinate
import psycopg
from procrastinate.exceptions import ProcrastinateException
from procrastinate.jobs import Job, Status
from procrastinate.worker import Worker
from tool_call_evaluators.texts import counted, one_line

from ..admin.api import worker_app
from ..admin.tokens import AdminTokens
from ..children import stop_signal
from ..net.client_limits import operator_limits
from ..net.file_watcher import FileWatch
from ..net.http_server import HttpServer
from ..net.tls import TlsFiles, server_tls
from ..privacy.policy import together
from ..settings.settings import AdminPortOptions
from ..settings.store_url import masked_url
from ..settings.worker_options import WorkerOptions
from ..store import StoreError
from ..store.postgres.store import PostgresStore
from ..store.postgres.work import QUEUE, TASK, WorkStore
from ..telemetry.counters import SCORED, Metrics, Source
from ..telemetry.logs import LOG_LINE, start_logging
from ..telemetry.prometheus import BacklogWatch, process_registry
from .agents import WorkerAgents
from .job_scorer import JobScorer

logger = logging.getLogger(__name__)

MAX_ATTEMPTS = 10
_LONGEST_WAIT_S = 300
_RECONNECT_S = 2.0
_SIGN_OF_LIFE_S = 20.0  # longest time between two: `WORKER_ALIVE_S` counts on it
AWAY = (ProcrastinateException, psycopg.Error, StoreError, OSError)
"""Raised for an unreachable database, or a job that does not exist any more."""


class _Backoff(procrastinate.BaseRetryStrategy):
    """Waits 2, 4, 8 ... seconds, at most 300, and gives up after 10 attempts."""

    def get_retry_decision(self, *, exception: BaseException, job: Job) -> procrastinate.RetryDecision | None:
        if job.attempts + 1 >= MAX_ATTEMPTS:
            return None
        return procrastinate.RetryDecision(retry_in={"seconds": min(2 ** (job.attempts + 1), _LONGEST_WAIT_S)})


class _Worker(Worker):
    """Stops when its listener or its sign of life fails.

    Procrastinate watches these tasks until the first of them ends. The task that queues periodic jobs ends at once
    if there is no such job, and a worker without signs of life would continue while others take over its jobs.
    """

    async def _periodic_deferrer(self) -> None:
        await asyncio.Event().wait()


class Engine:
    """Runs jobs of one database until it is cancelled. A database that goes away is waited for."""

    def __init__(
        self, options: WorkerOptions, work: WorkStore, score: Callable[[Sequence[str]], Awaitable[int]]
    ) -> None:
        self._work = work
        self._options = options
        connector = procrastinate.PsycopgConnector(conninfo=options.store, min_size=1, max_size=4, timeout=10.0)
        self._app = procrastinate.App(connector=connector)
        self.scored = 0  # turns so far
        self._away = False  # whether the unreachable database was logged, so that it is logged once
        self._connected = False

        @self._app.task(name=TASK, queue=QUEUE, retry=_Backoff())
        async def score_turns(turn_ids: list[str]) -> None:
            try:
                scored = await score(turn_ids)
                self.scored += scored  # jobs run at the same time
            except AWAY:  # `run` logs it, once
                raise
            except Exception:
                logger.exception("%d turn(s) could not be scored; they are tried again later", len(turn_ids))
                raise

    async def run(self) -> None:
        """Work until cancelled; then jobs that are under way may end."""
        while True:
            try:
                await self._queue_abandoned()  # fails at once; the pool of connections tries less and less often
                await self._run_while_connected()
            except AWAY as error:
                self._lost(error)
            else:
                logger.warning("a connection of the job engine failed; it starts again")
            await asyncio.sleep(_RECONNECT_S)

    async def _run_while_connected(self) -> None:
        """Run until the job engine stops, which it does when one of its connections fails. Raises `AWAY`.

        Its tasks are asked to end as well as cancelled: before Python 3.12 `asyncio.wait_for`, on which the drivers
        rely, loses a cancellation that comes together with what it waits for.
        """
        async with self._app.open_async():
            worker, ended = self._worker(), asyncio.Event()
            working = asyncio.create_task(worker.run())  # type: ignore[no-untyped-call]
            tasks = [working, asyncio.create_task(self._recover_until(ended))]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                worker.stop()  # type: ignore[no-untyped-call]
                ended.set()
                for task in tasks:
                    task.cancel()
                outcomes = await asyncio.gather(*tasks, return_exceptions=True)
            for outcome in outcomes:
                if isinstance(outcome, Exception):
                    raise outcome

    def _worker(self) -> Worker:
        options = self._options
        return _Worker(
            self._app,
            queues=[QUEUE],
            concurrency=options.concurrency,
            delete_jobs="successful",
            install_signal_handlers=False,
            shutdown_graceful_timeout=options.timeouts.shutdown,
            update_heartbeat_interval=min(options.stalled_after / 3, _SIGN_OF_LIFE_S),
            stalled_worker_timeout=options.stalled_after,
        )

    async def _recover_until(self, ended: asyncio.Event) -> None:
        while not ended.is_set():
            try:
                await self._queue_abandoned()
                await self._hand_on_jobs()
            except AWAY as error:
                self._lost(error)  # now: the worker takes its time to end
                raise
            self._found()
            await asyncio.sleep(self._options.stalled_after / 3)

    async def _queue_abandoned(self) -> None:
        queued = await self._work.queue_abandoned()
        if queued:
            logger.warning("%d abandoned pending turn(s) were queued for scoring", queued)

    async def _hand_on_jobs(self) -> None:
        jobs = self._app.job_manager
        stalled = await jobs.get_stalled_jobs(queue=QUEUE, seconds_since_heartbeat=self._options.stalled_after)
        for job in stalled:
            try:
                if job.attempts + 1 >= MAX_ATTEMPTS:
                    logger.error("job %s has failed: %d workers died over it", job.id, MAX_ATTEMPTS)
                    await jobs.finish_job(job, Status.FAILED, delete_job=False)
                else:
                    logger.warning("job %s is tried again: its worker gave no sign of life", job.id)
                    await jobs.retry_job(job)
            except ProcrastinateException as error:  # another worker was quicker
                logger.debug("job %s: %s", job.id, error)

    def problems(self) -> list[str]:
        """Why it takes no jobs; [] while it does."""
        if self._connected:
            return []
        return ["the database cannot be reached" if self._away else "the worker is connecting"]

    def _lost(self, error: BaseException) -> None:
        if not self._away:
            logger.error("the database cannot be reached: %s; trying again", _reason(error))
            self._away = True
        self._connected = False

    def _found(self) -> None:
        if self._away:
            logger.info("the database can be reached again")
            self._away = False
        self._connected = True


def _reason(error: BaseException) -> str:
    """The engine wraps the errors of its driver and says nothing itself; ours say it all."""
    told = error if isinstance(error, StoreError) else error.__cause__ or error
    return one_line(str(told), 300)


_GOODBYE_S = 5.0  # time for the engine to report to the database that this worker ends


async def work_until_stopped(settings: WorkerOptions) -> None:
    """Score what is pending, and what comes, until the first signal; then end what is under way.

    Raises SuiteError, StoreError, ConfigError or ListenError.
    """
    every = (settings, *settings.each_agent.values())
    start_logging("info", LOG_LINE, together(one.privacy() for one in every))
    logging.getLogger("procrastinate").setLevel(logging.WARNING)  # else a line for each job
    # `Engine` logs an unreachable database, once.
    for name in ("procrastinate.utils", "procrastinate.worker.worker", "psycopg.pool"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    asyncio.get_running_loop().set_exception_handler(log_lost_task)
    store = PostgresStore(settings.store)
    try:
        metrics = Metrics()
        agents = WorkerAgents(store, settings, settings.each_agent)
        scorer = JobScorer(store, agents, metrics)
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
            await asyncio.wait({working}, timeout=settings.timeouts.shutdown + _GOODBYE_S)
            if working.done() and not working.cancelled():
                working.result()  # raises the error that ended it: the engine itself ends by no other way
        click.echo(f"a2a-eval-proxy worker stopped: {engine.scored} turns scored", err=True)
    finally:
        await asyncio.to_thread(store.close)
    await _end_tasks()


async def _end_tasks() -> None:
    """Cancel what the engine left running; where that does not end it, end the process.

    A driver that waits for a database which does not answer outlasts its cancellation, and would hold up the end of
    the event loop.
    """
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    if left and (await asyncio.wait(left, timeout=_GOODBYE_S))[1]:
        click.echo("a2a-eval-proxy worker: the database does not answer; jobs under way go to other workers", err=True)
        sys.stdout.flush()
        os._exit(0)


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


def log_lost_task(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """One line for what the job engine leaves behind in its own tasks, as for a job that another worker took over.

    The engine awaits some of its tasks only where the worker ends in order; `Engine` recovers what they were to do.
    """
    error = context.get("exception")
    if "never retrieved" in context["message"] and isinstance(error, AWAY):
        logger.warning("a job was left to other workers: %s", _reason(error))
    else:
        loop.default_exception_handler(context)
