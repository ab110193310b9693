"""UiPath's tool call evaluators, run by its own package, and ours under their names: equal scores for equal spans."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from support.provision import python_environment
from tool_call_evaluators.importers import uipath

pytestmark = [
    pytest.mark.installs,
    pytest.mark.about("evaluators/tool_call_evaluators/importers", "evaluators/tool_call_evaluators/metrics"),
]

TESTS = Path(__file__).parents[2]
CASES = 400
VALUES = [1, 2, "a", "b", None, 0, -1, 1.5, "", [1], {"y": 1}]
CRITERIA = ("tool_calls", "tool_calls_order", "tool_calls_count", "tool_outputs")


def arguments(chance: random.Random) -> dict[str, Any]:
    return {key: chance.choice(VALUES) for key in chance.sample("xyz", chance.randint(0, 2))}


def case(chance: random.Random) -> tuple[str, dict[str, Any], list[dict[str, Any]], dict[str, Any]]:
    """An evaluator, its configuration, attributes of spans, and criteria.

    Without what we do otherwise by decision (evaluators/docs/moving.md): further arguments without
    `subset`, counts of an agent without calls, `strict` outputs that a later call makes good.
    """
    spans = [
        {
            "tool.name": chance.choice("fg"),
            "input.value": chance.choice([str, json.dumps])(arguments(chance)),
            "output.value": chance.choice(["one", "two", '{"content": "one"}']),
        }
        for _ in range(chance.randint(1, 4))
    ]
    config: dict[str, Any] = {"strict": chance.random() < 0.4}
    name = chance.choice(["Args", "Order", "Count", "Output"])
    if name == "Args":
        config["subset"] = True
        criteria: Any = [{"name": chance.choice("fg"), "args": arguments(chance)} for _ in range(chance.randint(0, 3))]
    elif name == "Order":
        criteria = [chance.choice("fgh") for _ in range(chance.randint(0, 4))]
    elif name == "Count":
        criteria = {
            tool: [chance.choice([">", "=", "<=", "!="]), chance.randint(0, 2)] for tool in chance.sample("fgh", 2)
        }
    else:
        config = {"strict": False}
        criteria = [{"name": chance.choice("fg"), "output": chance.choice(["one", "two"])} for _ in range(2)]
    key = CRITERIA[["Args", "Order", "Count", "Output"].index(name)]
    return f"ToolCall{name}Evaluator", config, spans, {key: criteria}


@pytest.mark.statement(13, 23, 26, 27, 28, 29)
async def test_scores_are_those_of_uipaths_own_package() -> None:
    python = python_environment("uipath", needed_in_ci=False)
    chance = random.Random(20261122)
    cases = [case(chance) for _ in range(CASES)]
    done = subprocess.run(
        [python, TESTS / "e2e/clients/uipath_scores.py"],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        timeout=90,
        check=True,
    )
    theirs = json.loads(done.stdout.splitlines()[-1])
    for (name, config, attributes, criteria), (score, justification) in zip(cases, theirs, strict=True):
        spans = [
            ReadableSpan(name="span", start_time=number, end_time=number + 1, attributes=item)
            for number, item in enumerate(attributes)
        ]
        evaluator = getattr(uipath, name)(id="x", config=config)
        ours = await evaluator.validate_and_evaluate_criteria(uipath.AgentExecution(agent_trace=spans), criteria)
        assert ours.score == pytest.approx(score), (name, config, attributes, criteria)
        if name == "ToolCallArgsEvaluator" and criteria["tool_calls"]:
            explained = justification["explained_tool_calls_args"]
            assert ours.details["explained_tool_calls_args"] == explained
