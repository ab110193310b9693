"""arksim's gates as functions of an evaluation: which limits hold in every conversation."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any, TypeVar

from .entities import ConversationEvaluation, Evaluation

T = TypeVar("T")

logger = logging.getLogger(__name__)

NOT_MEASURED = ("evaluation_run_failed", "agent_api_error")
"""Values of `turn_behavior_failure` of turns that could not be judged."""


def check_numeric_thresholds(
    evaluation: Evaluation | Mapping[str, Any], numeric_thresholds: Mapping[str, float] | None
) -> bool:
    """Whether every conversation reaches the threshold of each metric, on the metric's own scale.

    A metric of turns counts with its mean in the conversation, one of conversations with its score; `overall_score` is
    the `overall_agent_score`. A conversation without the metric is left out, with a warning. Unlike arksim's, a metric
    that no conversation has fails. Failures are logged. `evaluation` is an `Evaluation` or the content of
    evaluation.json; raises pydantic's ValidationError, a ValueError, for anything else.
    """
    conversations = Evaluation.model_validate(evaluation).conversations
    passed = True
    for metric, least in (numeric_thresholds or {}).items():
        scores = _measured(conversations, metric, _score)
        for conversation, score in scores:
            if score < least:
                logger.error("%s: %s is %.3f, below %g", conversation.conversation_id, metric, score, least)
        passed = passed and bool(scores) and all(score >= least for _, score in scores)
    return passed


def check_qualitative_failure_labels(
    evaluation: Evaluation | Mapping[str, Any], qualitative_failure_labels: Mapping[str, Sequence[str]] | None
) -> bool:
    """Whether no turn and no conversation has one of the labels listed for its metric.

    Turns without the metric are left out. Unlike arksim's, a metric that no conversation has fails. Failures are
    logged. `evaluation`: see `check_numeric_thresholds`.
    """
    conversations = Evaluation.model_validate(evaluation).conversations
    passed = True
    for metric, forbidden in (qualitative_failure_labels or {}).items():
        found = _measured(conversations, metric, _labels)
        for conversation, labels in found:
            for place, label in labels:
                if label in forbidden:
                    logger.error("%s, %s: %s is %r", conversation.conversation_id, place, metric, label)
                    passed = False
        passed = passed and bool(found)
    return passed


def _measured(
    conversations: Sequence[ConversationEvaluation],
    metric: str,
    value_of: Callable[[ConversationEvaluation, str], T | None],
) -> list[tuple[ConversationEvaluation, T]]:
    """The conversations that have the metric, each with its value."""
    found = []
    for conversation in conversations:
        value = value_of(conversation, metric)
        if value is None:
            logger.warning("%s: %s was not measured and is not compared", conversation.conversation_id, metric)
        else:
            found.append((conversation, value))
    if not found:
        logger.error("%s was measured in no conversation: nothing shows that its limit holds", metric)
    return found


def _score(conversation: ConversationEvaluation, metric: str) -> float | None:
    """The score that a threshold applies to; None without one. Negative values were not computed."""
    if metric == "overall_score":
        return conversation.overall_agent_score
    if metric == "goal_completion":
        scores = [conversation.goal_completion_score]
    else:
        scores = [item.value for item in conversation.convo_scores if item.name == metric][:1] or [
            item.value for turn in conversation.turn_scores for item in turn.scores if item.name == metric
        ]
    computed = [score for score in scores if score >= 0]
    return fmean(computed) if computed else None


def _labels(conversation: ConversationEvaluation, metric: str) -> list[tuple[str, str]] | None:
    """The labels of a metric, each with its place; None if it was not measured."""
    found = [("the conversation", item.value) for item in conversation.convo_qual_scores if item.name == metric]
    for turn in conversation.turn_scores:
        own = [item.value for item in turn.qual_scores if item.name == metric][:1]
        if metric == "agent_behavior_failure":
            own = [] if turn.turn_behavior_failure in NOT_MEASURED else [turn.turn_behavior_failure]
        found += [(f"turn {turn.turn_id}", label) for label in own]
    return found or None
