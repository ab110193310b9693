"""The tools of a model: the public functions of a Python module, described by their signatures and docstrings."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from typing import Any

from a2a_tool_capture.connector import recorder
from a2a_tool_capture.json_values import describe, plain_text
from pydantic import PydanticUserError, TypeAdapter, ValidationError
from pydantic_core import ArgsKwargs
from tool_call_evaluators.evaluator import FAILURES

from ..errors import ConfigError
from .conversations import called
from .loading import load_module


class ToolModule:
    """Functions and coroutine functions that a model may call, by name."""

    def __init__(self, source: str) -> None:
        """Raises ConfigError if the module cannot be imported, has no function, or one without a JSON Schema."""
        setting = f"--agent-tools {source}"
        module = load_module(source, setting)
        self._tools: dict[str, TypeAdapter[Any]] = {}
        self.definitions: list[dict[str, Any]] = []
        """As the `tools` of a request."""
        for name, function in vars(module).items():
            if name.startswith("_") or not inspect.isfunction(function) or function.__module__ != module.__name__:
                continue
            try:
                self._tools[name] = TypeAdapter(function)
                parameters = self._tools[name].json_schema()
            except (PydanticUserError, NameError) as error:
                raise ConfigError(f"{setting}: the parameters of {name} have no JSON Schema: {error}") from None
            if parameters.get("type") != "object":
                raise ConfigError(f"{setting}: {name} has positional parameters; a model passes arguments by name")
            definition = {"name": name, "description": inspect.getdoc(function) or "", "parameters": parameters}
            self.definitions.append({"type": "function", "function": definition})
        if not self._tools:
            raise ConfigError(f"{setting}: expected public functions in {source}, found none")

    async def call(self, name: str, arguments: str, call_id: str) -> str:
        """Run a tool with arguments in JSON text, and record the call. Returns the result, or the error, as text."""
        try:
            with recorder.call(name, arguments, id=call_id) as call:
                call.result = await called(self._bound(name, arguments))
                return plain_text(call.result)
        except FAILURES as error:  # the model decides what to do next
            return f"Error: {describe(error) or type(error).__name__}"

    def _bound(self, name: str, arguments: str) -> Callable[[], Any]:
        if name not in self._tools:
            raise LookupError(f"there is no tool {name}; the tools are {', '.join(self._tools)}")
        try:
            given = json.loads(arguments or "{}")
        except ValueError as error:
            raise ValueError(f"the arguments of {name} are not JSON: {error}") from None
        if not isinstance(given, dict):
            raise TypeError(f"the arguments of {name} are not an object")

        def bound() -> Any:
            try:
                return self._tools[name].validate_python(ArgsKwargs((), given))
            except ValidationError as error:
                problems = [f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors()]
                raise ValueError(f"invalid arguments of {name}: {'; '.join(problems)}") from None

        return bound
