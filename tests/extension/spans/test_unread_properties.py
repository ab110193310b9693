"""Whatever the pieces of traces are: a call that one of them names is in the result, or the calls are unknown."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import count
from typing import Any

from a2a_tool_capture.models import calls_unknown_by
from a2a_tool_capture.spans.conventions import CONTENT_OF_MESSAGE, KEYED_PARTS, PARTS, PartRole
from a2a_tool_capture.spans.model import LogEvent, Span, SpanEvent
from a2a_tool_capture.spans.tool_calls import tool_calls
from golden.spans.building import START, TRACE, a_span
from hypothesis import given, settings
from hypothesis import strategies as st

Json = dict[str, Any]
CALLS = [name for name, kind in PARTS.items() if kind.role is PartRole.CALL]
KEYED = [name for name, kind in KEYED_PARTS.items() if kind.role is PartRole.CALL]
RESPONSES = [name for name, kind in PARTS.items() if kind.role is PartRole.RESPONSE]
CONTENT = [name for name, kind in PARTS.items() if kind.role is PartRole.CONTENT]
UNKNOWN = st.sampled_from(["remote_call", "toolRun", "x", "step", "agent_action", "call_v9", "payload", "items"])
ID = st.sampled_from(["", "c1", "fc_1", "<not specified>"])
ARGUMENTS = st.sampled_from([{}, {"a": 1}, "{}", "<elided>", None, '{"a": '])
DETAILS = "gen_ai.client.inference.operation.details"


@st.composite
def calls(draw: st.DrawFn, name: str) -> Json:
    """A call of `name` in any form, known or not."""
    body = {"name": name, "arguments": draw(ARGUMENTS)}
    if draw(st.booleans()):
        body["id"] = draw(ID)
    forms: list[Callable[[], Json]] = [
        lambda: {"type": draw(st.sampled_from(CALLS)), **body},
        lambda: {draw(st.sampled_from(KEYED)): body},
        lambda: {"type": draw(UNKNOWN), **body},
        lambda: {draw(UNKNOWN): body},
        lambda: {"type": "function", "function": body},
        lambda: {"type": draw(st.sampled_from(RESPONSES)), "name": name, "id": draw(ID)},
        lambda: {"type": "text", "content": "x", draw(UNKNOWN): [body]},
        lambda: {"type": draw(UNKNOWN), draw(UNKNOWN): json.dumps([body])},
    ]
    return draw(st.sampled_from(forms))()


@st.composite
def messages(draw: st.DrawFn, names: list[str]) -> Json:
    parts: list[Any] = [draw(calls(name)) for name in names]
    for kind in draw(st.lists(st.sampled_from(CONTENT), max_size=2)):
        parts.insert(draw(st.integers(0, len(parts))), {"type": kind, "content": "Sunny."})
    message: Json = {"role": draw(st.sampled_from(["assistant", "model", "planner", "ai"]))}
    where = draw(st.sampled_from([*CONTENT_OF_MESSAGE, "tool_calls", "beside", "spread"]))
    if where == "beside":
        message |= {"content": "Sunny.", draw(UNKNOWN): parts}
    elif where == "spread":
        message |= {"parts": parts[:1], draw(UNKNOWN): parts[1:]}
    else:
        message[where] = json.dumps(parts) if draw(st.booleans()) else parts
    return message


@st.composite
def wrapped(draw: st.DrawFn, names: list[str]) -> Any:
    value: Any = [draw(messages(names))]
    for wrapper in draw(
        st.lists(st.sampled_from(["messages", "choices", "list", "text", "unknown", "message"]), max_size=3)
    ):
        match wrapper:
            case "list":
                value = [value]
            case "text":
                value = json.dumps(value)
            case "unknown":
                value = {"version": "1", draw(UNKNOWN): value}
            case "message":
                value = {"message": value, "index": 0}
            case _:
                value = {"version": "1", wrapper: value}
    return value


@st.composite
def pieces(draw: st.DrawFn, number: int, names: list[str]) -> tuple[Span | LogEvent, list[str]]:
    """A span or a log event of an agent, and those of the tools that it names."""
    kinds = ["output", "input", "event", "choice", "log", "tool", "operation", "attribute"]
    kind = draw(st.sampled_from(kinds)) if names else "output"
    if kind == "tool":
        tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": names[0]}
        return a_span(number, tool, at=number), names[:1]
    if kind == "operation":
        operation = draw(st.sampled_from(["invoke_tool", "Function", "mcp_call", "run_skill"]))
        attribute = draw(st.sampled_from(["gen_ai.operation.name", "openinference.span.kind", "traceloop.span.kind"]))
        return a_span(number, {attribute: operation}, name=names[0]), names[:1]
    if kind == "attribute":
        return a_span(number, {"gen_ai.operation.name": draw(UNKNOWN), "gen_ai.tool.name": names[0]}), names[:1]
    if kind == "choice":
        choice = SpanEvent("gen_ai.choice", START, {"message": draw(messages(names))})
        return a_span(number, events=(choice,)), names
    value = draw(wrapped(names))
    if kind == "input":
        return a_span(number, {"gen_ai.input.messages": value}), names
    output = {"gen_ai.output.messages": value}
    if kind == "event":
        return a_span(number, events=(SpanEvent(DETAILS, START, output),)), names
    if kind == "log":
        return LogEvent(TRACE, f"{number:016x}", DETAILS, START, "", output), names
    return a_span(number, output), names


@st.composite
def traces(draw: st.DrawFn) -> tuple[list[Span], list[LogEvent], set[str]]:
    """Spans and log events, and the tools that they name."""
    numbers = count(1)
    drawn = [
        draw(pieces(number, [f"w{next(numbers)}" for _ in range(draw(st.integers(0, 2)))])) for number in range(2, 5)
    ]
    found = [one for one, _ in drawn]
    spans = [a_span(1, {"gen_ai.operation.name": "invoke_agent"}), *(one for one in found if isinstance(one, Span))]
    return spans, [one for one in found if isinstance(one, LogEvent)], {name for _, names in drawn for name in names}


@settings(max_examples=500, deadline=None)
@given(traces())
def test_a_call_that_any_piece_names_is_seen_or_the_calls_are_unknown(
    trace: tuple[list[Span], list[LogEvent], set[str]],
) -> None:
    spans, logs, named = trace

    calls, findings = tool_calls(spans, logs)

    assert named <= {call.name for call in calls} or calls_unknown_by(findings) is not None
