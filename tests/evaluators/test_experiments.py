"""A data set and a Python task, evaluated in process."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest
from a2a_tool_capture import ToolCall
from support.patience import PATIENCE_S
from tool_call_evaluators import (
    AgentTrace,
    SuiteError,
    ToolDefinition,
    experiment,
    get_evaluator,
    load_suite,
    metric,
    parse_suite,
    run_experiment,
)
from tool_call_evaluators.agent_trace import TraceTurn
from tool_call_evaluators.judge import JudgeNotConfiguredError
from tool_call_evaluators.judge.settings import ENVIRONMENT
from tool_call_evaluators.metrics.tool_call_validity import ToolCallValidity
from tool_call_evaluators.report import html_report

FIXTURES = Path(__file__).parent / "fixtures"
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [ToolDefinition.of("search_flights", "Search for flights", SCHEMA)]
FLIGHT = ToolCall("search_flights", {"city": "Paris"}, result="AF 7")
TRAVEL = [
    {
        "inputs": {"input": "Find flights to Paris"},
        "expectedOutputs": {"toolCalls": [ToolCall("search_flights", {})]},
        "metadata": {"tools": TOOLS, "tasks": ["Search flights"]},
    },
    {"input": "Find flights to Rome", "expectedOutputs": {"toolCalls": [{"name": "search_flights"}]}},
]
HI, EFFICIENCY = [{"input": "Hi"}], ["tool_efficiency"]
SIMULATED = parse_suite("{suite: x, cases: [{id: a, simulate: {goal: Buy a kettle.}}]}")
CAPITALS = {"What is the capital of Switzerland?": "Bern", "What is the capital of France?": "Lyon"}


def yes(prompt: str) -> str:
    key = "task_1" if '"task_1"' in prompt else "call_1"
    return json.dumps({key: {"reason": "Yes.", "verdict": True}})


def refuses(example):
    raise LookupError("no such country")


@pytest.mark.parametrize(
    ("dataset", "task", "evaluators", "rate", "reasons"),
    [
        pytest.param(
            FIXTURES / "dokimos/qa-dataset.json",
            lambda example: CAPITALS[example.input],
            ["exact_match"],
            0.5,
            ["failed: example-2"],
            marks=pytest.mark.statement(153),
        ),
        (
            FIXTURES / "dokimos/qa-dataset.json",
            lambda example: refuses(example) if "France" in example.input else "Bern",
            ["exact_match"],
            0.5,
            ["failed_turn: example-2; LookupError: no such country"],
        ),
        (
            HI,
            lambda example: sys.exit(0),
            ["tool_efficiency"],
            0.0,
            ["failed_turn: example-1; SystemExit: 0", "unmeasured"],
        ),
        (HI, lambda example: 3, EFFICIENCY, 0.0, ["failed_turn", "unmeasured"]),
        (HI, lambda example: [], EFFICIENCY, 0.0, ["failed_turn", "unmeasured"]),
        (HI, lambda example: {"toolCalls": 3}, EFFICIENCY, 0.0, ["failed_turn", "unmeasured"]),
        (
            HI,
            lambda example: {"toolCalls": [{"arguments": {}}]},
            ["tool_efficiency"],
            0.0,
            ["failed_turn", "unmeasured"],
        ),
        (HI, lambda example: AgentTrace(), EFFICIENCY, 0.0, ["missing_turn", "unmeasured"]),
        (
            [{"input": "Hi", "expectedOutputs": {"toolCalls": []}}],
            lambda example: "Hello",
            None,
            0.0,
            ["calls_unseen: 1 of 1 turns and conversations were not scored for tool calls: the outputs contain no"],
        ),
    ],
)
def test_what_a_task_returns_or_raises_counts_for_its_example_alone(dataset, task, evaluators, rate, reasons):
    result = experiment(dataset, task, evaluators)
    assert (result.pass_rate, result.passed) == (rate, False)
    found = [f"{reason.code}: {reason.message}" for reason in result.verdict.reasons]
    assert len(found) == len(reasons)
    assert all(part in text for text, parts in zip(found, reasons, strict=True) for part in parts.split("; "))


def test_own_metrics_see_the_reasoning_and_what_was_not_imported_is_noted():
    @metric()
    def thinks(case):
        return bool(case.reasoning_steps)

    outputs = AgentTrace.of([], "ok", ["Hm."]).to_output_map()
    dataset = [{"input": "Hi", "metadata": {"sources": ["a"]}}]
    result = experiment(dataset, lambda example: outputs, ["thinks"])
    assert (result.pass_rate, result.notes) == (1.0, ("metadata sources was not imported",))
    assert "experiment" in html_report(result.report)


@pytest.mark.statement(152)
def test_examples_a_task_and_evaluators():
    def agent(example):
        return AgentTrace.of([FLIGHT], "Found one.").to_output_map()

    correct = get_evaluator("toolCorrectness")
    result = experiment(TRAVEL, agent, [ToolCallValidity(), correct, "task_completion"], name="travel", judge=yes)
    assert (result.name, result.passed, result.pass_rate) == ("travel", True, 1.0)
    assert [[item.status for item in one.all_results] for one in result.conversations] == [
        ["passed"] * 3,
        ["skipped", "passed", "skipped"],
    ]
    assert result.average_score("tool_correctness") == 1.0
    with pytest.raises(LookupError, match=r"no results of 'tool_corectness' \(did you mean tool_correctness\?\)"):
        result.average_score("tool_corectness")


async def test_a_conversation_is_a_trace_with_its_turns():
    def agent(example):
        return AgentTrace(tuple(TraceTurn(turn.user, (), f"Answer to {turn.user}") for turn in example.turns))

    goldens = FIXTURES / "dokimos/support-goldens.json"
    result = await run_experiment(goldens, agent, ["tool_efficiency"])
    assert [len(conversation.executed) for conversation in result.conversations] == [2, 2, 3]
    assert result.pass_rate == 1.0
    short = await run_experiment(
        goldens, lambda example: {"output": "All at once", "toolCalls": []}, ["tool_efficiency"]
    )
    assert short.pass_rate == 0.0
    assert {reason.code for reason in short.verdict.reasons} == {"missing_turn"}
    greeted = parse_suite("{suite: x, cases: [{id: a, given: [Hi], turns: [{user: Where?}]}]}")
    said = AgentTrace(tuple(TraceTurn(text, (), "Yes.") for text in ("Hi", "Where?")))
    result = await run_experiment(greeted, lambda example: said, ["tool_efficiency"])
    assert [len(conversation.executed) for conversation in result.conversations] == [1]


async def test_examples_run_at_once_and_several_times():
    together = asyncio.Barrier(3)

    async def agent(example):
        async with asyncio.timeout(PATIENCE_S):
            await together.wait()
        return {"output": "ok", "toolCalls": []}

    result = await run_experiment([{"input": "Hi"}], agent, ["tool_efficiency"], runs=3, concurrency=3)
    assert result.pass_rate == 1.0
    assert [conversation.label for conversation in result.conversations] == [f"example-1 #{n}" for n in (1, 2, 3)]


def test_the_evaluators_and_gates_of_a_suite(tmp_path):
    suite = tmp_path / "suite.yaml"
    suite.write_text("""
