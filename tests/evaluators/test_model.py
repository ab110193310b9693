"""EvalCase, EvalResult and ToolDefinition: what they take, what they keep."""

from __future__ import annotations

import json
from dataclasses import fields, replace

import pytest
from a2a_tool_capture import ToolCall
from hypothesis import given
from hypothesis import strategies as st
from tool_call_evaluators import EvalCase, EvalResult, Status, ToolDefinition
from tool_call_evaluators.model import CountCriterion, ExpectedCall, ExpectedOutput

SCHEMA = {"type": "object", "properties": {"id": {"type": "string"}}}


def test_nothing_is_required_and_not_given_is_not_empty():
    case = EvalCase(tool_calls=None)
    assert (case.tool_calls, case.results, case.expected_tool_calls, case.tools, case.turns) == (
        (),
        (),
        None,
        None,
        None,
    )
    assert EvalCase(expected_tool_calls=[]).expected_tool_calls == ()


def test_mappings_become_models():
    case = EvalCase(
        tool_calls=[{"name": "a", "args": {"x": 1}}, ToolCall("b")],
        expected_tool_calls=[{"name": "a", "args": None, "result": {"ok": 1}}],
        tools=[{"name": "a", "parameters": SCHEMA}],
        knowledge=["one", "two"],
        tasks=["book"],
        tool_calls_count={"a": [">=", 1]},
        tool_outputs=[{"name": "a", "output": {"x": 1}}],
        turns=[{"user_text": "hi"}],
        results=[{"evaluator": "x", "score": 1}],
    )
    found = {item.name: getattr(case, item.name) for item in fields(case)}
    assert {name: value for name, value in found.items() if value} == {
        "tool_calls": (ToolCall("a", {"x": 1}), ToolCall("b")),
        "expected_tool_calls": (ExpectedCall("a", None, result={"ok": 1}),),
        "tools": (ToolDefinition("a", parameters=SCHEMA),),
        "knowledge": "one\n\ntwo",
        "tasks": ("book",),
        "tool_calls_count": {"a": CountCriterion(">=", 1)},
        "tool_outputs": (ExpectedOutput("a", '{"x": 1}'),),
        "turns": (EvalCase(user_text="hi"),),
        "results": (EvalResult("x", 1),),
    }
    assert replace(case, user_text="hello").tool_calls == case.tool_calls


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"tool_calls": [{"arguments": {}}]}, r"tool_calls\[0\]: name is missing"),
        ({"tool_calls": [{"name": ""}]}, r"tool_calls\[0\]: name must be a non-empty string"),
        ({"tool_calls": [{"name": "a", "arguments": [1]}]}, r"arguments must be an object, got a list"),
        ({"tool_calls": [ToolCall("a"), "b"]}, r"tool_calls\[1\]: expected an object, got .b."),
        ({"tool_calls": {"name": "a"}}, "tool_calls: expected a list, got an object"),
        ({"expected_tool_calls": "a"}, "expected_tool_calls: expected a list"),
        ({"expected_tool_calls": [{"arguments": {}}]}, r"expected_tool_calls\[0\]: name is missing"),
        (
            {"expected_tool_calls": [{"name": "a"}, {"name": "a", "source": "otel_trace"}]},
            r"expected_tool_calls\[1\].source: unknown key; accepted are name, arguments, args, result, error",
        ),
        ({"tools": [{}]}, r"tools\[0\]: name must be"),
        ({"tasks": "book"}, "tasks: expected a list of strings, got one string"),
        ({"tool_calls_order": ["a", 1]}, r"tool_calls_order\[1\]: expected a string"),
        ({"tool_calls_count": {"a": ["~", 1]}}, r"tool_calls_count.a\[0\]: unknown '~'; accepted are >, >="),
        ({"tool_calls_count": {"a": [">", True]}}, r"tool_calls_count.a\[1\]: expected a number"),
        ({"tool_calls_count": {"a": 1}}, r"tool_calls_count.a: expected \[comparator, times\], got 1"),
        ({"tool_calls_count": ["a"]}, "tool_calls_count: expected an object"),
        ({"tool_outputs": [{"name": "a"}]}, r"tool_outputs\[0\]: output is missing"),
        ({"turns": [{"tool_calls": [3]}]}, r"turns\[0\]: tool_calls\[0\]: expected an object"),
        ({"turns": [{"usertext": "x"}]}, r"turns\[0\]: .*usertext"),
        ({"history": [{"x": 1}]}, r"history\[0\]: unknown field 'x'"),
    ],
)
def test_what_is_of_another_shape_is_refused_by_name(fields, complaint):
    with pytest.raises(ValueError, match=complaint):
        EvalCase(**fields)


