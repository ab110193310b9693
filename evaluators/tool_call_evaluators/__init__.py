"""Scores for tool calls: data in, scores out.

One `EvalCase` in, one `EvalResult` out; evaluators are built by name with `get_evaluator`, or as classes.
"""

from .agent_trace import AgentTrace, TraceTurn
from .agent_tree import AgentTurn, AskedBy, EdgeEvidence
from .behavior_failures import BehaviorFailure, UniqueError, behavior_failures, unique_errors
from .dokimos import eval_test_case
from .evaluator import (
    AsyncEvaluator,
    Evaluator,
    EvaluatorBase,
    Measurement,
    SkipEvaluation,
    SyncEvaluator,
    evaluate,
    evaluate_sync,
)
from .experiments import ExperimentResult, experiment, run_experiment
from .gates import Gate, Outcome, Reason, RunGates
from .judged.base import GradedEvaluator, JudgedEvaluator, LabelledEvaluator, judge_usage, with_judge
from .judged.behavior import AgentBehaviorFailure, GoalCompletion, ToolCallBehaviorFailure
from .judged.quality import (
    Coherence,
    Faithfulness,
    Helpfulness,
    LlmJudgeOutput,
    LlmJudgeTrajectory,
    Relevance,
    Verbosity,
)
from .judged.tasks import TaskCompletion, ToolArgumentHallucination
from .judged.tool_wording import ToolDescriptionReliability, ToolNameReliability
from .judged.unique_errors import judged_unique_errors
from .matching.arguments import ArgumentMatcher, Difference
from .matching.placeholders import PlaceholderError
from .metrics.agents_asked import AgentsAsked
from .metrics.budget import Budget
from .metrics.conversation_scores import (
    ConversationResult,
    OverallAgentScore,
    TurnSuccessRatio,
    conversation_status,
    evaluate_conversation,
)
from .metrics.custom import metric
from .metrics.delegation import DelegatedValues, Delegation
from .metrics.external import External
from .metrics.forbidden_calls import ForbiddenCalls
from .metrics.text_match import Contains, ExactMatch, JsonSimilarity
from .metrics.tool_call_args import ToolCallArgs
from .metrics.tool_call_criteria import ToolCallCount, ToolCallOrder, ToolCallOutput
from .metrics.tool_call_validity import ToolCallValidity
from .metrics.tool_correctness import ToolCorrectness
from .metrics.tool_efficiency import ToolEfficiency
from .metrics.tool_error import ToolError
from .metrics.tool_trajectory import ToolTrajectory
from .model import (
    CountCriterion,
    EvalCase,
    EvalResult,
    ExpectedAgent,
    ExpectedCall,
    ExpectedOutput,
    Status,
    ToolDefinition,
)
from .options import OptionError
from .registry import evaluator_class, evaluator_names, get_evaluator, register
from .suite import (
    AgentDefaults,
    Case,
    CaseTurn,
    EvaluatorSpec,
    Expectation,
    Simulation,
    Suite,
    SuiteError,
    load_suite,
    parse_case,
    parse_suite,
)
from .type_conversion import arguments_as, result_as, result_json
from .verdict import MetricSummary, Verdict, gate

__all__ = [
    "AgentBehaviorFailure",
    "AgentDefaults",
    "AgentTrace",
    "AgentTurn",
    "AgentsAsked",
    "ArgumentMatcher",
    "AskedBy",
    "AsyncEvaluator",
    "BehaviorFailure",
    "Budget",
    "Case",
    "CaseTurn",
    "Coherence",
    "Contains",
    "ConversationResult",
    "CountCriterion",
    "DelegatedValues",
    "Delegation",
    "Difference",
    "EdgeEvidence",
    "EvalCase",
    "EvalResult",
    "Evaluator",
    "EvaluatorBase",
    "EvaluatorSpec",
    "ExactMatch",
    "Expectation",
    "ExpectedAgent",
    "ExpectedCall",
    "ExpectedOutput",
    "ExperimentResult",
    "External",
    "Faithfulness",
    "ForbiddenCalls",
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
    "Simulation",
    "SkipEvaluation",
    "Status",
    "Suite",
    "SuiteError",
    "SyncEvaluator",
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
    "eval_test_case",
    "evaluate",
    "evaluate_conversation",
    "evaluate_sync",
    "evaluator_class",
    "evaluator_names",
    "experiment",
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
    "result_json",
    "run_experiment",
    "unique_errors",
    "with_judge",
]