suite: own
evaluators: [tool_efficiency, {tool_trajectory: {scope: conversation}}]
gates: {tool_efficiency: 0.4}
cases:
  - {id: a, turns: [{user: Hi}], expect: {tool_calls: [{name: search_flights, arguments: {city: Paris}}]}}
""")
    again = {"output": "ok", "toolCalls": [FLIGHT.to_dict(), FLIGHT.to_dict()]}
    result = experiment(load_suite(suite), lambda example: again)
    assert result.average_score("tool_efficiency") == 0.5
    assert result.average_score("tool_trajectory") == 0.5
    assert [reason.metric for reason in result.verdict.reasons] == ["tool_trajectory"]


@pytest.mark.parametrize(
    ("dataset", "evaluators", "options", "error", "message"),
    [
        ([], ["contains"], {}, SuiteError, "the data set has no examples"),
        ([{"input": object()}], ["contains"], {}, ValueError, "the data set contains object, which JSON does not have"),
        (TRAVEL, [], {}, ValueError, "no evaluator is given"),
        (TRAVEL, ["contains"], {"runs": 0}, ValueError, "runs must be at least 1"),
        (TRAVEL, ["contains"], {"concurrency": 0}, ValueError, "concurrency must be at least 1"),
        ("missing.json", ["contains"], {}, SuiteError, "missing.json: cannot be read"),
        (SIMULATED, ["contains"], {}, SuiteError, "case a has a simulated user: use `a2a-eval-proxy run`"),
        (TRAVEL, ["task_completion"], {}, JudgeNotConfiguredError, "task_completion: no judge is configured"),
    ],
)
async def test_what_is_no_experiment(dataset, evaluators, options, error, message, monkeypatch):
    monkeypatch.delenv(f"{ENVIRONMENT}MODEL", raising=False)
    with pytest.raises(error, match=message):
        await run_experiment(dataset, lambda example: pytest.fail("it ran"), evaluators, **options)
    with pytest.raises(RuntimeError, match="await run_experiment"):
        experiment(dataset, str, evaluators, **options)
