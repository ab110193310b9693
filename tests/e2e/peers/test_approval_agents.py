"""Agents of frameworks that ask before they call a tool, driven from a suite; `make frameworks` runs these tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from a2a_eval_proxy import AgentOptions, run_suite
from e2e.authors.served import PROGRAM
from support.processes import ChildProcess
from tool_call_evaluators.suite import parse_suite

pytestmark = [pytest.mark.frameworks, pytest.mark.installs, pytest.mark.slow, pytest.mark.timeout(600)]

SUITE = parse_suite(
    """
suite: orders
evaluators: [approval, {tool_trajectory: {mode: in_order}}, {tool_call_count: {only_succeeded: true}}]
cases:
  - id: approved
    turns:
      - {user: Where is order ORD-1001?, expect: {approval: {tool: look_up, arguments: {order_id: ORD-1001}}}}
      - user: {approve: look_up}
        expect: {tool_calls: [{name: look_up, arguments: {order_id: ORD-1001}}]}
  - id: rejected
    turns:
      - {user: Where is order ORD-1001?, expect: {approval: {tool: look_up, arguments: {order_id: ORD-1001}}}}
      - {user: {reject: too much}, expect: {tool_calls_count: {look_up: ["=", 0]}}}
"""
)

GetPython = Callable[[str], Path]


@pytest.mark.parametrize(
    ("name", "script", "asks"),
    [
        ("google-adk", "adk_approval", True),
        ("google-adk", "adk", False),
        ("pydantic-ai", "pydanticai_approval", True),
        ("pydantic-ai", "pydanticai", False),
    ],
)
async def test_a_call_waits_for_its_approval(
    name: str, script: str, asks: bool, python_of: GetPython, tmp_path: Path
) -> None:
    """The agent of the page as it is executes at once."""
    with ChildProcess([python_of(name), PROGRAM, script, "+"], environment={"PYTHONPATH": ""}) as agent:
        url = agent.wait_for(r"listening on (http://\S+)")[1]
        result = await run_suite(SUITE, AgentOptions(url), str(tmp_path / "run.db"), "it")
    early = [reason for reason in result.verdict.reasons if "without approval" in reason.message]
    assert (result.verdict.passed, len(early)) == (asks, 0 if asks else 2), result.verdict.reasons
