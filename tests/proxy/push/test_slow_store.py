"""The relay while another process keeps the store locked, or it does not answer."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
from a2a_eval_proxy.features.push import registry
from a2a_eval_proxy.store.sqlite import store as sqlite_store
from a2a_eval_proxy.store.webhooks import WebhookTable
from proxy.push.conftest import Endpoint, Relay
from proxy.push.test_relay import asking
from support.patience import PATIENCE_S


@contextmanager
def locked(relay: Relay) -> Iterator[None]:
    with closing(sqlite3.connect(relay.store)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.rollback()


def end(task_id: str) -> dict[str, Any]:
    return {"statusUpdate": {"taskId": task_id, "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}}}


async def test_notifications_pass_and_what_they_show_is_stored_later(
    relay: Relay, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_store, "BUSY_S", 2 * PATIENCE_S)
    monkeypatch.setattr(registry, "STORE_S", 5.0)  # each reads its webhook, however busy the machine is
    tasks = [await asking(relay, endpoint.url) for _ in range(8)]
    with locked(relay):
        sent = [asyncio.create_task(relay.notify(address, end(task_id))) for _, task_id, address in tasks]
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.get_running_loop().getaddrinfo("localhost", 80)
            answers = await asyncio.gather(*sent)
        assert [answer.status_code for answer in answers] == [200] * 8
        assert len(relay.addresses(expecting=True)) == 8
    assert {(await endpoint.next()).json["statusUpdate"]["taskId"] for _ in tasks} == {one[1] for one in tasks}
    await relay.until_expecting(set())


async def never(*_: object) -> None:
    await asyncio.Event().wait()


async def test_a_store_that_does_not_answer_is_waited_for_only_so_long(
    relay: Relay, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, task_id, address = await asking(relay, endpoint.url)
    monkeypatch.setattr(registry, "STORE_S", 0.1)
    monkeypatch.setattr(WebhookTable, "get", never)
    answer = await relay.rpc("GetTaskPushNotificationConfig", {"taskId": task_id, "id": "hook"})
    assert answer["result"].get("url") == endpoint.url, answer
    assert (await relay.notify(address, end(task_id))).status_code == 503
