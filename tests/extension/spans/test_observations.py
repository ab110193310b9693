"""Single tool spans: what makes one, and what is read from it."""

from __future__ import annotations

from typing import Any

import pytest
from a2a_tool_capture.spans.conventions import CONVENTIONS, NOT_CALLS, recognise
from a2a_tool_capture.spans.model import KIND_CLIENT, KIND_SERVER, CutText, Span, SpanEvent
from a2a_tool_capture.spans.observations import read_span, same_tool
from golden.spans.building import a_span, a_tool_span
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


@pytest.mark.parametrize(
    ("span", "name"),
    [
        (a_span(1, {"gen_ai.operation.name": "execute_tool"}, name="execute_tool get_weather"), "get_weather"),
        (a_span(1, {"traceloop.span.kind": "tool"}, name="get_weather.tool"), "get_weather"),
        (a_span(1, {"openinference.span.kind": "TOOL"}, name="get_weather"), "get_weather"),
        (a_span(1, {"openinference.span.kind": "TOOL", "tool.name": "w"}, name="agent.w"), "w"),
        (a_span(1, {"mcp.method.name": "tools/call"}, name="MCP send tools/call get_weather"), "get_weather"),
        (a_span(1, {"mcp.method.name": "tools/call", "gen_ai.tool.name": "w"}, name="tools/call w"), "w"),
        (a_tool_span(1, " get_weather "), " get_weather "),
        (a_span(1, {"tool.name": "w"}, name="step"), "w"),
    ],
)
def test_names(span: Span, name: str) -> None:
    observation = read_span(span)

    assert observation is not None
    assert observation.name == name


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{"city": "Paris"}', {"city": "Paris"}),
        ("{'city': 'Paris'}", {"city": "Paris"}),
        ("{}", {}),
        ("", None),
        ("__REDACTED__", None),
        ('{"city": "Par', None),
        (CutText('{"city": "Paris"}'), None),
    ],
)
def test_unknown_arguments_are_not_empty_ones(arguments: str, expected: Any) -> None:
    observation = read_span(a_tool_span(1, arguments=arguments))

    assert observation is not None
    assert observation.arguments == expected


def test_structured_content() -> None:
    span = a_span(
        1,
        {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "get_weather",
            "gen_ai.tool.call.arguments": {"city": "Paris", "days": [1, 2]},
            "gen_ai.tool.call.result": {"degrees": 21.5},
        },
    )

    observation = read_span(span)

    assert observation is not None
    assert observation.arguments == {"city": "Paris", "days": [1, 2]}
    assert observation.result == '{"degrees": 21.5}'


def test_an_empty_structured_object_is_known() -> None:
    span = a_span(
        1, {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "now", "gen_ai.tool.call.arguments": {}}
    )

    observation = read_span(span)

    assert observation is not None
    assert observation.arguments == {}


def test_withheld_input_is_not_taken_from_the_parameters() -> None:
    attributes = {
        "openinference.span.kind": "TOOL",
        "tool.name": "w",
        "input.value": "__REDACTED__",
        "tool.parameters": '{"city": "Paris"}',
    }

    redacted = read_span(a_span(1, attributes))
    absent = read_span(a_span(1, {key: value for key, value in attributes.items() if key != "input.value"}))

    assert redacted is not None
    assert absent is not None
    assert (redacted.arguments, absent.arguments) == (None, {"city": "Paris"})


@pytest.mark.parametrize(("response", "expected"), [("{}", None), ('{"result": 1}', {})])
def test_google_adk_without_content_looks_like_empty_arguments(response: str, expected: Any) -> None:
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "now",
        "gcp.vertex.agent.tool_call_args": "{}",
        "gcp.vertex.agent.tool_response": response,
    }

    observation = read_span(a_span(1, attributes, scope="gcp.vertex.agent"))

    assert observation is not None
    assert observation.arguments == expected


def test_a_call_id_may_be_in_what_wraps_the_result() -> None:
    attributes = {
        "openinference.span.kind": "TOOL",
        "output.value": '{"type": "tool", "data": {"content": "Sunny", "tool_call_id": "call_1"}}',
    }

    observation = read_span(a_span(1, attributes, name="w", scope="openinference.instrumentation.langchain"))

    assert observation is not None
    assert (observation.call_id, observation.result) == ("call_1", "Sunny")


def test_client_and_server_of_a_transport_are_two_vantages() -> None:
    attributes = {"mcp.method.name": "tools/call", "gen_ai.tool.name": "w"}
    client = read_span(a_span(1, attributes, kind=KIND_CLIENT))
    server = read_span(a_span(2, attributes, kind=KIND_SERVER))

    assert client is not None
    assert server is not None
    assert client.vantage != server.vantage


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