FUNCTION = {"name": "find", "description": "Finds.", "parameters": SCHEMA}
FIND = ToolDefinition("find", "Finds.", SCHEMA)


@pytest.mark.statement(146, 251)
@pytest.mark.parametrize(
    "form",
    [
        FUNCTION,
        {"type": "function", **FUNCTION},
        {"type": "function", "function": FUNCTION},
        {"name": "find", "description": "Finds.", "inputSchema": SCHEMA},
        {"name": "find", "description": "Finds.", "input_schema": SCHEMA},
        FIND.to_dict(),
        FIND.to_openai(),
    ],
)
def test_tool_definitions_from_every_dialect(form):
    assert ToolDefinition.from_dict(form) == FIND == ToolDefinition.of("find", "Finds.", SCHEMA)
    assert ToolDefinition.from_dict({**FUNCTION, "strict": True}).strict


@pytest.mark.statement(257)
def test_a_tool_definition_in_the_form_of_openai():
    assert FIND.to_openai() == {"type": "function", "function": FUNCTION}
    assert replace(FIND, strict=True).to_openai() == {"type": "function", "function": {**FUNCTION, "strict": True}}
    for parameters in ({}, {"type": "object"}):
        bare = ToolDefinition.of("ping", "Pings", parameters).to_openai()
        assert bare["function"]["parameters"] == {"type": "object", "properties": {}}


@pytest.mark.parametrize(
    ("result", "status", "measured"),
    [
        (EvalResult("x", 0.5), Status.SCORED, True),
        (EvalResult("x", 0.5, passed=True), Status.PASSED, True),
        (EvalResult("x", 0.5, passed=False), Status.FAILED, True),
        (EvalResult("x", label="rude"), Status.SCORED, True),
        (EvalResult("x", 0.0, label="rude"), Status.SCORED, True),
        (EvalResult.skipped("x", "why"), Status.SKIPPED, False),
        (EvalResult.unseen("x", "why"), Status.SKIPPED, False),
        (EvalResult.errored("x", "how"), Status.ERRORED, False),
    ],
)
def test_the_status_follows_from_the_verdict(result, status, measured):
    assert (result.status, result.measured) == (status, measured)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"passed": True},
        {"passed": True, "label": "rude"},
        {"score": 1.0, "status": Status.SKIPPED},
        {"passed": False, "status": Status.ERRORED},
    ],
)
def test_a_result_cannot_contradict_itself(fields):
    with pytest.raises(ValueError):
        EvalResult("x", **fields)


@given(
    st.one_of(
        st.builds(
            EvalResult,
            st.text(min_size=1),
            score=st.floats(0, 1),
            passed=st.none() | st.booleans(),
            threshold=st.none() | st.floats(0, 1),
            reason=st.text(),
            details=st.dictionaries(st.text(), st.integers() | st.lists(st.text())),
            label=st.none() | st.text(),
            version=st.text(),
        ),
        st.builds(EvalResult.skipped, st.text(), st.text(), version=st.text()),
        st.builds(EvalResult.errored, st.text(), st.text()),
    )
)
def test_results_survive_json(result):
    assert EvalResult.from_dict(json.loads(json.dumps(result.to_dict()))) == result


