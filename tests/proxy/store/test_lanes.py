"""What waits for the store, of several agents: none fills the room of the others, or makes them wait."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from a2a_eval_proxy.store import Scored, Store, open_store, write_queue
from a2a_eval_proxy.store.lanes import Lanes
from support.kept import Kept, result, turn
from support.postgres_server import PostgresServer


def test_lanes_take_turns() -> None:
    lanes = Lanes[str]()
    for item in ("a1", "a2", "b1", "a3"):
        lanes.put(item, item[0])
    lanes.put_behind_all("after all")
    lanes.put("a4", "a")
    lanes.put("c1", "c")
    found = [lanes.get_nowait() for _ in range(8)]
    assert found == ["a1", "b1", "c1", "a2", "a3", "after all", "a4", None]
    lanes.put_behind_all("alone")
    assert lanes.get() == "alone"


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_queue, "_RETRY_S", 0.02)
    monkeypatch.setattr(write_queue, "MAX_QUEUED", 1_000)
    monkeypatch.setattr(write_queue, "MAX_WAITING_BYTES", 4_000_000)


@pytest.fixture(params=["sqlite", "postgres"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "turns.db")
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.new_store()


@pytest.fixture
async def store(location: str) -> AsyncIterator[Store]:
    store = open_store(location, patient=True)
    store.start(lambda: None)
    for name in ("orders", "refunds"):
        store.share_with(name)
    await Kept(store).add(turn(0))
    yield store
    await asyncio.to_thread(store.close)


@contextmanager
def away(location: str, request: pytest.FixtureRequest) -> Iterator[None]:
    """The file is locked by another process, or the server is stopped, until the end of the block."""
    if "://" in location:
        server: PostgresServer = request.getfixturevalue("postgres")
        server.stop()
        try:
            yield
        finally:
            server.start()
    else:
        with closing(sqlite3.connect(location)) as file:
            file.execute("BEGIN IMMEDIATE")
            yield
            file.rollback()


@pytest.mark.parametrize("size", [10, 100_000])
async def test_one_agent_floods_while_the_store_is_away_and_all_of_another_arrives(
    store: Store, location: str, size: int, request: pytest.FixtureRequest
) -> None:
    with away(location, request):
        flood = [turn(number, agent_name="orders", user_text="x" * size) for number in range(1_000, 2_000)]
        taken = sum([store.add([one], lambda: None, agent_name="orders") for one in flood])
        assert 10 < taken <= 510
        for number in range(1, 101):
            mine = turn(number, agent_name="refunds")
            assert store.add([mine], lambda: None, agent_name="refunds")
            store.finish([Scored(mine.turn_id, [result()])], lambda: None, "refunds")
    await store.drained()
    assert len(await Kept(store).ids(agent="refunds", status="done")) == 100
    assert len(await Kept(store).ids(agent="orders", limit=1_000)) == taken
    assert (store.health.waiting_turns, store.health.waiting_bytes) == (0, 0)
    assert all(store.add([one], lambda: None, agent_name="orders") for one in flood[:10])


async def test_the_share_of_an_agent_that_is_no_more_ends_with_what_waits(location: str) -> None:
    store = open_store(location, patient=True)
    for name in ("orders", "refunds"):
        store.share_with(name)
    taken = [turn(number) for number in range(1_000) if store.add([turn(number)], lambda: None, agent_name="orders")]
    assert len(taken) == 500
    store.share_ends("refunds")
    store.share_ends("orders")
    assert store.add([turn(1_000)], lambda: None, agent_name="orders")
    store.start(lambda: None)
    await store.drained()
    assert store._shares == {}
    await asyncio.to_thread(store.close)


async def test_the_turns_of_an_agent_do_not_wait_behind_a_backlog_of_another(
    store: Store, location: str, request: pytest.FixtureRequest
) -> None:
    written: list[str] = []
    with away(location, request):
        for number in range(400):
            assert store.add([turn(number + 1)], lambda: written.append("orders"), agent_name="orders")
        assert store.add([turn(900)], lambda: written.append("refunds"), agent_name="refunds")
        settled = asyncio.create_task(store.drained("refunds"))
        await asyncio.sleep(0)
    await settled
    assert written.index("refunds") < 2 * write_queue.MAX_GROUP
    await store.drained()
    assert len(written) == 401


async def test_one_agent_alone_has_everything(location: str) -> None:
    store = open_store(location, patient=True)
    taken = sum([store.add([turn(number)], lambda: None, agent_name="orders") for number in range(1_100)])
    assert taken == 1_000
    store.start(lambda: None)
    await store.drained()
    await asyncio.to_thread(store.close)
