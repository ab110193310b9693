"""Evaluates a conversation: its turns, then the whole."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..behavior_failures import UniqueError, behavior_failures, unique_errors
from ..evaluator import Evaluator, evaluate
from ..model import EvalCase, EvalResult
from .conversation_scores import OverallAgentScore

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
    return replace(turn, history=turn.history or turns[:index], **shared)


async def _with_results(turn: EvalCase, evaluators: Sequence[Evaluator]) -> EvalCase:
    known = {result.evaluator for result in turn.results}
    results = await evaluate(turn, [evaluator for evaluator in evaluators if evaluator.metric not in known])
    return replace(turn, results=(*turn.results, *results))
