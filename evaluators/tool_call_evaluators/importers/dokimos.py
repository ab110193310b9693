"""Dokimos datasets (`{name, examples: [...]}`, JSON lines of examples, or CSV), as of its core of 2026.

`inputs.input` (or `input`) is the user message, `expectedOutputs.toolCalls` the expected calls,
`expectedOutputs.output` (or `expectedOutput`) the expected response; `metadata.tools`, `metadata.tasks`,
`metadata.constraints` and `metadata.expectedOutcome` are kept; other metadata becomes tags. The input of a generated
golden is a whole transcript: its user messages become turns.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..agent_trace import fields_of_outputs
from ..foreign import Importer, Notes, expected_call, unique_ids, user_text
from ..model import EvalCase, ToolDefinition
from ..suite import Case, CaseTurn, EvaluatorSpec, Expectation, Suite
from ..suite.writing import printable_id
from ..suite.yaml_document import Document, Node, Position, SuiteError, read_document
from ..suite.yaml_document import Path as ValuePath
from ..suite_fields import text_or_texts
from ..texts import json_text


def read_table(text: str, filename: str) -> Document:
    """A CSV file as examples of Dokimos: the columns `input` and `expectedOutput`; others are metadata. Raises
    SuiteError."""
    rows = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    lines: list[tuple[int, Document]] = []
    begin = 2
    try:
        names = [_COLUMNS.get(name.strip().lower(), name.strip()) for name in rows.fieldnames or ()]
        if names and "input" not in names:
            raise SuiteError(f"has no column input; its columns are {', '.join(names)}", filename, (1, 1))
        rows.fieldnames = names
        for row in rows:
            if None in row and any(row.pop(None)):  # DictReader names none of the further fields
                raise SuiteError("has more fields than the first row has columns", filename, (begin, 1))
            fields = {name: field.strip() for name, field in row.items() if field}
            if fields:
                inputs = {"input": fields.pop("input", "")}
                outputs = {"output": output} if (output := fields.pop("output", "")) else {}
                example = {"inputs": inputs, "expectedOutputs": outputs, "metadata": fields}
                lines.append((begin, Document(example, filename)))
            begin = rows.line_num + 1
    except csv.Error as error:
        raise SuiteError(str(error), filename, (begin, 1)) from None
    return _examples(lines, filename)


_COLUMNS = dict.fromkeys(("expectedoutput", "expected_output", "output"), "output") | {"input": "input"}


def read_lines(text: str, filename: str) -> Document:
    """JSON lines as one document: the objects of all lines that are not blank, under `examples`. Raises SuiteError."""
    lines: list[tuple[int, Document]] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            lines.append((number, read_document(line)))
        except SuiteError as error:
            raise SuiteError(error.problem, filename, (number, error.column or 1)) from None
    return _examples(lines, filename)


def _examples(lines: Sequence[tuple[int, Document]], filename: str) -> Document:
    if not lines:
        raise SuiteError("is empty", filename)
    return _Lines({"examples": [one.value for _, one in lines]}, filename, lines=lines)


@dataclass(frozen=True)
class _Lines(Document):
    """Examples, each with the number of its line."""

    lines: Sequence[tuple[int, Document]] = ()

    def position(self, path: ValuePath) -> Position:
        if len(path) < 2 or not isinstance(path[1], int):
            return 1, 1
        number, document = self.lines[path[1]]
        return number, (document.position(path[2:]) or (1, 1))[1]


_READ_METADATA = frozenset({"id", "tools", "tasks", "constraints", "expectedOutcome", "scenario", "turnCount"})
_SPEAKER = re.compile(r"(?:^|\n\n)(USER|ASSISTANT): ")


def read(node: Node, path: Path, notes: Notes) -> Suite:
    """The suite in a dataset. Raises SuiteError."""
    notes.dropped(node, ("name", "description", "version", "examples"), "the dataset")
    examples = node.need("examples").items()
    cases = [_case(item, number, notes) for number, item in enumerate(examples, start=1)]
    evaluators = [EvaluatorSpec("tool_error")]
    expectations = [turn.expect for case in cases for turn in case.turns]
    if any(expect.tool_calls is not None for expect in expectations):
        evaluators.insert(0, EvaluatorSpec("tool_trajectory", {"mode": "in_order"}))
    if any(expect.response is not None for expect in expectations):
        notes.add("expected outputs are kept as `response`; add exact_match, json_similarity or a judge to score them")
    name = node.text_at("name") or path.stem
    return Suite(name=name, evaluators=tuple(evaluators), cases=unique_ids(cases))


def _case(node: Node, number: int, notes: Notes) -> Case:
    known = ("id", "input", "inputs", "expected_output", "expected_outputs", "metadata")
    notes.dropped(node, known, "an example")
    outputs, metadata = node.at("expectedOutputs"), node.at("metadata")
    message = _user_message(node, notes)
    response = _response(outputs, node.get("expectedOutput"), notes)
    calls = outputs.get("toolCalls")
    users = _transcript(message, metadata)
    if users is None:
        users = [message]
    elif calls is not None:
        notes.add("expected calls of a transcript apply to its last turn")
    expect = Expectation(
        tool_calls=None
        if calls is None
        else tuple(expected_call(item, "arguments", notes=notes) for item in calls.items()),
        response=response,
    )
    tools, outcome = metadata.get("tools"), metadata.text_at("expectedOutcome")
    tasks = (*_given_texts(metadata.get("tasks")), *([outcome] if outcome else ()))
    return Case(
        id=printable_id(node.text_at("id") or metadata.text_at("id") or f"example-{number}"),
        tags=_tags(metadata, notes),
        turns=(*(CaseTurn(user) for user in users[:-1]), CaseTurn(users[-1], expect)),
        tools=None if tools is None else tuple(item.convert(ToolDefinition.from_dict) for item in tools.items()),
        tasks=tasks or None,
        constraints=_given_texts(metadata.get("constraints")) or None,
        user_goal=metadata.text_at("scenario"),
    )


def _response(outputs: Node, alone: Node | None, notes: Notes) -> Any:
    """The expected response: that named output, else the other expected outputs as an object; None without any."""
    others = {key: value for key, value in outputs.object().items() if key not in ("output", "toolCalls")}
    if (named := outputs.get("output") or alone) is None:
        return others or None
    if others:
        notes.add("of several expected outputs, only output and toolCalls were imported")
    return named.value


def _tags(metadata: Node, notes: Notes) -> tuple[str, ...]:
    """`name:value` for each entry that nothing else reads."""
    tags = []
    for name, entry in metadata.entries().items():
        if name in _READ_METADATA or entry.value is None or entry.blank:
            continue
        if isinstance(entry.value, dict | list):
            notes.add(f"metadata {name} was not imported")
        else:
            tags.append(f"{name}:{json_text(entry.value)}")
    return tuple(tags)


def _given_texts(node: Node | None) -> tuple[str, ...]:
    """One string, which may be blank, or a list of them."""
    return () if node is None or node.blank else node.convert(text_or_texts)


def _user_message(node: Node, notes: Notes) -> str:
    inputs = node.at("inputs")
    said = inputs.get("input") or node.get("input")
    if said is not None:
        if inputs.value.keys() - {"input"}:
            notes.add("of several inputs, only input is sent; the others were not imported")
        return said.text()
    if not inputs.value:
        node.fail("input is missing")
    return user_text(inputs.value, notes)


def _transcript(text: str, metadata: Node) -> list[str] | None:
    """The user messages in a generated golden's transcript; None if the text is not such a transcript."""
    turns = metadata.get("turnCount")
    if turns is None or not text.startswith(("Scenario: ", "USER: ")):
        return None
    parts = _SPEAKER.split(text)
    users = [said for speaker, said in zip(parts[1::2], parts[2::2], strict=True) if speaker == "USER" and said.strip()]
    return users if len(users) == turns.value else None


