"""Agent files of arksim, run by the command: its own template, and its automatic way to capture calls.

The latter is on the real OpenAI Agents SDK with a scripted model. The command runs in this interpreter, with the
packages of other environments before its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.prefork import run
from support.provision import python_environment

pytestmark = [pytest.mark.installs, pytest.mark.about("proxy/a2a_eval_proxy/features/connectors")]

AGENT = '''
from __future__ import annotations

from agents import Agent, ModelResponse, Runner, Usage, function_tool, set_trace_processors
from agents.models.interface import Model
from agents.tracing import add_trace_processor
from arksim.config import AgentConfig
from arksim.simulation_engine.agent.base import BaseAgent
from arksim.tracing.openai import ArksimTracingProcessor
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

set_trace_processors([])  # the SDK's own uploads
add_trace_processor(ArksimTracingProcessor())


class ScriptedModel(Model):
    """Looks up the order that the user names, then answers."""

    def __init__(self) -> None:
        self.asked = False

    async def get_response(self, system_instructions, input, *args, **options) -> ModelResponse:
        self.asked = not self.asked
        if self.asked:
            arguments = '{"order_id": "%s"}' % [item for item in input if item.get("role") == "user"][-1]["content"]
            output = ResponseFunctionToolCall(type="function_call", call_id="c", name="look_up", arguments=arguments)
        else:
            text = ResponseOutputText(type="output_text", text="shipped", annotations=[])
            output = ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[text])
        return ModelResponse(output=[output], usage=Usage(), response_id=None)

    def stream_response(self, *args, **options):
        raise NotImplementedError


@function_tool
def look_up(order_id: str) -> str:
    return f"{order_id} is shipped"


class TracedAgent(BaseAgent):
    def __init__(self, agent_config: AgentConfig) -> None:
        super().__init__(agent_config)
        self._agent = Agent(name="orders", tools=[look_up], model=ScriptedModel())

    async def get_chat_id(self) -> str:
        return "chat"

    async def execute(self, user_query: str, **kwargs: object) -> str:
        return (await Runner.run(self._agent, input=[{"role": "user", "content": user_query}])).final_output
'''

SUITE = """
suite: orders
agent: {url: "python:traced_agent.py", concurrency: 2}
evaluators: [{tool_trajectory: {mode: strict}}]
cases:
  - id: first
    turns:
      - {user: ORD-1, expect: {tool_calls: [{name: look_up, arguments: {order_id: ORD-1}}]}}
      - {user: ORD-2, expect: {tool_calls: [{name: look_up, arguments: {order_id: ORD-2}}]}}
  - id: second
    turns: [{user: ORD-3, expect: {tool_calls: [{name: look_up, arguments: {order_id: ORD-3}}]}}]
"""


def packages(name: str) -> Path:
    """Where an environment has its packages."""
    (found,) = python_environment(name).parents[1].glob("lib/python*/site-packages")
    return found


def exported(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run("export", cwd=folder).stdout.splitlines()]


@pytest.fixture(autouse=True)
def outside_of_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)  # arksim and the SDK are extras: without them there is nothing to test


@pytest.mark.statement(316, 319)
@pytest.mark.parametrize("environments", [["frameworks"], ["frameworks", "arksim"]], ids=["alone", "with-arksim"])
def test_calls_are_captured_without_wrapping(tmp_path: Path, environments: list[str]) -> None:
    path = ":".join(str(packages(name)) for name in environments)
    tmp_path.joinpath("traced_agent.py").write_text(AGENT, "utf-8")
    tmp_path.joinpath("suite.yaml").write_text(SUITE, "utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "a2a_eval_proxy", "run", "suite.yaml"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        timeout=100,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    turns = exported(tmp_path)
    assert {turn["response_text"] for turn in turns} == {"shipped"}
    made = {turn["user_text"]: [(call["name"], call["arguments"]) for call in turn["tool_calls"]] for turn in turns}
    assert made == {order: [("look_up", {"order_id": order})] for order in ("ORD-1", "ORD-2", "ORD-3")}
    results = {call["result"] for turn in turns for call in turn["tool_calls"]}
    assert results == {f"{order} is shipped" for order in made}
