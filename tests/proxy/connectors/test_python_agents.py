"""Agents that are Python classes, driven by `run`: each behind a real a2a-sdk server in this process."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from a2a_eval_proxy.errors import ConfigError
from a2a_eval_proxy.features.check.rules import CheckVerdict
from a2a_eval_proxy.features.connectors import conversations
from a2a_eval_proxy.features.connectors.conversations import AgentConversations
from a2a_eval_proxy.runs.drive import AgentOptions, run_suite
from a2a_eval_proxy.runs.served_agents import connected
from a2a_tool_capture.client import CaptureClient
from a2a_tool_capture.models import CapturedTurn
from support.checking import check
from support.patience import PATIENCE_S
from support.prefork import run
from support.stored_runs import stored_turns
from tool_call_evaluators.suite import AgentDefaults, parse_suite

HEAD = """
from __future__ import annotations
import asyncio, threading, time
from a2a_tool_capture.connector import AgentConfig, AgentResponse, BaseAgent, ToolCall, recorder

log = []
"""

ARKSIM = """
from __future__ import annotations
from arksim import AgentResponse, ToolCall
from arksim.config import AgentConfig
from arksim.simulation_engine.agent.base import BaseAgent

log = []


class Orders(BaseAgent):
    def __init__(self, agent_config: AgentConfig) -> None:
        super().__init__(agent_config)
        self.seen = []

    async def get_chat_id(self) -> str:
        return f"chat of {self.agent_config.agent_name}"

    async def execute(self, user_query: str, **kwargs: object) -> str | AgentResponse:
        self.seen.append(kwargs["metadata"])
        return AgentResponse(
            content=f"{user_query}: shipped",
            tool_calls=[ToolCall(id="c1", name="look_up", arguments={"order_id": "ORD-1"}, result="shipped")],
        )

    async def close(self) -> None:
        log.append(self.seen)
