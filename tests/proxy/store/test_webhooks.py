"""Webhooks in both stores: whole, found by their task, and gone when they should be."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from a2a_eval_proxy.store import Store, open_store, webhooks
from a2a_eval_proxy.store.webhooks import MOST_OF_A_WEBHOOK, Delivery, Webhook
from support.postgres_server import PostgresServer

HOOK = Webhook("id-1", "https://client.example/hook?secret=1", asked=1, registered_at=1_000)


@pytest.fixture(params=["sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    if request.param == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres")
        location = server.new_store()
    else:
        location = str(tmp_path / "turns.db")
    store = open_store(location)
    yield store
    await asyncio.to_thread(store.close)


async def test_a_webhook_is_stored_and_learns_its_task_and_configuration(store: Store) -> None:
    table = store.webhooks
    await table.add(HOOK)
    assert await table.get("id-1") == HOOK
    assert await table.get("id-2") is None
    assert not await table.has_active("task")
    await table.set_task("id-1", "task")
    await table.set_task("id-1", "another")
    await table.set_config("id-1", "config")
    assert await table.get("id-1") == replace(HOOK, task_key="task", config_key="config")
    assert await table.has_active("task")


async def test_webhooks_of_ended_tasks_and_old_ones_expire(store: Store) -> None:
    table = store.webhooks
    for name, task, registered_at in (("ended", "a", 1_000), ("working", "b", 1_000), ("old", "c", 500)):
        await table.add(replace(HOOK, webhook_id=name, task_key=task, registered_at=registered_at))
    await table.task_ended("a", 2_000.5)
    await table.task_ended("a", 9_000)
    assert [await table.has_active(task) for task in "abc"] == [False, True, True]
    await table.expire(2_000, 500, 0)
    assert [bool(await table.get(name)) for name in ("ended", "working", "old")] == [True, True, True]
    await table.expire(2_001, 501, 0)
    assert [bool(await table.get(name)) for name in ("ended", "working", "old")] == [False, True, False]


async def test_webhooks_of_an_agent_expire_with_its_turns(store: Store) -> None:
    table = store.webhooks
    for name in ("orders", "refunds"):
        await table.add(replace(HOOK, webhook_id=name, agent_name=name, registered_at=500))
    await table.expire(0, 0, 501, "orders")
    assert [bool(await table.get(name)) for name in ("orders", "refunds")] == [False, True]


async def test_a_deleted_configuration_takes_its_webhook_and_no_other(store: Store) -> None:
    table = store.webhooks
    for name, task, config in (("1", "a", "x"), ("2", "a", "y"), ("3", "b", "x")):
        await table.add(replace(HOOK, webhook_id=name, task_key=task, config_key=config))
    await table.remove("a", "x")
    assert [bool(await table.get(name)) for name in "123"] == [False, True, True]


async def test_notifications_wait_in_order_and_within_limits(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    table = store.deliveries
    secret = Delivery("id-1", '{"authorization": "secret"}', kept_at=1_000)
    assert "secret" not in repr(secret)
    assert await table.first("id-1") is None
    assert [await table.add(replace(secret, content=str(number))) for number in range(3)] == [True] * 3
    assert await table.add(replace(secret, webhook_id="id-2"))
    assert sorted(await table.waiting()) == ["id-1", "id-2"]
    first = await table.first("id-1")
    assert first is not None
    assert (first.content, first.kept_at, first.tries) == ("0", 1_000, 0)
    await table.failed(first, 2_000.5)
    assert await table.first("id-1") == replace(first, tries=1, due_at=2_000)
    await table.remove(first)
    second = await table.first("id-1")
    assert second is not None
    assert second.content == "1"
    await table.remove_all("id-1")
    assert await table.waiting() == ["id-2"]
    monkeypatch.setattr(webhooks, "_ADD", webhooks._ADD.replace(str(MOST_OF_A_WEBHOOK), "1"))
    assert not await table.add(replace(secret, webhook_id="id-2"))
    assert await table.add(secret)


async def test_one_process_sends_to_a_webhook(store: Store) -> None:
    table = store.deliveries
    await store.webhooks.add(HOOK)
    assert await table.lease("id-1", "a", 100, 200)
    assert not await table.lease("id-1", "b", 200, 300)
    assert await table.lease("id-1", "a", 200, 300)
    assert await table.lease("id-1", "b", 301, 400)
    assert await table.lease("id-1", "b", 302, 0)
    assert await table.lease("id-1", "a", 303, 400)
    assert not await table.lease("unknown", "a", 303, 400)


async def test_a_webhook_stays_as_long_as_notifications_wait_for_it(store: Store) -> None:
    await store.webhooks.add(replace(HOOK, task_key="a", ended_at=1))
    await store.deliveries.add(Delivery("id-1", "", kept_at=1))
    await store.webhooks.expire(100, 100, 0)
    assert await store.webhooks.get("id-1")
    await store.deliveries.remove_all("id-1")
    await store.webhooks.expire(100, 100, 0)
    assert await store.webhooks.get("id-1") is None


def test_neither_url_nor_id_is_in_the_representation() -> None:
    assert "secret" not in repr(HOOK)
    assert "id-1" not in repr(HOOK)


async def test_each_agent_sends_its_own_notifications_and_those_without_a_webhook(store: Store) -> None:
    for name in ("orders", "refunds"):
        await store.webhooks.add(replace(HOOK, webhook_id=f"of {name}", agent_name=name))
        await store.deliveries.add(Delivery(f"of {name}", "", kept_at=1), name)
    await store.deliveries.add(Delivery("of none", "", kept_at=1))
    for name in ("orders", "refunds"):
        assert sorted(await store.deliveries.waiting(name)) == ["of none", f"of {name}"]
    assert await store.deliveries.waiting() == ["of none"]


async def test_one_agent_leaves_the_others_room_for_notifications(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhooks, "_ADD", webhooks._ADD.replace(str(webhooks.MOST_BYTES), "100"))
    for name in ("orders", "refunds"):
        await store.webhooks.add(replace(HOOK, webhook_id=name, agent_name=name))

    async def kept(name: str) -> int:
        return [await store.deliveries.add(Delivery(name, 10 * "x", kept_at=1), name) for _ in range(12)].count(True)

    assert [await kept("orders"), await kept("refunds")] == [5, 3]
    await store.webhooks.add(HOOK)
    assert await store.deliveries.add(Delivery(HOOK.webhook_id, 10 * "x", kept_at=1))
