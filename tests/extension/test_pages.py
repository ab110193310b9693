"""The examples of extension/README.md and extension/docs run and do what the text says."""

from __future__ import annotations

import ast
import asyncio
import contextvars
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from a2a.server.agent_execution import AgentExecutor
from a2a.server.events import EventQueue
from a2a.server.routes import create_jsonrpc_routes
from a2a.server.tasks import (
    BasePushNotificationSender,
    InMemoryPushNotificationConfigStore,
    InMemoryTaskStore,
    TaskUpdater,
)
from a2a.types import AgentCard
from a2a_eval_proxy.features.check.rules import CheckVerdict
from a2a_tool_capture import (
    URI,
    CaptureClient,
    CapturingRequestHandler,
    ToolCallRecorder,
    read_tool_calls,
)
from a2a_tool_capture.models import CapturedTurn
from agents.serving import ServerThread
from google.protobuf.json_format import MessageToDict
from opentelemetry.sdk.trace import TracerProvider
from packaging.requirements import Requirement
from starlette.applications import Starlette
from starlette.middleware import Middleware
from support.checking import check
from support.linked import beside_the_extension, brought_by
from support.patience import PATIENCE_S

EXTENSION = Path(__file__).parents[2] / "extension"
MOST_CHANGED_LINES = 5


def example(page: str, language: str, word: str) -> str:
    """The one code block of a page that contains `word`."""
    blocks = re.findall(rf"```{language}\n(.*?)```", (EXTENSION / page).read_text("utf-8"), re.DOTALL)
    (found,) = [block for block in blocks if word in block]
    return str(found)


def side(diff: str, mark: str) -> str:
    """One side of a diff: the lines that both sides have, and those marked with `mark`."""
    return "".join(line[1:] + "\n" for line in diff.splitlines() if line[:1] in (" ", mark, ""))


async def test_five_changed_lines_make_a_stock_agent_report_its_calls() -> None:
    diff = example("README.md", "diff", "CapturingRequestHandler")
    added = [line for line in diff.splitlines() if line.startswith("+")]
    assert len(added) <= MOST_CHANGED_LINES

    def app(url: str, mark: str) -> Any:
        names: dict[str, Any] = {"__name__": "agent"}
        exec(side(diff, mark).replace("http://127.0.0.1:9999", url), names)
        return names["app"]

    for mark, calls in (("-", []), ("+", [("look_up", {"order_id": "ORD-1001"})])):
        with ServerThread(lambda url, mark=mark: app(url, mark)) as server:
            async with CaptureClient(server.url, timeout_s=PATIENCE_S) as client:
                assert client.declared is bool(calls)
                turn = await client.send("Where is my order?")
            if mark == "+":
                assert (await check(server.url)).verdict is CheckVerdict.CONFORMING
                turn = await turn_of_the_client_example(server.url)
        assert turn.text == "It is shipped."
        assert [(call.name, call.arguments) for call in turn.tool_calls] == calls


