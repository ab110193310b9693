"""UiPath's evaluation sets, and its tool call evaluators under its names: code that uses them runs with this import.

    from tool_call_evaluators.importers.uipath import ToolCall, ToolCallArgsEvaluationCriteria, ToolCallArgsEvaluator

The scores are those of the evaluators here. Not part of the package's face.

Evaluation sets, as of uipath 2.14, are `{version: "1.0", evaluatorRefs, evaluations}`, or the older form. An
evaluation is a case of one turn: its `inputs` are the user message (a single string, one named like a message, or the
inputs as JSON), and each of its `evaluationCriterias` becomes an expectation; where evaluators of a case expect
different things, each has its own as an option. The types and options of evaluators are read from `../evaluators/`,
relative to the set, where UiPath keeps them; without these files the criteria determine the type. Content without an
equivalent here is not imported, with a note.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, cast

from ..agent_trace import AgentTrace
from ..evaluator import SyncEvaluator
from ..foreign import Importer, Notes, expected_call, unique_ids, user_text
from ..grouping import grouped
from ..matching.placeholders import equal_values
from ..metrics.tool_call_args import explained
from ..model import EvalResult, count_criterion, expected_output
from ..options import snake_case
from ..registry import evaluator_class, get_evaluator
from ..suite import Case, CaseTurn, EvaluatorSpec, Expectation, Suite
from ..suite.writing import printable_id
from ..suite.yaml_document import Node, read_source
from ..suite_fields import boolean, texts
from ..texts import json_text

_TYPES = {
    "uipath-tool-call-args": ("tool_call_args", ("strict", "subset")),
    "uipath-tool-call-order": ("tool_call_order", ("strict",)),
    "uipath-tool-call-count": ("tool_call_count", ("strict",)),
    "uipath-tool-call-output": ("tool_call_output", ("strict",)),
    "uipath-exact-match": ("exact_match", ("case_sensitive", "negated", "target_output_key")),
    "uipath-contains": ("contains", ("case_sensitive", "negated", "target_output_key")),
    "uipath-json-similarity": ("json_similarity", ("target_output_key",)),
    "uipath-llm-judge-output-semantic-similarity": ("llm_judge_output", ()),
    "uipath-llm-judge-output-strict-json-similarity": ("llm_judge_output", ()),
    "uipath-llm-judge-trajectory-similarity": ("llm_judge_trajectory", ()),
    "uipath-llm-judge-trajectory-simulation": ("llm_judge_trajectory", ()),
}
"""The evaluators here for UiPath's types, and the options that both have."""

_OLDER_TYPES = {1: "exact_match", 6: "json_similarity", 7: "llm_judge_trajectory"}
_JUDGE_OF_ANSWERS = 1
_JUDGES_OF_CONTEXT = (8, 9)
"""In files of the older form: numbers of `type`; that of `category` for judges of answers, and of those `type`s whose
judges read the documents an agent retrieved."""

_REAL = "no tool is simulated here, the agent calls its real ones"
_REASONS = {
    "mocking_strategy": _REAL,
    "simulate_tools": _REAL,
    "tools_to_simulate": _REAL,
    "simulation_instructions": _REAL,
    "weight": "each metric has a threshold and gates of its own",
    "line_by_line_evaluator": "here it compares the whole answer",
    "prompt": "the judge gets our instructions",
    "model": "the judge of the suite is asked",
}
"""What happens instead of what some keys ask for."""
_OF_FILES = ("id", "name", "version", "description", "file_name", "created_at", "updated_at", "project_id")
_OF_A_SET = (*_OF_FILES, "batch_size", "timeout_minutes")
_OF_AN_EVALUATION = (
    *("id", "name", "description", "inputs", "evaluation_criterias", "expected_output", "expected_agent_behavior"),
    *("conversational_inputs", "conversational_expected_output", "eval_set_id", "created_at", "updated_at", "source"),
)
_OF_AN_EVALUATOR = (
    *_OF_FILES, "evaluator_type_id", "evaluator_config", "evaluator_schema", "category", "type", "target_output_key"
)  # fmt: skip
"""The keys that are read, and those that say nothing of the expected behaviour."""


