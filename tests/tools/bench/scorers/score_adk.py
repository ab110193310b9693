"""google-adk: its trajectory evaluator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.adk.evaluation.eval_case import IntermediateData, Invocation
from google.adk.evaluation.eval_metrics import EvalMetric, ToolTrajectoryCriterion
from google.adk.evaluation.trajectory_evaluator import TrajectoryEvaluator
from google.genai.types import Content, FunctionCall, Part
from timing import Rules, Turn, run


def by(match_type: ToolTrajectoryCriterion.MatchType) -> tuple[Callable[[Turn], Any], Callable[[Any], float]]:
    criterion = ToolTrajectoryCriterion(threshold=1.0, match_type=match_type)
    evaluator = TrajectoryEvaluator(eval_metric=EvalMetric(metric_name="bench", criterion=criterion))

    def score(prepared: Any) -> float:
        return float(evaluator.evaluate_invocations(*prepared).overall_score or 0.0)

    return lambda turn: ([invocation(turn["calls"])], [invocation(turn["expected"])]), score


def invocation(entries: list[dict[str, Any]]) -> Invocation:
    calls = [FunctionCall(name=call["name"], args=call["arguments"]) for call in entries]
    return Invocation(user_content=Content(parts=[Part(text="-")]), intermediate_data=IntermediateData(tool_uses=calls))


RULES: Rules = {
    "equal": by(ToolTrajectoryCriterion.MatchType.EXACT),
    "contained": by(ToolTrajectoryCriterion.MatchType.ANY_ORDER),
}

if __name__ == "__main__":
    run(RULES)
