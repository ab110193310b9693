"""A store in a real PostgreSQL: many at once, a database that goes away and comes back, foreign and future schemas."""

from __future__ import annotations

import asyncio
import random
import re
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import psycopg
import pytest
from a2a_eval_proxy.store import (
    Scored,
    StoreError,
    StoreUnreachableError,
    TurnQuery,
    open_store,
)
from a2a_eval_proxy.store import (
    postgres as package,
)
from a2a_eval_proxy.store.base import Limits
from a2a_eval_proxy.store.postgres import database as postgres_database
from a2a_eval_proxy.store.postgres.database import Database, named
from a2a_eval_proxy.store.schema import VERSION
from support.commands import ended
from support.kept import Kept, result, turn
from support.postgres_server import PostgresServer


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    return postgres.new_database()


@pytest.fixture
async def kept(url: str) -> AsyncIterator[Kept]:
    store = open_store(url, for_workers=True)
    yield Kept(store)
    await asyncio.to_thread(store.close)


def rows(url: str, statement: str) -> list[Any]:
    with psycopg.connect(url) as connection:
        return connection.execute(statement).fetchall()


# ── many at once ────────────────────────────────────────────────────────────────────────────────────────────


def test_any_number_may_start_together_on_an_empty_database(url: str) -> None:
    with ThreadPoolExecutor(4) as threads:
        stores = list(threads.map(open_store, [url] * 4))
    for store in stores:
        store.close()
    assert rows(url, "SELECT version_num FROM a2a_eval_proxy_version") == [(str(VERSION),)]


async def test_a_reader_misses_no_turn_that_several_add_at_once(url: str) -> None:
    """A turn that is committed later must not have an earlier place."""
    count = 300
    stores = [open_store(url) for _ in range(3)]

    def add(number: int) -> None:
        for turn_number in range(number, count, len(stores)):
            stores[number].add([turn(turn_number)], lambda: None)
            if turn_number % 10 < len(stores):
                asyncio.run(stores[number].drained())
        asyncio.run(stores[number].drained())

    adding = asyncio.gather(*(asyncio.to_thread(add, number) for number in range(len(stores))))
    seen: list[str] = []
    cursor = None
    while len(seen) < count:
        page = await stores[0].turns(TurnQuery(limit=5, cursor=cursor))
        if adding.done() and not page.items:
            break
        seen += [item["turn_id"] for item in page.items]
        cursor = page.next_cursor or (await stores[0].cursor_after(seen[-1]) if seen else cursor)
    await adding
    for store in stores:
        await asyncio.to_thread(store.close)
    assert sorted(seen) == [f"turn-{number:04}" for number in range(count)]


async def test_two_proxies_that_finish_the_same_turns(url: str) -> None:
    stores = [Kept(open_store(url)) for _ in range(2)]
    await stores[0].add(*(turn(number) for number in range(50)))
    scored = [Scored(f"turn-{number:04}", [result()]) for number in range(50)]
    await asyncio.gather(stores[0].finish(*scored), stores[1].finish(*reversed(scored)))
    (summary,) = await stores[1].store.runs()
    assert (summary.turns, summary.pending, summary.passed) == (50, 0, 50)
    for one in stores:
        await asyncio.to_thread(one.store.close)


async def test_pending_turns_are_queued_with_their_transaction(kept: Kept, url: str) -> None:
    await kept.add(turn(1), turn(2), turn(3), results={"turn-0002": [result()]})
    await kept.add(turn(1))
    queued = rows(url, "SELECT turn_ids FROM jobs ORDER BY id LIMIT 1")
    assert queued == [(["turn-0001", "turn-0003"],)]
    without = rows(url, "SELECT turn_id FROM turns WHERE job_id IS NULL")
    assert without == [("turn-0002",)]


# ── a database that is away ─────────────────────────────────────────────────────────────────────────────────


