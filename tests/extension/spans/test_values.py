"""Single tool spans: what makes one, and how instrumentations write names, arguments, results and errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from a2a_tool_capture.spans import content
from a2a_tool_capture.spans.content import (
    MAX_REPR,
    NOTHING,
    UNKNOWN,
    Arguments,
    ToolOutcome,
    as_text,
    parse,
    parse_object,
    repr_fields,
)
from a2a_tool_capture.spans.conventions import CONVENTIONS, NOT_CALLS, recognise
from a2a_tool_capture.spans.model import KIND_SERVER, CutText, Span, SpanEvent
from a2a_tool_capture.spans.observations import Failure, failure, read_span, same_tool
from golden.spans.building import a_span, a_tool_span, exception
from hypothesis import given
from hypothesis import strategies as st

PARIS = {"city": "Paris"}

READERS = [
    content.plain_arguments,
    content.keyword_arguments,
    content.traceloop_arguments,
    content.mcp_arguments,
    content.undeclared_parameters,
    content.plain_outcome,
    content.encoded_outcome,
    content.text_blocks,
    content.run_output,
    content.tool_message,
    content.adk_response,
    content.llama_index_output,
    content.mcp_result,
]

_keys = st.sampled_from(
    [
        *("args", "kwargs", "input_str", "inputs", "arguments", "params", "output", "lc", "type", "data", "content"),
        *("result", "error", "response", "name", "raw_output", "tool_output", "isError", "tool_call_id", "text"),
    ]
)
_junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4) | st.sampled_from(["tool", "error", "{}"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_keys, inner, max_size=4),
    max_leaves=10,
)


@pytest.mark.parametrize("reader", READERS)
@given(value=_junk)
def test_readers_take_anything(reader: Callable[[Any], Any], value: Any) -> None:
    assert reader(json.dumps(value)) is not None
    assert reader(value) is not None
    assert reader(CutText(json.dumps(value))) is not None


@pytest.mark.parametrize(
    ("reader", "value", "expected"),
    [
        (content.keyword_arguments, {"args": [], "kwargs": PARIS, "sanitize_inputs_outputs": True}, Arguments(PARIS)),
        (content.keyword_arguments, {"kwargs": PARIS}, Arguments(PARIS)),
        (content.keyword_arguments, {"args": ["Paris"], "kwargs": {}}, UNKNOWN),
        (content.keyword_arguments, PARIS, Arguments(PARIS)),
        (content.keyword_arguments, {"kwargs": "text"}, Arguments({"kwargs": "text"})),
        (
            content.traceloop_arguments,
            {"input_str": "{'city': 'Paris'}", "inputs": PARIS, "kwargs": {"tool_call_id": "call_1"}},
            Arguments(PARIS, "call_1"),
        ),
        (content.traceloop_arguments, {"input_str": "{'city': 'Paris'}", "kwargs": {}}, Arguments(PARIS)),
        (content.traceloop_arguments, {"input_str": "Paris"}, UNKNOWN),
        (content.traceloop_arguments, {"args": [], "kwargs": PARIS}, Arguments(PARIS)),
        (content.traceloop_arguments, PARIS, Arguments(PARIS)),
        (content.mcp_arguments, {"tool_name": "get_weather", "arguments": PARIS}, Arguments(PARIS)),
        (
            content.mcp_arguments,
            {"method": "tools/call", "params": {"name": "w", "arguments": PARIS}},
            Arguments(PARIS),
        ),
        (content.mcp_arguments, {"tool_name": "now", "arguments": None}, Arguments({})),
        (content.mcp_arguments, {"method": "tools/call", "params": {"name": "now"}}, Arguments({})),
        (content.mcp_arguments, PARIS, Arguments(PARIS)),
        (content.mcp_arguments, {"method": "GET", "params": PARIS}, Arguments({"method": "GET", "params": PARIS})),
        (content.undeclared_parameters, PARIS, Arguments(PARIS)),
        (content.undeclared_parameters, {"type": "object", "required": ["city"]}, UNKNOWN),
        (content.undeclared_parameters, {"properties": {"city": {"type": "string"}}}, UNKNOWN),
        (content.undeclared_parameters, {"city": {"type": "string", "description": "the city"}}, UNKNOWN),
        (content.undeclared_parameters, {}, UNKNOWN),
    ],
)
def test_arguments(reader: Callable[[Any], Arguments], value: Any, expected: Arguments) -> None:
    assert reader(value) == expected
    assert reader(json.dumps(value)) == expected


TOOL_MESSAGE = {"content": "Sunny", "type": "tool", "tool_call_id": "call_1", "status": "success"}
SUNNY = ToolOutcome("Sunny", "call_1")


@pytest.mark.parametrize(
    ("reader", "value", "expected"),
    [
        (content.tool_message, TOOL_MESSAGE, SUNNY),
        (content.tool_message, {"type": "tool", "data": TOOL_MESSAGE}, SUNNY),
        (content.tool_message, {"lc": 1, "type": "constructor", "kwargs": TOOL_MESSAGE}, SUNNY),
        (content.tool_message, TOOL_MESSAGE | {"status": "error"}, ToolOutcome("Sunny", "call_1", failed=True)),
        (
            content.tool_message,
            TOOL_MESSAGE | {"content": [{"type": "text", "text": "Sun"}, {"type": "text", "text": "ny"}]},
            ToolOutcome("Sun\nny", "call_1"),
        ),
        (content.tool_message, {"content": "not a message"}, ToolOutcome('{"content":"not a message"}')),
        (content.run_output, {"output": TOOL_MESSAGE}, SUNNY),
        (content.run_output, {"output": {"lc": 1, "kwargs": TOOL_MESSAGE}, "kwargs": {"color": "green"}}, SUNNY),
        (content.run_output, {"output": "Sunny"}, ToolOutcome("Sunny")),
        (content.run_output, {}, ToolOutcome(None)),
        (content.run_output, {"output": "x", "unit": "C"}, ToolOutcome('{"output":"x","unit":"C"}')),
        (content.adk_response, {"result": "Sunny"}, ToolOutcome("Sunny")),
        (content.adk_response, {"result": {"degrees": 21}}, ToolOutcome('{"degrees": 21}')),
        (content.adk_response, {"degrees": 21}, ToolOutcome('{"degrees":21}')),
        (content.adk_response, {"error": "no such city"}, ToolOutcome("no such city", failed=True)),
        (content.adk_response, {"result": "late", "isError": True}, ToolOutcome("late", failed=True)),
        (content.adk_response, {"result": "Sunny", "isError": False}, ToolOutcome("Sunny")),
        (content.adk_response, {"error": "late", "result": "Sunny"}, ToolOutcome('{"error":"late","result":"Sunny"}')),
        (content.adk_response, {"result": "<not specified>"}, ToolOutcome(None)),
        (content.adk_response, {"id": "call_1", "name": "w", "response": {"result": "Sunny"}}, SUNNY),
        (content.adk_response, {}, ToolOutcome(None)),
        (content.llama_index_output, {"raw_output": "Sunny", "is_error": False}, ToolOutcome("Sunny")),
        (content.llama_index_output, {"raw_output": "no", "is_error": True}, ToolOutcome("no", failed=True)),
        (content.llama_index_output, {"tool_id": "call_1", "tool_output": {"raw_output": "Sunny"}}, SUNNY),
        (content.mcp_result, {"content": [{"type": "text", "text": "Sunny"}], "isError": False}, ToolOutcome("Sunny")),
        (
            content.mcp_result,
            {"content": [{"type": "text", "text": "no"}], "isError": True},
            ToolOutcome("no", failed=True),
        ),
        (content.mcp_result, {"result": "no", "is_error": True}, ToolOutcome("no", failed=True)),
        (content.mcp_result, {"result": "x", "other": 1}, ToolOutcome('{"result":"x","other":1}')),
        (content.text_blocks, [{"text": "Sun"}, {"text": "ny"}], ToolOutcome("Sun\nny")),
        (content.text_blocks, [{"json": {}}], ToolOutcome('[{"json":{}}]')),
        (content.text_blocks, [], ToolOutcome("[]")),
        (content.encoded_outcome, "Sunny", ToolOutcome("Sunny")),
        (content.encoded_outcome, {"degrees": 21}, ToolOutcome('{"degrees":21}')),
    ],
)
def test_results(reader: Callable[[Any], ToolOutcome], value: Any, expected: ToolOutcome) -> None:
    assert reader(json.dumps(value, separators=(",", ":"))) == expected


def test_text_stays_as_it_is_but_the_repr_of_a_message() -> None:
    python = "{'flights': [{'id': 'AF 006'}]}"

    assert [reader(python).text for reader in READERS[5:]] == [python] * len(READERS[5:])
    assert content.tool_message("content='Sunny' name='get_weather' tool_call_id='call_1'") == SUNNY


@pytest.mark.parametrize(
    ("value", "expected"),
    [("call_1", "call_1"), (' "call_1" ', "call_1"), ("", ""), ("<not specified>", ""), (None, ""), (7, "")],
)
def test_ids(value: Any, expected: str) -> None:
    assert content.usable_id(value) == expected


json_text = st.text(st.characters(exclude_categories=["Cs"]))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | json_text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(json_text, inner, max_size=4),
    max_leaves=10,
)


@given(st.dictionaries(json_text, json_values, min_size=1))
def test_json_and_python_spell_the_same_object(value: dict[str, Any]) -> None:
    assert parse(json.dumps(value)) == value
    assert parse(repr(value)) == value


@given(st.text() | st.binary() | json_values)
def test_anything_is_parsed(value: Any) -> None:
    parse(value)
    parse_object(value)
    as_text(value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "__REDACTED__",
        "<not specified>",
        "[Scrubbed due to 'password']",
        '{"query": {"from": "PAR", "to": "N',
        "{'a': datetime.now()}",
        "{'a': __import__('os').system('true')}",
        "{'a': [x for x in ().__class__.__bases__]}",
        "{1: 2}",
        "{'a': {1, 2}}",
        "{'a': b'bytes'}",
        "{'a': 1j}",
        "{'a': '\\ud800'}",
        '{"a": "\\uD800"}',
        '{"a": NaN}',
        "{'a': 1" + "0" * 400 + "}",
        "Paris",
    ],
)
def test_what_spells_no_value_is_unknown(text: str) -> None:
    assert parse(text) is None


@pytest.mark.parametrize(
    "bomb",
    [
        "[" * 100_000,
        "[" * 150 + "]" * 150,
        "{'a': " * 150 + "1" + "}" * 150,
        '{"a": ' * 500 + "1" + "}" * 500,
        "{'a': " + "-" * 30_000 + "1}",
        "{'a': " + "1+" * 30_000 + "1}",
        "{'a': '" + "x" * MAX_REPR + "'}",
    ],
    ids=lambda bomb: bomb[:12],
)
def test_bombs_are_unknown(bomb: str) -> None:
    assert parse(bomb) is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (r"{'path': 'C:\data'}", {"path": r"C:\data"}),
        ("{'a': (1, 2), 'b': 36893488147419103232}", {"a": [1, 2], "b": 2.0**65}),
        ('{"a": [36893488147419103232, 18446744073709551615]}', {"a": [2.0**65, 2**64 - 1]}),
        ('{"a": "\\ud83d\\ude00"}', {"a": "😀"}),
        (json.dumps(json.dumps(PARIS)), PARIS),
        ('{"n": 2.0, "box": [0.0, 0.5]}', {"n": 2, "box": [0, 0.5]}),
        (PARIS, PARIS),
        ({}, {}),
        ('{"city": "__REDACTED__", "units": "metric"}', None),
        *((value, None) for value in ("[]", "1", "null", '"text"', [1], 5, None, True, CutText('{"a": 1}'))),
    ],
)
def test_objects(value: Any, expected: Any) -> None:
    """In the text of JSON, so that whole numbers are known from others."""
    assert json.dumps(parse_object(value)) == json.dumps(expected)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        ("", ""),
        ("Sunny", "Sunny"),
        ("{'a': 1}", "{'a': 1}"),
        ({"a": [1, None]}, '{"a": [1, null]}'),
        (21.5, "21.5"),
        (True, "true"),
        (b"\x00", "\"b'\\\\x00'\""),
        ("__REDACTED__", None),
        ({"a": 10**30}, '{"a": 1000000000000000000000000000000}'),
        ({(1, 2): 3}, "{(1, 2): 3}"),
    ],
)
def test_results_are_text(value: Any, text: str | None) -> None:
    assert as_text(value) == text


def test_fields_of_a_repr() -> None:
    text = "content='It\\'s \"sunny\"' name='get_weather' tool_call_id=\"call_1\" artifact=None"

    assert repr_fields(text) == {"content": 'It\'s "sunny"', "name": "get_weather", "tool_call_id": "call_1"}


# ── observations ─────────────────────────────────────────────────────────────────────────────────────────────────────


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
