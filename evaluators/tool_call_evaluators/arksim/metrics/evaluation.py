"""The content of arksim's `evaluation.json` (schema v1.1), and arksim's gates on it as functions."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from .metric_types import QualResult, QuantResult

T = TypeVar("T")

logger = logging.getLogger(__name__)

NOT_MEASURED = ("evaluation_run_failed", "agent_api_error")
"""Values of `turn_behavior_failure` of turns that could not be judged."""


class _Entity(BaseModel):
    """Also read from objects with the same attributes, such as arksim's own."""

    model_config = ConfigDict(from_attributes=True)


class TurnEvaluation(_Entity):
    """A turn, from 0. `turn_score` is the mean of its scores."""

    turn_id: int
    scores: list[QuantResult]
    turn_score: float
    turn_behavior_failure: str
    turn_behavior_failure_reason: str
    qual_scores: list[QualResult] = Field(default_factory=list)
    unique_error_ids: list[str] = Field(default_factory=list)


class ErrorOccurrence(_Entity):
    """The place of an error."""

    conversation_id: str
    turn_id: int


class FoundError(_Entity):
    """An entry of `unique_errors`: one error, however often it happened."""

    unique_error_id: str
    behavior_failure_category: str
    unique_error_description: str
    severity: str = "medium"
    occurrences: list[ErrorOccurrence]


class ConversationEvaluation(_Entity):
    """A conversation. `goal_completion_score` is -1 if the goal was not scored."""

    conversation_id: str
    goal_completion_score: float
    goal_completion_reason: str
    turn_success_ratio: float
    overall_agent_score: float
    evaluation_status: str
    turn_scores: list[TurnEvaluation]
    convo_scores: list[QuantResult] = Field(default_factory=list)
    convo_qual_scores: list[QualResult] = Field(default_factory=list)


class ErrorScenarioMapping(_Entity):
    """The scenarios in which an error happened."""

    error_index: int
    unique_error_id: str
    error_description: str
    severity: str
    scenario_ids: list[str]


class Evaluation(_Entity):
    """The whole file."""

    schema_version: str
    generated_at: str
    evaluator_version: str
    evaluation_id: str
    simulation_id: str
    conversations: list[ConversationEvaluation]
    unique_errors: list[FoundError]
    error_scenario_mappings: list[ErrorScenarioMapping] = Field(default_factory=list)


def check_numeric_thresholds(
    evaluation: Evaluation | Mapping[str, Any], numeric_thresholds: Mapping[str, float] | None
) -> bool:
    """Whether every conversation reaches the threshold of each metric, on the metric's own scale.

    A metric of turns counts with its mean in the conversation, one of conversations with its score; `overall_score` is
    the `overall_agent_score`. A conversation without the metric is left out, with a warning. Unlike arksim's, a metric
    that no conversation has fails. Failures are logged. `evaluation` is an `Evaluation` or the content of
    evaluation.json; raises pydantic's ValidationError, a ValueError, for anything else.
    """
    return _hold(evaluation, numeric_thresholds, _low_scores)


def check_qualitative_failure_labels(
    evaluation: Evaluation | Mapping[str, Any], qualitative_failure_labels: Mapping[str, Sequence[str]] | None
) -> bool:
    """Whether no turn and no conversation has one of the labels listed for its metric.

    Turns without the metric are left out. Unlike arksim's, a metric that no conversation has fails. Failures are
    logged. `evaluation`: see `check_numeric_thresholds`.
    """
    return _hold(evaluation, qualitative_failure_labels, _forbidden_labels)


def _hold(
    evaluation: Evaluation | Mapping[str, Any],
    limits: Mapping[str, T] | None,
    problems_of: Callable[[ConversationEvaluation, str, T], list[str] | None],
) -> bool:
    """Whether no conversation has a problem, and each metric was measured in some: elsewhere the problems are None."""
    conversations = Evaluation.model_validate(evaluation).conversations
    hold = True
    for metric, limit in (limits or {}).items():
        measured = False
        for conversation in conversations:
            problems = problems_of(conversation, metric, limit)
            if problems is None:
                logger.warning("%s: %s was not measured and is not compared", conversation.conversation_id, metric)
            measured = measured or problems is not None
            for problem in problems or ():
                logger.error("%s%s", conversation.conversation_id, problem)
                hold = False
        if not measured:
            logger.error("%s was measured in no conversation: nothing shows that its limit holds", metric)
            hold = False
    return hold


def _low_scores(conversation: ConversationEvaluation, metric: str, least: float) -> list[str] | None:
    """Of the score that the threshold applies to. Negative values were not computed."""
    if metric == "overall_score":
        scores = [conversation.overall_agent_score]
    elif metric == "goal_completion":
        scores = [conversation.goal_completion_score]
    else:
        scores = [item.value for item in conversation.convo_scores if item.name == metric][:1] or [
            item.value for turn in conversation.turn_scores for item in turn.scores if item.name == metric
        ]
    computed = [score for score in scores if score >= 0 or metric == "overall_score"]
    if not computed:
        return None
    score = fmean(computed)
    return [f": {metric} is {score:.3f}, below {least:g}"] if score < least else []


def _forbidden_labels(conversation: ConversationEvaluation, metric: str, forbidden: Sequence[str]) -> list[str] | None:
    found = [("the conversation", item.value) for item in conversation.convo_qual_scores if item.name == metric]
    for turn in conversation.turn_scores:
        own = [item.value for item in turn.qual_scores if item.name == metric][:1]
        if metric == "agent_behavior_failure":
            own = [] if turn.turn_behavior_failure in NOT_MEASURED else [turn.turn_behavior_failure]
        found += [(f"turn {turn.turn_id}", label) for label in own]
    problems = [f", {place}: {metric} is {label!r}" for place, label in found if label in forbidden]
    return problems if found else None
