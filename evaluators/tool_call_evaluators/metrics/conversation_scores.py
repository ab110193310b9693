"""Evaluates a conversation: its turns, then the whole, with `turn_success_ratio` and `overall_agent_score`."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..behavior_failures import FAILURE_METRICS, NO_FAILURES, UniqueError, behavior_failures, unique_errors
from ..evaluator import Evaluator, Measurement, SkipEvaluation, SyncEvaluator, evaluate
from ..model import CALLS_UNSEEN, CallsUnseenError, EvalCase, EvalResult, Status
from ..registry import register
from .tool_trajectory import ToolTrajectory

TURN_WEIGHT, GOAL_WEIGHT = 0.75, 0.25

EVALUATION_FAILED = "Evaluation Failed"
"""arksim's status of a conversation that could not be evaluated."""


@register
class TurnSuccessRatio(SyncEvaluator):
    """The share of the turns of a conversation without a behaviour failure.

    A turn failed if the result of one of `metrics` has a label other than `no failure`, or failed without a label. If a
    turn has no such result, or the conversation no turns, the result is skipped. With `trajectory`, a conversation
    that does not make its expected calls has one more failed turn: the last one with calls, or the last one.

    Details: `failed`, a list of `{turn, metric, label, reason}` with turns from 1. Source: ArkSim.

    Example:

        evaluators:
          - agent_behavior_failure
          - turn_success_ratio: {threshold: 0.75}
    """

    scope = "conversation"
    needs = ("turns",)

    metrics: Sequence[str] = FAILURE_METRICS
    """The evaluators whose results count."""
    trajectory: Mapping[str, Any] | None = None
    """Options of tool_trajectory (arksim's rule); None: expected calls do not count."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.trajectory is not None:
            ToolTrajectory(**self.trajectory)  # raises OptionError

    def measure(self, case: EvalCase) -> Measurement:
        turns = case.turns or ()
        failed = [*_failures(turns, self.metrics), *self._unexpected_calls(case, turns)]
        succeeded = len(turns) - len({number for number, _ in failed})
        problems = dict.fromkeys(f"turn {number}: {result.label or result.evaluator}" for number, result in failed)
        listed = [
            {"turn": number, "metric": item.evaluator, "label": item.label, "reason": item.reason}
            for number, item in failed
        ]
        details = {"failed": listed}
        return Measurement.share(succeeded, len(turns), "turn", "without a failure", list(problems), details)

    def _unexpected_calls(self, case: EvalCase, turns: Sequence[EvalCase]) -> list[tuple[int, EvalResult]]:
        if self.trajectory is None:
            return []
        result = ToolTrajectory(**self.trajectory).evaluate(case)
        if result.label == CALLS_UNSEEN:
            raise CallsUnseenError(result.reason)
        if result.status is Status.ERRORED:
            raise ValueError(result.reason)
        if result.status is not Status.FAILED:
            return []
        with_calls = [number for number, turn in enumerate(turns, start=1) if turn.tool_calls]
        return [(with_calls[-1] if with_calls else len(turns), result)]


@register
class OverallAgentScore(SyncEvaluator):
    """The quality of a conversation in one number: 0.75 * turn_success_ratio + 0.25 * goal_completion.

    Both are read from the results of the conversation; a missing turn_success_ratio is computed. Without a goal it is
    the score alone; with a goal but without a score of goal_completion, the result is skipped.

    The label is the status of the conversation: `Done` for 1, `Partial Failure` from 0.6 on, `Failed` below. If the
    score cannot be computed because an evaluator errored, the skipped result has the label `Evaluation Failed`.

    Details: `turn_success_ratio`, `goal_completion` (null without a goal). Source: ArkSim.

    Example:

        evaluators:
          - agent_behavior_failure
          - turn_success_ratio
          - overall_agent_score: {threshold: 0.8}
    """

    scope = "conversation"
    needs = ("turns",)
    reads_results = True

    threshold: float | None = 0.6
    with_goal: bool = True
    """False: turn_success_ratio alone, whatever the goal."""

    def measure(self, case: EvalCase) -> Measurement:
        try:
            return self._overall(case)
        except SkipEvaluation as missing:
            if _errored(case):
                raise SkipEvaluation(str(missing), EVALUATION_FAILED) from None
            raise

    def _overall(self, case: EvalCase) -> Measurement:
        ratio = _score_of("turn_success_ratio", case)
        if ratio is None:
            ratio = TurnSuccessRatio().measure(case).score or 0.0
        goal = _score_of("goal_completion", case) if self.with_goal else None
        if goal is None and case.user_goal is not None and self.with_goal:
            raise SkipEvaluation("there is a goal, but goal_completion has no score")
        score = ratio if goal is None else TURN_WEIGHT * ratio + GOAL_WEIGHT * goal
        status = conversation_status(score)
        parts = f"turn_success_ratio {ratio:g}" + ("" if goal is None else f", goal_completion {goal:g}")
        details = {"turn_success_ratio": ratio, "goal_completion": goal}
        return Measurement(score, f"{status}: {parts}.", details, label=status)


def conversation_status(overall: float) -> str:
    """arksim's name for an overall score: `Done`, `Partial Failure` or `Failed`."""
    if overall >= 1.0:
        return "Done"
    return "Partial Failure" if overall >= 0.6 else "Failed"


