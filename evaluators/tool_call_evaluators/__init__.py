"""Scores for tool calls: data in, scores out.

One `EvalCase` in, one `EvalResult` out. Evaluators are built by name with `get_evaluator`, or imported as classes from
their modules in `metrics` and `judged`.
"""

from .agent_trace import AgentTrace
from .evaluator import (
    AsyncEvaluator,
    EvaluatorBase,
    Measurement,
    SkipEvaluation,
    SyncEvaluator,
    evaluate,
    evaluate_sync,
)
from .experiments import experiment, run_experiment
from .judged.base import GradedEvaluator, JudgedEvaluator, LabelledEvaluator, with_judge
from .matching.arguments import ArgumentMatcher
from .metrics.conversation_scores import evaluate_conversation
from .metrics.custom import metric
from .metrics.tool_call_args import ToolCallArgs
from .metrics.tool_trajectory import ToolTrajectory
from .model import EvalCase, EvalResult, Status, ToolDefinition
from .options import OptionError
from .registry import evaluator_class, evaluator_names, get_evaluator, register
from .suite import SuiteError, load_suite, parse_suite
from .type_conversion import arguments_as, result_as

__all__ = [
    "AgentTrace",
    "ArgumentMatcher",
    "AsyncEvaluator",
    "EvalCase",
    "EvalResult",
    "EvaluatorBase",
    "GradedEvaluator",
    "JudgedEvaluator",
    "LabelledEvaluator",
    "Measurement",
    "OptionError",
    "SkipEvaluation",
    "Status",
    "SuiteError",
    "SyncEvaluator",
    "ToolCallArgs",
    "ToolDefinition",
    "ToolTrajectory",
    "arguments_as",
    "evaluate",
    "evaluate_conversation",
    "evaluate_sync",
    "evaluator_class",
    "evaluator_names",
    "experiment",
    "get_evaluator",
    "load_suite",
    "metric",
    "parse_suite",
    "register",
    "result_as",
    "run_experiment",
    "with_judge",
]
