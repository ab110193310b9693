"""Calls of functions as google-adk writes them, and the frameworks that are built on it: a data part for each call and
each response, `{"data": {"id", "name", "args"}, "metadata": {"adk_type": "function_call"}}`. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from .canonical import with_whole_numbers
from .dialect import CallPart, Dialect, MalformedPartError, Placed
from .json_limits import too_deep
from .json_values import plain_text
from .models import ToolCallSource

CODE_EXECUTION = "code_execution"
"""Tool name for code that a model runs; the wire has none."""

ASKS_THE_USER = frozenset({"adk_request_confirmation", "adk_request_credential", "adk_request_input"})
"""Function calls with which google-adk asks the user; they are not tool calls."""


class FunctionOutcome(NamedTuple):
    """The result or the error of a function as text; the other is None."""

    result: str | None
    error: str | None


def function_outcome(response: Any) -> FunctionOutcome:
    """The outcome in a function response of google-adk: `{"result": x}`, `{"error": text}`, `isError`, or an object."""
    failed = False
    if isinstance(response, dict):
        failed = response.get("isError") is True
        if response.keys() == {"error"} and isinstance(response["error"], str):
            failed, response = True, response["error"]
        elif "result" in response and response.keys() <= {"result", "isError"}:
            response = response["result"]
    text = plain_text(response)
    return FunctionOutcome(None, text) if failed else FunctionOutcome(text, None)


def function_dialect(name: str, source: ToolCallSource) -> Dialect:
    """The dialect in which a part's metadata names its type under `{name}_type`."""
    key = f"{name}_type"
    return Dialect(name, source, key, partial(_read, name, key))


def _read(dialect: str, key: str, holder: Mapping[str, Any]) -> Iterator[Placed]:
    parts = holder.get("parts")
    for number, part in enumerate(parts if isinstance(parts, list) else ()):
        metadata = part.get("metadata") if isinstance(part, dict) else None
        kind = metadata.get(key) if isinstance(metadata, dict) else None
        if not kind or kind == "thought" or "data" not in part:
            continue
        read = _READERS.get(kind) if isinstance(kind, str) else None
        if read is None:
            what = f"it may be a call, of a kind of dialect {dialect!r} that is not known: {kind!r:.80}"
            yield number, MalformedPartError(what, "unknown_kind")
            continue
        try:
            yield number, read(_data(part))
        except MalformedPartError as problem:
            yield number, MalformedPartError(f"skipped: {problem}, in a {kind} of dialect {dialect!r}")


def _call(name_key: str, data: Mapping[str, Any]) -> CallPart | None:
    """The start of a call; None for google-adk's own calls."""
    name = _text(data, name_key, required=True)
    if name in ASKS_THE_USER:
        return None
    if data.get("partialArgs") or data.get("willContinue") is True:
        return CallPart(name, _text(data, "id"), False, streams=True)
    arguments = data.get("args")
    if arguments is not None and not isinstance(arguments, dict):
        raise MalformedPartError(f"'args' is a {type(arguments).__name__}, expected an object")
    return CallPart(name, _text(data, "id"), False, with_whole_numbers(arguments or {}))


def _response(name_key: str, data: Mapping[str, Any]) -> CallPart | None:
    """The outcome of a call; see `function_outcome`."""
    call_id = _text(data, "id")
    name = _text(data, name_key, required=not call_id)
    if name in ASKS_THE_USER:
        return None
    outcome = function_outcome(data.get("response"))
    return CallPart(name, call_id, True, result=outcome.result, error=outcome.error)


def _code(data: Mapping[str, Any]) -> CallPart:
    arguments = {key: data[key] for key in ("code", "language") if isinstance(data.get(key), str)}
    return CallPart(CODE_EXECUTION, _text(data, "id"), False, arguments)


def _code_result(data: Mapping[str, Any]) -> CallPart:
    outcome, output = _text(data, "outcome"), _text(data, "output")
    if outcome in ("", "OUTCOME_OK"):
        return CallPart(CODE_EXECUTION, _text(data, "id"), True, result=output)
    return CallPart(CODE_EXECUTION, _text(data, "id"), True, error=f"{outcome}: {output}" if output else outcome)


_READERS: Mapping[str, Callable[[Mapping[str, Any]], CallPart | None]] = {
    "function_call": partial(_call, "name"),
    "function_response": partial(_response, "name"),
    "tool_call": partial(_call, "toolType"),  # tools that the model provider runs
    "tool_response": partial(_response, "toolType"),
    "executable_code": _code,
    "code_execution_result": _code_result,
}
"""By the type of a part."""


def _data(part: Mapping[str, Any]) -> Mapping[str, Any]:
    """The object in a data part, which 0.3's HTTP+JSON wraps in another `data`. Raises MalformedPartError."""
    data = part.get("data")
    if isinstance(data, dict) and data.keys() == {"data"} and isinstance(data["data"], dict):
        data = data["data"]
    if not isinstance(data, dict):
        raise MalformedPartError(f"'data' is a {type(data).__name__}, expected an object")
    if too_deep(data):
        raise MalformedPartError("'data' nests too deeply")
    return data


def _text(data: Mapping[str, Any], key: str, *, required: bool = False) -> str:
    value = data.get(key)
    if value is None and not required:
        return ""
    if not isinstance(value, str) or (required and not value):
        raise MalformedPartError(f"'{key}' is {value!r:.80}, expected a string")
    return value