async def test_a_turn_that_the_database_will_not_take_stops_no_other(
    kept: Kept, caplog: pytest.LogCaptureFixture
) -> None:
    committed = threading.Event()
    for one in (turn(1), turn(2, turn_id="a\x00b"), turn(3)):
        kept.store.add([one], lambda: None)
    kept.store.add([turn(4)], committed.set)
    assert await asyncio.to_thread(committed.wait, 30)
    assert await kept.ids() == ["turn-0001", "turn-0003", "turn-0004"]
    assert "will not take turn(s) a" in caplog.text


# ── what can be opened ──────────────────────────────────────────────────────────────────────────────────────


async def test_pages_of_deleted_turns_are_given_back(kept: Kept, url: str) -> None:
    noise = random.Random(1)
    await kept.add(*(turn(number, user_text=noise.randbytes(5_000).hex()) for number in range(200)))
    size = "SELECT pg_total_relation_size('turns')"
    ((before,),) = rows(url, size)
    kept.store.prune(Limits(2e9))
    await kept.store.drained()
    assert await kept.ids() == []
    ((after,),) = rows(url, size)
    assert after < before / 5


def test_a_database_without_a_store_is_not_made_one_by_reading(url: str) -> None:
    with pytest.raises(StoreError, match="holds no store"):
        open_store(url, must_exist=True)
    assert rows(url, "SELECT FROM pg_tables WHERE schemaname = 'public'") == []
    open_store(url).close()
    open_store(url, must_exist=True).close()


@pytest.mark.parametrize("version", ["0001", "0017", f"{VERSION + 1}"])
async def test_a_store_of_an_unknown_version_is_refused_and_stays_as_it_is(url: str, version: str) -> None:
    kept = Kept(open_store(url))
    await kept.add(turn(1))
    await asyncio.to_thread(kept.store.close)
    with psycopg.connect(url) as connection:
        connection.execute("UPDATE a2a_eval_proxy_version SET version_num = %s", (version,))
    with pytest.raises(StoreError, match=f"another version.*schema {version}, this one has {VERSION}"):
        open_store(url)
    assert rows(url, "SELECT turn_id, status FROM turns") == [("turn-0001", "pending")]
    assert rows(url, "SELECT version_num FROM a2a_eval_proxy_version") == [(version,)]


def test_another_programs_tables_are_left_alone(url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE turns (customer text)")
    with pytest.raises(StoreError, match=r'"turns" already exists.*database of its own'):
        open_store(url)
    assert rows(url, "SELECT tablename FROM pg_tables WHERE schemaname = 'public'") == [("turns",)]


def test_a_wrong_password_is_told_without_it(postgres: PostgresServer, capsys: pytest.CaptureFixture[str]) -> None:
    assert ended("export --store", postgres.url("postgres", password="wrong one")) == 3
    told = capsys.readouterr().err
    assert re.fullmatch(r"a2a-eval-proxy: store postgresql://tester:\*\*\*@.*authentication failed.*\n", told)
    assert "wrong" not in told


async def test_a_connection_that_the_server_has_closed_is_not_used_again(url: str) -> None:
    with closing(Database(url)) as database:
        ((pid,),) = await database.rows(b"SELECT pg_backend_pid()", {})
        rows(url, f"SELECT pg_terminate_backend({pid}, 60000)")
        assert await database.rows(b"SELECT 1", {}) == [(1,)]


async def test_work_that_gets_no_answer_ends(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_database, "WORK_TIMEOUT_S", 1)
    with closing(Database(url)) as database:
        with pytest.raises(StoreUnreachableError, match=r"cannot be read: no answer within 1 s"):
            await database.rows(b"SELECT pg_sleep(600)", {})
        assert await database.rows(b"SELECT 1", {}) == [(1,)]


def test_parameters_are_named_as_in_sqlite() -> None:
    assert named("SELECT :a::text || '%' WHERE b = :b_c") == b"SELECT %(a)s::text || '%%' WHERE b = %(b_c)s"


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(package, "find_spec", lambda name: None)
    assert ended("export --store postgresql://host/db") == 2
    told = capsys.readouterr().err
    assert told == "a2a-eval-proxy: a PostgreSQL store needs psycopg: pip install 'a2a-eval-proxy[postgres]'\n"
