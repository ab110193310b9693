"""Helpers of the importers. Unknown keys are ignored: the formats grow."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from ..matching.placeholders import quoted
from ..model import ExpectedCall
from ..options import did_you_mean
from ..suite import Case
from ..suite.case_ids import free_id
from ..suite.node import Node
from ..suite.yaml_document import MAX_VALUES, Document, Path, Position, SuiteError, read_document


class Notes:
    """What was not imported: one sentence for each kind, with the number of its occurrences."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def add(self, sentence: str) -> None:
        self._counts[sentence] += 1

    def unknown_keys(self, node: Node, known: Collection[str], name: str) -> None:
        """Add the keys of an object that are not `known`; `name` is what the object is called."""
        for key in sorted(node.object().keys() - set(known)):
            self.add(f"key {key} of {name} is unknown{did_you_mean(key, known)}")

    @property
    def sentences(self) -> tuple[str, ...]:
        return tuple(f"{text} ({count} times)" if count > 1 else text for text, count in self._counts.items())


def expected_call(node: Node, *arguments_names: str) -> ExpectedCall:
    """`{name, <one of arguments_names>}` as an expected call whose arguments are taken literally."""
    name, arguments = node.need("name").text(), node.get(*arguments_names)
    return ExpectedCall(name, {} if arguments is None else quoted(arguments.object()))


def user_text(inputs: Mapping[str, Any], notes: Notes) -> str:
    """The user message for an agent's named inputs: the only string, or the one named like a message, else JSON.
    Notes the inputs that are not in the message."""
    texts = {name: value for name, value in inputs.items() if isinstance(value, str) and value.strip()}
    if len(inputs) == 1 and texts:
        return next(iter(texts.values()))
    for name in ("message", "input", "query", "question", "prompt", "user_input", "userInput", "task", "text"):
        if name in texts:
            if len(inputs) > 1:
                notes.add(f"of several inputs, only {name} is sent; the others were not imported")
            return texts[name]
    return json.dumps(inputs, ensure_ascii=False)


def unique_ids(cases: Iterable[Case]) -> tuple[Case, ...]:
    """The same cases, with a number appended to repeated ids."""
    taken: set[str] = set()
    return tuple(replace(case, id=free_id(case.id, taken)) for case in cases)


def read_table(text: str, filename: str) -> Document:
    """A CSV file as examples of Dokimos: the columns `input` and `expectedOutput`; others are metadata. Raises
    SuiteError."""
    rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    examples: list[Any] = []
    positions: dict[Path, Position] = {(): (1, 1)}
    names: list[str] = []
    begin = 1
    try:
        for row in rows:
            fields = [field.strip() for field in row]
            if not names:
                names = [_COLUMNS.get(name.lower(), name) for name in fields]
                if names and "input" not in names:
                    raise SuiteError(f"has no column input; its columns are {', '.join(names)}", filename, (begin, 1))
            elif any(fields):
                if any(fields[len(names) :]):
                    raise SuiteError("has more fields than the first row has columns", filename, (begin, 1))
                positions["examples", len(examples)] = (begin, 1)
                examples.append(_example(dict(zip(names, fields, strict=False))))
            begin = rows.line_num + 1
    except csv.Error as error:
        raise SuiteError(str(error), filename, (begin, 1)) from None
    if not examples:
        raise SuiteError("is empty", filename)
    return Document({"examples": examples}, filename, positions)


_COLUMNS = dict.fromkeys(("expectedoutput", "expected_output", "output"), "output") | {"input": "input"}


def _example(entries: dict[str, str]) -> dict[str, Any]:
    inputs = {"input": entries.pop("input")}
    outputs = {"output": output} if (output := entries.pop("output", "")) else {}
    return {"inputs": inputs, "expectedOutputs": outputs, "metadata": entries}


def read_lines(text: str, filename: str) -> Document:
    """JSON lines as one document: the objects of all lines that are not blank, under `examples`. Raises SuiteError."""
    examples: list[Any] = []
    positions: dict[Path, Position] = {(): (1, 1)}
    size = 0
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            document = read_document(line)
        except SuiteError as error:
            raise SuiteError(error.problem, filename, (number, error.column or 1)) from None
        size += len(document.positions)
        if size > MAX_VALUES:
            raise SuiteError(f"holds more than {MAX_VALUES:,} values", filename, (number, 1))
        for path, (_, column) in document.positions.items():
            positions[("examples", len(examples), *path)] = (number, column)
        examples.append(document.value)
    if not examples:
        raise SuiteError("is empty", filename)
    return Document({"examples": examples}, filename, positions)
