"""What a host says of its tools, and the words it uses for events and failures."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from .errors import ProtocolError
from .fields import (
    JsonObject,
    list_of,
    read_boolean,
    read_by,
    read_list,
    read_name,
    read_object,
    read_string,
)

MAX_NESTING = 32
"""Deepest nesting of parameters that is read."""


class EventKind(StrEnum):
    """What a `ToolEvent` tells; its data is `{pct, message}`, `{message}`, a piece of a file, `{level, message}`."""

    PROGRESS = "progress"
    STATUS = "status"
    ARTIFACT = "artifact"
    LOG = "log"


class ToolErrorCode(StrEnum):
    """Why a call failed. Hosts may have codes of their own beside these."""

    UNKNOWN_TOOL = "unknown_tool"
    TOOL_DENIED = "tool_denied"
    TOOL_ERROR = "tool_error"


def read_error_code(value: Any, where: str) -> str:
    """One of ours however it is cased; a host's own as it is."""
    code = read_string(value, where)
    return ToolErrorCode(code.lower()) if code.lower() in tuple(ToolErrorCode) else code


def _parameters(value: Any, where: str) -> tuple[ToolParameter, ...]:
    """A list of parameters, or a map from their names to them: A2E has both."""
    if where.count(".") > MAX_NESTING:
        raise ProtocolError(f"{where}: parameters nest deeper than {MAX_NESTING}")
    if isinstance(value, dict):
        value = [{"name": name, **read_object(parameter, f"{where}.{name}")} for name, parameter in value.items()]
    read: tuple[ToolParameter, ...] = list_of(ToolParameter.from_dict)(value, where)
    return read


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolParameter(JsonObject):
    """A parameter of a tool. `type` is JSON Schema's; `properties` are those of an object."""

    name: str = read_by(read_name)
    type: str = read_by(read_string, "string")
    description: str = read_by(read_string, "")
    required: bool = read_by(read_boolean, False)
    enum: tuple[Any, ...] | None = read_by(read_list, None)
    properties: tuple[ToolParameter, ...] | None = read_by(_parameters, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDefinition(JsonObject):
    """A tool as the host describes it. `defer_loading`: not in the plain list, found by search.

    `tool_call_evaluators.ToolDefinition.from_a2e(tool.to_dict())` is the same as a JSON Schema.
    """

    name: str = read_by(read_name)
    description: str = read_by(read_string, "")
    input_parameters: tuple[ToolParameter, ...] = read_by(_parameters, ())
    output_parameters: tuple[ToolParameter, ...] = read_by(_parameters, ())
    streaming: bool = read_by(read_boolean, False)
    idempotent: bool = read_by(read_boolean, False)
    tags: tuple[str, ...] = read_by(list_of(read_string), ())
    version: str = read_by(read_string, "1.0.0")
    toolkit: str | None = read_by(read_string, None)
    defer_loading: bool = read_by(read_boolean, False)
