"""The `worker` command: works until SIGTERM or SIGINT."""

from __future__ import annotations

import asyncio
import logging
import signal

import click
from tool_call_evaluators.importers import import_suite

from ..location import shown
from ..logs import LOG_LINE, start_logging
from ..privacy import Privacy
from ..store.postgres.store import PostgresStore
from .engine import Engine, EngineOptions
from .scoring import JobScorer


async def work_until_stopped(
    location: str, suite_file: str | None, options: EngineOptions, privacy: Privacy | None = None
) -> None:
    """Score what is pending, and what comes, until the first signal; then end what is under way.

    `location` is one of PostgreSQL. Raises SuiteError or StoreError.
    """
    start_logging("info", LOG_LINE, privacy)
    logging.getLogger("procrastinate").setLevel(logging.WARNING)  # else a line for each job
    for name in ("procrastinate.utils", "psycopg.pool"):  # of a database that is away, Engine tells, and once
        logging.getLogger(name).setLevel(logging.CRITICAL)
    imported = import_suite(suite_file) if suite_file else None
    store = PostgresStore(location)
    try:
        scorer = JobScorer(store, imported.suite if imported else None, privacy)
        engine = Engine(location, store.work, scorer.score, options)
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        working = asyncio.create_task(engine.run())
        stopping = asyncio.create_task(stop.wait())
        suite = f"suite {suite_file}" if suite_file else "no suite"
        click.echo(f"a2a-eval-proxy worker ready: store {shown(location)}, {suite}, {options.concurrency} jobs at once")
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        click.echo(f"a2a-eval-proxy worker stopped: {engine.scored} turns scored", err=True)
    finally:
        await asyncio.to_thread(store.close)
