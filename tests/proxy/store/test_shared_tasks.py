"""The owners of tasks, and what proxies leave for them, in a real PostgreSQL database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import closing

import pytest
from a2a_eval_proxy.store import open_store
from a2a_eval_proxy.store.shared_tasks import SharedTasks, task_key
from support.postgres_server import PostgresServer


@pytest.fixture
async def table(postgres: PostgresServer) -> AsyncIterator[SharedTasks]:
    with closing(open_store(postgres.new_database())) as store:
        yield store.shared_tasks


async def test_a_task_has_one_owner_as_long_as_that_lives(table: SharedTasks) -> None:
    for proxy in ("one", "two"):
        await table.beat(proxy, 60, 0)
    assert await table.claim(["a", "b"], "one") == {"a": "one", "b": "one"}
    assert await table.claim(["b", "c"], "two") == {"b": "one", "c": "two"}
    await table.leave("one")
    assert await table.claim(["a", "b"], "two") == {"a": "two", "b": "two"}


async def test_who_claims_at_the_same_time_agrees(table: SharedTasks) -> None:
    proxies = [f"proxy {number}" for number in range(4)]
    for proxy in proxies:
        await table.beat(proxy, 60, 0)
    tasks = [f"task {number}" for number in range(50)]
    owners = await asyncio.gather(*(table.claim(tasks, proxy) for proxy in proxies))
    assert all(owner == owners[0] for owner in owners)


async def test_observations_reach_their_owner_once_and_in_order(table: SharedTasks) -> None:
    await table.beat("one", 60, 0)
    await table.claim(["a"], "one")
    await table.send([("a", 2.5, '{"n":1,"text":"\\u0000 ü"}'), ("a", 1.5, "{}"), ("other", 1.0, "{}")])
    assert await table.receive("two") == []
    assert await table.receive("one") == [(2.5, '{"n":1,"text":"\\u0000 ü"}'), (1.5, "{}")]
    assert await table.receive("one") == []


async def test_tasks_of_a_proxy_that_is_no_more_are_taken_over(table: SharedTasks) -> None:
    await table.beat("dead", 0.0, 0)
    await table.beat("alive", 60, 0)
    await table.claim(["a", "b"], "dead")
    await table.send([("a", 1.0, "{}")])
    await table.take_over("alive")
    assert await table.receive("alive") == [(1.0, "{}")]
    assert await table.claim(["a"], "third") == {"a": "alive"}
    await table.expire(-60)
    assert await table.claim(["b"], "alive") == {"b": "alive"}


async def test_a_proxy_learns_until_when_the_others_have_reported(table: SharedTasks) -> None:
    before, others = await table.beat("one", 60, 10.0)
    assert others is None
    assert (await table.beat("two", 60, 20.0))[1] == 10.0
    await table.beat("dead", 0.0, 1.0)
    after, others = await table.beat("one", 60, 30.0)
    assert (others, after >= before) == (20.0, True)


async def test_a_released_task_belongs_to_nobody(table: SharedTasks) -> None:
    for proxy in ("one", "two"):
        await table.beat(proxy, 60, 0)
    await table.claim(["a", "b"], "one")
    await table.release(["a"], "one")
    await table.release(["b"], "two")
    assert await table.claim(["a", "b"], "two") == {"a": "two", "b": "one"}


def test_tasks_of_different_agents_have_different_keys() -> None:
    assert task_key("http://a", "t") != task_key("http://b", "t")
    assert len(task_key("http://a", "\ud800" * 100_000)) == 32
