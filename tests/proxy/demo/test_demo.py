"""The sample agent: its tools, its plans, the extension on the wire, its suite and its command."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import a2a_eval_proxy.features.demo
import pytest
from a2a_eval_proxy.features.check.rules import CheckVerdict, RuleStatus
from a2a_eval_proxy.features.demo.agent import run_agent
from a2a_eval_proxy.features.demo.planner import Ask, Memory, make_plan, small_talk
from a2a_eval_proxy.features.demo.tools import Shop, Tool
from a2a_tool_capture import CaptureClient
from hypothesis import given
from hypothesis import strategies as st
from support.checking import check, rules_with
from tool_call_evaluators.evaluator import evaluate
from tool_call_evaluators.suite import Suite, load_suite

SUITE = Path(a2a_eval_proxy.features.demo.__file__).with_name("suite.yaml")


@pytest.fixture
async def agent() -> AsyncIterator[str]:
    async with run_agent() as url:
        yield url


# ── plans ───────────────────────────────────────────────────────────────────────────────────────────────────

INTENTS = ["order", "refund", "cancel", "address", "kettle", "grinder", "how many", "in stock", "when", "arrive"]
DETAILS = ["ORD-1001", "ord-1004", "ORD-9", "ada@example.com", "x@y.zz", "to", "Bath", "yes", "hello", "?", "\n", "☃"]
WORDS = st.sampled_from([*INTENTS, *DETAILS])


@given(st.lists(WORDS).map(" ".join), st.lists(WORDS, min_size=1).map(" ".join), st.booleans())
def test_a_plan_ends_and_calls_nothing_after_its_last_words(text: str, answer: str, weak: bool) -> None:
    if small_talk(text) is not None:
        return
    shop = Shop()
    steps: list[Any] = []

    def noted(tool: Tool) -> Tool:
        def call(**arguments: Any) -> dict[str, Any]:
            steps.append(tool)
            return tool(**arguments)

        return call

    plan = make_plan(text, Memory(), {name: noted(tool) for name, tool in shop.tools.items()}, weak=weak)
    try:
        step = next(plan)
        while len(steps) < 10:
            steps.append(step)
            step = plan.send((answer if len(steps) < 3 else "ORD-1002 yes") if isinstance(step, Ask) else None)
    except StopIteration:
        pass
    assert len(steps) < 10
    assert isinstance(steps[-1], str)
    for earlier, later in pairwise(steps):
        assert not (callable(earlier) and isinstance(later, Ask)), "the call would not be reported in its turn"
        assert not (isinstance(earlier, str) and callable(later)), "the call would not be reported at all"


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


def test_the_command_says_what_is_in_the_way() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        no_port = subprocess.run([*COMMAND, "--port", port], capture_output=True, text=True, check=False)
    assert no_port.returncode == 3
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in no_port.stderr
