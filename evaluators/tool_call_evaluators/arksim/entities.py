"""The results of an evaluation, with the fields of arksim's `evaluation.json` (schema v1.1)."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from .metric_types import QualResult, QuantResult


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
