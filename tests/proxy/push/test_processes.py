"""Webhooks of a proxy in several processes: registered in any, notified in order by one, also after a kill."""

from __future__ import annotations

import os
import signal
import sqlite3
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from proxy.push.conftest import Endpoint, message
from support.ports import held_ports
from support.postgres_server import PostgresServer
from support.proxy import Proxy

TASKS = 12
HOOK = "taskPushNotificationConfig"


@pytest.fixture(scope="module")
def push_url() -> Iterator[str]:
    with held_ports(1) as (port,):
        yield f"http://127.0.0.1:{port}/push"


def relaying(agent: str, push_url: str, folder: Path, *arguments: str) -> Proxy:
    listen = push_url.removeprefix("http://").removesuffix("/push")
    options = ("--push-url", push_url, "--push-listen", listen, "--push-allow", "127.0.0.1", "--push-retry")
    return Proxy(agent, folder / "turns.db", *options, *arguments)


@pytest.fixture(scope="module")
def proxy(pushing_agent: str, push_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    with relaying(pushing_agent, push_url, tmp_path_factory.mktemp("push"), "--processes", "3") as proxy:
        yield proxy


@pytest.fixture
def postgres_proxy(pushing_agent: str, tmp_path: Path, postgres: PostgresServer) -> Iterator[Proxy]:
    store = ("--store", postgres.new_database())
    with (
        held_ports(1) as (port,),
        relaying(pushing_agent, f"http://127.0.0.1:{port}", tmp_path, "--processes", "2", *store) as proxy,
    ):
        yield proxy
        assert not proxy.store.exists()


def rpc(proxy: Proxy, method: str, params: dict[str, Any]) -> httpx.Response:
    """A request on a connection of its own, which any of the processes may get."""
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return httpx.post(f"{proxy.url}/rpc", json=body, headers={"a2a-version": "1.0"}, trust_env=False)


@pytest.mark.parametrize(
    ("kind", "method"),
    [("proxy", "SendMessage"), ("proxy", "SendStreamingMessage"), ("postgres_proxy", "SendStreamingMessage")],
)
def test_turns_have_what_responses_and_webhooks_showed_once(
    request: pytest.FixtureRequest, endpoint: Endpoint, kind: str, method: str
) -> None:
    proxy: Proxy = request.getfixturevalue(kind)
    texts = [f"chunks {uuid.uuid4()}" for _ in range(TASKS)]
    configuration = {HOOK: {"url": endpoint.url}, "returnImmediately": True}
    for text in texts:
        response = rpc(proxy, method, {"message": message(text), "configuration": configuration})
        assert '"error"' not in response.text
    ended: Counter[str] = Counter()
    shown: dict[str, list[bytes]] = {}
    while len(ended) < TASKS:
        one = endpoint.take_next()
        event = next(iter(one.json.values()))
        task_id = event.get("taskId") or event["id"]
        shown.setdefault(task_id, []).append(one.body)
        ended[task_id] += event.get("status", {}).get("state") == "TASK_STATE_COMPLETED"
        ended += Counter()  # without zeros
    assert set(ended.values()) == {1}
    assert all(len(bodies) == len(set(bodies)) for bodies in shown.values())
    proxy.flush()
    turns = [turn for turn in proxy.turns() if turn["user_text"] in texts]
    assert sorted(turn["user_text"] for turn in turns) == sorted(texts)
    assert {(turn["response_text"], len(turn["tool_calls"]), turn["state"]) for turn in turns} == {
        ("one two", 2, "TASK_STATE_COMPLETED")
    }
    assert [turn["findings"] for turn in turns if turn["findings"]] == []


def test_an_agent_verifies_a_webhook_while_it_is_being_registered(proxy: Proxy, endpoint: Endpoint) -> None:
    """The process that registers it, and the one that the agent asks, are different ones most of the time."""
    config = {"url": endpoint.url, "token": "verified"}
    for _ in range(6):
        sent = rpc(proxy, "SendMessage", {"message": message("ask hi"), "configuration": {HOOK: config}}).json()
        task_id = sent["result"]["task"]["id"]
        created = rpc(proxy, "CreateTaskPushNotificationConfig", {"taskId": task_id, "id": "other", **config}).json()
        assert created["result"]["url"] == endpoint.url


def test_the_notifications_of_a_killed_process_are_taken_up(proxy: Proxy, endpoint: Endpoint, push_url: str) -> None:
    endpoint.status = 503
    task_id = rpc(proxy, "SendMessage", {"message": message("ask hi")}).json()["result"]["task"]["id"]
    rpc(proxy, "CreateTaskPushNotificationConfig", {"taskId": task_id, "url": endpoint.url})
    with closing(sqlite3.connect(proxy.store)) as store:
        ((webhook_id,),) = store.execute("SELECT webhook_id FROM webhooks ORDER BY rowid DESC LIMIT 1")
    serving = proxy.children()[1:]
    for number in range(6):
        if number == 3:
            for process in serving:
                os.kill(process, signal.SIGKILL)
        answer = httpx.post(f"{push_url}/{webhook_id}", json={"n": number}, trust_env=False)
        assert answer.status_code == 202
    assert endpoint.take_next().json == {"n": 0}
    endpoint.status = 200
    taken: list[int] = []
    while 5 not in taken:
        number = endpoint.take_next().json["n"]
        if number or taken[-1:] != [0]:
            taken.append(number)
    assert taken == list(range(6))
