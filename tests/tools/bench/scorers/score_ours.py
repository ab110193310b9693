"""tool_call_evaluators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from timing import Rules, Turn, run
from tool_call_evaluators.evaluator import evaluate_sync
from tool_call_evaluators.model import EvalCase
from tool_call_evaluators.registry import get_evaluator

MODES = ("strict", "in_order", "any_order", "superset", "subset", "precision", "recall", "within")
CATALOGUE = (
    *(("tool_trajectory", {"mode": mode}) for mode in MODES),
    *(("tool_correctness", {"mode": mode}) for mode in ("names_only", "names_and_order", "names_and_args")),
    *((name, {}) for name in ("tool_call_args", "tool_call_order", "tool_call_count", "tool_call_output")),
    *((name, {}) for name in ("tool_call_validity", "tool_error", "tool_efficiency", "json_similarity", "exact_match")),
)


def case(turn: Turn) -> EvalCase:
    return EvalCase(
        tool_calls=turn["calls"],
        expected_tool_calls=turn["expected"],
        tool_calls_order=[call["name"] for call in turn["expected"]],
        tool_calls_count=turn["counts"],
        tool_outputs=[{"name": call["name"], "output": call["result"]} for call in turn["expected"]],
        tools=[{"name": name, "parameters": {"type": "object"}} for name in turn["counts"]],
        response_text=turn["response"],
        expected_response=turn["response"],
    )


def by(name: str, **options: Any) -> tuple[Callable[[Turn], EvalCase], Callable[[EvalCase], float]]:
    evaluator = get_evaluator(name, **options)
    return case, lambda prepared: evaluator.evaluate(prepared).score  # type: ignore[union-attr, return-value]


def catalogue() -> tuple[Callable[[Turn], EvalCase], Callable[[EvalCase], float]]:
    evaluators = [get_evaluator(name, **options, threshold=None) for name, options in CATALOGUE]

    def mean(prepared: EvalCase) -> float:
        results = evaluate_sync(prepared, evaluators)
        return sum(result.score for result in results if result.score is not None) / len(results)

    return case, mean


RULES: Rules = {
    "equal": by("tool_trajectory", mode="strict"),
    "contained": by("tool_trajectory", mode="superset"),
    "arguments": by("tool_call_args"),
    "names": by("tool_call_order"),
    "counts": by("tool_call_count"),
    "outputs": by("tool_call_output"),
    "catalogue": catalogue(),
}

if __name__ == "__main__":
    run(RULES)
