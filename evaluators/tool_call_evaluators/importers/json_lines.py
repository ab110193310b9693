"""Reads JSON lines as one document with positions."""

from __future__ import annotations

from typing import Any

from ..suite.yaml_document import MAX_VALUES, Document, DocumentError, Path, Position, read_document


def read_lines(text: str) -> Document:
    """The objects of all lines that are not blank, under `examples`. Raises DocumentError, with the line."""
    examples: list[Any] = []
    positions: dict[Path, Position] = {(): (1, 1)}
    size = 0
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            document = read_document(line)
        except DocumentError as error:
            column = error.position[1] if error.position else 1
            raise DocumentError(error.problem, (number, column)) from None
        size += len(document.positions)
        if size > MAX_VALUES:
            raise DocumentError(f"holds more than {MAX_VALUES:,} values", (number, 1))
        for path, (_, column) in document.positions.items():
            positions[("examples", len(examples), *path)] = (number, column)
        examples.append(document.value)
    if not examples:
        raise DocumentError("is empty")
    return Document({"examples": examples}, positions)
