"""Reads JSON lines as one document with positions."""

from __future__ import annotations

from typing import Any

from ..suite.yaml_document import MAX_VALUES, Document, Path, Position, SuiteError, read_document


def read_lines(text: str, filename: str) -> Document:
    """The objects of all lines that are not blank, under `examples`. Raises SuiteError, with the line."""
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
