"""Reads tool definitions: inline in a suite, or from a file."""

from __future__ import annotations

from typing import Annotated, Any

from ..declared import TEXT, FieldError, Value, checked_object, each, text
from ..tool_definition import ToolDefinition
from .files import ReadContext, read_source
from .node import Node


def _read(value: Any, context: ReadContext) -> tuple[ToolDefinition, ...]:
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
    document = read_source(path)
    tools = Node(document, document.value)
    if isinstance(tools.value, dict) and "tools" in tools.value:
        tools = tools.entries()["tools"]
    return tools.convert(_definitions)


def _definitions(value: Any) -> tuple[ToolDefinition, ...]:
    return each(_definition, value)


def _definition(value: Any) -> ToolDefinition:
    return ToolDefinition.from_dict(checked_object(value))


_LIST = {"type": "array", "items": {"type": "object", "description": "In our form, OpenAI's, MCP's or A2E's."}}

Tools = Annotated[
    tuple[ToolDefinition, ...],
    Value(
        _read,
        {"anyOf": [_LIST, TEXT]},
        write=lambda tools: [tool.to_dict() for tool in tools],
        in_context=True,
    ),
]
