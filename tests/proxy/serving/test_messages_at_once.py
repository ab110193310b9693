"""Messages of one task that overlap, or follow its question at once, before an agent of a2a-sdk: each turn has its own
calls."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a.helpers import new_task_from_user_message, new_text_message, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import (
    InMemoryPushNotificationConfigStore,
    InMemoryTaskStore,
    TaskUpdater,
)
from a2a_eval_proxy.app import RunningProxy, run_proxy
from a2a_eval_proxy.settings.settings import Settings
from a2a_tool_capture import CapturingRequestHandler, GatedPushConfigStore, ToolCallRecorder
from agents.recording_agent import agent_card, application, push_sender
from agents.serving import ServerThread
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from support.patience import PATIENCE_S
from support.ports import held_ports

STEP_S = 0.005
VERSION = {"a2a-version": "1.0"}


class Agent(AgentExecutor):
    """Calls a tool for each message but "ask ...", asks back, and is done after "last ..."."""

    def __init__(self, recorder: ToolCallRecorder) -> None:
        @recorder.tool(name="look_up")
        async def look_up(what: str) -> str:
            return f"found {what}"

        self._look_up = look_up

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.message is not None
        text = context.get_user_input()
        updater = TaskUpdater(event_queue, context.task_id or "", context.context_id or "")
        if context.current_task is None:
            await event_queue.enqueue_event(new_task_from_user_message(context.message))
        await updater.start_work()
        if not text.startswith("ask"):
            await asyncio.sleep(STEP_S)
            await self._look_up(text)
            await asyncio.sleep(STEP_S)
            await updater.add_artifact([new_text_part(f"answer to {text}")])
        await asyncio.sleep(STEP_S)
        if text.startswith("last"):
            await updater.complete()
        else:
            await updater.requires_input(new_text_message(f"and after {text}?", context_id=context.context_id))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None: ...


def app(url: str) -> Any:
    recorder, card = ToolCallRecorder(), agent_card(url)
    webhooks = GatedPushConfigStore(InMemoryPushNotificationConfigStore())
    handler = CapturingRequestHandler(
        Agent(recorder),
        InMemoryTaskStore(),
        card,
        recorder=recorder,
        push_config_store=webhooks,
        push_sender=push_sender(webhooks),
    )
    return application(card, handler)


@pytest.fixture(scope="module")
def agent() -> Iterator[str]:
    with ServerThread(app) as server:
        yield server.url


def request(method: str, text: str, task: Any = None, **configuration: Any) -> dict[str, Any]:
    named = {} if task is None else {"taskId": task["id"], "contextId": task["contextId"]}
    message = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": text}], **named}
    params = {"message": message, "configuration": configuration}
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


async def send(client: httpx.AsyncClient, text: str, task: Any = None, **configuration: Any) -> Any:
    response = await client.post("/rpc", json=request("SendMessage", text, task, **configuration), headers=VERSION)
    return response.json()["result"]["task"]


async def stream(client: httpx.AsyncClient, text: str, task: Any = None) -> list[Any]:
    asked = request("SendStreamingMessage", text, task)
    async with client.stream("POST", "/rpc", json=asked, headers=VERSION) as response:
        return [json.loads(line[5:])["result"] async for line in response.aiter_lines() if line.startswith("data:")]


async def calls(proxy: RunningProxy) -> dict[str, list[str] | None]:
    """By the text of the message; None where they are unknown."""
    await proxy.flush(PATIENCE_S)
    turns, found = await proxy.turns(), {}
    for turn in turns:
        called = [call["arguments"]["what"] for call in turn["tool_calls"]]
        assert called in ([], [turn["user_text"]])
        found[turn["user_text"]] = None if turn["calls"] == "unknown" else called
    return found


@pytest.mark.parametrize("second", [stream, send])
@pytest.mark.parametrize("first", [stream, send])
async def test_the_second_message_begins_while_the_first_is_under_way(
    agent: str, tmp_path: Path, first: Any, second: Any
) -> None:
    ports = dict.fromkeys(("listen", "admin"), "127.0.0.1:0")
    settings = Settings(upstream=agent, otlp=None, store=str(tmp_path / "turns.db"), **ports)

    async def talk(client: httpx.AsyncClient, number: int) -> None:
        task = await send(client, f"ask {number}")
        begun = asyncio.create_task(first(client, f"next {number}", task))
        await asyncio.sleep(number * STEP_S / 4)
        await second(client, f"last {number}", task)
        await begun

    async with (
        run_proxy(settings) as proxy,
        httpx.AsyncClient(base_url=proxy.url, trust_env=False, timeout=PATIENCE_S) as client,
    ):
        for number in range(16):
            await talk(client, number)
        found = await calls(proxy)
    unknown = {text for text, called in found.items() if called is None}
    if second is send:  # which a2a-sdk may answer with the end of the first
        unknown -= {f"last {number}" for number in range(16)}
    assert unknown == set()
    assert {text for text, called in found.items() if called == []} == {f"ask {number}" for number in range(16)}


async def test_a_task_is_continued_as_soon_as_its_webhook_is_asked(agent: str, tmp_path: Path) -> None:
    """The agent answers some of these messages with the status that it had before: only notifications show the rest."""
    asked: dict[str, asyncio.Event] = {f"{number}": asyncio.Event() for number in range(20)}
    done: dict[str, asyncio.Event] = {f"{number}": asyncio.Event() for number in range(20)}
    loop = asyncio.get_running_loop()

    async def take(notification: Request) -> Response:
        body, number = await notification.body(), notification.path_params["number"]
        if b"INPUT_REQUIRED" in body:
            loop.call_soon_threadsafe(asked[number].set)
        if b"COMPLETED" in body:
            loop.call_soon_threadsafe(done[number].set)
        return Response()

    with (
        ServerThread(lambda url: Starlette(routes=[Route("/{number}", take, methods=["POST"])])) as hooks,
        held_ports(1) as (port,),
    ):
        here = f"127.0.0.1:{port}"
        push = {"push_url": f"http://{here}/push", "push_listen": here, "push_allow": ("127.0.0.1",)}
        ports = dict.fromkeys(("listen", "admin"), "127.0.0.1:0")
        settings = Settings(upstream=agent, otlp=None, store=str(tmp_path / "turns.db"), **ports, **push)
        async with (
            run_proxy(settings) as proxy,
            httpx.AsyncClient(base_url=proxy.url, trust_env=False, timeout=PATIENCE_S) as client,
        ):

            async def talk(number: str) -> None:
                webhook = {"url": f"{hooks.url}/{number}"}
                configuration = {"taskPushNotificationConfig": webhook, "returnImmediately": True}
                task = await send(client, f"ask {number}", **configuration)
                await asked[number].wait()
                await send(client, f"last {number}", task)
                await done[number].wait()

            async with asyncio.timeout(PATIENCE_S):
                await asyncio.gather(*map(talk, asked))
            found = await calls(proxy)
    assert {text for text, called in found.items() if called} == {f"last {number}" for number in asked}
    assert None not in found.values()