def test_the_example_runs_with_what_the_page_says_to_install(tmp_path: Path) -> None:
    """In an environment without the packages of this suite."""
    (extra, others) = re.findall(
        r"\$ pip install '\./extension\[(.+?)\]'(.*?)#", example("README.md", "console", "a2a-sdk")
    )[0]
    requirements = [*brought_by(extra), *map(Requirement, others.split())]
    packages = beside_the_extension(tmp_path, Path(sys.executable), requirements)
    code = side(example("README.md", "diff", "CapturingRequestHandler"), "+").replace("__main__", "agent")
    code += "from a2a_tool_capture import CaptureClient"
    done = subprocess.run([sys.executable, "-S", "-c", code], env=packages, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


async def turn_of_the_client_example(url: str) -> CapturedTurn:
    code = example("README.md", "python", "CaptureClient").replace("http://127.0.0.1:9999", url)
    names: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("TOKEN", "secret")
        await eval(compile(code, "README.md", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
    turn: CapturedTurn = names["turn"]
    return turn


async def test_calls_can_be_put_on_artifacts_by_hand() -> None:
    declaration, reporting = example("docs/payload.md", "python", "agent_extension()").split("...\n")
    card = AgentCard()
    sent: list[Any] = []

    class Queue(EventQueue):
        async def enqueue_event(self, event: Any) -> None:
            sent.append(event)

    names: dict[str, Any] = {"card": card, "context": SimpleNamespace(requested_extensions={URI}), "parts": []}
    names["updater"] = TaskUpdater(Queue.__new__(Queue), "task", "context")
    await eval(compile(declaration + reporting, "payload.md", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
    assert [extension.uri for extension in card.capabilities.extensions] == [URI]
    reading = read_tool_calls(MessageToDict(sent[0].artifact))
    assert [(call.name, call.arguments, call.result) for call in reading.tool_calls] == [
        ("search", {"q": "kettle"}, "KET-01")
    ]
    assert reading.findings == []


def test_webhooks_can_be_gated() -> None:
    code = example("docs/servers.md", "python", "GatedPushConfigStore")
    card = AgentCard()
    names: dict[str, Any] = {
        "card": card,
        "MyAgent": _Agent,
        "InMemoryTaskStore": InMemoryTaskStore,
        "InMemoryPushNotificationConfigStore": InMemoryPushNotificationConfigStore,
        "BasePushNotificationSender": BasePushNotificationSender,
        "httpx": httpx,
    }
    exec(code, names)
    assert [extension.uri for extension in card.capabilities.extensions] == [URI]


def test_callers_can_be_guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVALUATOR_TOKEN", "token")
    over_http = example("docs/access.md", "python", "ActivationGate")
    recorder = ToolCallRecorder()
    handler = CapturingRequestHandler(_Agent(), InMemoryTaskStore(), AgentCard(), recorder=recorder)
    names = {"Starlette": Starlette, "Middleware": Middleware, "os": os, "handler": handler}
    exec(over_http, names | {"create_jsonrpc_routes": create_jsonrpc_routes})
    monkeypatch.delenv("EVALUATOR_TOKEN")
    with pytest.raises(KeyError):
        exec(over_http, names | {"create_jsonrpc_routes": create_jsonrpc_routes})


def test_calls_can_be_recorded_without_a_decorator() -> None:
    code = example("docs/recording.md", "python", "recorder.started")
    recorder = ToolCallRecorder()
    with recorder.request() as recording:
        exec(code, {"recorder": recorder})
    assert recording is not None
    told = {(call.name, str(call.arguments), call.result) for call in recording.tool_calls}
    assert told == {("search", "{'q': 'kettle'}", '["KET-01"]')}
    assert len(recording.tool_calls) == 3


async def test_tools_in_a_pool_of_threads_are_recorded() -> None:
    code = example("docs/recording.md", "python", "run_in_executor")
    recorder = ToolCallRecorder()
    with ThreadPoolExecutor() as pool, recorder.request() as recording:
        names: dict[str, Any] = {"asyncio": asyncio, "contextvars": contextvars, "pool": pool}
        names["look_up"] = recorder.tool(name="look_up")(lambda order_id: order_id.lower())
        exec(code, names)
        await asyncio.gather(*map(names["look_up_in_pool"], ("A", "B")))
    assert recording is not None
    assert {call.result for call in recording.tool_calls} == {"a", "b"}


class _Agent(AgentExecutor):
    async def execute(self, context: Any, event_queue: Any) -> None: ...

    async def cancel(self, context: Any, event_queue: Any) -> None: ...


def test_spans_are_bridged() -> None:
    code = example("docs/bridges.md", "python", "ToolSpanProcessor")
    provider = TracerProvider(shutdown_on_exit=False)
    names: dict[str, Any] = {"provider": provider}
    exec(code, names)
    with names["recorder"].request() as recording:
        attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look_up"}
        provider.get_tracer("test").start_span("execute_tool look_up", attributes=attributes).end()
    assert [call.name for call in recording.tool_calls] == ["look_up"]
