"""UiPath evaluation sets, as of uipath 2.14: `{version: "1.0", evaluatorRefs, evaluations}`, and the older form.

An evaluation is a case of one turn: its `inputs` are the user message (a single string, one named like a message, or
the inputs as JSON), and each of its `evaluationCriterias` becomes an expectation; where evaluators of a case expect
different things, each has its own as an option. The types and options of evaluators are read from `../evaluators/`,
relative to the set, where UiPath keeps them; without these files the criteria determine the type. Content without an
equivalent here is not imported, with a note.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..declared import boolean, texts
from ..matching.equality import equal_values
from ..model import count_criterion, expected_output
from ..registry import evaluator_class
from ..suite import Case, CaseTurn, EvaluatorSpec, Expectation, Suite
from ..suite.case_ids import printable_id
from ..suite.files import read_source
from ..suite.node import Node
from .common import Notes, expected_call, unique_ids, user_text

_GUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")

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

_NOT_IMPORTED = {
    "line_by_line_evaluator": "here it compares the whole answer",
    "prompt": "the judge gets our instructions",
    "model": "the judge of the suite is asked",
}
"""Options without an equivalent here, and what happens instead."""

_ANSWERS = ("exact_match", "json_similarity", "llm_judge_output")
"""Evaluators that compare the agent's answer with an expected one."""

_Reader = tuple[str, str, Callable[[Node], Any]]

_ANSWER: _Reader = ("expected_output", "response", lambda given: given.value)
_CRITERIA: Mapping[str, _Reader] = {
    "tool_call_args": (
        "tool_calls",
        "tool_calls",
        lambda given: tuple(expected_call(item, "args", "arguments") for item in given.items()),
    ),
    "tool_call_order": ("tool_calls_order", "tool_calls_order", lambda given: given.convert(texts)),
    "tool_call_count": (
        "tool_calls_count",
        "tool_calls_count",
        lambda given: {name: item.convert(count_criterion) for name, item in given.entries().items()},
    ),
    "tool_call_output": (
        "tool_outputs",
        "tool_outputs",
        lambda given: tuple(item.convert(expected_output) for item in given.items()),
    ),
    "contains": ("search_text", "response_contains", Node.text),
    "llm_judge_trajectory": ("expected_agent_behavior", "behavior", Node.text),
}
"""By evaluator: the name of the criterion, also in camel case, that identifies it without a file; the field of
Expectation for its value; and the reader of the value."""


@dataclass(frozen=True, slots=True)
class _Evaluator:
    """An evaluator of the set: the name of its equivalent here (None: no equivalent), its options, its default
    criteria, and the options that are not imported."""

    kind: str | None
    options: Mapping[str, Any] = field(default_factory=dict)
    defaults: Node | None = None
    without: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Evaluation:
    """A case without what its evaluators expect, and that: by evaluator, the field of Expectation and its value."""

    case: Case
    criteria: Mapping[str, tuple[str, Any]]


def read(node: Node, path: Path, notes: Notes) -> Suite:
    """The suite in an evaluation set. Raises SuiteError, also for a broken evaluator file."""
    known = _evaluators_beside(path)
    used: dict[str, _Evaluator] = {}
    listed = node.get("evaluatorRefs", "evaluator_refs")
    refs = listed.convert(texts) if listed is not None else ()
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


def _specs(used: Mapping[str, _Evaluator]) -> dict[str, EvaluatorSpec]:
    """An evaluator here for each UiPath evaluator; a second one of a type gets UiPath's name as its id."""
    specs: dict[str, EvaluatorSpec] = {}
    for ref, evaluator in used.items():
        if evaluator.kind is not None:
            taken = evaluator.kind in {spec.name for spec in specs.values()}
            specs[ref] = EvaluatorSpec(evaluator.kind, {**evaluator.options, **({"id": ref} if taken else {})})
    return specs


def _evaluators_beside(path: Path) -> dict[str, Node]:
    """The files of the project's evaluators, by id and by file name. The set may use some of them only."""
    found: dict[str, Node] = {}
    for file in sorted((path.parent.parent / "evaluators").glob("*.json")):
        node = read_source(file)
        found[node.text_at("id") or file.stem] = found[file.stem] = node
    return found


def _evaluator(node: Node) -> _Evaluator:
    type_id = node.text_at("evaluatorTypeId")
    older = type_id is None
    kind, names = _TYPES.get(str(type_id), (None, ())) if not older else _older_type(node)
    config = node if older else node.at("evaluatorConfig")
    options = {name: value for name in names if (value := _option(config, name)) is not None}
    defaults = config.get("defaultEvaluationCriteria", "default_evaluation_criteria")
    without = tuple(name for name in _NOT_IMPORTED if (part := config.get(name, _camel_case(name))) and part.value)
    return _Evaluator(kind, options, defaults, without)


