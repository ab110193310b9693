"""Recorded spans and shapes of instrumentations."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest
from a2a_tool_capture.models import ToolCall, ToolCallSource
from a2a_tool_capture.spans.in_memory import log_of, span_of
from a2a_tool_capture.spans.model import KIND_CLIENT, KIND_SERVER, CutText, LogEvent, Span, SpanEvent
from a2a_tool_capture.spans.tool_calls import tool_calls
from golden.spans.building import START, TRACE, a_span, a_tool_span, an_llm_span, answers, asks, exception, user
from golden.spans.fixtures import Fixture, fixtures
from golden.spans.sdk_forms import sdk_log, sdk_span

FIXTURES = fixtures()


def test_converts_to_the_expected_calls(subtests: pytest.Subtests) -> None:
    """Also: calls have the times of their outermost span, and no id of a span becomes the id of a call."""
    for fixture in FIXTURES:
        with subtests.test(fixture.name):
            calls = tool_calls(fixture.spans, fixture.logs).tool_calls
            assert [_comparable(call) for call in calls] == _wanted(fixture)
            for call, wanted in zip(calls, fixture.expected["tool_calls"], strict=True):
                if "start_unix_nano" in wanted:
                    assert (call.started_at, call.ended_at) == (
                        _time(wanted["start_unix_nano"]),
                        _time(wanted["end_unix_nano"]),
                    )
            assert not {span.span_id for span in fixture.spans} & {call.id for call in calls}


def _comparable(call: ToolCall) -> dict[str, Any]:
    assert call.source is ToolCallSource.OTEL_TRACE
    return {
        "id": call.id,
        "name": call.name,
        "arguments": call.arguments,
        "result": _as_json(call.result),
        "error": call.error,
    }


def _wanted(fixture: Fixture) -> list[dict[str, Any]]:
    return [
        {
            "id": _wanted_id(call, truth),
            "name": call["name"],
            "arguments": _first_known(call, "arguments"),
            "result": _as_json(_wanted_result(call)),
            "error": call["error"],
        }
        for call, truth in zip(
            fixture.expected["tool_calls"],
            fixture.expected["truth"][: len(fixture.expected["tool_calls"])],
            strict=True,
        )
    ]


def _wanted_id(call: dict[str, Any], truth: dict[str, Any]) -> str:
    """The span's, else the messages'; where these name the output item (`fc_...`), the call's own."""
    known = _first_known(call, "id") or ""
    return truth["llm_tool_call_id"] if known.startswith("fc_") else known


def _wanted_result(call: dict[str, Any]) -> Any:
    """The span's, else the messages'; none of a failed call, unless its error is but a type."""
    if call["error"] in (None, "TOOL_ERROR"):
        return _first_known(call, "result")
    return None


def _first_known(call: dict[str, Any], key: str) -> Any:
    return call[key] if call[key] is not None else call.get("from_messages", {}).get(key)


def _as_json(text: Any) -> Any:
    try:
        return json.loads(text)
    except (TypeError, ValueError):
        return text


def _time(unix_nano: str) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=int(unix_nano) // 1000)


PARIS = {"city": "Paris"}
TEXT = json.dumps(PARIS)
TRACEBACK = 'no such city\n\nTraceback (most recent call last):\n  File "app.py", line 1'
TOOL = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "w"}
OPENINFERENCE = {"openinference.span.kind": "TOOL", "tool.name": "w"}
LANGCHAIN, LLAMA, ADK = (f"openinference.instrumentation.{name}" for name in ("langchain", "llama_index", "google_adk"))
TRACELOOP = {"traceloop.span.kind": "tool"}
MCP = {"mcp.method.name": "tools/call", "gen_ai.tool.name": "w"}
ASKED, ANSWERED = asks(("c1", "w", PARIS)), [user(), asks(("c1", "w", PARIS)), answers("c1", "Sunny")]
DETAILS = "gen_ai.client.inference.operation.details"

Call = tuple[str, str, Any, str | None, str | None]
"""Id, name, arguments, result and error."""
WHOLE: Call = ("", "w", PARIS, "Sunny", None)
WITH_ID: Call = ("c1", "w", PARIS, "Sunny", None)


class Shape(NamedTuple):
    name: str
    spans: list[Span]
    calls: list[Call]
    logs: list[LogEvent] = []  # noqa: RUF012  # never changed


def content(**content: Any) -> dict[str, Any]:
    """Attributes by the GenAI conventions."""
    return TOOL | {f"gen_ai.tool.call.{key}": value for key, value in content.items()}


def event(name: str, **attributes: Any) -> SpanEvent:
    return SpanEvent(name, START, attributes)


def failed(name: str, error: str | None, *events: SpanEvent, **attributes: Any) -> Shape:
    """A shape of a failed call, whose text is known."""
    given = {key.replace("_", "."): value for key, value in attributes.items()}
    return Shape(name, [a_span(1, content(arguments=TEXT) | given, error=error, events=events)], [FAILED])


