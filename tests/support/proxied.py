"""A proxy in this process, before an agent whose answers the test prepares."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

import httpx
from a2a_eval_proxy.app import RunningProxy, run_proxy
from a2a_eval_proxy.settings.settings import Settings
from a2a_tool_capture import METADATA_KEY, URI
from agents.replay_agent import ReplayAgent, json_answer


@dataclass
class Proxied:
    """A running proxy before an agent whose answers the test prepares; clients of both its ports."""

    proxy: RunningProxy
    agent: ReplayAgent
    data: httpx.AsyncClient
    admin: httpx.AsyncClient
    run: str = "nightly"
    """What the turns of this test go by."""

    async def talks(
        self, text: str = "hi", *, context: str = "c", state: str = "COMPLETED", metadata: Any = None, **headers: str
    ) -> None:
        """One turn goes through: the agent calls `search` and answers."""
        artifact = {
            "artifactId": "a",
            "parts": [{"text": f"re: {text}"}],
            "metadata": {METADATA_KEY: [{"id": "1", "name": "search", "arguments": {"q": text}, "result": "42"}]},
            "extensions": [URI],
        }
        task = {"id": f"task of {text}", "contextId": context, "status": {"state": f"TASK_STATE_{state}"}}
        await self.answers({"task": {**task, "artifacts": [artifact]}}, text, metadata, **headers)

    async def answers(self, result: Any, text: str = "hi", metadata: Any = None, **headers: str) -> None:
        message: dict[str, Any] = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}]}
        if metadata is not None:
            message["metadata"] = metadata
        await self.asks("SendMessage", {"message": message}, result, **headers)

    async def asks(self, method: str, params: Any, result: Any, **headers: str) -> None:
        """A request of the client, and what the agent answers."""
        self.agent.prepare(json_answer({"jsonrpc": "2.0", "id": 1, "result": result}))
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        everything = {"a2a-version": "1.0", "a2a-eval-run": self.run, **named}
        response = await self.data.post("/", content=json.dumps(request), headers=everything)
        assert response.status_code == 200

    async def get(self, path: str, **query: Any) -> Any:
        response = await self.admin.get(path, params=query)
        assert response.status_code == 200, response.text
        return response.json()

    async def flushed(self) -> None:
        response = await self.admin.post("/api/flush")
        assert response.json() == {"done": True, "pending": 0, "open": 0}

    async def turns(self, **query: Any) -> list[dict[str, Any]]:
        """As they began: agents and tasks are stored independently of each other."""
        items = (await self.get("/api/turns", **{"run": self.run, **query}))["items"]
        return sorted(items, key=itemgetter("started_at"))

    async def texts(self, **query: Any) -> list[str]:
        return [turn["user_text"] for turn in await self.turns(**query)]


@asynccontextmanager
async def proxied(folder: Path, agent: ReplayAgent | None = None, **settings: Any) -> AsyncIterator[Proxied]:
    with ExitStack() as stack:
        agent = agent or stack.enter_context(ReplayAgent())
        ports = {"listen": "127.0.0.1:0", "admin": "127.0.0.1:0", "otlp": None}
        given = {"upstream": agent.url, "run": "nightly", "store": str(folder / "turns.db"), **ports, **settings}
        everything = Settings(**given)
        async with (
            run_proxy(everything) as proxy,
            httpx.AsyncClient(base_url=proxy.url) as data,
            httpx.AsyncClient(base_url=proxy.admin_url) as admin,
        ):
            admin.event_hooks = {"response": [refusals_are_sentences]}
            yield Proxied(proxy, agent, data, admin)


async def refusals_are_sentences(response: httpx.Response) -> None:
    """Fails for a refusal of the admin API that has anything but `error`, which says what is wrong."""
    if response.request.url.path.startswith("/api/") and 400 <= response.status_code < 500:
        await response.aread()
        refusal = response.json()
        assert list(refusal) == ["error"]
        assert refusal["error"].strip()
