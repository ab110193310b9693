"""Dokimos' data sets that are no JSON: a CSV file, or examples as JSON lines, as one document."""

from __future__ import annotations

import csv
import io
from typing import Any

from ..suite.yaml_document import MAX_VALUES, Document, Path, Position, SuiteError, read_document


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