@dataclass(frozen=True, slots=True)
class UiPathEvaluator:
    """An evaluator of the set: the name of its equivalent here (None: no equivalent), its options, and its default
    criteria."""

    kind: str | None
    options: Mapping[str, Any] = field(default_factory=dict)
    defaults: Node | None = None


def evaluators_beside(path: Path) -> dict[str, Node]:
    """The files of the project's evaluators, by id and by file name. The set may use some of them only."""
    found: dict[str, Node] = {}
    for file in sorted((path.parent.parent / "evaluators").glob("*.json")):
        node = read_source(file)
        found[node.text_at("id") or file.stem] = found[file.stem] = node
    return found


def read_evaluator(node: Node) -> UiPathEvaluator:
    type_id = node.text_at("evaluatorTypeId")
    kind, names = _older_type(node) if type_id is None else _TYPES.get(type_id, (None, ()))
    config = node if type_id is None else node.at("evaluatorConfig")
    options = {name: value for name in names if (value := _option(config, name)) is not None}
    defaults = config.get("defaultEvaluationCriteria", "default_evaluation_criteria")
    return UiPathEvaluator(kind, options, defaults)


def _note_evaluator(node: Node, ref: str, notes: Notes) -> None:
    """Note what the file of an evaluator says beyond what `read_evaluator` reads."""
    name, config = f"the evaluator {ref}", node.at("evaluatorConfig")
    options = {option for _, names in _TYPES.values() for option in names}
    notes.dropped(node, _OF_AN_EVALUATOR, name, _REASONS)
    notes.dropped(config, ("name", "description", "default_evaluation_criteria", *options), name, _REASONS)


def _older_type(node: Node) -> tuple[str | None, tuple[str, ...]]:
    """The evaluator here, and its options, for the numbers of the older form."""
    category, number = (part.value if (part := node.get(name)) is not None else None for name in ("category", "type"))
    if category == _JUDGE_OF_ANSWERS and number not in _JUDGES_OF_CONTEXT:
        return "llm_judge_output", ()
    kind = _OLDER_TYPES.get(number) if isinstance(number, int) else None
    return kind, ("target_output_key",) if kind in ("exact_match", "json_similarity") else ()


def _option(config: Node, name: str) -> Any:
    """The value of an option; None if it is the default."""
    given = config.get(name, camel_case(name))
    if name != "target_output_key":
        return (given is not None and given.convert(boolean)) or None
    if given is None or given.value == "*":
        return None
    return list(given.convert(texts)) if isinstance(given.value, list) else given.text()


def camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


_GUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")

_ANSWERS = ("exact_match", "json_similarity", "llm_judge_output")
"""Evaluators that compare the agent's answer with an expected one."""

_Reader = tuple[str, str, Callable[[Node, Notes], Any]]

_ANSWER: _Reader = ("expected_output", "response", lambda given, _: given.value)
_CRITERIA: Mapping[str, _Reader] = {
    "tool_call_args": (
        "tool_calls",
        "tool_calls",
        lambda given, notes: tuple(expected_call(item, "args", "arguments", notes=notes) for item in given.items()),
    ),
    "tool_call_order": ("tool_calls_order", "tool_calls_order", lambda given, _: given.convert(texts)),
    "tool_call_count": (
        "tool_calls_count",
        "tool_calls_count",
        lambda given, _: {name: item.convert(count_criterion) for name, item in given.entries().items()},
    ),
    "tool_call_output": (
        "tool_outputs",
        "tool_outputs",
        lambda given, _: tuple(item.convert(expected_output) for item in given.items()),
    ),
    "contains": ("search_text", "response_contains", lambda given, _: given.text()),
    "llm_judge_trajectory": ("expected_agent_behavior", "behavior", lambda given, _: given.text()),
}
"""By evaluator: the name of the criterion, also in camel case, that identifies it without a file; the field of
Expectation for its value; and the reader of the value."""


