"""Notifications that are kept until they are taken: with a webhook that is down, and a proxy that is killed."""

from __future__ import annotations

import asyncio
import sqlite3
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from a2a_eval_proxy.push import sender
from a2a_eval_proxy.push.sender import is_refused, pause_s
from a2a_eval_proxy.store import webhooks
from proxy.push.conftest import Endpoint, Relay, message, relaying
from support.patience import PATIENCE_S
from support.ports import held_ports
from support.postgres_server import PostgresServer
from support.proxy import Proxy

HOOK = "taskPushNotificationConfig"


@pytest.fixture
async def patient(pushing_agent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Relay]:
    """A relay that repeats notifications without pauses, and does not look for those that others left."""
    monkeypatch.setattr(sender, "_LOOK_EVERY_S", 10 * PATIENCE_S)
    monkeypatch.setattr(sender, "FIRST_PAUSE_S", 0.02)
    monkeypatch.setattr(sender, "LONGEST_PAUSE_S", 0.02)
    async with relaying(pushing_agent, tmp_path / "turns.db", push_retry=True) as relay:
        yield relay


def waiting(path: Path) -> list[tuple[int, int]]:
    """Tries and size of each notification that waits."""
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT tries, length(content) FROM deliveries ORDER BY number").fetchall()


async def with_webhook(relay: Relay, endpoint: Endpoint) -> str:
    """The address of a webhook whose task sends nothing unasked."""
    text = f"ask {uuid.uuid4()}"
    task_id = (await relay.send(text, {}))["result"]["task"]["id"]
    await relay.rpc("CreateTaskPushNotificationConfig", {"taskId": task_id, "url": endpoint.url, "token": "TOKEN"})
    return relay.addresses()[-1]


async def test_nothing_is_lost_doubled_or_reordered_while_a_webhook_is_down(
    patient: Relay, endpoint: Endpoint, tmp_path: Path
) -> None:
    endpoint.status = 503
    address = await with_webhook(patient, endpoint)
    for number in range(5):
        answer = await patient.client.post(f"{address}?n={number}", json={"n": number}, headers={"x-a": "b"})
        assert answer.status_code == 202
    tried = [await endpoint.next() for _ in range(10)]
    assert {one.json["n"] for one in tried} == {0}
    endpoint.status = 200
    taken: list[int] = []
    while 4 not in taken:
        one = await endpoint.next()
        assert one.headers["x-a"] == "b"
        assert one.target == f"/?n={one.json['n']}"
        if one.json["n"] or not taken:
            taken.append(one.json["n"])
    assert taken == [0, 1, 2, 3, 4]
    async with asyncio.timeout(PATIENCE_S):
        while waiting(tmp_path / "turns.db"):
            await asyncio.sleep(0.01)


async def test_a_refused_notification_does_not_keep_the_next_ones(patient: Relay, endpoint: Endpoint) -> None:
    address = await with_webhook(patient, endpoint)
    endpoint.status = 410
    await patient.notify(address, {"n": 1})
    assert (await endpoint.next()).json == {"n": 1}
    endpoint.status = 200
    await patient.notify(address, {"n": 2})
    assert (await endpoint.next()).json == {"n": 2}


