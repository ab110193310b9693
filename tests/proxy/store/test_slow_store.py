"""A store that another process keeps locked: who waits for it, how many, and what is left undone."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, suppress
from pathlib import Path

import psycopg
import pytest
from a2a_eval_proxy.store import Store, StoreError, open_store
from a2a_eval_proxy.store.sqlite import store as sqlite_store
from a2a_eval_proxy.store.webhooks import Webhook
from a2a_eval_proxy.threads import MOST_WAITING
from support.postgres_server import PostgresServer

Connection = sqlite3.Connection | psycopg.Connection[tuple[object, ...]]


@pytest.fixture(autouse=True)
def _very_patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_store, "BUSY_S", 60.0)


@pytest.fixture
async def store(location: str) -> AsyncIterator[Store]:
    store = open_store(location)
    yield store
    await asyncio.to_thread(store.close)


@pytest.fixture(params=["sqlite", "postgres"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "turns.db")
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.new_store()


@pytest.fixture
def lock(store: Store, location: str) -> Iterator[Connection]:
    """Of another process; ends with `rollback`."""
    if "://" in location:
        with closing(psycopg.connect(location)) as server:
            server.execute("LOCK TABLE webhooks")
            yield server
    else:
        with closing(sqlite3.connect(location)) as file:
            file.execute("BEGIN IMMEDIATE")
            yield file


def webhook(name: str) -> Webhook:
    return Webhook(name, "http://client.example", 0, 1)


@pytest.mark.parametrize("location", ["sqlite"], indirect=True)
async def test_only_the_stores_own_threads_wait_for_it(store: Store, lock: Connection) -> None:
    """The event loop's threads resolve names, for one."""
    changes = [asyncio.create_task(store.webhooks.add(webhook(f"{number}"))) for number in range(40)]
    async with asyncio.timeout(60):
        await asyncio.get_running_loop().getaddrinfo("localhost", 80)
        assert await store.webhooks.get("0") is None  # reads go on, too
    assert not any(change.done() for change in changes)
    lock.rollback()
    await asyncio.gather(*changes)
    assert await store.webhooks.get("39") == webhook("39")


async def test_a_bounded_number_of_operations_waits(
    store: Store, lock: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = [asyncio.create_task(store.webhooks.add(webhook(f"{number}"))) for number in range(MOST_WAITING)]
    await asyncio.sleep(0)
    with pytest.raises(StoreError, match="wait"):
        await store.webhooks.add(webhook("further"))
    for change in changes[1:]:
        change.cancel()
    with suppress(asyncio.CancelledError):
        await asyncio.gather(*changes[1:])
    lock.rollback()
    await changes[0]
    await store.webhooks.add(webhook("later"))


async def test_a_change_is_not_made_once_its_caller_gave_up(store: Store, lock: Connection) -> None:
    """It has reported that it was not made."""
    for name in ("at the lock", "behind it"):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(store.webhooks.add(webhook(name)), 0.05)
    lock.rollback()
    await store.webhooks.add(webhook("last"))
    assert [await store.webhooks.get(name) for name in ("at the lock", "behind it")] == [None, None]