@dataclass(frozen=True, slots=True)
class _Evaluation:
    """A case without what its evaluators expect, and that: by evaluator, the field of Expectation and its value."""

    case: Case
    criteria: Mapping[str, tuple[str, Any]]


def read(node: Node, path: Path, notes: Notes) -> Suite:
    """The suite in an evaluation set. Raises SuiteError, also for a broken evaluator file."""
    known = evaluators_beside(path)
    used: dict[str, UiPathEvaluator] = {}
    notes.dropped(node, (*_OF_A_SET, "evaluator_refs", "evaluator_configs", "evaluations"), "the set")
    listed = node.get("evaluatorRefs", "evaluator_refs")
    configs = node.items_at("evaluatorConfigs", "evaluator_configs")
    for config in configs:
        notes.dropped(config, ("ref", "id"), "an evaluator of the set", _REASONS)
    named = tuple(ref for config in configs if (ref := config.text_at("ref", "id")))
    refs = listed.convert(texts) if listed is not None else named
    evaluations = [
        _evaluation(item, refs, known, used, notes)
        for item in node.need("evaluations").items()
        if _says_something(item, notes)
    ]
    specs = _specs(used)
    name = node.text_at("name") or node.text_at("id") or path.stem
    return Suite(
        name=name,
        evaluators=tuple(specs.values()) or (EvaluatorSpec("tool_error"),),
        cases=unique_ids(_with_criteria(evaluation, specs) for evaluation in evaluations),
    )


def _says_something(node: Node, notes: Notes) -> bool:
    """Whether the evaluation has inputs; UiPath can generate them, which is noted."""
    inputs = node.get("inputs")
    if node.get("conversationalInputs") is not None or inputs is None or inputs.value != {}:
        return True
    notes.add(f"the evaluation {node.need('id').text()} has no inputs and was not imported")
    return False


def _specs(used: Mapping[str, UiPathEvaluator]) -> dict[str, EvaluatorSpec]:
    """An evaluator here for each UiPath evaluator; a second one of a type gets UiPath's name as its id."""
    specs: dict[str, EvaluatorSpec] = {}
    for ref, evaluator in used.items():
        if evaluator.kind is not None:
            taken = evaluator.kind in {spec.name for spec in specs.values()}
            specs[ref] = EvaluatorSpec(evaluator.kind, {**evaluator.options, **({"id": ref} if taken else {})})
    return specs


def _evaluation(
    node: Node, refs: Iterable[str], known: Mapping[str, Node], used: dict[str, UiPathEvaluator], notes: Notes
) -> _Evaluation:
    """`refs` are the evaluators of the set, which apply to an evaluation of the older form."""
    notes.dropped(node, _OF_AN_EVALUATION, "an evaluation", _REASONS)
    own_id, name = node.need("id").text(), node.text_at("name")
    users = _users(node, notes)
    given, empty = node.get("evaluationCriterias"), Node(node.document, None, node.path)
    criteria: dict[str, tuple[str, Any]] = {}
    for ref, entry in (given.entries() if given is not None else dict.fromkeys(refs, empty)).items():
        evaluator = read_evaluator(known[ref]) if ref in known else UiPathEvaluator(_kind_of(ref, entry))
        if evaluator.kind is None:
            notes.add(f"the evaluator {ref} has no equivalent here and was not imported")
            continue
        if ref in known and ref not in used:
            _note_evaluator(known[ref], ref, notes)
        used.setdefault(ref, evaluator)
        if entry.value is not None:
            criterion_name = _ANSWER[0] if evaluator.kind in _ANSWERS else _CRITERIA[evaluator.kind][0]
            notes.dropped(entry, (criterion_name,), f"the criteria of {ref}", _REASONS)
        parts = entry if entry.value is not None else evaluator.defaults
        if (criterion := _criterion(evaluator.kind, parts, node, notes)) is not None:
            criteria[ref] = criterion
    expect = _conversational(node, notes)
    if given is None:
        output = node.get("expectedOutput")
        if output is not None and not criteria:
            used.setdefault("json_similarity", UiPathEvaluator("json_similarity"))
            expect = replace(expect, response=output.value)
        expect = replace(expect, behavior=node.text_at("expectedAgentBehavior"))
    case = Case(
        id=printable_id(name if name and _GUID.fullmatch(own_id) else own_id),
        turns=(*(CaseTurn(user) for user in users[:-1]), CaseTurn(users[-1], expect)),
    )
    return _Evaluation(case, criteria)


