"""tool_call_validity: names, JSON Schema, strictness."""

from __future__ import annotations

import pytest
from tool_call_evaluators import EvalCase, Status, evaluate_sync
from tool_call_evaluators.metrics.tool_call_validity import ToolCallValidity

BOOK = {
    "name": "book",
    "parameters": {
        "type": "object",
        "properties": {
            "city": {"type": "string", "enum": ["Rome", "Oslo"]},
            "nights": {"type": "integer", "minimum": 1},
            "guest": {"type": "object", "properties": {"age": {"type": "number"}}, "required": ["age"]},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["city"],
    },
}


def evaluate(*arguments, tools=(BOOK,), name="book", **options):
    calls = [{"name": name, "arguments": item} for item in arguments]
    (result,) = evaluate_sync(EvalCase(tool_calls=calls, tools=tools), [ToolCallValidity(**options)])
    return result


@pytest.mark.parametrize(
    "arguments",
    [
        {"city": "Rome"},
        {"city": "Rome", "nights": 2},
        {"city": "Rome", "nights": 2.0},  # protobuf makes floats of all numbers
        {"city": "Rome", "guest": {"age": 3.5, "name": "x"}},
        {"city": "Rome", "tags": []},
        {"city": "Rome", "further": 1},
    ],
)
def test_valid(arguments):
    assert evaluate(arguments).score == 1.0


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        pytest.param({}, "'city' is a required property", marks=pytest.mark.statement(164)),
        pytest.param(
            {"city": "Paris"}, "city: 'Paris' is not one of ['Rome', 'Oslo']", marks=pytest.mark.statement(166)
        ),
        ({"city": 3}, "city: 3 is not"),
        ({"city": None}, "city: None is not"),
        ({"city": "Rome", "nights": 1.5}, "nights: 1.5 is not of type 'integer'"),
        ({"city": "Rome", "nights": True}, "nights: True is not of type 'integer'"),
        ({"city": "Rome", "nights": 0}, "nights: 0 is less than the minimum of 1"),
        pytest.param(
            {"city": "Rome", "nights": "2"}, "nights: '2' is not of type 'integer'", marks=pytest.mark.statement(165)
        ),
        ({"city": "Rome", "guest": {}}, "guest: 'age' is a required property"),
        ({"city": "Rome", "tags": ["a", 1]}, "tags[1]: 1 is not of type 'string'"),
    ],
)
def test_invalid_says_where(arguments, error):
    result = evaluate(arguments)
    assert result.score == 0.0
    (invalid,) = result.details["invalid"]
    assert (invalid["position"], invalid["name"]) == (1, "book")
    assert invalid["errors"][0].startswith(error)


@pytest.mark.statement(169)
def test_the_fraction_and_its_reason():
    result = evaluate({"city": "Rome"}, {"city": "Paris"})
    assert result.score == 0.5
    assert result.reason == "1 of 2 calls valid: call 2 (book): city: 'Paris' is not one of ['Rome', 'Oslo']."


@pytest.mark.statement(167, 168)
def test_further_arguments_where_the_definition_is_strict():
    closed = {**BOOK, "parameters": {**BOOK["parameters"], "additionalProperties": False}}
    further = {"city": "Rome", "further": 1}
    assert evaluate(further, tools=[closed]).score == 0.0
    assert evaluate(further, tools=[{**BOOK, "strict": True}]).score == 0.0
    result = evaluate(further, strict=True)
    assert result.score == 0.0
    assert "'further'" in result.details["invalid"][0]["errors"][0]
    assert evaluate({"city": "Rome"}, strict=True).score == 1.0


def test_strict_knows_properties_that_are_defined_elsewhere():
    referring = {
        "name": "book",
        "parameters": {
            "$ref": "#/$defs/trip",
            "$defs": {"trip": {"type": "object", "properties": {"city": {"type": "string"}}}},
        },
    }
    assert evaluate({"city": "Rome"}, tools=[referring], strict=True).score == 1.0
    assert evaluate({"town": "Rome"}, tools=[referring], strict=True).score == 0.0


def test_the_draft_the_schema_names_is_the_one_that_counts():
    old = {"$schema": "http://json-schema.org/draft-04/schema#", "properties": {"n": {"type": "integer"}}}
    tool = {"name": "book", "parameters": old}
    assert evaluate({"n": 2.0}, tools=[tool]).score == 1.0
    assert evaluate({"n": 2, "m": 1}, tools=[tool], strict=True).score == 0.0


@pytest.mark.statement(163)
def test_an_unknown_tool_is_invalid():
    result = evaluate({}, name="cancel")
    assert result.score == 0.0
    assert result.reason == "0 of 1 call valid: call 1 (cancel): no tool of that name is defined."
    assert evaluate({}, tools=[]).score == 0.0


def test_no_calls_score_1_and_no_definitions_are_a_skip():
    assert evaluate().score == 1.0
    assert evaluate(tools=[]).score == 1.0
    skipped = evaluate({}, tools=None)
    assert (skipped.status, skipped.reason) == (Status.SKIPPED, "not given: tools")


def test_unknown_arguments_are_left_out():
    result = evaluate({"city": "Paris"}, None)
    assert (result.score, result.details["unknown"]) == (0.0, [2])
    assert evaluate({"city": "Rome"}, None).score == 1.0
    assert evaluate(None).status is Status.SKIPPED
    assert evaluate(None, name="cancel").score == 0.0


@pytest.mark.parametrize(
    ("schema", "error"),
    [
        ({"type": "strng"}, "ValueError: the definition of book is not a JSON Schema: 'strng' is not valid"),
        ({"properties": {"a": {"$ref": "#/$defs/gone"}}}, "ValueError: the definition of book refers to "),
        ({"properties": {"a": {"$ref": "http://127.0.0.1:9/x"}}}, "ValueError: the definition of book refers to "),
    ],
)
def test_a_definition_that_is_no_schema_is_an_error_and_nothing_is_fetched(schema, error):
    result = evaluate({"a": 1}, tools=[{"name": "book", "parameters": schema}])
    assert result.status is Status.ERRORED
    assert result.reason.startswith(error)
