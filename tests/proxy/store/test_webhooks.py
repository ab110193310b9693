"""Webhooks in both stores: whole, found by their task, and gone when they should be."""

from __future__ import annotations

from dataclasses import replace

from a2a_eval_proxy.store.webhooks import Webhook
from support.kept import Kept

HOOK = Webhook("id-1", "https://client.example/hook?secret=1", asked=1, registered_at=1_000)


async def test_a_webhook_is_stored_and_learns_its_task_and_configuration(kept: Kept) -> None:
    table = kept.store.webhooks
    await table.add(HOOK)
    assert await table.get("id-1") == HOOK
    assert await table.get("id-2") is None
    assert not await table.has_active("task")
    await table.set_task("id-1", "task")
    await table.set_task("id-1", "another")
    await table.set_config("id-1", "config")
    assert await table.get("id-1") == replace(HOOK, task_key="task", config_key="config")
    assert await table.has_active("task")


async def test_webhooks_of_ended_tasks_and_old_ones_expire(kept: Kept) -> None:
    table = kept.store.webhooks
    for name, task, registered_at in (("ended", "a", 1_000), ("working", "b", 1_000), ("old", "c", 500)):
        await table.add(replace(HOOK, webhook_id=name, task_key=task, registered_at=registered_at))
    await table.task_ended("a", 2_000.5)
    await table.task_ended("a", 9_000)
    assert [await table.has_active(task) for task in "abc"] == [False, True, True]
    await table.expire(2_000, 500, 0)
    assert [bool(await table.get(name)) for name in ("ended", "working", "old")] == [True, True, True]
    await table.expire(2_001, 501, 0)
    assert [bool(await table.get(name)) for name in ("ended", "working", "old")] == [False, True, False]


async def test_webhooks_of_an_agent_expire_with_its_turns(kept: Kept) -> None:
    table = kept.store.webhooks
    for name in ("orders", "refunds"):
        await table.add(replace(HOOK, webhook_id=name, agent_name=name, registered_at=500))
    await table.expire(0, 0, 501, "orders")
    assert [bool(await table.get(name)) for name in ("orders", "refunds")] == [False, True]


async def test_a_deleted_configuration_takes_its_webhook_and_no_other(kept: Kept) -> None:
    table = kept.store.webhooks
    for name, task, config in (("1", "a", "x"), ("2", "a", "y"), ("3", "b", "x")):
        await table.add(replace(HOOK, webhook_id=name, task_key=task, config_key=config))
    await table.remove("a", "x")
    assert [bool(await table.get(name)) for name in "123"] == [False, True, True]
