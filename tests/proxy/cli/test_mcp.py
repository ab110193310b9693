"""`mcp` with the client of the MCP SDK: what a coding agent reads of a failed run, and what it may change."""

from __future__ import annotations

import json
import subprocess
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from a2a_eval_proxy.features.mcp.options import McpOptions
from a2a_eval_proxy.features.mcp.tools import MAX_CHARACTERS, tools_server
from support.prefork import COMMAND
from support.stored_runs import store_turns
from support.turn_samples import call, turn

AGENT = """\
from a2a_tool_capture.connector import AgentResponse, ToolCall

class Orders:
    async def execute(self, user_query, **kwargs):
        return AgentResponse("It is sent.", [ToolCall("look_up", {"id": "ORD-2"}, result="{}")])
"""
SUITE = """\
suite: orders
agent: {url: "python:agent.py:Orders"}
evaluators: [tool_trajectory]
cases:
  - {id: one, turns: [{user: Where is it?, expect: {tool_calls: [{name: look_up, arguments: {id: ORD-1}}]}}]}
  - {id: two, turns: [{user: And now?, expect: {tool_calls: [{name: look_up, arguments: {id: ORD-2}}]}}]}
"""
Ask: TypeAlias = Callable[..., Coroutine[Any, Any, str]]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "agent.py").write_text(AGENT)
    (tmp_path / "suite.yaml").write_text(SUITE)
    return tmp_path


@asynccontextmanager
async def served(**options: bool) -> AsyncIterator[tuple[list[Any], Ask]]:
    """The tools, and a function that calls one and returns its text."""
    from mcp import Client  # not for all the processes that import this file

    async with Client(tools_server(McpOptions(suite="suite.yaml", **options))) as client:

        async def ask(tool: str, *, wrong: bool = False, **given: Any) -> str:
            result: Any = await client.call_tool(tool, given)
            assert result.is_error is wrong
            (content,) = result.content
            return str(content.text)

        yield (await client.list_tools()).tools, ask


async def test_from_a_failed_case_to_an_accepted_change(folder: Path) -> None:
    async with served(allow_accept=True) as (tools, ask):
        assert len(tools) == 6
        verdict = await ask("run_cases")
        run = verdict.split()[1]
        assert "1 reason" in verdict
        assert f'"name": "{run}"' in await ask("list_runs")
        shown = await ask("show_run", run=run)
        assert ("case one" in shown, "case two" in shown) == (True, False)
        assert "case two" in await ask("show_run", run=run, failed_only=False)
        turn_id = next(line for line in shown.splitlines() if "case one" in line).split(",")[0]
        assert '    id: expected "ORD-1", got "ORD-2"' in await ask("show_turn", turn_id=turn_id)
        assert "+  - {id: one" in await ask("accept_changes", run=run)
        assert (folder / "suite.yaml").read_text() == SUITE
        await ask("accept_changes", run=run, cases=["one"], dry_run=False)
        assert (folder / "suite.yaml").read_text() == SUITE.replace("ORD-1", "ORD-2")


async def test_what_is_not_allowed_or_not_there_is_a_sentence(folder: Path) -> None:
    long = [call("look_up", text="x" * 3_000) for _ in range(20)]
    store_turns(folder / "a2a-eval-proxy.db", [turn("t", "Hi", long)], "long")
    async with served() as (tools, ask):
        assert "accept_changes" not in [tool.name for tool in tools]
        for tool, given, said in (
            ("show_run", {"run": "x"}, "no run 'x'"),
            ("show_run", {"run": "long-t"}, "is a turn; use show_turn"),
            ("run_cases", {"cases": ["x"]}, "no case 'x'"),
            ("explain_evaluator", {"name": "tool_eror"}, "did you mean tool_error"),
        ):
            assert said in await ask(tool, wrong=True, **given)
        text = await ask("show_turn", turn_id="long-t")
        assert MAX_CHARACTERS < len(text) < MAX_CHARACTERS + 100
        (folder / "suite.yaml").write_text("suite: [")
        assert "suite.yaml:2:1: did not find" in await ask("run_cases", wrong=True)


def test_the_command_speaks_mcp_on_its_standard_streams() -> None:
    client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
    command = [COMMAND, "mcp", "--suite", "suite.yaml"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        print(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client}), file=process.stdin)
        process.stdin.flush()
        answer = json.loads(process.stdout.readline())
        process.stdin.close()
    assert answer["result"]["serverInfo"]["name"] == "a2a-eval-proxy"
    assert process.returncode == 0
