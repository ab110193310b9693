"""UiPath's tool call evaluators under UiPath's names: code that uses them runs with this import instead.

    from tool_call_evaluators.uipath import AgentExecution, ToolCallArgsEvaluator

The scores are those of the evaluators here. Not part of the package's face.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

from .agent_trace.trace import AgentTrace
from .evaluator import SyncEvaluator
from .model import EvalResult, json_text
from .options import snake_case
from .registry import CRITERIA, get_evaluator


@dataclass(frozen=True, kw_only=True)
class AgentExecution:
    """What an agent was asked, what it returned, and its spans (see `AgentTrace.from_spans`)."""

    agent_input: Mapping[str, Any] | None = None
    agent_output: Mapping[str, Any] | str | None = None
    agent_trace: Sequence[Any] = ()


def WorkloadExecution(  # noqa: N802  # a class in UiPath
    *, agent_input: Mapping[str, Any] | None = None, workload_output: Any = None, workload_trace: Sequence[Any] = ()
) -> AgentExecution:
    """An AgentExecution with the parameter names of newer UiPath versions."""
    return AgentExecution(agent_input=agent_input, agent_output=workload_output, agent_trace=workload_trace)


class _ToolCallEvaluator:
    kind: ClassVar[str]
    """The name of the evaluator here."""

    def __init__(self, *, id: str, config: Mapping[str, Any] | None = None) -> None:
        """`config` holds UiPath's options, or those of the evaluator here. Raises OptionError."""
        given = {snake_case(option): value for option, value in (config or {}).items()}
        self.id = id
        self.name = str(given.pop("name", type(self).__name__))
        self._options = {"threshold": None, **given, "id": id}
        self._evaluator(given.get(CRITERIA))

    async def validate_and_evaluate_criteria(
        self,
        agent_execution: AgentExecution | None = None,
        evaluation_criteria: Mapping[str, Any] | None = None,
        *,
        workload_execution: AgentExecution | None = None,
    ) -> EvalResult:
        """The result; without criteria, those of the configuration apply, and without both it is skipped.

        Warns if the trace has spans but no tool call. Raises OptionError for invalid criteria.
        """
        execution = agent_execution or workload_execution
        if execution is None:
            raise TypeError("validate_and_evaluate_criteria() needs agent_execution or workload_execution")
        evaluator = self._evaluator(evaluation_criteria or self._options.get(CRITERIA))
        trace = AgentTrace.from_spans(
            execution.agent_trace,
            user_text=json_text(execution.agent_input),
            response_text=json_text(execution.agent_output),
        )
        return evaluator.evaluate(trace.case())

    def _evaluator(self, criteria: Mapping[str, Any] | None) -> SyncEvaluator:
        return cast(SyncEvaluator, get_evaluator(self.kind, **{**self._options, CRITERIA: criteria}))


class ToolCallArgsEvaluator(_ToolCallEvaluator):
    """`tool_call_args`; criteria `{tool_calls: [{name, args}]}`."""

    kind = "tool_call_args"


class ToolCallOrderEvaluator(_ToolCallEvaluator):
    """`tool_call_order`; criteria `{tool_calls_order: [name]}`."""

    kind = "tool_call_order"


class ToolCallCountEvaluator(_ToolCallEvaluator):
    """`tool_call_count`; criteria `{tool_calls_count: {name: [comparator, times]}}`."""

    kind = "tool_call_count"


class ToolCallOutputEvaluator(_ToolCallEvaluator):
    """`tool_call_output`; criteria `{tool_outputs: [{name, output}]}`."""

    kind = "tool_call_output"
