"""The sections of extension/docs/frameworks, with what they install and the newest versions: what they say is seen.

Each installs its framework: `make frameworks` runs these tests, the usual suite does not.
"""

from __future__ import annotations

import ast
import asyncio
import json
import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import pytest
from agents.serving import ServerThread
from e2e.frameworks import pages, scripted_model
from e2e.frameworks.scripted_model import ANSWER, QUESTION, script
from e2e.frameworks.serving import until_served
from support.patience import PATIENCE_S
from support.ports import held_ports
from support.processes import ChildProcess
from support.proxy import Proxy, Turn

pytestmark = [pytest.mark.frameworks, pytest.mark.installs, pytest.mark.slow, pytest.mark.timeout(600)]

QUESTIONS = [("ORD-1001", "Oslo"), ("ORD-1002", "Lima")]
"""The first is sent with a unary operation, the second in a stream, in one conversation."""
RESULTS = {"look_up": lambda order, city: {"order": order, "status": "shipped"}, "delivery_days": lambda order, city: 3}

GetPython = Callable[[str], Path]
GetTurns = Callable[..., list[Turn]]


@pytest.fixture(scope="module")
def model_url() -> Iterator[str]:
    with ServerThread(lambda url: scripted_model.application()) as server:
        yield server.url


@contextmanager
def served(
    page: pages.Page,
    python: Path,
    folder: Path,
    model_url: str,
    mark: str,
    *,
    port: int,
    receiver: str = "",
    before: str = "",
    variables: tuple[tuple[str, str], ...] = (),
) -> Iterator[str]:
    """The page's agent on `port`, which sends its traces to `receiver`; without one it makes none. Yields its URL.

    `before` are lines at the program's top, `variables` are set last.
    """
    pages.written(page, folder, mark, port, traced=bool(receiver))
    agent = folder / "agent.py"
    agent.write_text(before + agent.read_text("utf-8"), "utf-8")
    environment = {
        "PYTHONPATH": "",
        "PATH": f"{python.parent}:{os.environ['PATH']}",
        "OPENAI_API_KEY": "none",
        "OPENAI_BASE_URL": f"{model_url}/v1",
        "OPENAI_API_BASE": f"{model_url}/v1",  # LlamaIndex
        "GOOGLE_API_KEY": "none",
        "GOOGLE_GEMINI_BASE_URL": model_url,
        "NO_PROXY": "127.0.0.1",
    }
    command = [str(python), "agent.py"]
    if receiver:
        command = [str(python.parent / page.traced_command[0]), *page.traced_command[1:]]
        environment |= {**page.variables, "OTEL_EXPORTER_OTLP_ENDPOINT": receiver, "OTEL_BSP_SCHEDULE_DELAY": "100"}
    environment |= dict(variables)
    with ChildProcess(command, cwd=folder, environment=environment) as child:
        until_served(f"http://127.0.0.1:{port}", child)
        yield f"http://127.0.0.1:{port}"


async def converse(url: str) -> None:
    async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE_S) as http:
        card = (await http.get(f"{url}/.well-known/agent-card.json")).json()
        old = "supportedInterfaces" not in card or card.get("protocolVersion", "").startswith("0.3")
        endpoint = card["url"] if old else card["supportedInterfaces"][0]["url"]
        conversation = None
        for (order, city), streams in zip(QUESTIONS, (False, True), strict=True):
            message: dict[str, Any] = {"messageId": str(uuid.uuid4())}
            if conversation:
                message["contextId"] = conversation
            text = QUESTION.format(order=order, city=city)
            if old:
                message |= {"role": "user", "kind": "message", "parts": [{"kind": "text", "text": text}]}
                method = "message/stream" if streams else "message/send"
            else:
                message |= {"role": "ROLE_USER", "parts": [{"text": text}]}
                method = "SendStreamingMessage" if streams else "SendMessage"
            answer = await _ask(http, endpoint, method, {"message": message}, old=old)
            if not streams:
                result = answer.json()["result"]
                task = result if old else next(iter(result.values()))
                conversation = task["contextId"]
                while ANSWER not in answer.text and task["status"]["state"] in _UNFINISHED:
                    method = "tasks/get" if old else "GetTask"
                    answer = await _ask(http, endpoint, method, {"id": task["id"]}, old=old)
                    result = answer.json()["result"]
                    task = result.get("task", result)
            assert ANSWER in answer.text, answer.text


_UNFINISHED = ("submitted", "working", "TASK_STATE_SUBMITTED", "TASK_STATE_WORKING")


async def _ask(http: httpx.AsyncClient, url: str, method: str, parameters: Any, *, old: bool) -> httpx.Response:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters}
    return await http.post(url, json=body, headers={} if old else {"A2A-Version": "1.0"})


def wanted(order: str, city: str) -> list[tuple[Any, ...]]:
    return [
        (call.name, call.arguments, RESULTS[call.name](order, city)) for step in script(order, city) for call in step
    ]