def _criterion(kind: str, parts: Node | None, evaluation: Node, notes: Notes) -> tuple[str, Any] | None:
    """The field of Expectation and its value that an evaluator expects, in its own criteria or the evaluation; None if
    neither has one."""
    name, field_name, read_value = _ANSWER if kind in _ANSWERS else _CRITERIA[kind]
    names = camel_case(name), name
    given = (parts.get(*names) if parts is not None else None) or evaluation.get(*names)
    return None if given is None or given.blank else (field_name, read_value(given, notes))


def _with_criteria(evaluation: _Evaluation, specs: Mapping[str, EvaluatorSpec]) -> Case:
    """The case with what its evaluators expect. Where they expect different things, it has evaluators of its own, each
    with an option for what it expects."""
    case, criteria = evaluation.case, evaluation.criteria
    turn = case.turns[-1]
    by_field = grouped(criteria.values())
    agreed = {
        name: first
        for name, (first, *more) in by_field.items()
        if all(equal_values(one, first) if isinstance(one, dict | list | str) else one == first for one in more)
    }
    if len(agreed) == len(by_field):
        return replace(case, turns=(*case.turns[:-1], replace(turn, expect=replace(turn.expect, **agreed))))
    differing = {name: None for name in by_field if name not in agreed}
    own = [
        replace(spec, options={**spec.options, evaluator_class(spec.name).criterion: criteria[ref][1]})
        if ref in criteria and criteria[ref][0] in differing
        else spec
        for ref, spec in specs.items()
    ]
    expect = replace(turn.expect, **agreed, **differing)
    return replace(case, evaluators=tuple(own), turns=(*case.turns[:-1], replace(turn, expect=expect)))


def _kind_of(ref: str, criteria: Node) -> str | None:
    """The evaluator that the criteria, and without them or for an expected output the name, identify in place of a
    file."""
    keys = criteria.value.keys() if isinstance(criteria.value, dict) else ()
    for kind, (name, _, _) in _CRITERIA.items():
        if name in keys or camel_case(name) in keys:
            return kind
    plain = re.sub(r"[^a-z]", "", ref.lower())
    if "trajectory" in plain:
        return "llm_judge_trajectory"
    if "llmjudge" in plain or "llmasajudge" in plain:
        return "llm_judge_output"
    if "exactmatch" in plain or "equality" in plain:
        return "exact_match"
    return "json_similarity" if "expectedOutput" in keys or "jsonsimilarity" in plain else None


def _users(node: Node, notes: Notes) -> list[str]:
    """The user messages: the history and the prompt of a conversational agent, else the inputs."""
    conversation = node.get("conversationalInputs")
    if conversation is not None:
        exchanges = conversation.items_at("conversationHistory")
        messages = [message for exchange in exchanges for message in exchange.items()]
        by_user = [item for item in messages if (role := item.get("role")) and role.value == "user"]
        history = [message.need("text").text() for message in by_user if "text" in message.value]
        prompt = conversation.need("currentUserPrompt")
        return [*history, prompt.need("text").text()]
    return [user_text(node.need("inputs").object(), notes)]


