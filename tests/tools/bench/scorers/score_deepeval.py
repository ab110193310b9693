"""deepeval: ToolCorrectnessMetric, which asks no model where it is given no available tools."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from deepeval.metrics import ToolCorrectnessMetric
from deepeval.test_case import LLMTestCase, ToolCall, ToolCallParams
from timing import Rules, Turn, run


def by(*, arguments: bool, **options: Any) -> tuple[Callable[[Turn], LLMTestCase], Callable[[LLMTestCase], float]]:
    params = [ToolCallParams.INPUT_PARAMETERS] if arguments else []
    metric = ToolCorrectnessMetric(evaluation_params=params, async_mode=False, include_reason=False, **options)
    return case, lambda prepared: float(metric.measure(prepared, _show_indicator=False))


def case(turn: Turn) -> LLMTestCase:
    return LLMTestCase(
        input="-", actual_output="-", tools_called=calls(turn["calls"]), expected_tools=calls(turn["expected"])
    )


def calls(entries: list[dict[str, Any]]) -> list[ToolCall]:
    return [ToolCall(name=call["name"], input_parameters=call["arguments"]) for call in entries]


RULES: Rules = {
    "equal": by(arguments=True, should_exact_match=True),
    "arguments": by(arguments=True),
    "names": by(arguments=False, should_consider_ordering=True),
}

if __name__ == "__main__":
    run(RULES)
