"""Scores for tool calls: data in, scores out.

One `EvalCase` in, one `EvalResult` out; evaluators are built by name with `get_evaluator`, or as classes.
"""

from .agent_trace import AgentTrace, TraceTurn
from .base import AwaitedEvaluator, ComputedEvaluator, Evaluator, EvaluatorBase, Measurement, SkipEvaluation
from .calls import ToolCallArgs
from .conversation import OverallAgentScore, TurnSuccessRatio, conversation_status
from .converse import ConversationResult, evaluate_conversation
from .correctness import ToolCorrectness
from .criteria import ToolCallCount, ToolCallOrder, ToolCallOutput
from .custom import metric
from .efficiency import ToolEfficiency
from .errors import ToolError
from .external import External
from .failures import BehaviorFailure, UniqueError, behavior_failures, unique_errors
from .gates import Gate, Outcome, Reason, RunGates
from .judged import GradedEvaluator, JudgedEvaluator, LabelledEvaluator, judge_usage, with_judge
from .judged_behavior import AgentBehaviorFailure, GoalCompletion, ToolCallBehaviorFailure
from .judged_errors import judged_unique_errors
from .judged_quality import Coherence, Faithfulness, Helpfulness, Relevance, Verbosity
from .judged_similarity import LlmJudgeOutput, LlmJudgeTrajectory
from .judged_tasks import TaskCompletion, ToolArgumentHallucination
from .matching import ArgumentMatcher, Difference
from .model import CountCriterion, EvalCase, EvalResult, ExpectedOutput, Status, ToolDefinition
from .naming import ToolDescriptionReliability, ToolNameReliability
from .options import OptionError
from .placeholders import PlaceholderError
from .registry import evaluator_class, evaluator_names, get_evaluator, register
from .run import evaluate, evaluate_sync
from .similarity import JsonSimilarity
from .suite import (
    AgentDefaults,
    Case,
    CaseTurn,
    EvaluatorSpec,
    Expectation,
    Suite,
    SuiteError,
    load_suite,
    parse_case,
    parse_suite,
)
from .text import Contains, ExactMatch
from .trajectory import ToolTrajectory
from .typed import arguments_as, result_as
from .validity import ToolCallValidity
from .verdict import MetricSummary, Verdict, gate

__all__ = [
    "AgentBehaviorFailure",
    "AgentDefaults",
    "AgentTrace",
    "ArgumentMatcher",
    "AwaitedEvaluator",
    "BehaviorFailure",
    "Case",
    "CaseTurn",
    "Coherence",
    "ComputedEvaluator",
    "Contains",
    "ConversationResult",
    "CountCriterion",
    "Difference",
    "EvalCase",
    "EvalResult",
    "Evaluator",
    "EvaluatorBase",
    "EvaluatorSpec",
    "ExactMatch",
    "Expectation",
    "ExpectedOutput",
    "External",
    "Faithfulness",
    "Gate",
    "GoalCompletion",
    "GradedEvaluator",
    "Helpfulness",
    "JsonSimilarity",
    "JudgedEvaluator",
    "LabelledEvaluator",
    "LlmJudgeOutput",
    "LlmJudgeTrajectory",
    "Measurement",
    "MetricSummary",
    "OptionError",
    "Outcome",
    "OverallAgentScore",
    "PlaceholderError",
    "Reason",
    "Relevance",
    "RunGates",
    "SkipEvaluation",
    "Status",
    "Suite",
    "SuiteError",
    "TaskCompletion",
    "ToolArgumentHallucination",
    "ToolCallArgs",
    "ToolCallBehaviorFailure",
    "ToolCallCount",
    "ToolCallOrder",
    "ToolCallOutput",
    "ToolCallValidity",
    "ToolCorrectness",
    "ToolDefinition",
    "ToolDescriptionReliability",
    "ToolEfficiency",
    "ToolError",
    "ToolNameReliability",
    "ToolTrajectory",
    "TraceTurn",
    "TurnSuccessRatio",
    "UniqueError",
    "Verbosity",
    "Verdict",
    "arguments_as",
    "behavior_failures",
    "conversation_status",
    "evaluate",
    "evaluate_conversation",
    "evaluate_sync",
    "evaluator_class",
    "evaluator_names",
    "gate",
    "get_evaluator",
    "judge_usage",
    "judged_unique_errors",
    "load_suite",
    "metric",
    "parse_case",
    "parse_suite",
    "register",
    "result_as",
    "unique_errors",
    "with_judge",
]
