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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..matching.placeholders import equal_values
from ..model import count_criterion, expected_output
from ..registry import evaluator_class
from ..suite import Case, CaseTurn, EvaluatorSpec, Expectation, Suite
from ..suite.case_ids import printable_id
from ..suite.importing import Notes, expected_call, unique_ids, user_text
from ..suite.yaml_document import Node
from ..suite_fields import texts
from .evaluator_files import NOT_IMPORTED, UiPathEvaluator, camel_case, evaluators_beside, read_evaluator

_GUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")

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
class _Evaluation:
    """A case without what its evaluators expect, and that: by evaluator, the field of Expectation and its value."""

    case: Case
    criteria: Mapping[str, tuple[str, Any]]


def read(node: Node, path: Path, notes: Notes) -> Suite:
    """The suite in an evaluation set. Raises SuiteError, also for a broken evaluator file."""
    known = evaluators_beside(path)
    used: dict[str, UiPathEvaluator] = {}
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
    own_id, name = node.need("id").text(), node.text_at("name")
    users = _users(node, notes)
    given, empty = node.get("evaluationCriterias"), Node(node.document, None, node.path)
    criteria: dict[str, tuple[str, Any]] = {}
    for ref, entry in (given.entries() if given is not None else dict.fromkeys(refs, empty)).items():
        evaluator = read_evaluator(known[ref]) if ref in known else UiPathEvaluator(_kind_of(ref, entry))
        if evaluator.kind is None:
            notes.add(f"the evaluator {ref} has no equivalent here and was not imported")
            continue
        used.setdefault(ref, evaluator)
        for option in evaluator.without:
            notes.add(f"{option} of the evaluator {ref} was not imported: {NOT_IMPORTED[option]}")
        parts = entry if entry.value is not None else evaluator.defaults
        if (criterion := _criterion(evaluator.kind, parts, node)) is not None:
            criteria[ref] = criterion
    expect = _conversational(node)
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


def _criterion(kind: str, parts: Node | None, evaluation: Node) -> tuple[str, Any] | None:
    """The field of Expectation and its value that an evaluator expects, in its own criteria or the evaluation; None if
    neither has one."""
    name, field_name, read_value = _ANSWER if kind in _ANSWERS else _CRITERIA[kind]
    names = camel_case(name), name
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


def _conversational(node: Node) -> Expectation:
    """The tool calls and the last answer of a conversational agent's expected output."""
    expected = node.get("conversationalExpectedOutput")
    if expected is None:
        return Expectation()
    answers = expected.items_at("agentResponse")
    calls = [expected_call(call, "arguments") for answer in answers for call in answer.items_at("toolCalls")]
    texts = [text for answer in answers if (text := answer.text_at("text"))]
    return Expectation(tool_calls=tuple(calls), response=texts[-1] if texts else None)
