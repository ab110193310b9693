"""Tool definitions, event kinds and error codes of A2E."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ..json_limits import READ
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


class EventKind(StrEnum):
    """Kind of a `ToolEvent`; its data is `{pct, message}`, `{message}`, a piece of a file, `{level, message}`."""

    PROGRESS = "progress"
    STATUS = "status"
    ARTIFACT = "artifact"
    LOG = "log"


class ToolErrorCode(StrEnum):
    """Why a call failed. Hosts may define further codes."""

    UNKNOWN_TOOL = "unknown_tool"
    TOOL_DENIED = "tool_denied"
    TOOL_ERROR = "tool_error"


def read_error_code(value: Any, where: str) -> str:
    """A ToolErrorCode in any case; other codes unchanged."""
    code = read_string(value, where)
    return ToolErrorCode(code.lower()) if code.lower() in tuple(ToolErrorCode) else code


def _parameters(value: Any, where: str) -> tuple[ToolParameter, ...]:
    """Reads a list of parameters or a mapping by name; A2E allows both."""
    if where.count(".") > READ:
        raise ProtocolError(f"{where}: parameters nest deeper than {READ}")
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
    """A tool of the host. `defer_loading`: only search returns it, not the default list.

    `tool_call_evaluators.ToolDefinition.from_a2e(tool.to_dict())` converts it to JSON Schema.
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
