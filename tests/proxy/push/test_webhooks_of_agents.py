"""Webhooks of several agents behind one proxy: one port for all notifications, each in the turn of its agent."""

from __future__ import annotations

import sqlite3
import uuid
from contextlib import closing
from pathlib import Path

import httpx
from proxy.push.conftest import Endpoint, message
from support.patience import PATIENCE_S
from support.ports import held_ports
from support.proxy import Proxy

HOOK = "taskPushNotificationConfig"


def addresses(path: Path) -> list[tuple[str, str]]:
    """The ids of the webhooks, with their agents, in the order in which they were set."""
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT webhook_id, agent_name FROM webhooks ORDER BY rowid").fetchall()


def test_notifications_are_in_the_turns_of_their_agents(pushing_agent: str, endpoint: Endpoint, tmp_path: Path) -> None:
    names = ("orders", "refunds")
    agents = ",".join(f"{name}={pushing_agent}" for name in names)
    with held_ports(1) as (port,):
        options = ("--push-url", f"http://127.0.0.1:{port}/push", "--push-listen", f"127.0.0.1:{port}")
        allowed = ("--push-allow", "127.0.0.1", "--run", "day")
        with Proxy(agents, tmp_path / "turns.db", *options, *allowed) as proxy:
            texts = {name: f"chunks {name} {uuid.uuid4()}" for name in names}
            for name, text in texts.items():
                config = {HOOK: {"url": f"{endpoint.url}/{name}"}, "returnImmediately": True}
                params = {"message": message(text), "configuration": config}
                body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}
                url = f"{proxy.url}/agents/{name}/rpc"
                answer = httpx.post(url, json=body, headers={"a2a-version": "1.0"}, trust_env=False, timeout=PATIENCE_S)
                assert "result" in answer.json()
                received = []
                while not received or b"COMPLETED" not in received[-1].body:
                    received.append(endpoint.take_next())
                assert {one.target for one in received} == {f"/{name}"}
                assert not any(b"tool_calls" in one.body for one in received)
            (address, _), *_ = addresses(tmp_path / "turns.db")
            for name, status in (("orders", 200), ("refunds", 404)):  # that of a webhook of the other agent
                notified = f"http://127.0.0.1:{port}/push/{name}/{address}"
                assert httpx.post(notified, json={}, trust_env=False, timeout=PATIENCE_S).status_code == status
            proxy.flush()
            turns = proxy.turns()
    assert [(turn["agent_name"], turn["user_text"], turn["run"]) for turn in turns] == [
        (name, text, f"day-{name}") for name, text in texts.items()
    ]
    assert [(len(turn["tool_calls"]), turn["response_text"]) for turn in turns] == [(2, "one two")] * 2
