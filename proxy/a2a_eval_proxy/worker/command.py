"""The `worker` command: works until SIGTERM or SIGINT."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import click
from tool_call_evaluators.importers import import_suites

from ..admin.api import worker_app
from ..children import stop_signal
from ..net.http_server import HttpServer
from ..net.ports import Ports
from ..privacy.policy import Privacy
from ..settings.store_url import masked_url
from ..store.postgres.store import PostgresStore
from ..telemetry.counters import SCORED, Metrics, Source
from ..telemetry.logs import LOG_LINE, start_logging
from ..telemetry.prometheus import BacklogWatch, process_registry
from .job_engine import AWAY, Engine, EngineOptions, one_line
from .job_scorer import JobScorer

logger = logging.getLogger(__name__)

_GOODBYE_S = 5.0  # time for the engine to report to the database that this worker ends


@dataclass(frozen=True, slots=True)
class AdminOptions:
    """The address a worker listens on, `HOST:PORT`, and the bearer token that `/metrics` requires."""

    address: str
    token: str | None = None


async def work_until_stopped(
    location: str,
    suite_file: str | None,
    options: EngineOptions,
    privacy: Privacy,
    admin: AdminOptions | None,
    *,
    allow_plugins: bool,
) -> None:
    """Score what is pending, and what comes, until the first signal; then end what is under way.

    `location` is one of PostgreSQL; None as `admin`: without a port. Raises SuiteError, StoreError or ListenError.
    """
    start_logging("info", LOG_LINE, privacy)
    logging.getLogger("procrastinate").setLevel(logging.WARNING)  # else a line for each job
    # `Engine` logs an unreachable database, once.
    for name in ("procrastinate.utils", "procrastinate.worker.worker", "psycopg.pool"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    asyncio.get_running_loop().set_exception_handler(log_lost_task)
    imported = import_suites(suite_file, allow_plugins=allow_plugins) if suite_file else None
    store = PostgresStore(location)
    try:
        metrics = Metrics()
        scorer = JobScorer(store, imported.suite if imported else None, privacy, metrics)
        engine = Engine(location, store.work, scorer.score, options)
        stop = stop_signal()
        suite = f"suite {suite_file}" if suite_file else "no suite"
        place = masked_url(location)
        ready = f"a2a-eval-proxy worker ready: store {place}, {suite}, {options.concurrency} jobs at once"
        async with AsyncExitStack() as stack:
            if admin is not None:
                ready += f", admin {await _admin(stack, admin, engine, store, metrics)}"
            working = asyncio.create_task(engine.run())
            stopping = asyncio.create_task(stop.wait())
            click.echo(ready)
            await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()
            working.cancel()
            await asyncio.wait({working}, timeout=options.grace_s + _GOODBYE_S)
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
    stack: AsyncExitStack, options: AdminOptions, engine: Engine, store: PostgresStore, metrics: Metrics
) -> str:
    """The URL of the worker's port, which `stack` closes. Raises ListenError."""
    backlog = BacklogWatch(store.work.backlog)
    stack.callback(asyncio.create_task(backlog.watch()).cancel)
    registry = process_registry(Source(SCORED, lambda: metrics), backlog.source)
    app = worker_app(registry, engine.problems, options.token)
    return (await Ports(stack).open(lambda: HttpServer(app, options.address, shutdown_timeout_s=1.0), "--admin")).url


def log_lost_task(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """One line for what the job engine leaves behind in its own tasks, as for a job that another worker took over.

    The engine awaits some of its tasks only where the worker ends in order; `Engine` recovers what they were to do.
    """
    error = context.get("exception")
    if "never retrieved" in context["message"] and isinstance(error, AWAY):
        logger.warning("a job was left to other workers: %s", one_line(error))
    else:
        loop.default_exception_handler(context)