# ── JSON round trips ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_case_comes_back_from_json_whole():
    case = EvalCase(
        tool_calls=[{"name": "a", "arguments": {"x": 1}, "result": "r", "id": "1", "metadata": {"ms": 5}}],
        expected_tool_calls=[],
        tools=[{"name": "a", "parameters": {"type": "object"}, "strict": True}],
        user_text="u",
        reasoning_steps=["first", "then"],
        response_text="",
        calls_unseen="why",
        expected_response={"status": ["sent"]},
        response_contains="s",
        expected_behavior="b",
        user_goal="g",
        knowledge=["k", "l"],
        profile="Impatient.",
        tasks=[],
        constraints=["c"],
        tool_calls_order=["a"],
        tool_calls_count={"a": [">=", 1]},
        tool_outputs=[{"name": "a", "output": "r"}],
        resources={"seconds": 1.5, "input_tokens": 7, "models": {"m": {"input_tokens": 7}}},
        prices={"m": {"input": 1.0, "output": 2.0}},
        tool_classes={"reads": ["get_*"], "writes": ["a"]},
        expected_agents=["orders", {"name": "payroll", "at_most": 0}, {"name": "refunds", "given": ["ORD-1"]}],
        forbidden_calls=[{"name": "delete_*"}],
        history=[{"user_text": "before"}],
        turns=[{"results": [EvalResult("m", 0.5, passed=True, threshold=0.5, label="l")]}],
        results=[EvalResult.skipped("n", "why")],
    )
    assert EvalCase.from_dict(json.loads(json.dumps(case.to_dict()))) == case
    assert set(case.to_dict()) == {item.name for item in fields(EvalCase)} - {"tree"}


def test_what_was_not_given_is_left_out_and_what_is_empty_is_not():
    assert EvalCase().to_dict() == {"tool_calls": []}
    assert EvalCase(expected_tool_calls=[], turns=[], tasks=[]).to_dict() == {
        "tool_calls": [],
        "expected_tool_calls": [],
        "turns": [],
        "tasks": [],
    }


# ── A2E tools ───────────────────────────────────────────────────────────────────────────────────────────────────

A2E_PARAMETERS = [
    {"name": "id", "type": "string", "description": "The order.", "required": True},
    {"name": "how", "type": "string", "enum": ["mail", "phone"], "required": False},
    {
        "name": "address",
        "type": "object",
        "required": True,
        "properties": [{"name": "city", "type": "string", "required": True}, {"name": "zip", "type": "integer"}],
    },
]


def as_map(parameters):
    return {
        parameter["name"]: {
            **{key: value for key, value in parameter.items() if key not in ("name", "properties")},
            **({"properties": as_map(parameter["properties"])} if "properties" in parameter else {}),
        }
        for parameter in parameters
    }


@pytest.mark.parametrize("parameters", [A2E_PARAMETERS, as_map(A2E_PARAMETERS)], ids=["list", "map"])
def test_an_a2e_descriptor_becomes_a_json_schema(parameters):
    descriptor = {"name": "notify", "description": "Tells.", "input_parameters": parameters, "idempotent": True}
    tool = ToolDefinition.from_dict(descriptor)
    assert (tool.name, tool.description, tool.strict) == ("notify", "Tells.", False)
    assert tool.parameters == {
        "type": "object",
        "properties": {
            "id": {"type": "string", "description": "The order."},
            "how": {"type": "string", "enum": ["mail", "phone"]},
            "address": {
                "type": "object",
                "properties": {"city": {"type": "string"}, "zip": {"type": "integer"}},
                "required": ["city"],
            },
        },
        "required": ["id", "address"],
    }
    assert ToolDefinition.from_dict(tool.to_dict()) == tool


@pytest.mark.parametrize(
    ("descriptor", "complaint"),
    [
        ({"input_parameters": []}, "name must be a non-empty string"),
        ({}, "name must be a non-empty string, got None"),
        ({"name": "t", "input_parameters": ["id"]}, "input_parameters: expected an object, got .id."),
        ({"name": "t", "input_parameters": [{"type": "string"}]}, "name must be a non-empty string, got None"),
        (
            {"name": "t", "input_parameters": [{"name": "a", "properties": [1]}]},
            "input_parameters.a: expected an object, got 1",
        ),
    ],
)
def test_what_is_no_a2e_descriptor(descriptor, complaint):
    with pytest.raises(ValueError, match=complaint):
        ToolDefinition.from_dict(descriptor)


def test_a_notebook_shows_a_result_as_one_line_of_escaped_html():
    result = EvalResult("tool_error", 0.5, False, 1.0, "call 1 (<script>): no result.")
    assert result._repr_html_() == "<b>tool_error</b> failed 0.5 call 1 (&lt;script&gt;): no result."
