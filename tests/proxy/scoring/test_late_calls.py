"""A task that shows calls after its turn was closed and scored: no result on them stays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from a2a_eval_proxy.runs.rescore import evaluate_store
from a2a_tool_capture import METADATA_KEY, URI
from agents.replay_agent import ReplayAgent
from support.patience import PATIENCE_S
from support.proxied import Proxied, proxied
from tool_call_evaluators.suite import parse_suite

SUITE = """
suite: s
tools: [{name: look}, {name: delete}]
evaluators: [{tool_trajectory: {mode: strict}}, {forbidden_calls: {forbidden_calls: [{name: delete}]}}]
cases: [{id: c, turns: [{user: hi, expect: {tool_calls: [{name: look}]}}]}]
"""


def task(*calls: str) -> dict[str, Any]:
    artifacts = [
        {
            "artifactId": name,
            "parts": [{"text": "done"}],
            "metadata": {METADATA_KEY: [{"id": name, "name": name, "arguments": {}, "result": "done"}]},
            "extensions": [URI],
        }
        for name in calls
    ]
    return {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}, "artifacts": artifacts}


async def shows(it: Proxied, *calls: str) -> None:
    """A client reads the task."""
    await it.asks("GetTask", {"id": "t"}, task(*calls))


@pytest.fixture
def suite(tmp_path: Path) -> str:
    file = tmp_path / "suite.yaml"
    file.write_text(SUITE)
    return str(file)


async def known(it: Proxied) -> tuple[str, set[str], str]:
    """What is known of the calls of the only turn, the statuses of its results, and that of its run."""
    await it.proxy.flush(PATIENCE_S)
    (turn,) = await it.turns()
    verdict = (await it.get("/api/runs/nightly"))["verdict"] or {"status": ""}
    return turn["calls"], {one["status"] for one in turn["evaluations"]}, verdict["status"]


async def test_a_turn_whose_task_shows_a_call_later_is_scored_again(tmp_path: Path, suite: str) -> None:
    """Also one that another process stored."""
    with ReplayAgent() as agent:
        async with proxied(tmp_path, agent, suite=suite) as it:
            await it.answers({"task": task("look")})
            await it.proxy.flush(PATIENCE_S)
            await shows(it, "look")
            assert await known(it) == ("seen", {"passed"}, "passed"), "it shows nothing new"
        async with proxied(tmp_path, agent, suite=suite) as it:
            await shows(it, "look", "delete")
            assert await known(it) == ("unknown", {"skipped"}, "failed")


@pytest.mark.parametrize("evaluate", [True, False])
async def test_what_evaluate_said_of_a_run_stands_until_calls_are_not_known_any_more(
    tmp_path: Path, suite: str, evaluate: bool
) -> None:
    said, store = parse_suite(SUITE), str(tmp_path / "turns.db")
    async with proxied(tmp_path, suite=suite, evaluate=evaluate) as it:
        await it.answers({"task": task("look")})
        await it.proxy.flush(PATIENCE_S)
        assert (await evaluate_store(said, store, "nightly")).verdict.passed
        assert await known(it) == ("seen", {"passed"}, "passed")
        await shows(it, "look", "delete")
        calls, _, status = await known(it)
        assert (calls, status) == ("unknown", "incomplete")
    assert not (await evaluate_store(said, store, "nightly")).verdict.passed


async def test_a_call_that_is_shown_before_a_turn_is_scored_counts(tmp_path: Path, suite: str) -> None:
    """Nobody scores it while the proxy runs."""
    async with proxied(tmp_path, suite=suite, evaluate=False) as it:
        await it.answers({"task": task("look")})
        await it.proxy.flush(PATIENCE_S)
        await shows(it, "look", "delete")
        await it.proxy.flush(PATIENCE_S)
    assert not (await evaluate_store(parse_suite(SUITE), str(tmp_path / "turns.db"), "nightly")).verdict.passed