async def test_a_webhook_that_never_takes_anything_fills_neither_memory_nor_disk(
    patient: Relay, endpoint: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint.status = 500
    address = await with_webhook(patient, endpoint)
    monkeypatch.setattr(webhooks, "_ADD", webhooks._ADD.replace("1000", "3"))
    statuses = [(await patient.notify(address, {"n": number})).status_code for number in range(6)]
    assert statuses == [202, 202, 202, 503, 503, 503]
    assert len(waiting(tmp_path / "turns.db")) == 3
    monkeypatch.setattr(sender, "MAX_AGE_S", -1.0)
    async with asyncio.timeout(PATIENCE_S):
        while waiting(tmp_path / "turns.db"):
            await asyncio.sleep(0.01)


async def test_a_deleted_configuration_takes_its_notifications(
    patient: Relay, endpoint: Endpoint, tmp_path: Path
) -> None:
    endpoint.status = 500
    text = f"ask {uuid.uuid4()}"
    task_id = (await patient.send(text, {}))["result"]["task"]["id"]
    config = {"taskId": task_id, "url": endpoint.url, "id": "hook"}
    await patient.rpc("CreateTaskPushNotificationConfig", config)
    await patient.notify(patient.addresses()[-1], {"n": 1})
    await patient.rpc("DeleteTaskPushNotificationConfig", {"taskId": task_id, "id": "hook"})
    async with asyncio.timeout(PATIENCE_S):
        while waiting(tmp_path / "turns.db"):
            await asyncio.sleep(0.01)


def test_what_was_kept_is_sent_after_a_kill(pushing_agent: str, endpoint: Endpoint, tmp_path: Path) -> None:
    """The sender of a2a-sdk, which repeats nothing."""
    endpoint.status = 503
    with held_ports(1) as (port,):
        push = f"http://127.0.0.1:{port}"
        arguments = ["--push-url", push, "--push-listen", f"127.0.0.1:{port}", "--push-allow", "127.0.0.1"]
        store = tmp_path / "turns.db"
        text = f"chunks {uuid.uuid4()}"
        body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage"}
        params = {"message": message(text), "configuration": {HOOK: {"url": endpoint.url}}}
        with Proxy(pushing_agent, store, "--push-retry", *arguments) as proxy:
            answer = httpx.post(
                f"{proxy.url}/rpc", json={**body, "params": params}, headers={"a2a-version": "1.0"}, trust_env=False
            )
            assert answer.json()["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
            proxy.flush()
            assert b"submitted" in endpoint.take_next().body.lower()
            while len(waiting(store)) < 5:
                time.sleep(0.02)
            proxy.kill()
        while not endpoint.arrived.empty():
            endpoint.arrived.get()
        endpoint.status = 200
        with Proxy(pushing_agent, store, "--push-retry", *arguments):
            bodies = [endpoint.take_next().json for _ in range(5)]
    kinds = [next(iter(body)) for body in bodies]
    assert kinds == ["task", "statusUpdate", "artifactUpdate", "artifactUpdate", "statusUpdate"]
    assert bodies[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert endpoint.arrived.empty()


async def test_replicas_send_each_notification_once_and_in_order(
    pushing_agent: str, endpoint: Endpoint, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "FIRST_PAUSE_S", 0.02)
    monkeypatch.setattr(sender, "LONGEST_PAUSE_S", 0.02)
    url = postgres.new_store()
    async with (
        relaying(pushing_agent, url, push_retry=True) as one,
        relaying(pushing_agent, url, push_retry=True) as other,
    ):
        endpoint.status = 503
        address = await with_webhook(one, endpoint)
        for number in range(10):
            relay, where = (other, one.address_at(other, address)) if number % 2 else (one, address)
            assert (await relay.notify(where, {"n": number})).status_code == 202
        assert {(await endpoint.next()).json["n"] for _ in range(5)} == {0}
        endpoint.status = 200
        taken = [0]
        while 9 not in taken:
            number = (await endpoint.next()).json["n"]
            if number or len(taken) > 1:
                taken.append(number)
        assert taken == list(range(10))


def test_pauses_grow_up_to_a_limit() -> None:
    assert [pause_s(failures) for failures in (1, 2, 3, 100)] == [1.0, 2.0, 4.0, sender.LONGEST_PAUSE_S]


@pytest.mark.parametrize(("status", "refused"), [(307, True), (400, True), (410, True), (408, False), (429, False)])
def test_which_answers_end_a_notification(status: int, refused: bool) -> None:
    assert is_refused(status) is refused
    assert not is_refused(500)
