"""The sample agent: its tools, its plans, the extension on the wire, its suite and its command."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import a2a_eval_proxy.features.demo
import pytest
from a2a_eval_proxy.features.check.rules import CheckVerdict, RuleStatus
from a2a_eval_proxy.features.demo.agent import run_agent
from a2a_eval_proxy.runs.drive import AgentOptions, run_suite
from a2a_eval_proxy.runs.tables import turn_table
from a2a_tool_capture import CaptureClient
from support.checking import check, rules_with
from tool_call_evaluators.evaluator import evaluate
from tool_call_evaluators.report import html_report, junit_xml
from tool_call_evaluators.suite import Suite, load_suite

SUITE = Path(a2a_eval_proxy.features.demo.__file__).with_name("suite.yaml")


@pytest.fixture
async def agent() -> AsyncIterator[str]:
    async with run_agent() as url:
        yield url


# ── the extension on the wire ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("message", ["Where is order ORD-1001?", "Where is my order?", "Where is order ORD-9999?"])
async def test_the_agent_conforms_to_the_extension(agent: str, message: str) -> None:
    """An answer, a question, a refused call."""
    report = await check(agent, message)
    assert rules_with(report, RuleStatus.FAILED) | rules_with(report, RuleStatus.WARNING) == set()
    assert report.verdict is (CheckVerdict.INCONCLUSIVE if message == "Where is my order?" else CheckVerdict.CONFORMING)


# ── the suite ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def suite() -> Suite:
    return load_suite(SUITE)


async def failed_metrics(agent: str, suite: Suite, *, streaming: bool) -> dict[str, set[str]]:
    """The metrics that failed, by case."""
    failed: dict[str, set[str]] = {}
    async with CaptureClient(agent, streaming=streaming) as client:
        for case in suite.cases:
            conversation = client.conversation()
            for number, planned in enumerate(case.turns):
                turn = await conversation.send(planned.user)
                assert turn.findings == ()
                eval_case = case.eval_case(number, tool_calls=turn.tool_calls, response_text=turn.text)
                for result in await evaluate(eval_case, suite.build_evaluators()):
                    assert result.score is not None
                    if not result.passed:
                        failed.setdefault(case.id, set()).add(result.evaluator)
    return failed


@pytest.mark.parametrize("streaming", [False, True])
async def test_the_suite_finds_the_three_weaknesses_and_nothing_else(agent: str, suite: Suite, streaming: bool) -> None:
    assert await failed_metrics(agent, suite, streaming=streaming) == {
        "partial-refund": {"tool_trajectory", "tool_call_args"},
        "cancellation": {"tool_trajectory", "tool_call_args", "tool_error"},
        "double-question": {"tool_trajectory"},
    }


async def test_without_the_weaknesses_nothing_fails(suite: Suite) -> None:
    async with run_agent(weak=False) as url:
        assert await failed_metrics(url, suite, streaming=True) == {}


@pytest.mark.parametrize("weak", [True, False])
async def test_further_conversations_find_a_weakness_each(weak: bool, tmp_path: Path) -> None:
    file = tmp_path / "conversations.yaml"
    async with run_agent(weak=weak) as url:
        file.write_text(SUITE.with_name(file.name).read_text("utf-8").replace("http://127.0.0.1:9999", url), "utf-8")
        result = await run_suite(load_suite(file), AgentOptions(url), str(tmp_path / "turns.db"), "demo")
    found = {
        ("refund-rejected", "approval"),
        ("cancelled-in-the-shop", "state_of_world"),
        ("the-last-order", "tool_trajectory"),
        ("orders-since", "tool_trajectory"),
    }
    assert {(reason.case_id, reason.metric) for reason in result.verdict.reasons} == (found if weak else set())
    shown = [
        *map(str, turn_table(result.report).columns[1].cells),
        junit_xml(result.report),
        html_report(result.report),
    ]
    waits = ('ORD-1005") [yellow]waits', "waits for approval: issue_refund(amount_eur=64", '"waiting":["issue_refund(')
    assert all(words in "".join(shown) for words in waits)


# ── the command ─────────────────────────────────────────────────────────────────────────────────────────────

COMMAND = [sys.executable, "-m", "a2a_eval_proxy.features.demo.agent"]


async def test_the_command_serves_until_it_is_told_to_stop() -> None:
    process = await asyncio.create_subprocess_exec(
        *COMMAND, "--port", "0", "--public-url", "http://agent.test/", stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    line = (await process.stdout.readline()).decode()
    assert line.startswith("Sample agent ready at http://agent.test (card: ")
    process.send_signal(signal.SIGTERM)
    assert await process.wait() == 0