_COMPARED = ("name", "arguments", "args")


def eval_test_case(
    input: str | None = None,  # noqa: A002  # the name in Dokimos
    actual_outputs: Mapping[str, Any] | None = None,
    expected_outputs: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> EvalCase:
    """A case from maps with Dokimos' keys.

    `actual_outputs`: `output`, `toolCalls`, `reasoningSteps`. `expected_outputs`: `output`, `toolCalls`. `metadata`:
    `tools`, `tasks`, `constraints`. Other keys are ignored. Expected arguments of null are empty. Without actual
    `toolCalls` the calls are unknown, and evaluators that read them are skipped. Raises ValueError as EvalCase does.
    """
    expected, about = expected_outputs or {}, metadata or {}
    tasks = about.get("tasks")
    return EvalCase(
        user_text=input,
        **fields_of_outputs(actual_outputs or {}),
        expected_tool_calls=_expected(expected.get("toolCalls")),
        expected_response=expected.get("output"),
        tools=about.get("tools"),
        tasks=(tasks,) if isinstance(tasks, str) else tasks,
        constraints=about.get("constraints"),
    )


def _expected(calls: Any) -> Any:
    """The names and arguments of the expected calls, which Dokimos compares, with `{}` in place of null arguments."""
    if not isinstance(calls, list | tuple):
        return calls
    return [
        {key: {} if key == "arguments" and call[key] is None else call[key] for key in _COMPARED if key in call}
        if isinstance(call, Mapping)
        else call
        for call in calls
    ]


IMPORTER = Importer(
    files="a Dokimos dataset (`examples`)",
    recognises=lambda value: isinstance(value, dict) and isinstance(value.get("examples"), list),
    read=read,
    documents={".jsonl": read_lines, ".csv": read_table},
)