def _conversational(node: Node, notes: Notes) -> Expectation:
    """The tool calls and the last answer of a conversational agent's expected output."""
    expected = node.get("conversationalExpectedOutput")
    if expected is None:
        return Expectation()
    answers = expected.items_at("agentResponse")
    calls = [
        expected_call(call, "arguments", notes=notes) for answer in answers for call in answer.items_at("toolCalls")
    ]
    texts = [text for answer in answers if (text := answer.text_at("text"))]
    return Expectation(tool_calls=tuple(calls), response=texts[-1] if texts else None)


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


class _Given(SimpleNamespace):
    """What UiPath's class of that name holds, under its names: an expected call or output, or criteria.

    With `id`, an expected call or output is the one whose span has that `tool.id`; without such a call, the name."""


ToolCall = UiPathToolCall = ToolOutput = _Given
ToolCallArgsEvaluationCriteria = ToolCallOrderEvaluationCriteria = _Given
ToolCallCountEvaluationCriteria = ToolCallOutputEvaluationCriteria = _Given


@dataclass(frozen=True, kw_only=True)
class ToolCallOrderEvaluatorConfig:
    name: str = "ToolCallOrderEvaluator"
    strict: bool = False
    default_evaluation_criteria: Any = None
    """Those of executions without their own, an object of the class with that name or a mapping."""


@dataclass(frozen=True, kw_only=True)
class ToolCallCountEvaluatorConfig(ToolCallOrderEvaluatorConfig):
    name: str = "ToolCallCountEvaluator"


@dataclass(frozen=True, kw_only=True)
class ToolCallOutputEvaluatorConfig(ToolCallOrderEvaluatorConfig):
    name: str = "ToolCallOutputEvaluator"


@dataclass(frozen=True, kw_only=True)
class ToolCallArgsEvaluatorConfig(ToolCallOrderEvaluatorConfig):
    name: str = "ToolCallArgsEvaluator"
    subset: bool = False


class _Justification(dict[str, Any]):
    """The details of a result, with the fields of UiPath's classes as attributes."""

    explained_tool_calls_count = explained_tool_calls_outputs = property(explained)

    @property
    def explained_tool_calls_args(self) -> dict[str, str]:
        return dict(self.get("explained_tool_calls_args", {}))

    @property
    def lcs(self) -> list[str]:
        return list(self.get("lcs", ()))


ToolCallArgsEvaluatorJustification = ToolCallOrderEvaluatorJustification = _Justification
ToolCallCountEvaluatorJustification = ToolCallOutputEvaluatorJustification = _Justification


# ── evaluators ──────────────────────────────────────────────────────────────────────────────────────────────


class _ToolCallEvaluator:
    kind: ClassVar[str]
    """The name of the evaluator here."""

    def __init__(self, *, id: str, config: Any = None) -> None:
        """`config` holds UiPath's options, or those of the evaluator here: an object of its class, or a mapping.

        Raises OptionError.
        """
        given = {snake_case(option): value for option, value in _plain(config or {}).items()}
        self.id = id
        self.name = str(given.pop("name", None) or type(self).__name__)
        given.pop("description", None)
        self._default = given.pop("default_evaluation_criteria", None)
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
        return replace(result, details=_Justification(result.details))

    def _evaluator(self, criteria: Any, ids: Sequence[str]) -> SyncEvaluator:
        given = {key: _by_id(value, ids) for key, value in _plain(criteria or {}).items()}
        return cast(SyncEvaluator, get_evaluator(self.kind, **{**self._options, **given}))


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


def _plain(value: Any) -> Any:
    """An object of one of these classes, or of UiPath's own (pydantic), as a mapping; a mapping unchanged."""
    if isinstance(value, ToolCallOrderEvaluatorConfig):
        return asdict(value)
    if isinstance(value, _Given):
        return vars(value)
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


IMPORTER = Importer(
    files="a UiPath evaluation set (`evaluations`)",
    recognises=lambda value: isinstance(value, dict) and isinstance(value.get("evaluations"), list),
    read=read,
)
