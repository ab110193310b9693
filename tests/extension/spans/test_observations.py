"""Single tool spans: what makes one, what is read from it, and why it failed."""

from __future__ import annotations

from typing import Any

import pytest
from a2a_tool_capture.spans.content import NOTHING, ToolOutcome
from a2a_tool_capture.spans.conventions import CONVENTIONS, NOT_CALLS, recognise
from a2a_tool_capture.spans.model import KIND_SERVER, CutText, Span, SpanEvent
from a2a_tool_capture.spans.observations import Failure, failure, read_span, same_tool
from golden.spans.building import a_span, a_tool_span, exception
from hypothesis import given
from hypothesis import strategies as st

_ATTRIBUTES = sorted(
    {marker for convention in CONVENTIONS for marker, _ in convention.markers}
    | {key for convention in CONVENTIONS for key in (*convention.tool_name, *convention.call_id)}
    | {place.rpartition("/")[2] for convention in CONVENTIONS for place in (*convention.arguments, *convention.result)}
    | {attribute for attribute, _ in NOT_CALLS}
    | {"error.type"}
)
_WORDS = [*sorted({value for row in CONVENTIONS for _, value in row.markers}), "{}", '{"a": 1}', "", "x"]
_values = st.sampled_from(_WORDS) | st.none() | st.integers() | st.lists(st.text(max_size=2), max_size=2) | st.binary()
_attributes = st.dictionaries(st.sampled_from(_ATTRIBUTES), _values | st.dictionaries(st.text(max_size=2), _values))
_scopes = st.sampled_from(["", "app", *sorted({scope for convention in CONVENTIONS for scope in convention.scopes})])


@given(_attributes, _attributes, _scopes, st.sampled_from(["", "running tool", "execute_tool x", "x.tool"]))
def test_any_span_is_read(attributes: Any, event: Any, scope: str, name: str) -> None:
    span = a_span(1, attributes, scope=scope, name=name, events=(SpanEvent("gen_ai.choice", 0, event),))

    observation = read_span(span)

    assert (observation is None) or (observation.name != "" and recognise(span) is not None)


@pytest.mark.parametrize(
    "span",
    [
        a_span(1, {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "(merged tools)"}),
        a_span(
            1,
            {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "(merged tools)", "gen_ai.tool.call.id": "x"},
            scope="gcp.vertex.agent",
            name="execute_tool (merged)",
        ),
        a_span(1, {"openinference.span.kind": "CHAIN"}, name="tools", scope="openinference.instrumentation.langchain"),
        a_span(1, {"gen_ai.operation.name": "execute_task", "traceloop.span.kind": "task"}, name="execute_task tools"),
        a_span(1, {"mcp.method.name": "tools/list"}, name="tools/list", kind=KIND_SERVER),
        a_span(1, {"openinference.span.kind": "CHAIN"}, name="BaseWorkflowAgent.call_tool"),
        a_span(
            1,
            {"openinference.span.kind": "TOOL", "tool.name": "final_answer"},
            name="FinalAnswerTool",
            scope="openinference.instrumentation.smolagents",
        ),
        a_span(1, {"gen_ai.tool.name": "x"}, name="running tool", scope="another library"),
        a_span(1, {"gen_ai.tool.name": "x", "gen_ai.operation.name": "chat"}, name="execute_tool x"),
        a_span(
            1,
            {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": "final_result",
                "logfire.msg": "running output function: final_result",
            },
            scope="pydantic-ai",
        ),
        a_span(
            1,
            {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": "x",
                "logfire.span_type": "pending_span",
            },
            scope="pydantic-ai",
        ),
        a_span(1, {"gen_ai.operation.name": "execute_tool"}, name="no tool's name anywhere"),
        a_span(1, {"gen_ai.operation.name": ["execute_tool"], "gen_ai.tool.name": "x"}),
        a_span(1, {"gen_ai.tool.name": "x"}, name="my tool"),
        a_span(1, {"tool.name": "x", "openinference.span.kind": "LLM"}, name="model"),
        a_span(1, {"tool.name": "x", "tool.synthesized": True}, name="x"),
    ],
)
def test_look_alikes_are_rejected(span: Span) -> None:
    assert read_span(span) is None


TOOL = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "w"}
OPENINFERENCE = {"openinference.span.kind": "TOOL", "tool.name": "w"}
ADK = {**TOOL, "gcp.vertex.agent.tool_call_args": "{}"}
PARIS = {"city": "Paris"}


