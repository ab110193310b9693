"""Reads the messages of model APIs and agent libraries: user messages, tool calls, results and answers, in order.

Imports none of those libraries: their objects are read like their JSON forms, and unknown entries are skipped. Input
that is not a list raises ValueError: a trace without turns would look like an agent that did nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from a2a_tool_capture.canonical import with_whole_numbers
from a2a_tool_capture.models import ToolCall
from a2a_tool_capture.spans.literals import parse

from ..texts import json_text


@dataclass(frozen=True, slots=True)
class TraceEvent:
    """A message, reasoning step, call or result.

    Of a result, `id` and `name` identify the call; `failed`: the result is an error."""

    kind: Literal["user", "agent", "reasoning", "call", "result"]
    text: str = ""
    call: ToolCall | None = None
    id: str = ""
    name: str = ""
    failed: bool = False


def openai_events(messages: Iterable[Any]) -> Iterator[TraceEvent]:
    """From chat-completion messages and items of the Responses API. Raises ValueError if the input is not a list."""
    for message in map(plain, required_list(_held(messages))):
        kind = message.get("type")
        if kind == "function_call":
            yield _call(message.get("name"), message.get("arguments"), message.get("call_id"))
        elif kind == "function_call_output":
            yield TraceEvent("result", _text(message.get("output")), id=_id(message.get("call_id")))
        elif kind == "reasoning":
            yield TraceEvent("reasoning", _text(message.get("summary") or message.get("content")))
        elif (role := _OPENAI_ROLES.get(str(message.get("role")))) is not None:
            if role == "agent":
                yield TraceEvent("reasoning", _text(message.get("reasoning_content")))
            yield _event(role, message)
            if role == "agent":
                for call in map(plain, _listed(message.get("tool_calls"))):
                    function = plain(call.get("function") or call.get("custom"))
                    yield _call(function.get("name"), function.get("arguments", function.get("input")), call.get("id"))
                if function := plain(message.get("function_call")):  # the predecessor of tool calls
                    yield _call(function.get("name"), function.get("arguments"), None)


def langchain_events(messages: Iterable[Any]) -> Iterator[TraceEvent]:
    """From LangChain messages, in any of their JSON forms. Raises ValueError if the input is not a list."""
    for message in map(_langchain_message, map(_of_pair, required_list(_held(messages)))):
        role = _LANGCHAIN_ROLES.get(str(message.get("type") or message.get("role") or ""))
        if role is None:
            continue
        yield _event(role, message, failed=message.get("status") == "error")
        if role == "agent":
            for call in map(plain, _listed(message.get("tool_calls"))):
                yield _call(call.get("name"), call.get("args"), call.get("id"))
            for call in map(plain, _listed(message.get("invalid_tool_calls"))):
                yield _call(call.get("name"), None, call.get("id"))
                problem, name = str(call.get("error") or "invalid call"), str(call.get("name") or "")
                yield TraceEvent("result", problem, id=_id(call.get("id")), name=name, failed=True)


def required_list(entries: Any, what: str = "messages") -> list[Any]:
    """`entries` as a list. Raises ValueError, which names `what` is expected, for a string, a mapping or a single
    object."""
    if isinstance(entries, str | bytes | Mapping) or not isinstance(entries, Iterable):
        raise ValueError(f"{what}: expected a list, got {type(entries).__name__}")
    return list(entries)


def _held(messages: Any) -> Any:
    """The messages inside a request body or the state of a graph."""
    return messages["messages"] if isinstance(messages, Mapping) and "messages" in messages else messages


def _of_pair(message: Any) -> Any:
    """The full form of LangChain's short message `(role, text)`."""
    if isinstance(message, tuple) and len(message) == 2:
        return {"role": message[0], "content": message[1]}
    return message


def plain(value: Any) -> Mapping[str, Any]:
    """An object in its JSON form: a mapping as it is, a pydantic model dumped, another object's attributes.

    Empty for any other value.
    """
    if isinstance(value, Mapping):
        return value
    if callable(dump := getattr(value, "model_dump", None)):
        dumped = dump()
        return dumped if isinstance(dumped, Mapping) else {}
    return getattr(value, "__dict__", {})


def arguments_of(value: Any) -> Mapping[str, Any] | None:
    """Arguments given as an object, its JSON text or its Python repr; None (unknown) for anything else."""
    if isinstance(value, str):
        value = parse(value or "{}")
    return with_whole_numbers(value) if isinstance(value, Mapping) else None


_Role: TypeAlias = Literal["user", "agent", "result"]

_OPENAI_ROLES: Mapping[str, _Role] = {"user": "user", "assistant": "agent", "tool": "result", "function": "result"}
_LANGCHAIN_ROLES: Mapping[str, _Role] = {
    **dict.fromkeys(("human", "user", "HumanMessage"), "user"),
    **dict.fromkeys(("ai", "assistant", "AIMessage", "AIMessageChunk"), "agent"),
    **dict.fromkeys(("tool", "ToolMessage"), "result"),
}


def _langchain_message(message: Any) -> Mapping[str, Any]:
    """`{type, content, ...}` from a message object, `messages_to_dict` (`data`) or `dumpd` (`kwargs`)."""
    found = plain(message)
    if isinstance(found.get("data"), Mapping):
        return {**found["data"], "type": found.get("type")}
    if isinstance(found.get("kwargs"), Mapping):
        path = found.get("id")
        return {**found["kwargs"], "type": path[-1] if isinstance(path, list) and path else None}
    return found


def _event(role: _Role, message: Mapping[str, Any], *, failed: bool = False) -> TraceEvent:
    name = str(message.get("name") or "")
    return TraceEvent(role, _text(message.get("content")), None, _id(message.get("tool_call_id")), name, failed)


def _call(name: Any, arguments: Any, call_id: Any) -> TraceEvent:
    return TraceEvent("call", call=ToolCall(str(name or "unknown"), arguments_of(arguments), _id(call_id)))


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []


def _id(value: Any) -> str:
    return "" if value is None else str(value)


def _text(content: Any) -> str:
    """The text of a message content: the text parts of a list, or the JSON text of any other value."""
    if isinstance(content, list) and all(isinstance(part, str) or plain(part) for part in content):
        texts = (part if isinstance(part, str) else plain(part).get("text") for part in content)
        return "".join(text for text in texts if isinstance(text, str))
    return json_text(content) or ""