def _errored(case: EvalCase) -> bool:
    """Whether an evaluator whose results the overall score needs has errored."""
    of_turns = [item for turn in case.turns or () for item in turn.results if item.evaluator in FAILURE_METRICS]
    of_whole = [item for item in case.results if item.evaluator in ("turn_success_ratio", "goal_completion")]
    return any(item.status is Status.ERRORED for item in (*of_turns, *of_whole))


def _failures(turns: Sequence[EvalCase], metrics: Collection[str]) -> list[tuple[int, EvalResult]]:
    """The results of `metrics` that are failures, each with its turn from 1. Raises SkipEvaluation without turns, or
    for a turn without a result."""
    if not turns:
        raise SkipEvaluation("the conversation has no turns")
    failed = []
    for number, turn in enumerate(turns, start=1):
        judged = [item for item in turn.results if item.evaluator in metrics and item.measured]
        if not judged:
            raise SkipEvaluation(f"turn {number} has no result of {' or '.join(metrics)}")
        failed += [
            (number, one)
            for one in judged
            if (one.status is Status.FAILED if one.label is None else one.label not in NO_FAILURES)
        ]
    return failed


def _score_of(metric: str, case: EvalCase) -> float | None:
    return next((result.score for result in case.results if result.evaluator == metric), None)


_SHARED = ("tools", "user_goal", "knowledge", "profile", "tasks", "constraints")
"""Fields that a turn without a value inherits from its conversation."""


@dataclass(frozen=True, slots=True)
class ConversationResult:
    """The results of a conversation.

    `turns` holds the given and new results of each turn, `results` those of the whole. `status` is arksim's: `Done`,
    `Partial Failure`, `Failed`, or `Evaluation Failed` if an evaluator errored; None if no turn was judged. `errors`
    are the distinct behaviour failures of its turns.
    """

    turns: tuple[tuple[EvalResult, ...], ...]
    results: tuple[EvalResult, ...]
    status: str | None
    errors: tuple[UniqueError, ...]

    def to_dict(self) -> dict[str, Any]:
        return {
            "turns": [[result.to_dict() for result in turn] for turn in self.turns],
            "results": [result.to_dict() for result in self.results],
            "status": self.status,
            "errors": [error.to_dict() for error in self.errors],
        }


async def evaluate_conversation(
    conversation: EvalCase,
    evaluators: Iterable[Evaluator],
    *,
    turn_evaluators: Iterable[Evaluator] = (),
    name: str = "",
) -> ConversationResult:
    """Evaluate a case with `turns`; its errors contain `name`.

    `turn_evaluators` come first. They get each turn with the turns before it, and with the tools, goal, knowledge,
    profile, tasks and constraints of the conversation unless it has its own; a turn keeps its given results and is not
    evaluated for them again. `evaluators` then get the case, all turns with their results. As in `evaluate`, a failing
    evaluator is a result and never an exception. Raises ValueError for a case without `turns`.
    """
    if conversation.turns is None:
        raise ValueError("the case is not a conversation: it has no turns")
    of_turns = list(turn_evaluators)
    turns = [_in_context(conversation, index) for index in range(len(conversation.turns))]
    judged = await asyncio.gather(*(_with_results(turn, of_turns) for turn in turns))
    whole = replace(conversation, turns=tuple(judged))
    results = await evaluate(whole, evaluators)
    return ConversationResult(
        tuple(turn.results for turn in judged),
        tuple(results),
        OverallAgentScore().evaluate(replace(whole, results=(*whole.results, *results))).label,
        tuple(unique_errors(behavior_failures(name, judged))),
    )


def _in_context(conversation: EvalCase, index: int) -> EvalCase:
    turns = conversation.turns or ()
    turn = turns[index]
    shared = {field: getattr(conversation, field) for field in _SHARED if getattr(turn, field) is None}
    return replace(turn, history=turn.history or (*conversation.history, *turns[:index]), **shared)


async def _with_results(turn: EvalCase, evaluators: Sequence[Evaluator]) -> EvalCase:
    known = {result.evaluator for result in turn.results}
    results = await evaluate(turn, [evaluator for evaluator in evaluators if evaluator.metric not in known])
    return replace(turn, results=(*turn.results, *results))