FAILED: Call = ("", "w", PARIS, None, "no such city")

SHAPES = [
    # OpenTelemetry's GenAI conventions
    Shape("arguments as JSON text", [a_span(1, content(id="c1", arguments=TEXT, result="Sunny"))], [WITH_ID]),
    Shape("arguments as structure", [a_span(1, content(arguments=PARIS, result="Sunny"))], [WHOLE]),
    Shape("name in the span's name", [a_span(1, {"gen_ai.operation.name": "execute_tool"}, name="execute_tool w")],
          [("", "w", None, None, None)]),
    Shape("content is off", [a_span(1, content(id="c1"))], [("c1", "w", None, None, None)]),
    failed("error in the status", "no such city"),
    failed("error in error.type alone", None, error_type="no such city"),
    failed("error in an exception, with its traceback", "ToolError", exception(TRACEBACK)),
    # frameworks
    Shape("pydantic-ai 2", [a_span(1, {"gen_ai.tool.name": "w", "tool_arguments": TEXT, "tool_response": "Sunny"},
                                   name="running tool", scope="pydantic-ai")], [WHOLE]),
    Shape("google-adk, schema 1", [a_span(1, TOOL | {"gcp.vertex.agent.tool_call_args": TEXT,
                                   "gcp.vertex.agent.tool_response": '{"result": "Sunny"}'})], [WHOLE]),
    Shape("google-adk, error inside the response",
          [a_span(1, TOOL | {"gcp.vertex.agent.tool_call_args": TEXT,
                             "gcp.vertex.agent.tool_response": '{"error": "no such city"}'})], [FAILED]),
    Shape("strands, content in events",
          [a_span(1, TOOL | {"gen_ai.tool.status": "success"}, scope="strands.telemetry.tracer",
                  events=(event("gen_ai.tool.message", content=TEXT),
                          event("gen_ai.choice", message='[{"text": "Sunny"}]')))], [WHOLE]),
    Shape("strands, failed by gen_ai.tool.status",
          [a_span(1, content(arguments=TEXT) | {"gen_ai.tool.status": "error"}, scope="strands.telemetry.tracer",
                  events=(event("gen_ai.choice", message='[{"text": "no such city"}]'),))], [FAILED]),
    Shape("autogen, nothing but the exception", [a_span(1, content(id="c1"), error="", events=(exception("late"),))],
          [("c1", "w", None, None, "late")]),
    # OpenInference
    Shape("OpenInference", [a_span(1, OPENINFERENCE | {"input.value": TEXT, "output.value": "Sunny"})], [WHOLE]),
    Shape("OpenInference, tool_call.id", [a_span(1, OPENINFERENCE | {"tool_call.id": "c1", "input.value": TEXT,
                                                                     "output.value": "Sunny"})], [WITH_ID]),
    Shape("OpenInference, tool.id", [a_span(1, OPENINFERENCE | {"tool.id": "c1", "input.value": TEXT,
                                                                "output.value": "Sunny"})], [WITH_ID]),
    Shape("OpenInference, tool.call_id", [a_span(1, OPENINFERENCE | {"tool.call_id": "c1", "input.value": TEXT,
                                                                     "output.value": "Sunny"})], [WITH_ID]),
    Shape("OpenInference, the name is the span's", [a_span(1, {"openinference.span.kind": "TOOL", "input.value": TEXT,
                                                               "output.value": "Sunny"}, name="w")], [WHOLE]),
    Shape("OpenInference, arguments below kwargs",
          [a_span(1, OPENINFERENCE | {"input.value": json.dumps({"args": [], "kwargs": PARIS}),
                                      "output.value": '{"raw_output": "Sunny"}'}, scope=LLAMA)], [WHOLE]),
    Shape("OpenInference, LangChain's message",
          [a_span(1, OPENINFERENCE | {"input.value": str(PARIS), "output.value": json.dumps(
              {"type": "tool", "data": {"content": "Sunny", "tool_call_id": "c1"}})}, scope=LANGCHAIN)], [WITH_ID]),
    Shape("OpenInference, google-adk's response",
          [a_span(1, OPENINFERENCE | {"input.value": TEXT, "output.value": json.dumps(
              {"id": "c1", "name": "w", "response": {"result": "Sunny"}})}, scope=ADK)], [WITH_ID]),
    Shape("OpenInference, reprs of Python",
          [a_span(1, OPENINFERENCE | {"input.value": str(PARIS), "output.value": str(PARIS)})],
          [("", "w", PARIS, str(PARIS), None)]),
    Shape("OpenInference, tool.parameters is the schema",
          [a_span(1, OPENINFERENCE | {"tool.parameters": '{"city": {"type": "string"}}', "output.value": "Sunny"})],
          [("", "w", None, "Sunny", None)]),
    # OpenLLMetry, LangSmith, MCP, UiPath
    Shape("OpenLLMetry", [a_span(1, TRACELOOP | {"traceloop.entity.input": TEXT, "traceloop.entity.output": "Sunny"},
                                 name="w.tool")], [WHOLE]),
    Shape("OpenLLMetry, wrapped, with the id",
          [a_span(1, TRACELOOP | {"traceloop.entity.input": json.dumps({"input_str": str(PARIS), "inputs": PARIS,
                                                                        "kwargs": {"tool_call_id": "c1"}}),
                                  "traceloop.entity.output": '{"output": "Sunny", "kwargs": {}}'},
                  name="execute_tool w")], [WITH_ID]),
    Shape("LangSmith", [a_span(1, {"langsmith.span.kind": "tool", "gen_ai.prompt": TEXT, "gen_ai.completion": "Sunny"},
                               name="w")], [WHOLE]),
    Shape("MCP's server", [a_span(1, MCP | {"error.type": "tool_error"}, kind=KIND_SERVER, name="tools/call w")],
          [("", "w", None, None, "tool_error")]),
    Shape("MCP's client",
          [a_span(1, {"mcp.method.name": "tools/call"}, kind=KIND_CLIENT, name="MCP send tools/call w")],
          [("", "w", None, None, None)]),
    Shape("UiPath", [a_span(1, {"tool.name": "w", "input.value": str(PARIS), "output.value": "Sunny"})], [WHOLE]),
    # model calls alone
    Shape("messages in attributes, the history repeated",
          [an_llm_span(1, [user()], [ASKED]), an_llm_span(2, ANSWERED, [], at=2)], [WITH_ID]),
    Shape("messages in a log event", [], [WITH_ID], [LogEvent(TRACE, "", DETAILS, START, attributes={
        "gen_ai.input.messages": ANSWERED})]),
    Shape("messages in an event of the span", [a_span(1, {"gen_ai.operation.name": "chat"}, events=(
        event(DETAILS, **{"gen_ai.input.messages": json.dumps(ANSWERED)}),))], [WITH_ID]),
    Shape("messages spread over attributes", [a_span(1, {
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.tool_calls.0.tool_call.id": "c1",
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "w",
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": TEXT})],
        [("c1", "w", PARIS, None, None)]),
    Shape("an item's id is not the call's", [an_llm_span(1, [
        user(), {"type": "function_call", "id": "fc_1", "name": "w", "arguments": TEXT},
        {"type": "function_call_output", "call_id": "c1", "output": "Sunny"}], [])], [WITH_ID]),
    # several spans
    Shape("ids and results come from messages", [an_llm_span(1, ANSWERED, []), a_tool_span(2, "w", PARIS, at=1)],
          [WITH_ID]),
    Shape("repeats are real", [a_tool_span(number, "w", PARIS, "Sunny", at=number) for number in (1, 2)], [WHOLE] * 2),
    Shape("two instrumentations saw one call", [a_tool_span(1, "w", PARIS, scope="one"),
                                                a_tool_span(2, "w", PARIS, "Sunny", at=0.1, scope="other")], [WHOLE]),
    Shape("agent, client, transport and server saw one call",
          [a_tool_span(1, "srv_w", PARIS, call_id="c1", took=4),
           a_span(2, MCP, parent=1, kind=KIND_CLIENT, at=1, took=3),
           a_span(3, {"mcp.method.name": "tools/call"}, name="MCP send tools/call w", parent=2, at=2, took=2),
           a_span(4, MCP | {"error.type": "tool_error"}, parent=3, kind=KIND_SERVER, at=3)],
          [("c1", "srv_w", PARIS, None, "tool_error")]),
    Shape("look-alikes", [
        a_span(1, TOOL | {"gen_ai.tool.name": "(merged tools)"}, name="execute_tool (merged)"),
        a_span(2, {"openinference.span.kind": "CHAIN"}, name="tools"),
        a_span(3, {"traceloop.span.kind": "task"}, name="execute_task w"),
        a_span(4, {"mcp.method.name": "tools/list"}, name="tools/list"),
        a_span(5, OPENINFERENCE | {"tool.name": "final_answer"}, scope="openinference.instrumentation.smolagents"),
    ], []),
    Shape("withheld, cut and placeholders are unknown", [
        a_span(1, content(id="<not specified>", arguments="__REDACTED__", result="__REDACTED__")),
        a_span(2, content(id="", arguments='{"city": "Par'), at=1),
        a_span(3, content(arguments=CutText(TEXT)), at=2)], [("", "w", None, None, None)] * 3),
]  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_a_shape_is_read(shape: Shape) -> None:
    """In any order of arrival, and delivered repeatedly: children come before parents. Also in the SDK's form."""
    for spans in (shape.spans, shape.spans[::-1], shape.spans * 2):
        assert [seen(call) for call in tool_calls(spans, shape.logs).tool_calls] == shape.calls
    in_memory = map(span_of, map(sdk_span, shape.spans)), map(log_of, map(sdk_log, shape.logs))
    assert [seen(call) for call in tool_calls(*in_memory).tool_calls] == shape.calls


def seen(call: ToolCall) -> Call:
    return call.id, call.name, call.arguments, call.result, call.error
