"""UiPath evaluation sets, as of uipath 2.14: `{version: "1.0", evaluatorRefs, evaluations}`, and the older form.

An evaluation is a case of one turn: its `inputs` are the user message (a single string, one named like a message, or
the inputs as JSON), and each of its `evaluationCriterias` becomes an expectation. The types and options of evaluators
are read from `../evaluators/`, relative to the set, where UiPath keeps them; without these files the criteria determine
the type. Content without an equivalent here is not imported, with a note.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..declared import boolean, texts
from ..matching.equality import equal_values
from ..model import count_criterion, expected_output
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
    "uipath-exact-match": ("exact_match", ("caseSensitive", "negated")),
    "uipath-contains": ("contains", ("caseSensitive", "negated")),
    "uipath-json-similarity": ("json_similarity", ()),
    "uipath-llm-judge-output-semantic-similarity": ("llm_judge_output", ()),
    "uipath-llm-judge-output-strict-json-similarity": ("llm_judge_output", ()),
    "uipath-llm-judge-trajectory-similarity": ("llm_judge_trajectory", ()),
    "uipath-llm-judge-trajectory-simulation": ("llm_judge_trajectory", ()),
}
"""The evaluators here for UiPath's types, and the options that both have."""

_JUDGED = ("llm_judge_output", "llm_judge_trajectory")
"""Evaluators that need a judge, which a suite must configure: they are not added, but their expectations are kept."""

_PARTS = (("targetOutputKey", "target_output_key", "*"), ("lineByLineEvaluator", "line_by_line_evaluator", False))
"""Options that select a part of the answer, in both spellings, and their neutral value. Not supported here."""

_ANSWERS = ("exact_match", "json_similarity", "llm_judge_output")
"""Evaluators that compare the agent's answer with an expected one."""

_CRITERIA: dict[str, tuple[tuple[str, str], str, Callable[[Node], Any]]] = {
    "tool_call_args": (
        ("toolCalls", "tool_calls"),
        "tool_calls",
        lambda given: tuple(expected_call(item, "args", "arguments") for item in given.items()),
    ),
    "tool_call_order": (("toolCallsOrder", "tool_calls_order"), "tool_calls_order", lambda given: given.convert(texts)),
    "tool_call_count": (
        ("toolCallsCount", "tool_calls_count"),
        "tool_calls_count",
        lambda given: {name: item.convert(count_criterion) for name, item in given.entries().items()},
    ),
    "tool_call_output": (
        ("toolOutputs", "tool_outputs"),
        "tool_outputs",
        lambda given: tuple(item.convert(expected_output) for item in given.items()),
    ),
    "contains": (("searchText", "search_text"), "response_contains", Node.text),
}
"""By evaluator: the names of the criterion that identifies it without a file, the field of Expectation for its value,
and the reader of the value."""


@dataclass(frozen=True, slots=True)
class _Evaluator:
    """An evaluator of the set: the name of its equivalent here (None: no equivalent), its options, its default
    criteria, and those of `_PARTS` that it uses."""

    kind: str | None
    options: Mapping[str, Any] = field(default_factory=dict)
    defaults: Node | None = None
    parts: tuple[str, ...] = ()


def read(node: Node, path: Path, notes: Notes) -> Suite:
    """The suite in an evaluation set. Raises SuiteError, also for a broken evaluator file."""
    known = _evaluators_beside(path)
    used: dict[str, _Evaluator] = {}
    evaluations = node.need("evaluations").items()
    cases = [_case(item, known, used, notes) for item in evaluations if _says_something(item, notes)]
    specs = _specs(used)
    name = node.text_at("name") or node.text_at("id") or path.stem
    return Suite(name=name, evaluators=specs or (EvaluatorSpec("tool_error"),), cases=unique_ids(cases))


def _says_something(node: Node, notes: Notes) -> bool:
    """Whether the evaluation has inputs; UiPath can generate them, which is noted."""
    inputs = node.get("inputs")
    if node.get("conversationalInputs") is not None or inputs is None or inputs.value != {}:
        return True
    notes.add(f"the evaluation {node.need('id').text()} has no inputs and was not imported")
    return False


def _specs(used: Mapping[str, _Evaluator]) -> tuple[EvaluatorSpec, ...]:
    """An evaluator here for each UiPath evaluator that is used; a second one of a type gets UiPath's name as its id."""
    specs: dict[str, EvaluatorSpec] = {}
    for ref, evaluator in used.items():
        if evaluator.kind is None:
            continue
        spec = EvaluatorSpec(evaluator.kind, evaluator.options)
        if evaluator.kind not in specs:
            specs[evaluator.kind] = spec
        elif specs[evaluator.kind] != spec:
            specs[ref] = replace(spec, options={**evaluator.options, "id": ref})
    return tuple(specs.values())


def _evaluators_beside(path: Path) -> dict[str, _Evaluator]:
    """The evaluators of the project, by id and by file name."""
    found: dict[str, _Evaluator] = {}
    for file in sorted((path.parent.parent / "evaluators").glob("*.json")):
        node = read_source(file)
        found[node.text_at("id") or file.stem] = found[file.stem] = _evaluator(node)
    return found