@pytest.mark.parametrize(
    ("span", "known"),
    [
        (
            a_span(1, {"gen_ai.operation.name": "execute_tool"}, name="execute_tool get_weather"),
            {"name": "get_weather"},
        ),
        (a_span(1, {"traceloop.span.kind": "tool"}, name="get_weather.tool"), {"name": "get_weather"}),
        (a_span(1, {"openinference.span.kind": "TOOL"}, name="get_weather"), {"name": "get_weather"}),
        (a_span(1, OPENINFERENCE, name="agent.w"), {"name": "w"}),
        (a_span(1, {"mcp.method.name": "tools/call"}, name="MCP send tools/call w"), {"name": "w"}),
        (a_span(1, {"mcp.method.name": "tools/call", "gen_ai.tool.name": "w"}, name="tools/call w"), {"name": "w"}),
        (a_tool_span(1, " get_weather "), {"name": " get_weather "}),
        (a_span(1, {"tool.name": "w"}, name="step"), {"name": "w"}),
        (a_tool_span(1, arguments='{"city": "Paris"}'), {"arguments": PARIS}),
        (a_tool_span(1, arguments="{'city': 'Paris'}"), {"arguments": PARIS}),
        (a_tool_span(1, arguments="{}"), {"arguments": {}}),
        (a_tool_span(1, arguments=""), {"arguments": None}),
        (a_tool_span(1, arguments="__REDACTED__"), {"arguments": None}),
        (a_tool_span(1, arguments='{"city": "Par'), {"arguments": None}),
        (a_tool_span(1, arguments=CutText('{"city": "Paris"}')), {"arguments": None}),
        # structured content
        (
            a_span(1, {**TOOL, "gen_ai.tool.call.arguments": PARIS, "gen_ai.tool.call.result": {"degrees": 21.5}}),
            {"arguments": PARIS, "result": '{"degrees": 21.5}'},
        ),
        (a_span(1, {**TOOL, "gen_ai.tool.call.arguments": {}}), {"arguments": {}}),
        # withheld input is not taken from the parameters
        (a_span(1, {**OPENINFERENCE, "tool.parameters": '{"city": "Paris"}'}), {"arguments": PARIS}),
        (
            a_span(1, {**OPENINFERENCE, "tool.parameters": '{"city": "Paris"}', "input.value": "__REDACTED__"}),
            {"arguments": None},
        ),
        # google-adk without content writes empty arguments
        (
            a_span(1, {**ADK, "gcp.vertex.agent.tool_response": "{}"}, scope="gcp.vertex.agent"),
            {"arguments": None, "result": None},
        ),
        (
            a_span(1, {**ADK, "gcp.vertex.agent.tool_response": '{"result": 1}'}, scope="gcp.vertex.agent"),
            {"arguments": {}, "result": "1"},
        ),
        # the id is in what wraps the result
        (
            a_span(
                1,
                {
                    **OPENINFERENCE,
                    "output.value": '{"type": "tool", "data": {"content": "Sunny", "tool_call_id": "call_1"}}',
                },
                scope="openinference.instrumentation.langchain",
            ),
            {"call_id": "call_1", "result": "Sunny"},
        ),
    ],
)
def test_a_tool_span_is_read(span: Span, known: dict[str, Any]) -> None:
    observation = read_span(span)
    assert {name: getattr(observation, name) for name in known} == known


@pytest.mark.parametrize(
    ("one", "other", "prefixed", "expected"),
    [
        ("w", "w", False, True),
        ("srv_w", "w", True, True),
        ("w", "mcp__srv__w", True, True),
        ("srv_w", "w", False, False),
        ("show", "w", True, False),
        ("get_weather", "get_time", True, False),
    ],
)
def test_names_with_a_prefix(one: str, other: str, prefixed: bool, expected: bool) -> None:
    assert same_tool(one, other, prefixed=prefixed) is expected


TRACEBACK = "Traceback (most recent call last):\n  File x\nValueError: no such city"


def of(outcome: ToolOutcome = NOTHING, says_failed: bool = False, **span: Any) -> Failure | None:
    return failure(a_span(1, span.pop("attributes", None), **span), outcome, says_failed)


@pytest.mark.parametrize(
    ("span", "expected"),
    [
        ({"events": (exception("handled"),), "outcome": ToolOutcome("Sunny")}, None),
        ({"error": "", "events": (exception("no such city"),)}, (0, "no such city")),
        ({"error": "x", "events": (exception("first"), exception("last"))}, (0, "last")),
        ({"error": "", "events": (exception(f"no such city{TRACEBACK}"),)}, (0, "no such city")),
        ({"error": "", "events": (exception(TRACEBACK),)}, (0, "ValueError: no such city")),
        ({"error": "no such city"}, (1, "no such city")),
        ({"error": f"no such city\n{TRACEBACK}"}, (1, "no such city")),
        ({"error": "no such city", "events": (exception(""),)}, (1, "no such city")),
        ({"error": "Error", "outcome": ToolOutcome("no such city")}, (2, "no such city")),
        (
            {"error": "TIMEOUT", "attributes": {"error.type": "timeout"}, "outcome": ToolOutcome("slow")},
            (2, "slow"),
        ),
        (
            {"error": "ValueError: ", "events": (exception(""),), "outcome": ToolOutcome("bad")},
            (2, "bad"),
        ),
        ({"error": "", "attributes": {"error.type": "tool_error"}}, (3, "tool_error")),
        ({"attributes": {"error.type": "tool_error"}}, (3, "tool_error")),
        ({"error": "", "events": (exception("", "pkg.RetryError"),)}, (4, "pkg.RetryError")),
        ({"error": ""}, (5, "error")),
        ({"error": "failed"}, (5, "failed")),
        ({"outcome": ToolOutcome("no such city", failed=True)}, (2, "no such city")),
        ({"says_failed": True}, (5, "error")),
        ({"attributes": {"error.type": "x", "error.message": "why"}}, (0, "why")),
    ],
)
def test_the_most_telling_text(span: dict[str, Any], expected: tuple[int, str]) -> None:
    assert of(**span) == expected
