"""Spans built by hand, for tests of single rules."""

from __future__ import annotations

import json
from typing import Any

from a2a_tool_capture.spans.model import KIND_INTERNAL, STATUS_ERROR, STATUS_UNSET, Span, SpanEvent

TRACE = "0af7651916cd43dd8448eb211c80319c"
OTHER_TRACE = "1bf7651916cd43dd8448eb211c80319c"
SECOND = 1_000_000_000
START = 1_795_230_000 * SECOND


def a_span(
    number: int,
    attributes: dict[str, Any] | None = None,
    *,
    name: str = "",
    parent: int | str = "",
    trace: str = TRACE,
    scope: str = "app",
    kind: int = KIND_INTERNAL,
    at: float = 0.0,
    took: float = 1.0,
    error: str | None = None,
    events: tuple[SpanEvent, ...] = (),
    remote: bool | None = None,
) -> Span:
    """A span with `number` as its id, `at` seconds after START; `error` is the message of an ERROR status."""
    return Span(
        trace_id=trace,
        span_id=_span_id(number),
        parent_span_id=_span_id(parent) if isinstance(parent, int) else parent,
        name=name,
        kind=kind,
        scope=scope,
        start_ns=START + int(at * SECOND),
        end_ns=START + int((at + took) * SECOND),
        attributes=attributes or {},
        events=events,
        status_code=STATUS_UNSET if error is None else STATUS_ERROR,
        status_message=error or "",
        parent_is_remote=remote,
    )


def a_tool_span(
    number: int,
    tool: str = "get_weather",
    arguments: Any = None,
    result: Any = None,
    call_id: str = "",
    **span: Any,
) -> Span:
    """A tool span by the GenAI semantic conventions; what is None or "" is not on it."""
    attributes: dict[str, Any] = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool}
    if arguments is not None:
        attributes["gen_ai.tool.call.arguments"] = arguments if isinstance(arguments, str) else json.dumps(arguments)
    if result is not None:
        attributes["gen_ai.tool.call.result"] = result
    if call_id:
        attributes["gen_ai.tool.call.id"] = call_id
    return a_span(number, attributes, name=f"execute_tool {tool}", **span)


def an_llm_span(number: int, inputs: list[Any] | None = None, outputs: list[Any] | None = None, **span: Any) -> Span:
    """A model call by the GenAI semantic conventions, its messages as JSON."""
    attributes: dict[str, Any] = {"gen_ai.operation.name": "chat"}
    if inputs is not None:
        attributes["gen_ai.input.messages"] = json.dumps(inputs)
    if outputs is not None:
        attributes["gen_ai.output.messages"] = json.dumps(outputs)
    return a_span(number, attributes, name="chat", **span)


def user(text: str = "Plan my trip.") -> dict[str, Any]:
    return {"role": "user", "parts": [{"type": "text", "content": text}]}


def asks(*calls: tuple[str, str, Any]) -> dict[str, Any]:
    """The model's message with calls `(id, name, arguments)`; an id "" is left out."""
    parts = [
        {"type": "tool_call", "name": name, "arguments": arguments} | ({"id": call_id} if call_id else {})
        for call_id, name, arguments in calls
    ]
    return {"role": "assistant", "parts": parts}


def answers(call_id: str, response: Any) -> dict[str, Any]:
    return {"role": "tool", "parts": [{"type": "tool_call_response", "id": call_id, "response": response}]}


def exception(message: str, kind: str = "ValueError") -> SpanEvent:
    return SpanEvent("exception", START, {"exception.type": kind, "exception.message": message})


def _span_id(number: int | str) -> str:
    return f"{number:016x}" if isinstance(number, int) else number
