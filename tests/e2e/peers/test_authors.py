"""Agents of frameworks that serve A2A themselves, as their pages show them to authors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from a2a_eval_proxy.features.check.record import Activation, merged
from a2a_eval_proxy.features.check.report import CheckReport
from a2a_eval_proxy.features.check.rules import CheckVerdict, RuleStatus
from e2e.frameworks.page_code import diff_of
from packaging.requirements import Requirement
from support.checking import check, rules_with
from support.linked import beside_the_extension, brought_by
from support.processes import ChildProcess
from support.provision import python_environment

pytestmark = pytest.mark.installs

PROGRAM = Path(__file__).parents[1] / "authors/served.py"
SERVER = Requirement("uvicorn")
"""With which authors serve their application."""
MOST_CHANGED_LINES = 5
QUESTION = "Where is order ORD-1001?"

AUTHORS = {
    "adk": ("frameworks", "google-adk"),
    "pydanticai": ("frameworks", "pydantic-ai"),
    "strandsagents": ("strands", "strands"),
}
"""The environment of each program of the folder `authors`, and the extra that its author installs."""


@contextmanager
def served(script: str, side: str) -> Iterator[str]:
    """The URL of an agent before (`-`) or after (`+`) its author used the library."""
    environment, extra = (AUTHORS | FAILING)[script]
    python = python_environment(environment)
    with TemporaryDirectory() as folder:
        packages = beside_the_extension(Path(folder), python, [*brought_by(extra), SERVER])
        with ChildProcess([python, "-S", PROGRAM, script, side], environment=packages) as agent:
            yield agent.read_line().removeprefix("listening on ")


def failures(report: CheckReport) -> list[tuple[str, str, str]]:
    return [
        (result.rule.id, str(result.interface), problem.message)
        for result in report.results
        for problem in result.problems
    ]


FAILING = {"pydanticai_failing": AUTHORS["pydanticai"]}
"""An agent whose task fails after the call: the call is on an artifact of its own."""


@pytest.mark.parametrize("script", [*AUTHORS, *FAILING])
async def test_few_changed_lines_make_an_agent_conform(script: str) -> None:
    """It reports its call to who asks, and to no other client."""
    with served(script, "+") as url:
        report = await check(url, QUESTION)
    assert (failures(report), report.verdict) == ([], CheckVerdict.CONFORMING)
    assert not {"send-asked", "send-silent", "get-silent"} & rules_with(report, RuleStatus.UNSEEN)
    for conversation in report.record.conversations:
        for turn in conversation.turns:
            if turn.activation is Activation.V1:
                told = [calls for exchange in turn.exchanges if (calls := merged(exchange.events).tool_calls)]
                (call,) = told[0]
                assert (call.id, call.name, call.arguments) == ("call_0", "look_up", {"order_id": "ORD-1001"})
                assert "shipped" in (call.result or "")


@pytest.mark.parametrize("script", AUTHORS)
async def test_without_these_lines_it_answers_and_reports_nothing(script: str) -> None:
    with served(script, "-") as url:
        report = await check(url, QUESTION)
    assert not report.calls_seen
    assert "answers" not in rules_with(report, RuleStatus.FAILED)
    openings = [turn.opening for conversation in report.record.conversations for turn in conversation.turns]
    assert [opening.problem for opening in openings] == [""] * len(openings)


@pytest.mark.parametrize("page", ["google-adk", "pydantic-ai", "strands"])
def test_few_lines_are_enough(page: str) -> None:
    added = [line for line in diff_of(page).splitlines() if line.startswith("+") and line != "+"]
    assert len(added) <= MOST_CHANGED_LINES
