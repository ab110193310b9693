"""The example scenarios of ArkSim's own package: a simulated user plays each whole against an agent over A2A.

The user's model is a stand-in for a language model: it asks for its goal and ends after two answers.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from a2a_eval_proxy.runs.drive import AgentOptions, run_suite
from agents.serving import ServerThread
from agents.stepwise_agent import stepwise_agent
from judges.fake_api import KEY, MODEL, FakeApi, Reply, says
from support.provision import source_of
from tool_call_evaluators.importers import import_suite
from tool_call_evaluators.suite import Suite
from tool_call_evaluators.suite.writing import suite_text

pytestmark = pytest.mark.installs

EXAMPLES = (
    *("bank-insurance", "customer-service", "e-commerce", "openclaw"),
    *("integrations/dify", "integrations/rasa", "integrations/google-adk"),
)


def user(request: dict[str, Any]) -> Reply:
    """Asks for what its instructions call the goal, then something else, then ends."""
    instructions, *talk = request["messages"]
    goal = re.search(r"What you want to reach:\n(.*?)\n\nWhat you know", instructions["content"], re.DOTALL)
    assert goal is not None
    lines = [f"ask about this: {' '.join(goal[1].split()[:12])}", "And what happens after that?", "###STOP###"]
    return says(lines[sum(message["role"] == "assistant" for message in talk)])


def scenario_files() -> list[Path]:
    source = source_of("arksim")
    return [
        *(source / "examples" / name / "scenarios.json" for name in EXAMPLES),
        source / "arksim/templates/scenarios.json",
    ]


async def played(suite: Suite, location: str, **options: Any) -> Any:
    with stepwise_agent() as agent:
        return await run_suite(suite, AgentOptions(agent.url, concurrency=8), location, **options)


@pytest.mark.parametrize("number", range(len(EXAMPLES) + 1), ids=[*EXAMPLES, "templates"])
async def test_each_scenario_is_played_to_its_end_and_again_without_a_model(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = scenario_files()[number]
    scenarios = json.loads(path.read_text())["scenarios"]
    monkeypatch.setenv("A2A_EVAL_PROXY_SIMULATED_USER_API_KEY", KEY)
    imported = import_suite(path).suite
    api, location = FakeApi(user), str(tmp_path / "turns.db")
    with ServerThread(api.app) as server:
        monkeypatch.setenv("A2A_EVAL_PROXY_SIMULATED_USER_MODEL", MODEL)
        monkeypatch.setenv("A2A_EVAL_PROXY_SIMULATED_USER_BASE_URL", f"{server.url}/v1")
        result = await played(imported, location, run="first")
    conversations = result.report.conversations
    assert len(conversations) == len(scenarios)
    for conversation, scenario in zip(conversations, scenarios, strict=True):
        assert conversation.case is not None
        assert conversation.case.simulate is not None
        assert conversation.case.simulate.goal == scenario["goal"]
        assert (conversation.user.end, conversation.user.fault) == ("goal_reached", None)
        first, second = conversation.executed
        assert first["task_id"] == second["task_id"]  # the agent asked for input

    monkeypatch.delenv("A2A_EVAL_PROXY_SIMULATED_USER_MODEL")
    again = await played(imported, location, run="again", replay_user="first")
    said = [
        [[turn["user_text"] for turn in item.executed] for item in it.report.conversations] for it in (result, again)
    ]
    assert said[0] == said[1]
    assert len(api.requests) == 3 * len(scenarios)
    assert "simulate:" in suite_text(imported)
