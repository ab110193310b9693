"""Reads the files of a suite: its own, and those with definitions of tools."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from ..model import ToolDefinition
from ..suite_fields import TEXT, FieldError, Value, checked_object, each, text
from .yaml_document import MAX_BYTES, Node, SuiteError, read_document


@dataclass(frozen=True, slots=True)
class ReadContext:
    """The directory of the suite's file (None without a file), and whether plug-ins outside it may run."""

    folder: Path | None = None
    allow_plugins: bool = False


def code_path(file: str, context: ReadContext) -> Path:
    """The path of a Python file that a suite names, relative to the suite. Raises FieldError if it may not run."""
    folder = context.folder or Path()
    path = folder / file
    if not (context.allow_plugins or path.resolve().is_relative_to(folder.resolve())):
        raise FieldError(
            f"{path} is outside the suite's directory; if you trust the suite, allow running it "
            "with --allow-plugins (in Python: allow_plugins=True)"
        )
    return path


def read_bytes(path: Path, most: int, kind: str) -> bytes:
    """The content of the file at `path`, `kind` in messages. Raises SuiteError if missing or over `most` bytes."""
    try:
        with path.open("rb") as file:
            data = file.read(most + 1)
    except OSError as error:
        hint = "; name a file in it" if isinstance(error, IsADirectoryError) else ""
        name = re.sub("^(https?:/)(?!/)", r"\1/", str(path))  # Path makes one slash of two
        if name.startswith(("http://", "https://")):
            hint = "; it is a URL: give that of an agent with --agent, and a file here"
        raise SuiteError(f"cannot be read: {error.strerror or error}{hint}", name) from None
    if len(data) > most:
        raise SuiteError(f"is larger than {most:,} bytes, the maximum size of {kind}", str(path))
    return data


def read_text(path: Path) -> str:
    """The text of the file at `path`. Raises SuiteError if it is missing, too large or not UTF-8."""
    data = read_bytes(path, MAX_BYTES, "a suite")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SuiteError(f"is not UTF-8: byte {error.start} cannot be decoded", str(path)) from None


def read_source(path: Path) -> Node:
    """The value of the YAML or JSON document in the file at `path`. Raises SuiteError."""
    document = read_document(read_text(path), str(path))
    return Node(document, document.value)


def _read_tools(value: Any, context: ReadContext) -> tuple[ToolDefinition, ...]:
    """A list of definitions (our form, OpenAI's, MCP's or A2E's); or the name of a file, relative to the suite, with
    such a list or an object with it under `tools` (as in MCP's `tools/list`).

    Raises FieldError for this value, SuiteError for an error in the file. Without a directory no file is read.
    """
    if not isinstance(value, str):
        return _definitions(value)
    if context.folder is None:
        raise FieldError("expected a list: there is no directory to look for a file in")
    path = context.folder / text(value)
    if not path.is_file():
        raise FieldError(f"no such file: {path}")
    tools = read_source(path)
    if isinstance(tools.value, dict) and "tools" in tools.value:
        tools = tools.entries()["tools"]
    return tools.convert(_definitions)


def _definitions(value: Any) -> tuple[ToolDefinition, ...]:
    return each(lambda item: ToolDefinition.from_dict(checked_object(item)), value)


_LIST = {"type": "array", "items": {"type": "object", "description": "In our form, OpenAI's, MCP's or A2E's."}}

Tools = Annotated[
    tuple[ToolDefinition, ...],
    Value(
        _read_tools,
        {"anyOf": [_LIST, TEXT]},
        write=lambda tools: [tool.to_dict() for tool in tools],
        in_context=True,
    ),
]
