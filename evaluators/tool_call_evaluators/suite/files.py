"""Reads suite files, and reports errors with their position."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .yaml_document import MAX_BYTES, Document, SuiteError, read_document


@dataclass(frozen=True, slots=True)
class ReadContext:
    """The directory of the suite's file (None without a file), and whether plug-ins outside it may run."""

    folder: Path | None = None
    allow_plugins: bool = False


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
    return read_document(read_text(path), str(path))
