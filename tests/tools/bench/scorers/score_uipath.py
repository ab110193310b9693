"""uipath: its tool call evaluators, which read OpenTelemetry spans."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan
from timing import Rules, Turn, run
from uipath.eval.evaluators.tool_call_args_evaluator import ToolCallArgsEvaluationCriteria, ToolCallArgsEvaluator
from uipath.eval.evaluators.tool_call_count_evaluator import ToolCallCountEvaluationCriteria, ToolCallCountEvaluator
from uipath.eval.evaluators.tool_call_order_evaluator import ToolCallOrderEvaluationCriteria, ToolCallOrderEvaluator
from uipath.eval.evaluators.tool_call_output_evaluator import ToolCallOutputEvaluationCriteria, ToolCallOutputEvaluator
from uipath.eval.models import ToolCall, ToolOutput, WorkloadExecution

LOOP = asyncio.new_event_loop()


def by(evaluator_type: Any, criteria: Callable[[Turn], Any]) -> tuple[Callable[[Turn], Any], Callable[[Any], float]]:
    evaluator = evaluator_type.model_validate({"id": "bench", "evaluatorConfig": {"name": "bench"}})

    def score(prepared: Any) -> float:
        result = LOOP.run_until_complete(evaluator.evaluate(*prepared))
        return float(result.score)

    return lambda turn: (execution(turn), criteria(turn)), score


def execution(turn: Turn) -> WorkloadExecution:
    return WorkloadExecution(agent_input={}, workload_output="", workload_trace=[span(call) for call in turn["calls"]])


def span(call: dict[str, Any]) -> ReadableSpan:
    attributes = {
        "tool.name": call["name"],
        "input.value": json.dumps(call["arguments"]),
        "output.value": json.dumps({"content": call["result"]}),
    }
    return ReadableSpan(name=call["name"], attributes=attributes)


def expected_arguments(turn: Turn) -> Any:
    calls = [ToolCall(name=call["name"], args=call["arguments"]) for call in turn["expected"]]
    return ToolCallArgsEvaluationCriteria(tool_calls=calls)


def expected_names(turn: Turn) -> Any:
    return ToolCallOrderEvaluationCriteria(tool_calls_order=[call["name"] for call in turn["expected"]])


def expected_counts(turn: Turn) -> Any:
    return ToolCallCountEvaluationCriteria(tool_calls_count=turn["counts"])


def expected_outputs(turn: Turn) -> Any:
    outputs = [ToolOutput(name=call["name"], output=call["result"]) for call in turn["expected"]]
    return ToolCallOutputEvaluationCriteria(tool_outputs=outputs)


RULES: Rules = {
    "arguments": by(ToolCallArgsEvaluator, expected_arguments),
    "names": by(ToolCallOrderEvaluator, expected_names),
    "counts": by(ToolCallCountEvaluator, expected_counts),
    "outputs": by(ToolCallOutputEvaluator, expected_outputs),
}

if __name__ == "__main__":
    run(RULES)
