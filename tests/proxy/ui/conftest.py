"""A running proxy with its pages, and the agent behind it, for tests that block."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a_eval_proxy.app import RunningProxy, run_proxy
from a2a_eval_proxy.features.pages import screen
from a2a_eval_proxy.settings.options import load
from a2a_eval_proxy.settings.parts import Timeouts
from a2a_eval_proxy.settings.settings import Settings
from a2a_eval_proxy.store import ScoredConversation
from a2a_eval_proxy.threads import LoopThread
from a2a_eval_proxy.turn import Turn
from a2a_tool_capture import METADATA_KEY, URI
from agents.replay_agent import Answer, ReplayAgent

CARD = {
    "name": "Shop agent",
    "description": "Orders, refunds and parcels.",
    "supportedInterfaces": [{"url": "http://agent.example", "protocolBinding": "JSONRPC"}],
    "capabilities": {"streaming": True, "extensions": [{"uri": URI}]},
}
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: %s\r\nconnection: close\r\n\r\n"
A2A = {"a2a-version": "1.0"}


@pytest.fixture(autouse=True)
def _patient_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages wait for verdicts: on a busy machine, none may be ready sooner."""
    monkeypatch.setattr(screen, "FIRST_PAINT_S", 60.0)


def text_of(page: str) -> str:
    """What a page says, without its markup."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


def json_answer(content: Any) -> Answer:
    return Answer([_HEAD % b"application/json" + json.dumps(content).encode()], cut=True)


class Shown:
    """The proxy: `admin` sends requests to its admin port, `agent` answers as prepared."""

    def __init__(self, loop: LoopThread, proxy: RunningProxy, agent: ReplayAgent) -> None:
        self.loop = loop
        self.proxy = proxy
        self.agent = agent
        self.url = proxy.admin_url
        self.admin = httpx.Client(base_url=self.url, trust_env=False)

    def page_address(self) -> str:
        async def address() -> str:
            return self.proxy.control.page_address()

        return self.loop.run(address())

    def store(self, *turns: dict[str, Any]) -> None:
        """Adds turns in their JSON form, done unless they are open, to the store."""

        async def add() -> None:
            results = {turn["turn_id"]: turn["evaluations"] for turn in turns if turn["status"] != "open"}
            made = [Turn.from_dict(turn) for turn in turns]
            assert self.proxy.control.store.add(made, lambda: None, results)
            await self.proxy.control.store.drained()
            self.proxy.control.live_runs.stored(made)
            await self.proxy.control.live_runs.drained()

        self.loop.run(add())

    def finish(self, scored: ScoredConversation) -> None:
        """Stores what was said of a conversation as a whole."""

        async def finish() -> None:
            self.proxy.control.store.finish_conversations([scored], lambda: None)
            await self.proxy.control.store.drained()

        self.loop.run(finish())

    def flush(self) -> None:
        assert self.admin.post("/api/flush").json()["done"]

    @contextmanager
    def streaming(
        self, text: str, events: Sequence[dict[str, Any]], context: str = "c"
    ) -> Iterator[Callable[[], None]]:
        """A message to the agent, whose first event comes at once, and each further one when the function is called."""
        pieces = [
            b"data: " + json.dumps({"jsonrpc": "2.0", "id": 1, "result": event}).encode() + b"\n\n" for event in events
        ]
        self.agent.prepare(Answer([_HEAD % b"text/event-stream" + pieces[0], *pieces[1:]], cut=True, paced=True))
        message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}], "contextId": context}
        request = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": {"message": message}}
        with httpx.stream("POST", self.proxy.url, json=request, headers=A2A, trust_env=False) as response:
            lines = response.iter_lines()
            next(lines)
            yield self.agent.release
            for _ in lines:
                pass


def task(state: str = "WORKING", **fields: Any) -> dict[str, Any]:
    return {"task": {"id": "task-1", "contextId": "c", "status": {"state": f"TASK_STATE_{state}"}, **fields}}


def status(state: str) -> dict[str, Any]:
    return {"statusUpdate": {"taskId": "task-1", "contextId": "c", "status": {"state": f"TASK_STATE_{state}"}}}


def artifact(text: str, *calls: dict[str, Any], append: bool = False) -> dict[str, Any]:
    content = {
        "artifactId": "a",
        "parts": [{"text": text}],
        "extensions": [URI],
        "metadata": {METADATA_KEY: list(calls)},
    }
    return {"artifactUpdate": {"taskId": "task-1", "contextId": "c", "append": append, "artifact": content}}


@contextmanager
def shown_proxy(folder: Path, **settings: Any) -> Iterator[Shown]:
    """A proxy in a thread with an event loop of its own. With `agents`, as in a config file, it has several."""
    loop = LoopThread("proxy with pages")
    with ReplayAgent() as agent, ExitStack() as until_end:
        until_end.callback(loop.close)
        agent.card = json_answer(CARD)
        given = {
            "listen": "127.0.0.1:0",
            "admin": "127.0.0.1:0",
            "otlp": None,
            "store": str(folder / "turns.db"),
            "run": "nightly",
            "timeouts": Timeouts(shutdown=2.0),
            **settings,
        }
        several = "agents" in given
        everything = (
            load(Settings, {**given, "otlp": False, "timeouts": {"shutdown": 2.0}})
            if several
            else Settings(**{"upstream": agent.url, **given})
        )
        stack = AsyncExitStack()
        proxy = loop.run(stack.enter_async_context(run_proxy(everything)))
        until_end.callback(lambda: loop.run(stack.aclose()))
        shown = Shown(loop, proxy, agent)
        until_end.callback(shown.admin.close)
        yield shown


@pytest.fixture(scope="session")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    """A proxy without an admin token. Tests share it, and name their turns, runs and conversations."""
    with shown_proxy(tmp_path_factory.mktemp("shown")) as proxy:
        yield proxy


@pytest.fixture(scope="session")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    """A proxy with an admin token."""
    with shown_proxy(tmp_path_factory.mktemp("locked"), admin_token="s3cret") as proxy:
        yield proxy