def _evaluator(node: Node) -> _Evaluator:
    type_id = node.text_at("evaluatorTypeId") or ""
    kind, names = _TYPES.get(type_id, (None, ()))
    config = node.at("evaluatorConfig")
    options = {
        {"caseSensitive": "case_sensitive"}.get(name, name): True
        for name in names
        if (option := config.get(name, "case_sensitive" if name == "caseSensitive" else name))
        and option.convert(boolean)
    }
    defaults = config.get("defaultEvaluationCriteria", "default_evaluation_criteria")
    given = ((name, whole, config.get(name, other)) for name, other, whole in _PARTS)
    parts = tuple(name for name, whole, part in given if part is not None and part.value != whole)
    return _Evaluator(kind, options, defaults, parts)


def _case(node: Node, known: Mapping[str, _Evaluator], used: dict[str, _Evaluator], notes: Notes) -> Case:
    own_id, name = node.need("id").text(), node.text_at("name")
    users = _users(node, notes)
    expect = Expectation()
    behavior = node.text_at("expectedAgentBehavior")
    output = node.get("expectedOutput")
    criterias = node.get("evaluationCriterias")
    answers: dict[str, tuple[str, Node]] = {}
    for ref, criteria in criterias.entries().items() if criterias is not None else ():
        evaluator = known.get(ref) or _Evaluator(_kind_of(ref, criteria))
        given = criteria if criteria.value is not None else evaluator.defaults
        parts = given or Node(node.document, {}, node.path)
        behavior = parts.text_at("expectedAgentBehavior") or behavior
        if evaluator.kind is None:
            notes.add(f"the evaluator {ref} has no equivalent here and was not imported")
            continue
        if evaluator.kind in _JUDGED:
            notes.add(f"the evaluator {ref} needs a judge; add {evaluator.kind} and a `judge` to the suite to use it")
        else:
            used.setdefault(ref, evaluator)
            for part in evaluator.parts:
                notes.add(f"{part} of the evaluator {ref} was not imported: here it reads the whole answer")
        if evaluator.kind in _ANSWERS:
            answer = parts.get("expectedOutput", "expected_output") or output
            if answer is not None:
                answers[ref] = (evaluator.kind, answer)
        else:
            expect = _with(expect, evaluator.kind, parts)
    expect = _with_answer(expect, answers, notes)
    if criterias is None and output is not None:
        used.setdefault("json_similarity", _Evaluator("json_similarity"))
        expect = replace(expect, response=output.value)
    of_conversation = _conversational(node)
    if expect.tool_calls is None:
        expect = replace(expect, tool_calls=of_conversation.tool_calls)
    if expect.response is None:
        expect = replace(expect, response=of_conversation.response)
    expect = replace(expect, behavior=behavior)
    return Case(
        id=printable_id(name if name and _GUID.fullmatch(own_id) else own_id),
        turns=(*(CaseTurn(user) for user in users[:-1]), CaseTurn(users[-1], expect)),
    )


def _kind_of(ref: str, criteria: Node) -> str | None:
    """The evaluator that the criteria, and for an expected output the name, identify in place of a file."""
    keys = criteria.value.keys() if isinstance(criteria.value, dict) else ()
    for kind, (names, _, _) in _CRITERIA.items():
        if any(name in keys for name in names):
            return kind
    plain = re.sub(r"[^a-z]", "", ref.lower())
    if "trajectory" in plain:
        return "llm_judge_trajectory"
    if "llmjudge" in plain:
        return "llm_judge_output"
    if "exactmatch" in plain:
        return "exact_match"
    return "json_similarity" if "expectedOutput" in keys or "jsonsimilarity" in plain else None


def _with_answer(expect: Expectation, answers: Mapping[str, tuple[str, Node]], notes: Notes) -> Expectation:
    """`expect` with the expected answer; `answers` are by evaluator, and a case has one. A compared answer takes
    precedence over that of a judge; two different compared answers are an error."""
    compared = {ref: answer for ref, (kind, answer) in answers.items() if kind not in _JUDGED}
    chosen = next(iter((compared or {ref: answer for ref, (_, answer) in answers.items()}).items()), None)
    if chosen is None:
        return expect
    first, wanted = chosen
    for ref, (_, answer) in answers.items():
        if equal_values(wanted.value, answer.value):
            continue
        if ref in compared:
            answer.fail(
                f"{ref} and {first} expect different answers, but a case has one expected answer for all evaluators"
            )
        notes.add(f"the answer that the evaluator {ref} expects was not imported where {first} expects another")
    return replace(expect, response=wanted.value)


def _with(expect: Expectation, kind: str, parts: Node) -> Expectation:
    """`expect` with the criteria of an evaluator added."""
    names, name, read = _CRITERIA.get(kind, ((), "", Node.text))
    given = parts.get(*names)
    if given is None:
        return expect
    value: Any = read(given)
    if getattr(expect, name) not in (None, value):
        given.fail(f"another evaluator expects different {name}, but a case has one value for all evaluators")
    added: dict[str, Any] = {name: value}
    return replace(expect, **added)


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
