"""An empty store of either kind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psycopg
import pytest
from a2a_eval_proxy.store import SqliteStore, Store, open_store
from support.kept import Kept
from support.postgres_server import PostgresServer

EMPTIED = (
    "TRUNCATE turns, annotations, calibrations, conversations, verdicts, judge_answers, webhooks, jobs"
    " RESTART IDENTITY CASCADE"
)


@pytest.fixture(scope="module")
def postgres_store(postgres: PostgresServer) -> Iterator[tuple[Store, str]]:
    url = postgres.new_store()
    store = open_store(url)
    yield store, url
    store.close()


@pytest.fixture(params=["sqlite", "postgres"])
async def kept(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Kept]:
    if request.param == "sqlite":
        store: Store = SqliteStore(str(tmp_path / "turns.db"))
        yield Kept(store)
        await asyncio.to_thread(store.close)
    else:
        store, url = request.getfixturevalue("postgres_store")
        with psycopg.connect(url) as connection:
            connection.execute(EMPTIED)
        yield Kept(store)
        await store.drained()
