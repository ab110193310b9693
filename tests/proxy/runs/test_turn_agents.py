"""`run` with cases whose turns are for several agents: agents of a2a-sdk behind a proxy, one of them over gRPC."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from a2a_eval_proxy.app import RunningProxy, run_proxy
from a2a_eval_proxy.settings.options import load
from a2a_eval_proxy.settings.settings import Settings
from agents.grpc_agent import grpc_agent
from agents.scenario_agent import AgentOptions
from support.prefork import run
from support.stored_runs import stored_turns
from tool_call_evaluators.suite import load_suite

SUITE = """\
suite: desk
evaluators: [tool_trajectory, {tool_trajectory: {id: whole, scope: conversation, mode: superset}}]
gates: {whole: 1}
cases:
  - id: several
    agent: orders
    repeat: 2
    expect: {tool_calls: [{name: search, arguments: null}, {name: convert, arguments: null}]}
    turns:
      - {user: ask who I am, expect: {tool_calls: []}}
      - {user: ask who they are, agent: refunds, expect: {tool_calls: []}}
      - {user: Ada, expect: {tool_calls: [{name: search, arguments: null}, {name: convert, arguments: null}]}}
      - {user: message to all, agent: search, expect: {tool_calls: []}}
      - {user: Bob, agent: refunds, expect: {response_contains: "Hello, Bob!"}}
  - id: one
    agent: search
    turns: [{user: split it, expect: {tool_calls: [{name: search, arguments: null}]}}]
"""
ORDER = ["orders", "refunds", "orders", "search", "refunds"]


@pytest.fixture
async def proxy(tmp_path: Path) -> AsyncIterator[RunningProxy]:
    (tmp_path / "suite.yaml").write_text(SUITE.replace("evaluators: [", "evaluators: [contains, "), "utf-8")
    async with AsyncExitStack() as stack:
        over_http = AgentOptions(bindings=("JSONRPC",))
        agents = {name: (await stack.enter_async_context(grpc_agent(over_http))).url for name in ("orders", "search")}
        over_grpc = await stack.enter_async_context(grpc_agent(AgentOptions(bindings=("GRPC",))))
        own = {name: {"upstream": url} for name, url in agents.items()}
        own["refunds"] = {"upstream": over_grpc.url, "hosts": "localhost"}
        ports = dict.fromkeys(("listen", "admin", "grpc"), "127.0.0.1:0")
        given = {"store": str(tmp_path / "serve.db"), "suite": str(tmp_path / "suite.yaml"), "run": "day"}
        settings = load(Settings, {**ports, **given, "otlp": False, "agents": own})
        yield await stack.enter_async_context(run_proxy(settings))


async def command(folder: Path, *arguments: str) -> tuple[int, str]:
    done = await asyncio.to_thread(run, *arguments, cwd=folder)
    return done.returncode, done.stdout + done.stderr


async def test_each_turn_is_for_its_agent_and_all_are_one_conversation(tmp_path: Path, proxy: RunningProxy) -> None:
    """Such a run is resumed, scored again, accepted and recorded."""
    given = ("run", "suite.yaml", "--agent", proxy.url, "--store", "runs.db", "--run", "monday", "--seed", "7")
    assert (await command(tmp_path, *given, "--repeat", "1"))[0] == 0
    code, shown = await command(tmp_path, *given, "--report", "report", "--resume")
    assert code == 0, shown
    turns = await stored_turns(str(tmp_path / "runs.db"), run="monday")
    several = [turn for turn in turns if turn["case_id"] == "several"]
    conversations = {turn["conversation_id"] for turn in several}
    assert (len(turns), len(conversations)) == (11, 2)
    for one in conversations:
        own = [turn for turn in several if turn["conversation_id"] == one]
        assert [turn["agent_name"] for turn in own] == ORDER
        assert [turn["binding"] for turn in own] == ["JSONRPC", "GRPC", "JSONRPC", "JSONRPC", "GRPC"]
        assert [turn["response_text"] for turn in own][2::2] == ["Hello, Ada!", "Hello, Bob!"]
        assert len({json.dumps(turn["attempt"]) for turn in own}) == 1
        assert own[0]["agent"] == f"{proxy.url}/agents/orders"
    results = json.loads((tmp_path / "report" / "report.json").read_text("utf-8"))
    assert [item["conversation_id"] in conversations for item in results["conversations"]] == [True, True, False]
    tests = ET.parse(tmp_path / "report" / "junit.xml").getroot()
    assert [(item.get("name"), item.get("tests"), item.get("failures")) for item in tests] == [("desk", "2", "0")]
    assert "\n  refunds: Hello, Bob!" in str(next(tests.iter("system-out")).text)
    assert {item.get("value") for item in tests.iter("property") if item.get("name") == "agent"} == {
        f"{proxy.url}/agents/{name}" for name in ORDER
    }

    code, shown = await command(tmp_path, "record", "--store", "runs.db", "--run", "monday", "--out", "recorded.yaml")
    assert code == 0, shown
    cases = {case.id: case for case in load_suite(tmp_path / "recorded.yaml").cases}
    assert [cases["several"].agent_at(index) for index in range(5)] == ORDER
    assert cases["one"].agent == "search"
    suite = (tmp_path / "suite.yaml").read_text("utf-8")
    wrong = suite.replace("refunds, expect: {tool_calls: []", "refunds, expect: {tool_calls: [{name: no}]")
    (tmp_path / "suite.yaml").write_text(wrong, "utf-8")
    again = ("evaluate", "--suite", "suite.yaml", "--store", "runs.db", "--run", "monday")
    accept = ("accept", "suite.yaml", "--store", "runs.db", "--run", "monday", "--yes")
    for words, expected in ((again, 1), (accept, 0), (again, 0)):
        code, shown = await command(tmp_path, *words)
        assert code == expected, shown
