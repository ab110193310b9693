"""The owners of tasks, and what proxies leave for them, in a real PostgreSQL database."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import closing

import pytest
from a2a_eval_proxy.store import open_store
from a2a_eval_proxy.store.shared_tasks import SharedTasks, task_key
from support.postgres_server import PostgresServer


@pytest.fixture
async def table(postgres: PostgresServer) -> AsyncIterator[SharedTasks]:
    with closing(open_store(postgres.new_store())) as store:
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
    await table.send(
        [
            ("a", 2.5, '{"n":1,"text":"\\u0000 ü"}', ""),
            ("a", 1.5, "{}", ""),
            ("a", 2.0, "", "one"),
            ("b", 1.0, "{}", ""),
        ]
    )
    assert await table.receive("two") == []
    left = await table.receive("one")
    assert [(one.at, *one[2:]) for one in left] == [(1.5, "a", "{}", 0), (2.5, "a", '{"n":1,"text":"\\u0000 ü"}', 0)]
    assert await table.receive("one") == []


async def test_tasks_of_one_agent_are_not_taken_over_for_another(table: SharedTasks) -> None:
    keys = {name: task_key(name, "task", name) for name in ("", "orders", "refunds")}
    await table.beat("alive", 60, 0)
    await table.send([(key, 1.0, "{}", "") for key in keys.values()])
    for name, key in keys.items():
        await table.take_over("alive", name)
        assert [one.task for one in await table.receive("alive")] == [key]


async def test_the_next_owner_receives_what_the_last_one_did_not_store(table: SharedTasks) -> None:
    await table.beat("dead", 60, 0)
    await table.beat("alive", 60, 0)
    await table.claim(["a"], "dead")
    await table.send([("a", 1.0, "1", ""), ("a", 2.0, "2", ""), ("a", 2.5, "of its own", "dead")])
    assert len(await table.receive("dead")) == 2
    await table.send([("a", 0.5, "late", ""), ("a", 3.0, "3", "")])
    await table.done("dead", {"a": 1.0, "b": 9.0})
    await table.leave("dead")
    await table.take_over("alive")
    left = [(one.content, one.read_before) for one in await table.receive("alive")]
    assert left == [("late", 0), ("2", 1), ("of its own", 1), ("3", 0)]
    assert await table.receive("alive") == []


async def test_tasks_of_a_proxy_that_is_no_more_are_taken_over(table: SharedTasks) -> None:
    await table.beat("dead", 0.0, 0)
    await table.beat("alive", 60, 0)
    await table.claim(["a", "b"], "dead")
    await table.send([("a", 1.0, "{}", "")])
    await table.take_over("alive")
    assert [(one.at, *one[2:]) for one in await table.receive("alive")] == [(1.0, "a", "{}", 0)]
    assert await table.claim(["a"], "third") == {"a": "alive"}
    await table.expire(-60)
    assert await table.claim(["b"], "alive") == {"b": "alive"}


async def test_what_is_left_for_a_task_without_an_owner_is_taken_over(table: SharedTasks) -> None:
    await table.beat("dead", 0.0, 0)
    await table.beat("alive", 60, 0)
    await table.claim(["a"], "dead")
    await table.send([("a", time.time(), "{}", "")])
    await table.expire(3600)  # its owner is deleted
    await table.take_over("alive")
    assert [one.task for one in await table.receive("alive")] == ["a"]


async def test_a_proxy_learns_until_when_the_others_have_reported(table: SharedTasks) -> None:
    before, others, dead = await table.beat("one", 60, 10.0)
    assert (others, dead) == (None, set())
    assert (await table.beat("two", 60, 20.0))[1] == 10.0
    await table.beat("dead", 0.0, 1.0)
    await table.beat("gone", 60, 1.0)
    await table.leave("gone")
    after, others, dead = await table.beat("one", 60, 30.0)
    assert (others, dead, after >= before) == (20.0, {"dead"}, True)


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
