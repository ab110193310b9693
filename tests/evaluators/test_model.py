"""EvalCase, EvalResult and ToolDefinition: what they take, what they keep."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, replace

import pytest
from a2a_tool_capture import ToolCall
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from tool_call_evaluators import EvalCase, EvalResult, Status, ToolDefinition, arguments_as, result_as
from tool_call_evaluators.model import CountCriterion, ExpectedCall, ExpectedOutput
from tool_call_evaluators.type_conversion import result_json

SCHEMA = {"type": "object", "properties": {"id": {"type": "string"}}}


EMPTY = {"expected_tool_calls": [], "turns": [], "tasks": []}


@pytest.mark.parametrize("given", [{}, EMPTY])
def test_nothing_is_required_and_not_given_is_not_empty(given):
    case = EvalCase(tool_calls=None, **given)
    assert (case.tool_calls, case.results, case.tools) == ((), (), None)
    assert (case.expected_tool_calls, case.turns, case.tasks) == (((), (), ()) if given else (None, None, None))
    assert case.to_dict() == {"tool_calls": [], **given}


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


@pytest.mark.statement(230)
def test_a_case_comes_back_from_json_whole():
    case = EvalCase(
        tool_calls=[{"name": "a", "arguments": {"x": 1}, "result": '{"a":  1} ', "id": "1", "metadata": {"ms": 5}}],
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
        world={"seen": None},
        expected_world={"equals": None},
        approvals=[{"name": "a", "arguments": None, "id": "2"}],
        expected_approval={"tool": "a"},
        expected_skills=["refunds"],
        forbidden_skills=[],
        history=[{"user_text": "before"}],
        turns=[{"results": [EvalResult("m", 0.5, passed=True, threshold=0.5, label="l")]}],
        results=[EvalResult.skipped("n", "why")],
    )
    assert EvalCase.from_dict(json.loads(json.dumps(case.to_dict()))) == case
    assert case.to_dict()["tool_calls"][0]["result"] == '{"a":  1} '
    assert set(case.to_dict()) == {item.name for item in fields(EvalCase)} - {"tree"}


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


class Order(BaseModel):
    id: str
    count: int = 1


@dataclass
class Plain:
    id: str
    count: int = 1


@pytest.mark.statement(235)
@pytest.mark.parametrize("model", [Order, Plain])
def test_arguments_as_a_model_or_a_dataclass(model):
    assert arguments_as(ToolCall("order", {"id": "7", "count": 2.0}), model) == model(id="7", count=2)


@pytest.mark.statement(237)
@pytest.mark.parametrize(
    ("convert", "call", "problem"),
    [
        (arguments_as, ToolCall("order", {"id": "7", "count": 2.5}), "count"),
        (arguments_as, ToolCall("order", None), "order: the arguments are not known"),
        (result_as, ToolCall("order", result="sent"), "Order"),
    ],
)
def test_what_does_not_fit_or_is_unknown(convert, call, problem):
    with pytest.raises(ValueError, match=problem):
        convert(call, Order)


@pytest.mark.statement(231)
@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Order(id="ü"), '{"id":"ü","count":1}'),
        (Plain("7"), '{"id":"7","count":1}'),
        ({"a": [1, 2.5, None, "x\ny"]}, '{"a":[1,2.5,null,"x\\ny"]}'),
        ("sent", '"sent"'),
        pytest.param(None, "null", marks=pytest.mark.statement(232)),
    ],
)
def test_a_value_as_the_json_text_of_a_result(value, text):
    assert result_json(value) == text
    if not isinstance(value, str):  # `result_as` gives a string as it is
        assert result_as(ToolCall("order", result=text), type(value)) == value


@pytest.mark.parametrize(
    ("text", "model", "expected"),
    [
        pytest.param('{"id": "7"}', Order, Order(id="7"), marks=pytest.mark.statement(233)),
        pytest.param('[{"id": "7"}]', list[Order], [Order(id="7")], marks=pytest.mark.statement(234)),
        ("3", int, 3),
        ("3", str, "3"),
        ("sent", str, "sent"),
        ('{"id": "7"}', str, '{"id": "7"}'),
        ("sent", str | None, "sent"),
        ("null", int | None, None),
        *(pytest.param(text, Order, None, marks=pytest.mark.statement(236)) for text in (None, "", " \n")),
    ],
)
def test_results(text, model, expected):
    assert result_as(ToolCall("order", result=text), model) == expected
