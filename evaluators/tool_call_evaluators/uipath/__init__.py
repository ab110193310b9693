"""UiPath's tool call evaluators under UiPath's names: code that uses them runs with this import instead.

    from tool_call_evaluators.uipath import ToolCall, ToolCallArgsEvaluationCriteria, ToolCallArgsEvaluator

The scores are those of the evaluators here. Not part of the package's face. `evaluation_set` imports UiPath's files,
and `evaluator_files` the evaluators that these name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass, replace
from typing import Any, ClassVar, cast

from ..agent_trace import AgentTrace
from ..evaluator import SyncEvaluator
from ..metrics.tool_call_args import explained
from ..model import EvalResult
from ..options import snake_case
from ..registry import CRITERIA, get_evaluator
from ..texts import json_text


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


# ── criteria, configurations and justifications ─────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class UiPathToolCall:
    """An expected call. With `id`, it is the one whose span has that `tool.id`; without such a call, the name."""

    name: str
    args: Mapping[str, Any]
    id: str | None = None


ToolCall = UiPathToolCall


@dataclass(frozen=True, kw_only=True)
class ToolOutput:
    """An expected output of a call; for `id`, see ToolCall."""

    name: str
    output: str
    id: str | None = None


@dataclass(frozen=True, kw_only=True)
class ToolCallArgsEvaluationCriteria:
    tool_calls: Sequence[ToolCall]


@dataclass(frozen=True, kw_only=True)
class ToolCallOrderEvaluationCriteria:
    tool_calls_order: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class ToolCallCountEvaluationCriteria:
    tool_calls_count: Mapping[str, tuple[str, int]]


@dataclass(frozen=True, kw_only=True)
class ToolCallOutputEvaluationCriteria:
    tool_outputs: Sequence[ToolOutput]


@dataclass(frozen=True, kw_only=True)
class _Config:
    name: str | None = None
    """Default: the name of the evaluator's class."""
    strict: bool = False
    default_evaluation_criteria: Any = None
    """Those of executions without their own, an object of the class with that name or a mapping."""


@dataclass(frozen=True, kw_only=True)
class ToolCallArgsEvaluatorConfig(_Config):
    subset: bool = False


class ToolCallOrderEvaluatorConfig(_Config): ...


class ToolCallCountEvaluatorConfig(_Config): ...


class ToolCallOutputEvaluatorConfig(_Config): ...


class _Justification(dict[str, Any]):
    """The details of a result, with the field of UiPath's class as an attribute."""


class ToolCallArgsEvaluatorJustification(_Justification):
    @property
    def explained_tool_calls_args(self) -> dict[str, str]:
        return dict(self.get("explained_tool_calls_args", {}))


class ToolCallOrderEvaluatorJustification(_Justification):
    @property
    def lcs(self) -> list[str]:
        return list(self.get("lcs", ()))


class ToolCallCountEvaluatorJustification(_Justification):
    explained_tool_calls_count = property(explained)


class ToolCallOutputEvaluatorJustification(_Justification):
    explained_tool_calls_outputs = property(explained)


# ── evaluators ──────────────────────────────────────────────────────────────────────────────────────────────


class _ToolCallEvaluator:
    kind: ClassVar[str]
    """The name of the evaluator here."""
    justification: ClassVar[type[_Justification]]

    def __init__(self, *, id: str, config: Any = None) -> None:
        """`config` holds UiPath's options, or those of the evaluator here: an object of its class, or a mapping.

        Raises OptionError.
        """
        given = {snake_case(option): value for option, value in _plain(config or {}).items()}
        self.id = id
        self.name = str(given.pop("name", None) or type(self).__name__)
        given.pop("description", None)
        self._default = given.pop(CRITERIA, None)
        self._options = {"threshold": None, **given, "id": id}
        self._evaluator(self._default, ())

    async def validate_and_evaluate_criteria(
        self,
        agent_execution: AgentExecution | None = None,
        evaluation_criteria: Any = None,
        *,
        workload_execution: AgentExecution | None = None,
    ) -> EvalResult:
        """The result for criteria of UiPath's class or a mapping; without any, those of the configuration apply, and
        without both it is skipped.

        Warns if the trace has spans but no tool call. Raises OptionError for invalid criteria.
        """
        execution = agent_execution or workload_execution
        if execution is None:
            raise TypeError("validate_and_evaluate_criteria() needs agent_execution or workload_execution")
        trace = AgentTrace.from_spans(
            execution.agent_trace,
            user_text=json_text(execution.agent_input),
            response_text=json_text(execution.agent_output),
        )
        case = trace.case()
        ids = [call.id for call in case.tool_calls]
        result = self._evaluator(evaluation_criteria or self._default, ids).evaluate(case)
        return replace(result, details=self.justification(result.details))

    def _evaluator(self, criteria: Any, ids: Sequence[str]) -> SyncEvaluator:
        given = criteria and {key: _by_id(value, ids) for key, value in _plain(criteria).items()}
        return cast(SyncEvaluator, get_evaluator(self.kind, **{**self._options, CRITERIA: given}))


class ToolCallArgsEvaluator(_ToolCallEvaluator):
    """`tool_call_args`; criteria `{tool_calls: [{name, args}]}`."""

    kind = "tool_call_args"
    justification = ToolCallArgsEvaluatorJustification


class ToolCallOrderEvaluator(_ToolCallEvaluator):
    """`tool_call_order`; criteria `{tool_calls_order: [name]}`."""

    kind = "tool_call_order"
    justification = ToolCallOrderEvaluatorJustification


class ToolCallCountEvaluator(_ToolCallEvaluator):
    """`tool_call_count`; criteria `{tool_calls_count: {name: [comparator, times]}}`."""

    kind = "tool_call_count"
    justification = ToolCallCountEvaluatorJustification


class ToolCallOutputEvaluator(_ToolCallEvaluator):
    """`tool_call_output`; criteria `{tool_outputs: [{name, output}]}`."""

    kind = "tool_call_output"
    justification = ToolCallOutputEvaluatorJustification


def _plain(value: Any) -> Any:
    """An object of one of these classes, or of UiPath's own (pydantic), as a mapping; a mapping unchanged."""
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return value.model_dump() if hasattr(value, "model_dump") else value


def _by_id(criterion: Any, ids: Sequence[str]) -> Any:
    """Expected calls or outputs without ids: one that is among the `ids` of calls takes the place of the name."""
    return [_renamed(entry, ids) for entry in criterion] if isinstance(criterion, list | tuple) else criterion


def _renamed(entry: Any, ids: Sequence[str]) -> Any:
    entry = _plain(entry)
    if not isinstance(entry, Mapping):
        return entry
    name = {"name": entry["id"]} if entry.get("id") in ids else {}
    return {key: value for key, value in entry.items() if key != "id"} | name
