"""Definitions of tools, from the forms of OpenAI, MCP, Anthropic and A2E."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A tool as described to the model. `parameters` is a JSON Schema; `strict` forbids arguments that are not in
    it."""

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    strict: bool = False

    @classmethod
    def of(cls, name: str, description: str, parameters: Mapping[str, Any]) -> ToolDefinition:
        """From its parts. Raises ValueError for an empty name."""
        return cls(required_name(name), description, parameters)

    @classmethod
    def from_json_schema(cls, schema: Mapping[str, Any], name: str = "", *, strict: bool = False) -> ToolDefinition:
        """From a bare JSON Schema of the arguments. Without `name`, its `title` is the name."""
        return cls(required_name(name or schema.get("title")), schema.get("description") or "", schema, strict=strict)

    @classmethod
    def from_openai(cls, tool: Mapping[str, Any]) -> ToolDefinition:
        """From an OpenAI function tool: nested under `function` (chat completions) or flat (responses)."""
        function = tool.get("function", tool)
        return cls._of(function, function.get("parameters"), strict=bool(function.get("strict")))

    @classmethod
    def from_mcp(cls, tool: Mapping[str, Any]) -> ToolDefinition:
        """From an MCP tool: its `inputSchema` holds the arguments (`input_schema` in Python and in Anthropic's API)."""
        return cls._of(tool, tool.get("inputSchema") or tool.get("input_schema"))

    @classmethod
    def from_a2e(cls, tool: Mapping[str, Any]) -> ToolDefinition:
        """From an A2E tool descriptor: its `input_parameters`, a list or a map by name, become a JSON Schema."""
        return cls._of(tool, _a2e_schema(tool.get("input_parameters"), "input_parameters"))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ToolDefinition:
        """From the form of `to_dict`, or an OpenAI, MCP, Anthropic or A2E tool, detected by their keys.

        Raises ValueError if the name is missing.
        """
        if "inputSchema" in data or "input_schema" in data:
            return cls.from_mcp(data)
        return cls.from_a2e(data) if "input_parameters" in data else cls.from_openai(data)

    @classmethod
    def _of(
        cls, tool: Mapping[str, Any], parameters: Mapping[str, Any] | None, *, strict: bool = False
    ) -> ToolDefinition:
        return cls(required_name(tool.get("name")), tool.get("description") or "", parameters or {}, strict=strict)

    def to_openai(self) -> dict[str, Any]:
        """A function tool for OpenAI's chat completions; `from_openai` is the inverse.

        OpenAI refuses parameters without `type` or `properties`: where they are absent, they are added.
        """
        function = self.to_dict()
        function["parameters"] = {"type": "object", "properties": {}, **self.parameters}
        if not function.pop("strict"):
            return {"type": "function", "function": function}
        return {"type": "function", "function": {**function, "strict": True}}

    def to_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__} | {"parameters": dict(self.parameters)}


def required_name(name: Any) -> str:
    if not isinstance(name, str) or not name:
        raise ValueError(f"name must be a non-empty string, got {name!r}")
    return name


def _a2e_schema(parameters: Any, where: str) -> dict[str, Any]:
    entries = parameters or []
    if isinstance(entries, Mapping):
        entries = [{"name": name, **_a2e_parameter(entry, where)} for name, entry in entries.items()]
    properties, required = {}, []
    for entry in entries:
        parameter = _a2e_parameter(entry, where)
        name = required_name(parameter.get("name"))
        properties[name] = {key: parameter[key] for key in ("type", "description", "enum") if parameter.get(key)}
        if parameter.get("properties"):
            properties[name] |= _a2e_schema(parameter["properties"], f"{where}.{name}")
        if parameter.get("required"):
            required.append(name)
    return {"type": "object", "properties": properties, "required": required}


def _a2e_parameter(entry: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(entry, Mapping):
        raise ValueError(f"{where}: expected an object, got {kind_of(entry)}")
    return entry


def kind_of(value: Any) -> str:
    return "an object" if isinstance(value, Mapping) else f"{type(value).__name__} {value!r}"
