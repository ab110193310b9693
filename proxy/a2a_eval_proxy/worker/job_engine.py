"""The job engine, procrastinate: fetches jobs, tries them again, and takes over those of workers that died."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import procrastinate
import psycopg
from procrastinate.exceptions import ProcrastinateException
from procrastinate.jobs import Job, Status

from ..store import StoreError
from ..store.postgres.jobs import QUEUE, TASK
from ..store.postgres.work import WorkStore

logger = logging.getLogger(__name__)

MAX_ATTEMPTS = 10
_LONGEST_WAIT_S = 300
_RECONNECT_S = 2.0
_SIGN_OF_LIFE_S = 20.0
"""Longest time between two: `WORKER_ALIVE_S` counts on it."""

AWAY = (ProcrastinateException, psycopg.Error, StoreError, OSError)
"""Raised for an unreachable database, or a job that does not exist any more."""


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """`concurrency` jobs at once; a worker that gives no sign of life for `stalled_after_s` counts as dead; a job
    that is under way when the worker is stopped may take `grace_s` more."""

    concurrency: int = 4
    stalled_after_s: float = 30.0
    grace_s: float = 20.0


class _Backoff(procrastinate.BaseRetryStrategy):
    """Waits 2, 4, 8 ... seconds, at most 300, and gives up after 10 attempts."""

    def get_retry_decision(self, *, exception: BaseException, job: Job) -> procrastinate.RetryDecision | None:
        if job.attempts + 1 >= MAX_ATTEMPTS:
            return None
        return procrastinate.RetryDecision(retry_in={"seconds": min(2 ** (job.attempts + 1), _LONGEST_WAIT_S)})


class Engine:
    """Runs jobs of one database until it is cancelled. A database that goes away is waited for."""

    def __init__(
        self, url: str, work: WorkStore, score: Callable[[Sequence[str]], Awaitable[int]], options: EngineOptions
    ) -> None:
        self._work = work
        self._options = options
        connector = procrastinate.PsycopgConnector(conninfo=url, min_size=1, max_size=4, timeout=10.0)
        self._app = procrastinate.App(connector=connector)
        self.scored = 0
        """Turns so far."""
        self._away = False
        """Whether the unreachable database was logged, so that it is logged once."""
        self._connected = False

        @self._app.task(name=TASK, queue=QUEUE, retry=_Backoff())
        async def score_turns(turn_ids: list[str]) -> None:
            scored = await score(turn_ids)
            self.scored += scored

    async def run(self) -> None:
        """Work until cancelled; then jobs that are under way may end."""
        while True:
            try:
                await self._run_while_connected()
            except AWAY as error:
                # On its way out the engine says goodbye to the database; if that fails, the error is in place of the
                # cancellation.
                task = asyncio.current_task()
                if task is not None and task.cancelling():
                    raise asyncio.CancelledError from error
                self._lost(error)
            await asyncio.sleep(_RECONNECT_S)  # without error, too: the engine stops when it loses its connection

    async def _run_while_connected(self) -> None:
        options = self._options
        async with self._app.open_async():
            recovering = asyncio.create_task(self._recover_forever())
            try:
                await self._app.run_worker_async(
                    queues=[QUEUE],
                    concurrency=options.concurrency,
                    delete_jobs="successful",
                    install_signal_handlers=False,
                    shutdown_graceful_timeout=options.grace_s,
                    update_heartbeat_interval=min(options.stalled_after_s / 3, _SIGN_OF_LIFE_S),
                    stalled_worker_timeout=options.stalled_after_s,
                )
            finally:
                recovering.cancel()
                await asyncio.gather(recovering, return_exceptions=True)

    async def _recover_forever(self) -> None:
        while True:
            try:
                await self._recover()
            except AWAY as error:
                self._lost(error)
            else:
                self._found()
            await asyncio.sleep(self._options.stalled_after_s / 3)

    async def _recover(self) -> None:
        """Hand on the jobs of workers that died, and queue turns that have none."""
        jobs = self._app.job_manager
        stalled = await jobs.get_stalled_jobs(queue=QUEUE, seconds_since_heartbeat=self._options.stalled_after_s)
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
        queued = await self._work.queue_abandoned()
        if queued:
            logger.warning("%d abandoned pending turn(s) were queued for scoring", queued)

    def problems(self) -> list[str]:
        """Why it takes no jobs; [] while it does."""
        if self._connected:
            return []
        return ["the database cannot be reached" if self._away else "the worker is connecting"]

    def _lost(self, error: BaseException) -> None:
        if not self._away:
            logger.error("the database cannot be reached: %s; trying again", one_line(error))
            self._away = True
        self._connected = False

    def _found(self) -> None:
        if self._away:
            logger.info("the database can be reached again")
            self._away = False
        self._connected = True


def one_line(error: BaseException) -> str:
    """The engine wraps the errors of its driver and says nothing itself; ours say it all."""
    told = error if isinstance(error, StoreError) else error.__cause__ or error
    return " ".join(str(told).split())[:300]
