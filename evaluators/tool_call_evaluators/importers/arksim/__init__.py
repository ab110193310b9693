"""ArkSim: a file of metrics, written for arksim, runs here as it is (`metrics`), and so do its `files`.

What is exported here is public, and what a file of metrics imports.
"""

from .metric_evaluator import JudgeLLM
from .metric_types import (
    ChatMessage,
    ConversationEvaluation,
    Evaluation,
    MetricScope,
    QualitativeMetric,
    QualResult,
    QuantitativeMetric,
    QuantResult,
    ScoreInput,
    TurnEvaluation,
    check_numeric_thresholds,
    check_qualitative_failure_labels,
    format_chat_history,
)

__all__ = [
    "ChatMessage",
    "ConversationEvaluation",
    "Evaluation",
    "JudgeLLM",
    "MetricScope",
    "QualResult",
    "QualitativeMetric",
    "QuantResult",
    "QuantitativeMetric",
    "ScoreInput",
    "TurnEvaluation",
    "check_numeric_thresholds",
    "check_qualitative_failure_labels",
    "format_chat_history",
]