"""


@pytest.fixture
def agent_file(tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str) -> Path:
        path = tmp_path / "orders.py"
        path.write_text(text if "__future__" in text else HEAD + text, "utf-8")
        return path

    return write


def module_of(path: Path) -> Any:
    return sys.modules[f"a2a_eval_agent:{path.resolve()}"]


async def said(reference: object, *texts: Any, timeout_s: float = 30.0) -> list[CapturedTurn]:
    """The turns of one conversation."""
    async with (
        connected(f"python:{reference}", AgentDefaults(), {}, None, timeout_s) as server,
        CaptureClient(server.url if server else "") as client,
    ):
        conversation = client.conversation()
        return [await conversation.send(text) for text in texts]


# ── what an agent gets and gives ────────────────────────────────────────────────────────────────────────────


@pytest.mark.statement(313, 314, 315)
async def test_an_agent_of_arksim_runs_as_it_stands(agent_file: Callable[[str], Path], tmp_path: Path) -> None:
    path = agent_file(ARKSIM)
    suite = parse_suite(
        "suite: orders\nevaluators: [{tool_trajectory: {mode: strict}}]\ncases:\n- id: status\n  turns:\n"
        + "  - {user: Where, expect: {tool_calls: [{name: look_up, arguments: {order_id: ORD-1}}]}}\n" * 2
    )
    store = str(tmp_path / "turns.db")
    result = await run_suite(suite, AgentOptions(f"python:{path}"), store, "nightly")
    assert result.verdict.passed, result.verdict.reasons
    turns = await stored_turns(store)
    assert [turn["response_text"] for turn in turns] == ["Where: shipped"] * 2
    assert {turn["agent"] for turn in turns} == {f"python:{path}"}
    call = {"id": "c1", "name": "look_up", "arguments": {"order_id": "ORD-1"}, "result": "shipped", "error": None}
    assert turns[0]["tool_calls"] == [call | {"source": "client"}]
    assert {turn["conversation_id"] for turn in turns} == {"chat of Orders"}
    assert turns[0]["capture"]["declared"]
    assert module_of(path).log == [
        [{"chat_id": "chat of Orders", "turn_id": 0}, {"chat_id": "chat of Orders", "turn_id": 1}]
    ]


async def test_conversations_with_one_id_for_all_stay_apart(agent_file: Callable[[str], Path], tmp_path: Path) -> None:
    cases = "".join(f"- {{id: c{number}, repeat: 2, turns: [{{user: Where}}]}}\n" for number in (1, 2))
    suite = parse_suite(f"suite: orders\nevaluators: [tool_error]\ncases:\n{cases}")
    result = await run_suite(suite, AgentOptions(f"python:{agent_file(ARKSIM)}"), str(tmp_path / "turns.db"), "nightly")
    assert result.verdict.passed, result.verdict.reasons
    ids = [conversation.conversation_id for conversation in result.report.conversations]
    assert len(set(ids)) == 4
    assert ids.count("chat of Orders") == 1


async def test_the_source_of_calls_is_the_one_that_the_agent_states(
    agent_file: Callable[[str], Path], tmp_path: Path
) -> None:
    path = agent_file(ARKSIM.replace("result=", 'source="openai_agents", result='))
    suite = parse_suite("suite: s\nevaluators: [tool_error]\ncases: [{id: a, turns: [{user: Where}]}]")
    result = await run_suite(suite, AgentOptions(f"python:{path}"), str(tmp_path / "turns.db"), "nightly")
    assert [call["source"] for turn in result.report.turns for call in turn["tool_calls"]] == ["openai_agents"]


@pytest.mark.parametrize(
    "method",
    [
        "async def execute(self, user_query, **kwargs): return str([kwargs['chat_id'], kwargs['turn_id']])",
        "def execute(self, user_query, chat_id, turn_id): return str([chat_id, turn_id])",
        "def execute(self, user_query, metadata): return str(list(metadata.values()))",
    ],
)
async def test_an_agent_without_an_id_of_its_own_has_that_of_the_protocol(
    agent_file: Callable[[str], Path], method: str
) -> None:
    turns = await said(agent_file(f"class Plain:\n    {method}\n"), "one", "two")
    assert [turn.text for turn in turns] == [str([turns[0].context_id, number]) for number in (0, 1)]


async def test_a_function_runs_in_a_thread_and_keeps_its_instance(agent_file: Callable[[str], Path]) -> None:
    path = agent_file(
        "class Plain:\n"
        "    def execute(self, user_query):\n"
        "        self.count = getattr(self, 'count', 0) + 1\n"
        "        log.append(threading.current_thread())\n"
        "        return f'{self.count} {user_query}'\n"
    )
    data = [{"data": {"order": "A-1"}}]
    assert [turn.text for turn in await said(path, "one", data)] == ["1 one", '2 {"order": "A-1"}']
    assert threading.main_thread() not in module_of(path).log


@pytest.mark.parametrize(
    ("answer", "calls"),
    [
        ("{'content': 'ok', 'tool_calls': [{'name': 'a', 'error': 'no'}]}", [("a", {}, None, "no")]),
        ("AgentResponse('ok', [ToolCall('a', {'x': 1}, result={'y': [2]})])", [("a", {"x": 1}, '{"y": [2]}', None)]),
        ("AgentResponse('ok', [ToolCall('a', {}, 'i'), ToolCall('a', {}, 'i')])", [("a", {}, None, None)] * 2),
        (
            "AgentResponse('ok', [ToolCall('a', None, result='r'), ToolCall('b')])",
            [("a", None, "r", None), ("b", {}, None, None)],
        ),
        ("{'content': 'ok', 'tool_calls': [{'name': 'a', 'arguments': None}]}", [("a", None, None, None)]),
        ("AgentResponse('ok')", []),
        ("'ok'", []),
        ("'ok' + chr(0xD800)", []),
    ],
)
async def test_answers_may_be_text_objects_or_mappings(
    agent_file: Callable[[str], Path], answer: str, calls: list[tuple[Any, ...]]
) -> None:
    (turn,) = await said(agent_file(f"class Plain:\n    def execute(self, user_query): return {answer}\n"), "go")
    assert turn.text.removesuffix("?") == "ok"
    assert [(call.name, call.arguments, call.result, call.error) for call in turn.tool_calls] == calls


@pytest.mark.statement(349, 351)
async def test_a_call_that_is_returned_and_recorded_counts_once(agent_file: Callable[[str], Path]) -> None:
    path = agent_file(
        "class Plain:\n"
        "    async def execute(self, user_query, **kwargs):\n"
        "        recorder.record('a', {'x': 'one'}, result='recorded', id='c1')\n"
        "        recorder.record('a', {'x': 'two'}, result='only recorded', id='c2')\n"
        "        return AgentResponse('ok', [ToolCall('a', {'x': 'one'}, 'c1', result='returned'), ToolCall('b')])\n"
    )
    (turn,) = await said(path, "go")
    found = {(call.name, str(call.arguments), call.result) for call in turn.tool_calls}
    assert found == {("a", "{'x': 'one'}", "returned"), ("a", "{'x': 'two'}", "only recorded"), ("b", "{}", None)}
    assert len(turn.tool_calls) == 3


async def test_conversations_do_not_see_each_others_calls(agent_file: Callable[[str], Path]) -> None:
    path = agent_file(
        "both = asyncio.Barrier(2)\n"
        "class Plain:\n"
        "    async def execute(self, user_query, **kwargs):\n"
        "        await both.wait()\n"
        "        recorder.record(user_query)\n"
        "        await both.wait()\n"
        "        return user_query\n"
    )
    async with (
        connected(f"python:{path}", AgentDefaults(), {}, None, 30) as server,
        CaptureClient(server.url if server else "") as client,
    ):
        turns = await asyncio.gather(*(client.conversation().send(text) for text in ("one", "two")))
    assert [[call.name for call in turn.tool_calls] for turn in turns] == [["one"], ["two"]]


# ── what goes wrong ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("raise ValueError('no such order')", "ValueError: no such order (orders.py, line 10)"),
        ("sys.exit(3)", "NameError: name 'sys' is not defined (orders.py, line 10)"),
        ("raise SystemExit(3)", "SystemExit: 3 (orders.py, line 10)"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt (orders.py, line 10)"),
        ("raise asyncio.CancelledError", "CancelledError (orders.py, line 10)"),
        ("raise TimeoutError('of its own')", "TimeoutError: of its own (orders.py, line 10)"),
        ("return None", "Plain.execute returned a NoneType; expected text, or an AgentResponse whose content is text"),
        ("return b'bytes'", "Plain.execute returned a bytes; expected text, or an AgentResponse whose content is text"),
        ("return AgentResponse(7)", "Plain.execute returned a AgentResponse; expected text"),
        (
            "return {'content': '', 'tool_calls': [{'id': 'c'}]}",
            "Plain.execute: tool_calls[0] needs a name, and arguments that are an object",
        ),
    ],
)
async def test_a_failure_is_a_failed_task_with_its_text(
    agent_file: Callable[[str], Path], body: str, text: str
) -> None:
    kind = "def" if body in ("raise SystemExit(3)", "return None") else "async def"
    path = agent_file(
        f"class Plain:\n    {kind} execute(self, user_query, **kwargs):\n        recorder.record('tried')\n"
        f"        {body}\n"
    )
    turn, again = await said(path, "go", "again")
    assert turn.state == again.state == "TASK_STATE_FAILED"
    assert turn.text.startswith(text)
    assert "Traceback" not in turn.text
    assert [call.name for call in turn.tool_calls] == ["tried"]


@pytest.mark.parametrize("body", ["await asyncio.Event().wait()", "threading.Event().wait()"])
async def test_an_agent_that_does_not_answer_fails_at_the_time_limit(
    agent_file: Callable[[str], Path], body: str
) -> None:
    kind = "async def" if body.startswith("await") else "def"
    path = agent_file(f"class Plain:\n    {kind} execute(self, user_query, **kwargs):\n        {body}\n")
    (turn,) = await said(path, "go", timeout_s=0.2)
    assert (turn.state, turn.text) == ("TASK_STATE_FAILED", "no answer within 0.2 s")


BLOCKING = """
release = threading.Event()
class Plain:
    async def execute(self, user_query, **kwargs):
        release.wait()
        return 'late'
