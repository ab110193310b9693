"""An agent of a framework that serves A2A itself, as its page shows it to authors.

`deployment/test_distributions` has those of google-adk and Strands, with the extension from its wheel."""

from __future__ import annotations

from pathlib import Path

import pytest
from a2a_eval_proxy.features.check.record import Activation, merged
from a2a_eval_proxy.features.check.rules import CheckVerdict
from e2e.authors.served import PROGRAM
from packaging.requirements import Requirement
from support.checking import check
from support.linked import beside_the_extension, brought_by
from support.processes import ChildProcess
from support.provision import python_environment

pytestmark = [pytest.mark.installs, pytest.mark.about("extension/a2a_tool_capture", "extension/docs/frameworks")]


async def test_few_changed_lines_make_an_agent_of_pydantic_ai_conform(tmp_path: Path) -> None:
    """It reports its call to who asks, and to no other client."""
    python = python_environment("frameworks")
    packages = beside_the_extension(tmp_path, python, [*brought_by("pydantic-ai"), Requirement("uvicorn")])
    with ChildProcess([python, "-S", PROGRAM, "pydanticai", "+"], environment=packages) as agent:
        report = await check(agent.read_line().removeprefix("listening on "), "Where is order ORD-1001?")
    problems = [problem.message for result in report.results for problem in result.problems]
    assert (problems, report.verdict) == ([], CheckVerdict.CONFORMING)
    turns = [turn for conversation in report.record.conversations for turn in conversation.turns]
    for turn in turns:
        if turn.activation is Activation.V1:
            told = [calls for exchange in turn.exchanges if (calls := merged(exchange.events).tool_calls)]
            (call,) = told[0]
            assert (call.id, call.name, call.arguments) == ("call_0", "look_up", {"order_id": "ORD-1001"})
            assert "shipped" in (call.result or "")