def _older_type(node: Node) -> tuple[str | None, tuple[str, ...]]:
    """The evaluator here, and its options, for the numbers of the older form."""
    category, number = (part.value if (part := node.get(name)) is not None else None for name in ("category", "type"))
    if category == _JUDGE_OF_ANSWERS and number not in _JUDGES_OF_CONTEXT:
        return "llm_judge_output", ()
    kind = _OLDER_TYPES.get(number) if isinstance(number, int) else None
    return kind, ("target_output_key",) if kind in ("exact_match", "json_similarity") else ()


def _option(config: Node, name: str) -> Any:
    """The value of an option; None if it is the default."""
    given = config.get(name, _camel_case(name))
    if name != "target_output_key":
        return (given is not None and given.convert(boolean)) or None
    if given is None or given.value == "*":
        return None
    return list(given.convert(texts)) if isinstance(given.value, list) else given.text()


def _evaluation(
    node: Node, refs: Iterable[str], known: Mapping[str, Node], used: dict[str, _Evaluator], notes: Notes
) -> _Evaluation:
    """`refs` are the evaluators of the set, which apply to an evaluation of the older form."""
    own_id, name = node.need("id").text(), node.text_at("name")
    users = _users(node, notes)
    given, empty = node.get("evaluationCriterias"), Node(node.document, None, node.path)
    criteria: dict[str, tuple[str, Any]] = {}
    for ref, entry in (given.entries() if given is not None else dict.fromkeys(refs, empty)).items():
        evaluator = _evaluator(known[ref]) if ref in known else _Evaluator(_kind_of(ref, entry))
        if evaluator.kind is None:
            notes.add(f"the evaluator {ref} has no equivalent here and was not imported")
            continue
        used.setdefault(ref, evaluator)
        for option in evaluator.without:
            notes.add(f"{option} of the evaluator {ref} was not imported: {_NOT_IMPORTED[option]}")
        parts = entry if entry.value is not None else evaluator.defaults
        if (criterion := _criterion(evaluator.kind, parts, node)) is not None:
            criteria[ref] = criterion
    expect = _conversational(node)
    if given is None:
        output = node.get("expectedOutput")
        if output is not None and not criteria:
            used.setdefault("json_similarity", _Evaluator("json_similarity"))
            expect = replace(expect, response=output.value)
        expect = replace(expect, behavior=node.text_at("expectedAgentBehavior"))
    case = Case(
        id=printable_id(name if name and _GUID.fullmatch(own_id) else own_id),
        turns=(*(CaseTurn(user) for user in users[:-1]), CaseTurn(users[-1], expect)),
    )
    return _Evaluation(case, criteria)


def _criterion(kind: str, parts: Node | None, evaluation: Node) -> tuple[str, Any] | None:
    """The field of Expectation and its value that an evaluator expects, in its own criteria or the evaluation; None if
    neither has one."""
    name, field_name, read_value = _ANSWER if kind in _ANSWERS else _CRITERIA[kind]
    names = _camel_case(name), name
    given = (parts.get(*names) if parts is not None else None) or evaluation.get(*names)
    return None if given is None or given.blank else (field_name, read_value(given))


def _with_criteria(evaluation: _Evaluation, specs: Mapping[str, EvaluatorSpec]) -> Case:
    """The case with what its evaluators expect. Where they expect different things, it has evaluators of its own, each
    with an option for what it expects."""
    case, criteria = evaluation.case, evaluation.criteria
    turn = case.turns[-1]
    by_field: dict[str, list[Any]] = {}
    for name, value in criteria.values():
        by_field.setdefault(name, []).append(value)
    agreed = {name: values[0] for name, values in by_field.items() if all(_same(value, values[0]) for value in values)}
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


def _same(one: Any, other: Any) -> bool:
    return equal_values(one, other) if isinstance(one, dict | list | str) else bool(one == other)


def _kind_of(ref: str, criteria: Node) -> str | None:
    """The evaluator that the criteria, and without them or for an expected output the name, identify in place of a
    file."""
    keys = criteria.value.keys() if isinstance(criteria.value, dict) else ()
    for kind, (name, _, _) in _CRITERIA.items():
        if name in keys or _camel_case(name) in keys:
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


def _conversational(node: Node) -> Expectation:
    """The tool calls and the last answer of a conversational agent's expected output."""
    expected = node.get("conversationalExpectedOutput")
    if expected is None:
        return Expectation()
    answers = expected.items_at("agentResponse")
    calls = [expected_call(call, "arguments") for answer in answers for call in answer.items_at("toolCalls")]
    texts = [text for answer in answers if (text := answer.text_at("text"))]
    return Expectation(tool_calls=tuple(calls), response=texts[-1] if texts else None)


def _camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
