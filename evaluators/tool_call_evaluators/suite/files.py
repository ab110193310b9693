"""Reads suite files, and reports errors with their position."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .yaml_document import MAX_BYTES, Document, DocumentError, Position, read_document


@dataclass(frozen=True, slots=True)
class ReadContext:
    """The directory of the suite's file (None without a file), and whether plug-ins outside it may run."""

    folder: Path | None = None
    allow_plugins: bool = False


class SuiteError(ValueError):
    """An invalid suite. The message is one sentence: `file:line:column: problem, place, expected`.

    `line` and `column` count from 1 and are None if the error has no position.
    """

    exit_code = 2
    """Exit code of a command that ends with this error: bad usage or input."""

    def __init__(self, problem: str, filename: str, position: Position | None = None) -> None:
        place = ":".join(str(part) for part in (filename, *(position or ())))
        super().__init__(f"{place}: {problem}")
        self.problem = problem
        self.filename = filename
        self.line = position[0] if position else None
        self.column = position[1] if position else None


def read_text(path: Path) -> str:
    """The text of the file at `path`. Raises SuiteError if it is missing, too large or not UTF-8."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise SuiteError(f"cannot be read: {error.strerror or error}", str(path)) from None
    if len(data) > MAX_BYTES:
        raise SuiteError(f"is larger than {MAX_BYTES:,} bytes, the maximum size of a suite", str(path))
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SuiteError(f"is not UTF-8: byte {error.start} cannot be decoded", str(path)) from None


def read_source(path: Path) -> Document:
    """The YAML or JSON document in the file at `path`. Raises SuiteError."""
    text = read_text(path)
    try:
        return read_document(text)
    except DocumentError as error:
        raise SuiteError(error.problem, str(path), error.position) from None
