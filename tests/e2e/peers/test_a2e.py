"""An a2a-sdk agent whose tools run behind A2E, in a process of their own: its calls are captured by the proxy."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from a2a.helpers import new_task_from_user_message, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface
from a2a_eval_proxy.app import RunningProxy, run_proxy
from a2a_eval_proxy.net.http_server import HttpServer
from a2a_eval_proxy.settings.settings import Settings
from a2a_tool_capture import CapturingRequestHandler
from a2a_tool_capture.a2e import ToolAPI
from a2a_tool_capture.client import CaptureClient
from starlette.applications import Starlette
from support.patience import PATIENCE_S

PAGE = Path(__file__).parents[3] / "extension/docs/a2e.md"

SUITE = """\
suite: orders
tools:
  - name: look_up
    parameters: {type: object, properties: {order_id: {type: string}}, required: [order_id]}
evaluators: [tool_error, tool_call_validity]
cases:
  - id: one
    turns: [{user: ORD-1}]
"""


def example(word: str) -> str:
    """The one Python example of the page with this word in it."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    (block,) = [block for block in blocks if word in block]
    return str(block)


class OrderAgent(AgentExecutor):
    """Looks up every order the user names, all at once."""

    def __init__(self, tools: ToolAPI, look_up: Any) -> None:
        self._tools = tools
        self._look_up = look_up

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.message is not None
        assert context.task_id is not None
        assert context.context_id is not None
        await event_queue.enqueue_event(new_task_from_user_message(context.message))
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        orders = context.get_user_input().split()
        found = await asyncio.gather(*(self._look_up(self._tools, order) for order in orders))
        if "fail" in orders:
            found.append((await self._tools.call("teleport")).error_code)
        await updater.add_artifact([new_text_part(", ".join(found))])
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise NotImplementedError


@asynccontextmanager
async def proxy_before_the_agent(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RunningProxy]:
    """The page's host and agent, the agent served, and the proxy before it."""
    (folder / "shop.py").write_text(example("class Shop"), "utf-8")
    (folder / "suite.yaml").write_text(SUITE, "utf-8")
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {}
    exec(example("host_process"), names)
    ready: asyncio.Queue[RunningProxy] = asyncio.Queue()
    done = asyncio.Event()

    async def serve_agent(tools: ToolAPI) -> None:
        app = Starlette()
        server = HttpServer(app, "127.0.0.1:0", shutdown_timeout_s=1)
        card = AgentCard(
            name="orders",
            version="1",
            capabilities=AgentCapabilities(streaming=True),
            supported_interfaces=[AgentInterface(url=server.url, protocol_binding="JSONRPC", protocol_version="1.0")],
        )
        handler = CapturingRequestHandler(
            OrderAgent(tools, names["look_up"]), InMemoryTaskStore(), card, recorder=names["recorder"]
        )
        app.routes.extend([*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/")])
        await server.start()
        free, store = "127.0.0.1:0", str(folder / "turns.db")
        settings = Settings(
            upstream=server.url, listen=free, admin=free, otlp=None, store=store, suite="suite.yaml", run="a2e"
        )
        async with run_proxy(settings) as proxy:
            ready.put_nowait(proxy)
            await done.wait()
        await server.stop()

    names["serve_agent"] = serve_agent
    agent = asyncio.create_task(names["main"]())
    yield await ready.get()
    done.set()
    await agent


@pytest.mark.statement(311)
async def test_calls_behind_a2e_are_captured_and_scored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with proxy_before_the_agent(tmp_path, monkeypatch) as proxy:
        async with CaptureClient(proxy.url) as client:
            conversations = [client.send(text) for text in ("ORD-1", "ORD-2 ORD-2", "ORD-3 fail")]
            answers = await asyncio.gather(*conversations)
        assert await proxy.flush(PATIENCE_S) == {"pending": 0, "open": 0}
        turns = {turn["user_text"]: turn for turn in await proxy.turns()}
    assert [answer.text for answer in answers] == ["shipped", "shipped, shipped", "shipped, shipped, unknown_tool"]

    def calls(text: str) -> list[tuple[Any, ...]]:
        return [(call["name"], call["arguments"], call["result"], call["error"]) for call in turns[text]["tool_calls"]]

    def looked_up(order: str) -> tuple[Any, ...]:
        return ("look_up", {"order_id": order}, f'{{"order": "{order}", "status": "shipped"}}', None)

    assert calls("ORD-1") == [looked_up("ORD-1")]
    assert calls("ORD-2 ORD-2") == [looked_up("ORD-2")] * 2
    unknown = ("teleport", {}, None, "unknown_tool: there is no tool 'teleport'")
    assert calls("ORD-3 fail") == [looked_up("ORD-3"), looked_up("fail"), unknown]
    assert all(turn["findings"] == [] for turn in turns.values())
    scores = {
        text: {result["evaluator"]: result["score"] for result in turn["evaluations"]} for text, turn in turns.items()
    }
    assert scores["ORD-1"] == {"tool_error": 1.0, "tool_call_validity": 1.0}
    assert scores["ORD-3 fail"]["tool_error"] < 1.0
    assert scores["ORD-3 fail"]["tool_call_validity"] < 1.0
