"""Agents of frameworks that ask before they call a tool, driven from a suite; `make frameworks` runs these tests."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from a2a_eval_proxy import AgentOptions, run_suite
from e2e.authors.served import PROGRAM
from e2e.frameworks import pages
from support.processes import ChildProcess
from support.provision import resolved_python
from tool_call_evaluators.suite import parse_suite

pytestmark = [pytest.mark.frameworks, pytest.mark.installs, pytest.mark.slow, pytest.mark.timeout(600)]

SUITE = parse_suite(
    """
suite: refunds
evaluators: [approval, {tool_trajectory: {mode: in_order}}, {tool_call_count: {only_succeeded: true}}]
cases:
  - id: approved
    turns:
      - {user: Refund A-1., expect: {approval: {tool: refund, arguments: {order: A-1}}}}
      - user: {approve: refund}
        expect: {tool_calls: [{name: refund, arguments: {order: A-1}, result: refunded A-1}]}
  - id: rejected
    turns:
      - {user: Refund A-1., expect: {approval: {tool: refund, arguments: {order: A-1}}}}
      - {user: {reject: too much}, expect: {tool_calls_count: {refund: ["=", 0]}}}
"""
)

GetPython = Callable[[str], Path]


@pytest.fixture(scope="module")
def python_of(tmp_path_factory: pytest.TempPathFactory) -> GetPython:
    @cache
    def get(name: str) -> Path:
        folder = tmp_path_factory.mktemp(name) / "environment"
        return resolved_python(folder, pages.install_arguments(pages.read(name)))

    return get


@pytest.mark.parametrize("manner", ["asks", "executes"])
@pytest.mark.parametrize(
    ("name", "program"), [("google-adk", "adk_approval.py"), ("pydantic-ai", "pydanticai_approval.py")]
)
async def test_a_call_waits_for_its_approval(
    name: str, program: str, manner: str, python_of: GetPython, tmp_path: Path
) -> None:
    command = [python_of(name), PROGRAM.with_name(program), manner]
    with ChildProcess(command, environment={"PYTHONPATH": ""}) as agent:
        url = agent.wait_for(r"listening on (http://\S+)")[1]
        result = await run_suite(SUITE, AgentOptions(url), str(tmp_path / "run.db"), "it")
    if manner == "asks":
        assert result.verdict.passed, result.verdict.reasons
    else:
        causes = [reason.message for reason in result.verdict.reasons if "without approval" in reason.message]
        assert len(causes) == 2, result.verdict.reasons