def calls_of(turn: Turn) -> list[tuple[Any, ...]]:
    """Parallel calls begin in any order."""
    calls = [(call["name"], call["arguments"], _value(call["result"])) for call in turn["tool_calls"]]
    return sorted(calls, key=lambda call: call[0] != "look_up")


def _value(text: str | None) -> Any:
    """The value of a result: some frameworks show the model JSON, others Python."""
    try:
        return json.loads(text or "null")
    except ValueError:
        return ast.literal_eval(text or "None")


@pytest.fixture(scope="module")
def turns_of(python_of: GetPython, model_url: str, tmp_path_factory: pytest.TempPathFactory) -> GetTurns:
    """The turns of a conversation with the agent of a page."""

    @cache
    def get(name: str, mark: str, *, traced: bool, **switched: Any) -> list[Turn]:
        folder = tmp_path_factory.mktemp(name)
        options = ["--expect-traces", "--trace-wait", "20"] if traced else []
        with ExitStack() as until_end:
            (port,) = until_end.enter_context(held_ports(1))
            proxy = until_end.enter_context(
                Proxy(f"http://127.0.0.1:{port}", folder / "turns.db", *options, telemetry=True)
            )
            receiver = proxy.otlp_url or "" if traced else ""
            agent = served(
                pages.read(name), python_of(name), folder, model_url, mark, port=port, receiver=receiver, **switched
            )
            until_end.enter_context(agent)
            asyncio.run(converse(proxy.url))
            proxy.flush()
            turns = proxy.turns()
        return sorted(turns, key=lambda turn: turn["started_at"])

    return get


WANTED = [wanted(order, city) for order, city in QUESTIONS]
TRACED = [name for name in pages.names() if pages.read(name).traced_command]


@pytest.mark.parametrize(
    ("name", "mark", "traced"),
    [*((name, "+", False) for name in pages.names()), *((name, mark, True) for name in TRACED for mark in "-+")],
)
def test_the_extension_shows_calls_and_so_do_traces(name: str, mark: str, traced: bool, turns_of: GetTurns) -> None:
    """Both together show each call once."""
    turns = turns_of(name, mark, traced=traced)
    assert [calls_of(turn) for turn in turns] == WANTED
    assert {turn["calls"] for turn in turns} == {"seen"}


@pytest.mark.parametrize("name", pages.names())
def test_without_these_lines_calls_are_unknown(name: str, turns_of: GetTurns) -> None:
    turns = turns_of(name, "-", traced=False)
    assert [turn["calls"] for turn in turns] == ["unknown", "unknown"]


DISABLED = "from agents import set_tracing_disabled\n\nset_tracing_disabled(True)\n"
NO_CONTENT = {
    "OTEL_SEMCONV_STABILITY_OPT_IN": "",
    "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "",
    "ENABLE_SENSITIVE_DATA": "false",
    "OPENINFERENCE_HIDE_INPUTS": "true",
    "OPENINFERENCE_HIDE_OUTPUTS": "true",
    "OPENAI_AGENTS_TRACE_INCLUDE_SENSITIVE_DATA": "false",
}
SWITCHES = [
    pytest.param("openai-agents", "+", False, DISABLED, {}, id="the bridge of OpenAI Agents without tracing"),
    pytest.param("openai-agents", "-", True, DISABLED, {}, id="traces of OpenAI Agents without tracing"),
    pytest.param("agent-framework", "-", True, "", {"ENABLE_INSTRUMENTATION": "false"}, id="Agent Framework untraced"),
    pytest.param("google-adk", "-", True, "", {"OTEL_SDK_DISABLED": "true"}, id="OpenTelemetry switched off"),
    pytest.param("openai-agents", "+", False, "", NO_CONTENT, id="the bridge of OpenAI Agents without content"),
    *(
        pytest.param(name, "-", True, "", NO_CONTENT, id=f"{name} without content")
        for name in ("agent-framework", "crewai", "google-adk", "langchain", "llama-index", "smolagents")
    ),
]


@pytest.mark.parametrize(("name", "mark", "traced", "before", "variables"), SWITCHES)
def test_no_switch_turns_calls_that_were_made_into_none(
    turns_of: GetTurns, name: str, mark: str, traced: bool, before: str, variables: dict[str, str]
) -> None:
    turns = turns_of(name, mark, traced=traced, before=before, variables=tuple(variables.items()))
    for turn, calls in zip(turns, WANTED, strict=True):
        wanted_of = {call[0]: call[1] for call in calls}
        assert turn["calls"] == "unknown" or sorted(call["name"] for call in turn["tool_calls"]) == sorted(wanted_of)
        for call in turn["tool_calls"]:
            assert call["arguments"] in (None, wanted_of[call["name"]]), "what is left out is unknown, not none"
