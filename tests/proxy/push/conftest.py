"""A proxy that relays webhooks, before an agent, and a client's webhook."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from a2a_eval_proxy.app import RunningProxy, run_proxy
from a2a_eval_proxy.capture import task_fold
from a2a_eval_proxy.settings.settings import Settings
from a2a_tool_capture import URI
from agents.recording_agent import build_app
from agents.serving import ServerThread
from support.endpoint import Endpoint, served_endpoint
from support.patience import PATIENCE_S
from support.ports import held_ports


@pytest.fixture(autouse=True)
def _brief_lingering(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing comes after the end of a task here, so that its turn need not wait for it."""
    monkeypatch.setattr(task_fold, "LINGER_S", 0.2)


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with served_endpoint() as endpoint:
        yield endpoint


@pytest.fixture(scope="session")
def pushing_agent() -> Iterator[str]:
    """An a2a-sdk 1.x agent with its BasePushNotificationSender."""
    with ServerThread(build_app) as server:
        yield server.url


@dataclass
class Relay:
    proxy: RunningProxy
    client: httpx.AsyncClient
    push_url: str
    store: Path | str

    async def rpc(self, method: str, params: dict[str, Any], **headers: str) -> Any:
        request = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
        named = {"a2a-version": "1.0", **{name.replace("_", "-"): value for name, value in headers.items()}}
        response = await self.client.post("/rpc", json=request, headers=named)
        return response.json()

    async def send(self, text: str, configuration: dict[str, Any], **headers: str) -> Any:
        return await self.rpc("SendMessage", {"message": message(text), "configuration": configuration}, **headers)

    async def until_reported(self, task_id: str) -> None:
        """Returns once the agent has made its calls, and so has notified of all that comes before them."""
        while not (await self.rpc("GetTask", {"id": task_id}, a2a_extensions=URI))["result"].get("artifacts"):
            await asyncio.sleep(0.01)

    async def turn(self, text: str) -> dict[str, Any]:
        """The one turn of this text, once it is done."""
        await self.proxy.flush(PATIENCE_S)
        (turn,) = [turn for turn in await self.proxy.turns() if turn["user_text"] == text]
        assert turn["status"] == "done"
        return turn

    async def listed(self, task_id: str) -> Any:
        return (await self.rpc("ListTaskPushNotificationConfigs", {"taskId": task_id}))["result"].get("configs", [])

    def address_at(self, other: Relay, address: str) -> str:
        """The same webhook's address at another proxy."""
        return address.replace(self.push_url, other.push_url)

    def addresses(self, *, expecting: bool = False) -> list[str]:
        """The addresses that the agent was given, in the order of their registration.

        `expecting`: only those at which notifications are expected.
        """
        where = "WHERE ended_at = 0" if expecting else ""
        connection: Any = psycopg.connect(self.store) if "://" in str(self.store) else sqlite3.connect(self.store)
        with closing(connection):
            rows = connection.execute(f"SELECT webhook_id FROM webhooks {where} ORDER BY registered_at").fetchall()
        return [f"{self.push_url}/{webhook_id}" for (webhook_id,) in rows]

    async def until_expecting(self, addresses: set[str]) -> None:
        """Waits until notifications are expected at these addresses alone: the proxy notes so after its response."""
        while set(self.addresses(expecting=True)) != addresses:
            await asyncio.sleep(0.01)

    async def notify(self, address: str, content: Any, **headers: str) -> httpx.Response:
        """Send a notification as an agent would."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        body = json.dumps(content).encode()
        return await self.client.post(address, content=body, headers={"content-type": "application/json", **named})

    def codes(self, turn: dict[str, Any]) -> set[str]:
        return {finding["code"] for finding in turn["findings"]}


def message(text: str, **more: str) -> dict[str, Any]:
    return {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": text}], **more}


@asynccontextmanager
async def relaying(agent: str, store: Path | str, **settings: Any) -> AsyncIterator[Relay]:
    with held_ports(1) as (port,):
        push_url = f"http://127.0.0.1:{port}/push"
        relays = {"push_url": push_url, "push_listen": f"127.0.0.1:{port}", "push_allow": ("127.0.0.1",)}
        nothing_relayed = settings.get("push_url", push_url) is None
        everything = {
            **({} if nothing_relayed else relays),
            "admin": "127.0.0.1:0",
            "listen": "127.0.0.1:0",
            "otlp": None,
            **settings,
        }
        async with (
            run_proxy(Settings(upstream=agent, store=str(store), **everything)) as proxy,
            httpx.AsyncClient(base_url=proxy.url, trust_env=False) as client,
        ):
            yield Relay(proxy, client, push_url, store)


@pytest.fixture
async def relay(pushing_agent: str, tmp_path: Path) -> AsyncIterator[Relay]:
    async with relaying(pushing_agent, tmp_path / "turns.db") as relay:
        yield relay
