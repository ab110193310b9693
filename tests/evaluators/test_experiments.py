"""A data set and a Python task, evaluated in process."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
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
    registry,
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
CAPITALS = {"What is the capital of Switzerland?": "Bern", "What is the capital of France?": "Lyon"}


@pytest.fixture(autouse=True)
def _as_it_was(monkeypatch):
    monkeypatch.delenv(f"{ENVIRONMENT}MODEL", raising=False)
    before = dict(registry._registered)
    yield
    registry._registered.clear()
    registry._registered.update(before)


def yes(prompt: str) -> str:
    key = "task_1" if '"task_1"' in prompt else "call_1"
    return json.dumps({key: {"reason": "Yes.", "verdict": True}})


@pytest.mark.statement(152)
def test_examples_a_task_and_evaluators():
    def agent(example):
        return AgentTrace.of([FLIGHT], "Found one.").to_output_map()

    correct = get_evaluator("toolCorrectness")
    result = experiment(TRAVEL, agent, [ToolCallValidity(), correct, "task_completion"], name="travel", judge=yes)
    assert result.name == "travel"
    assert result.average_score("tool_correctness") == 1.0
    assert (len(result.conversations), result.pass_rate) == (2, 1.0)
    assert result.passed
    first, second = result.conversations
    assert [item.status for item in first.all_results] == ["passed"] * 3
    assert [item.status for item in second.all_results] == ["skipped", "passed", "skipped"]
    with pytest.raises(LookupError, match=r"no results of 'tool_corectness' \(did you mean tool_correctness\?\)"):
        result.average_score("tool_corectness")


@pytest.mark.statement(153)
def test_a_file_and_a_task_that_returns_texts():
    def agent(example):
        return CAPITALS[example.input]

    result = experiment(FIXTURES / "dokimos/qa-dataset.json", agent, ["exact_match"])
    assert (result.name, result.pass_rate, result.average_score("exact_match"), result.passed) == (
        "QA Dataset",
        0.5,
        0.5,
        False,
    )
    (reason,) = result.verdict.reasons
    assert (reason.case_id, reason.metric) == ("example-2", "exact_match")


async def test_texts_alone_do_not_pass_for_an_agent_without_calls():
    result = await run_experiment([{"input": "Hi", "expectedOutputs": {"toolCalls": []}}], lambda example: "Hello")
    assert not result.passed
    statuses = {item.evaluator: (item.status, item.reason) for item in result.conversations[0].all_results}
    assert statuses["tool_trajectory"][0] == "skipped"
    assert "the outputs contain no toolCalls" in statuses["tool_trajectory"][1]


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


async def test_a_task_that_fails_fails_its_example_alone():
    async def agent(example):
        if "France" in example.input:
            raise LookupError("no such country")
        return "Bern"

    result = await run_experiment(FIXTURES / "dokimos/qa-dataset.json", agent, ["exact_match"])
    assert result.pass_rate == 0.5
    (reason,) = result.verdict.reasons
    assert (reason.code, reason.case_id) == ("failed_turn", "example-2")
    assert "LookupError: no such country" in reason.message


async def test_a_task_that_exits_ends_neither_the_experiment_nor_passes():
    result = await run_experiment([{"input": "Hi"}], lambda example: sys.exit(0), ["tool_efficiency"])
    assert [reason.code for reason in result.verdict.reasons] == ["failed_turn", "unmeasured"]
    assert "SystemExit: 0" in result.verdict.reasons[0].message


@pytest.mark.parametrize("returned", [3, [], {"toolCalls": 3}, {"toolCalls": [{"arguments": {}}]}, AgentTrace()])
async def test_what_a_task_cannot_return_is_a_failed_example(returned):
    result = await run_experiment([{"input": "Hi"}], lambda example: returned, ["tool_efficiency"])
    assert (result.passed, result.pass_rate) == (False, 0.0)
    assert result.verdict.reasons[0].code in ("failed_turn", "missing_turn")


async def test_examples_run_at_once_and_several_times():
    together = asyncio.Barrier(3)

    async def agent(example):
        async with asyncio.timeout(PATIENCE_S):
            await together.wait()
        return {"output": "ok", "toolCalls": []}

    result = await run_experiment([{"input": "Hi"}], agent, ["tool_efficiency"], runs=3, concurrency=3)
    assert result.pass_rate == 1.0
    assert [conversation.label for conversation in result.conversations] == [f"example-1 #{n}" for n in (1, 2, 3)]


async def test_a_synchronous_task_does_not_hold_the_loop_up():
    threads = set()

    def agent(example):
        threads.add(threading.current_thread())
        return "ok"

    await run_experiment([{"input": "Hi", "expectedOutput": "ok"}], agent, ["exact_match"])
    assert threading.current_thread() not in threads


def test_without_a_judge_the_task_never_runs():
    ran = []
    with pytest.raises(JudgeNotConfiguredError, match="task_completion: no judge is configured"):
        experiment(TRAVEL, ran.append, ["task_completion"])
    assert ran == []


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


def test_own_metrics_see_the_reasoning():
    @metric()
    def thinks(case):
        return bool(case.reasoning_steps)

    outputs = AgentTrace.of([], "ok", ["Hm."]).to_output_map()
    assert experiment([{"input": "Hi"}], lambda example: outputs, ["thinks"]).pass_rate == 1.0


def test_a_result_has_a_report():
    result = experiment(TRAVEL, lambda example: "No calls", ["contains"], name="travel")
    assert "travel" in html_report(result.report)


def test_a_simulated_user_needs_an_agent():
    suite = parse_suite("{suite: x, cases: [{id: a, simulate: {goal: Buy a kettle.}}]}")
    with pytest.raises(SuiteError, match="case a has a simulated user: use `a2a-eval-proxy run`"):
        experiment(suite, str, ["contains"])


def test_what_was_not_imported_is_noted():
    result = experiment([{"input": "Hi", "metadata": {"sources": ["a"]}}], lambda example: "ok", ["contains"])
    assert result.notes == ("metadata sources was not imported",)


@pytest.mark.parametrize(
    ("dataset", "evaluators", "options", "error", "message"),
    [
        ([], ["contains"], {}, SuiteError, "the data set has no examples"),
        ([{"input": object()}], ["contains"], {}, ValueError, "the data set contains object, which JSON does not have"),
        (TRAVEL, [], {}, ValueError, "no evaluator is given"),
        (TRAVEL, ["contains"], {"runs": 0}, ValueError, "runs must be at least 1"),
        (TRAVEL, ["contains"], {"concurrency": 0}, ValueError, "concurrency must be at least 1"),
        ("missing.json", ["contains"], {}, SuiteError, "missing.json: cannot be read"),
    ],
)
def test_what_is_no_experiment(dataset, evaluators, options, error, message):
    with pytest.raises(error, match=message):
        experiment(dataset, str, evaluators, **options)


async def test_in_asynchronous_code_the_other_name_is_needed():
    with pytest.raises(RuntimeError, match="await run_experiment"):
        experiment(TRAVEL, str, ["contains"])


@pytest.mark.statement(258)
async def test_a_task_with_a_loop_of_an_openai_model_and_its_tools():
    """The tools in OpenAI's form, at most ten round trips, and a trace of the messages."""
    replies = iter(
        [
            {"tool_calls": [{"id": "1", "function": {"name": "search_flights", "arguments": '{"city": "Paris"}'}}]},
            {"content": "AF 7 goes there."},
        ]
    )

    def model(messages, tools):
        assert [tool["function"]["name"] for tool in tools] == ["search_flights"]
        return {"role": "assistant", **next(replies)}

    def agent(example):
        messages = [{"role": "user", "content": example.input}]
        for _ in range(10):
            reply = model(messages, [tool.to_openai() for tool in example.tools])
            messages.append(reply)
            if not reply.get("tool_calls"):
                break
            messages += [
                {"role": "tool", "tool_call_id": call["id"], "content": "AF 7"} for call in reply["tool_calls"]
            ]
        return AgentTrace.from_openai_messages(messages)

    result = await run_experiment(TRAVEL[:1], agent, ["tool_call_validity", "tool_error", "tool_correctness"])
    assert result.passed
    assert result.conversations[0].executed[0]["tool_calls"][0]["result"] == "AF 7"