"""


async def test_an_agent_that_blocks_its_event_loop_is_abandoned(
    agent_file: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("a2a_eval_proxy.features.connectors.server.STOP_TIMEOUT_S", 0.2)
    path = agent_file(BLOCKING)
    with pytest.raises(Exception, match=r"did not finish within 0\.5 s"):
        async with (
            connected(f"python:{path}", AgentDefaults(), {}, None, 30) as server,
            CaptureClient(server.url if server else "", timeout_s=0.5) as client,
        ):
            await client.conversation().send("go")
    assert f"python:{path} does not stop: it blocks its event loop" in caplog.text
    module_of(path).release.set()


@pytest.mark.parametrize(
    ("reference", "text", "problem"),
    [
        ("missing.py:Orders", "", "missing.py:Orders: no such Python file"),
        ("no.such.module:Orders", "", "no module named 'no' here or among the installed ones"),
        ("orders.py:Missing", "class Plain:\n    def execute(self, q): ...", "has no class Missing; .* Plain"),
        ("orders.py:Plain", "class Plain: ...", r"the class has no method execute\(user_query, \*\*kwargs\)"),
        ("orders.py", "class Plain: ...", "found none: an agent is a class with `execute`"),
        ("orders.py", "class A:\n    def execute(self, q): ...\nclass B(A): ...", "found one of A, B; append :CLASS"),
        (
            "orders.py",
            "import nothing_there",
            r"ModuleNotFoundError: No module named 'nothing_there' \(orders.py, line",
        ),
        ("orders.py", "raise SystemExit(0)", r"SystemExit: 0 \(orders.py, line"),
        ("orders.py", "def f(:", r"SyntaxError"),
        (
            "orders.py",
            "class Plain:\n    def __init__(self, a, b): ...\n    def execute(self, q): ...",
            r"TypeError: .*missing 1 required positional argument",
        ),
        (
            "orders.py",
            "class Plain:\n    def __init__(self): raise KeyError('KEY')\n    def execute(self, q): ...",
            r"Plain\(\) raised KeyError: 'KEY' \(orders.py, line",
        ),
        ("orders.py", "class Plain(BaseAgent):\n    execute: int = 3", "found none"),
        ("or ders", "", "expected python:FILE.py:CLASS or python:MODULE:CLASS"),
    ],
)
async def test_what_is_no_agent_is_said_before_the_run(
    agent_file: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, reference: str, text: str, problem: str
) -> None:
    monkeypatch.chdir(agent_file(text).parent)
    with pytest.raises(ConfigError, match=problem) as raised:
        await said(reference, "go")
    assert str(raised.value).startswith(f"--agent python:{reference}")


async def test_modules_are_found_in_the_current_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sample_agent_parts.py").write_text("def shown(q): return q.upper()", "utf-8")
    (tmp_path / "sample_agent.py").write_text(
        "from sample_agent_parts import shown\nclass Plain:\n    def execute(self, q): return shown(q)\n", "utf-8"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (turn,) = await said("sample_agent:Plain", "go")
    assert turn.text == "GO"


# ── conversations end ───────────────────────────────────────────────────────────────────────────────────────


class Closing:
    """Notes what is closed."""

    closed: list[str]

    def execute(self, user_query: str) -> str:
        self.said = user_query
        return ""

    def close(self) -> None:
        self.closed.append(self.said)


async def test_idle_conversations_end_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversations, "MAX_IDLE", 2)
    monkeypatch.setattr(Closing, "closed", [], raising=False)
    held = AgentConversations(Closing)
    for context_id in ("a", "b", "a", "c", "d"):
        await held.say(context_id, context_id)
    assert Closing.closed == ["b", "a"]
    await held.end("c")
    await held.end("nobody")
    await held.end_all()
    assert Closing.closed == ["b", "a", "c", "d"]


# ── the command ─────────────────────────────────────────────────────────────────────────────────────────────

SUITE = """
suite: orders
agent: {url: "python:orders.py:Orders"}
evaluators: [tool_error]
cases: [{id: status, turns: [{user: Where is it}]}]
"""


async def test_a_python_agent_conforms(agent_file: Callable[[str], Path]) -> None:
    async with connected(f"python:{agent_file(ARKSIM)}", AgentDefaults(), {}, None, PATIENCE_S) as server:
        assert server is not None
        report = await check(server.url)
    assert report.verdict is CheckVerdict.CONFORMING


INSTRUMENTED = """
from a2a_tool_capture.connector import AgentResponse, ToolCall, recorder
from opentelemetry._logs import LogRecord, get_logger, set_logger_provider
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import get_tracer, set_tracer_provider

