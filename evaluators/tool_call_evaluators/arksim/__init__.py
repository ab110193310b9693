"""ArkSim's custom metrics and gates: a file of metrics, written for arksim, runs here as it is.

`metric_types` has the classes that such a file derives from and returns, `llm` its `self.llm`, `metric_evaluator` makes
an evaluator of a metric, `entities` has the content of evaluation.json, and `thresholds` arksim's gates on it as
functions. What is exported here is public; plug-in files also import it as `arksim.evaluator`, unless arksim itself is
installed.
"""

from .entities import (
    ConversationEvaluation,
    ErrorOccurrence,
    ErrorScenarioMapping,
    Evaluation,
    FoundError,
    TurnEvaluation,
)
from .llm import JudgeLLM
from .metric_types import (
    ChatMessage,
    MetricScope,
    QualitativeMetric,
    QualResult,
    QuantitativeMetric,
    QuantResult,
    ScoreInput,
    format_chat_history,
)
from .thresholds import check_numeric_thresholds, check_qualitative_failure_labels

__all__ = [
    "ChatMessage",
    "ConversationEvaluation",
    "ErrorOccurrence",
    "ErrorScenarioMapping",
    "Evaluation",
    "FoundError",
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
