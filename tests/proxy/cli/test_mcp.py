"""`mcp` with the client of the MCP SDK: what a coding agent reads of a failed run, and what it may change."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from a2a_eval_proxy.features.mcp.tools import MAX_CHARACTERS
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
def folder(tmp_path: Path) -> Path:
    (tmp_path / "agent.py").write_text(AGENT)
    (tmp_path / "suite.yaml").write_text(SUITE)
    return tmp_path


@pytest.fixture
def served(folder: Path) -> Callable[..., AbstractAsyncContextManager[tuple[Any, Ask]]]:
    from mcp import Client, StdioServerParameters  # not for all the processes that import this file

    @asynccontextmanager
    async def serve(*options: str) -> AsyncIterator[tuple[Any, Ask]]:
        command = ["-m", "a2a_eval_proxy", "mcp", "--suite", "suite.yaml", *options]
        program = StdioServerParameters(command=sys.executable, args=command, cwd=folder, env=dict(os.environ))
        async with Client(program) as client:

            async def ask(tool: str, *, wrong: bool = False, **given: Any) -> str:
                result = await client.call_tool(tool, given)
                assert result.is_error is wrong
                (content,) = result.content
                return str(content.text)

            yield client, ask

    return serve


async def test_from_a_failed_case_to_an_accepted_change(folder: Path, served: Any) -> None:
    async with served("--allow-accept") as (client, ask):
        tools = (await client.list_tools()).tools
        assert len(tools) == 6
        assert all(line == line.strip() for tool in tools for line in (tool.description or "").splitlines())
        verdict = await ask("run_cases")
        run = verdict.split()[1]
        assert "1 reason" in verdict
        assert f'"name": "{run}"' in await ask("list_runs")
        shown = await ask("show_run", run=run)
        assert "case one" in shown
        assert "case two" not in shown
        assert "case two" in await ask("show_run", run=run, failed_only=False)
        turn_id = next(line for line in shown.splitlines() if "case one" in line).split(",")[0]
        assert '    id: expected "ORD-1", got "ORD-2"' in await ask("show_turn", turn_id=turn_id)
        assert "+  - {id: one" in await ask("accept_changes", run=run)
        assert (folder / "suite.yaml").read_text() == SUITE
        await ask("accept_changes", run=run, cases=["one"], dry_run=False)
        assert (folder / "suite.yaml").read_text() == SUITE.replace("ORD-1", "ORD-2")
        assert "one, turn 1: tool_calls: already expects what the agent did" in await ask("accept_changes", run=run)
        assert "passed" in await ask("run_cases", cases=["one"])


async def test_what_is_not_allowed_or_not_there_is_a_sentence(folder: Path, served: Any) -> None:
    long = [call("look_up", text="x" * 3_000) for _ in range(20)]
    store_turns(folder / "a2a-eval-proxy.db", [turn("t", "Hi", long)], "long")
    async with served() as (client, ask):
        assert "accept_changes" not in [tool.name for tool in (await client.list_tools()).tools]
        assert "no run 'x'" in await ask("show_run", run="x", wrong=True)
        assert "no case 'x'" in await ask("run_cases", cases=["x"], wrong=True)
        assert "did you mean tool_error" in await ask("explain_evaluator", name="tool_eror", wrong=True)
        shown = await ask("show_run", run="long", failed_only=False)
        turn_id = next(line for line in shown.splitlines() if "case -" in line).split(",")[0]
        assert "is a turn; use show_turn" in await ask("show_run", run=turn_id, wrong=True)
        text = await ask("show_turn", turn_id=turn_id)
        assert MAX_CHARACTERS < len(text) < MAX_CHARACTERS + 100
        (folder / "suite.yaml").write_text("suite: [")
        assert "suite.yaml:2:1: did not find" in await ask("run_cases", wrong=True)
