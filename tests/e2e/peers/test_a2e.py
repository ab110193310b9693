"""An a2a-sdk agent whose tools run behind A2E, in a process of their own: its calls are reported to clients."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from a2a.helpers import new_task_from_user_message, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a_eval_proxy.net.http_server import HttpServer
from a2a_tool_capture import CapturingRequestHandler
from a2a_tool_capture.a2e import ToolAPI
from a2a_tool_capture.client import CaptureClient
from a2a_tool_capture.models import CapturedTurn
from agents.scenario_agent import RPC_PATH, AgentOptions, agent_card
from starlette.applications import Starlette

PAGE = Path(__file__).parents[3] / "extension/docs/servers.md"


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


async def test_calls_behind_a2e_are_those_that_a_client_gets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the page's host and agent."""
    (tmp_path / "shop.py").write_text(example("class Shop"), "utf-8")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(example("host_process"), names)
    turns: dict[str, CapturedTurn] = {}

    async def serve_agent(tools: ToolAPI) -> None:
        app = Starlette()
        server = HttpServer(app, "127.0.0.1:0", shutdown_timeout_s=1)
        card = agent_card(server.url, AgentOptions())
        agent = OrderAgent(tools, names["look_up"])
        handler = CapturingRequestHandler(agent, InMemoryTaskStore(), card, recorder=names["recorder"])
        app.routes.extend([*create_agent_card_routes(card), *create_jsonrpc_routes(handler, RPC_PATH)])
        await server.start()
        async with CaptureClient(server.url) as client:
            texts = ("ORD-1", "ORD-2 ORD-2", "ORD-3 fail")
            turns.update(zip(texts, await asyncio.gather(*map(client.send, texts)), strict=True))
        await server.stop()

    names["serve_agent"] = serve_agent
    await names["main"]()

    def looked_up(order: str) -> tuple[Any, ...]:
        return ("look_up", {"order_id": order}, f'{{"order": "{order}", "status": "shipped"}}', None)

    unknown = ("teleport", {}, None, "unknown_tool: there is no tool 'teleport'")
    calls = {
        text: [(call.name, call.arguments, call.result, call.error) for call in turn.tool_calls]
        for text, turn in turns.items()
    }
    assert calls == {
        "ORD-1": [looked_up("ORD-1")],
        "ORD-2 ORD-2": [looked_up("ORD-2")] * 2,
        "ORD-3 fail": [looked_up("ORD-3"), looked_up("fail"), unknown],
    }
    assert [turn.text for turn in turns.values()] == ["shipped", "shipped, shipped", "shipped, shipped, unknown_tool"]
    assert [turn.findings for turn in turns.values()] == [()] * 3