set_tracer_provider(TracerProvider())
set_logger_provider(LoggerProvider())
CALL = {"type": "tool_call", "id": "c1", "name": "pay", "arguments": {"order": "shown"}}
ASKED = {"role": "assistant", "parts": [CALL]}
ANSWERED = {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "paid"}]}


class Plain:
    def execute(self, user_query):
        with get_tracer(__name__).start_as_current_span("execute_tool pay") as span:
            span.set_attribute("gen_ai.operation.name", "execute_tool")
            content = {"gen_ai.input.messages": [{"role": "user", "content": "Pay."}, ASKED, ANSWERED]}
            name = "gen_ai.client.inference.operation.details"
            get_logger(__name__).emit(LogRecord(event_name=name, attributes=content))
        for order in ("returned", "recorded", "traced"):
            if order == "recorded":
                recorder.record("look_up", {"order": order})
            with get_tracer(__name__).start_as_current_span("execute_tool look_up") as span:
                span.set_attribute("gen_ai.operation.name", "execute_tool")
                span.set_attribute("gen_ai.tool.call.arguments", '{"order": "%s"}' % order)
                span.set_attribute("gen_ai.tool.call.result", "shipped")
                with get_tracer("mcp").start_as_current_span("MCP send tools/call look_up") as below:
                    below.set_attribute("mcp.method.name", "tools/call")
        with get_tracer("openinference").start_as_current_span("look_up") as span:
            span.set_attribute("openinference.span.kind", "TOOL")
            span.set_attribute("input.value", '{"args": [], "kwargs": {"order": "wrapped"}}')
            span.set_attribute("output.value", "shipped")
        return AgentResponse("ok", [ToolCall("look_up", {"order": "returned"})])
"""


def test_the_spans_of_an_instrumented_agent_show_calls(tmp_path: Path) -> None:
    tmp_path.joinpath("orders.py").write_text(INSTRUMENTED, "utf-8")
    tmp_path.joinpath("suite.yaml").write_text(SUITE.replace("Orders", "Plain"), "utf-8")
    done = run("run", "suite.yaml", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    (turn,) = [json.loads(line) for line in run("export", cwd=tmp_path).stdout.splitlines()]
    assert sorted((call["arguments"]["order"], call["result"]) for call in turn["tool_calls"]) == [
        ("recorded", "shipped"),
        ("returned", "shipped"),
        ("shown", "paid"),
        ("traced", "shipped"),
        ("wrapped", "shipped"),
    ]
