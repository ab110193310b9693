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


CLOSED = {**BOOK, "parameters": {**BOOK["parameters"], "additionalProperties": False}}
REFERRING = {
    "name": "book",
    "parameters": {
        "$ref": "#/$defs/trip",
        "$defs": {"trip": {"type": "object", "properties": {"city": {"type": "string"}}}},
    },
}
OLD = {
    "name": "book",
    "parameters": {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "properties": {"n": {"type": "integer"}},
    },
}
ROME, FURTHER, STRICT = {"city": "Rome"}, {"city": "Rome", "further": 1}, {"strict": True}


@pytest.mark.statement(163, 167, 168)
@pytest.mark.parametrize(
    ("calls", "options", "score"),
    [
        ([FURTHER], {"tools": [CLOSED]}, 0),
        ([FURTHER], {"tools": [{**BOOK, "strict": True}]}, 0),
        ([FURTHER], STRICT, 0),
        ([ROME], STRICT, 1),
        ([ROME], {**STRICT, "tools": [REFERRING]}, 1),
        ([{"town": "Rome"}], {**STRICT, "tools": [REFERRING]}, 0),
        ([{"n": 2.0}], {"tools": [OLD]}, 1),
        ([{"n": 2, "m": 1}], {**STRICT, "tools": [OLD]}, 0),
        ([{}], {"name": "cancel"}, 0),
        ([{}], {"tools": []}, 0),
        ([], {}, 1),
        ([], {"tools": []}, 1),
        ([{}], {"tools": None}, None),
        # unknown arguments are left out
        ([{"city": "Paris"}, None], {}, 0),
        ([ROME, None], {}, 1),
        ([None], {}, None),
        ([None], {"name": "cancel"}, 0),
    ],
)
def test_definitions_and_unknown_arguments(calls, options, score):
    result = evaluate(*calls, **options)
    assert result.score == score
    assert (result.status is Status.SKIPPED) is (score is None)


@pytest.mark.parametrize(
    ("calls", "options", "reason"),
    [
        ([{}], {"name": "cancel"}, "0 of 1 call valid: call 1 (cancel): no tool of that name is defined."),
        ([{}], {"tools": None}, "not given: tools"),
        ([FURTHER], STRICT, "'further'"),
    ],
)
def test_what_is_said_of_calls_that_are_not_valid(calls, options, reason):
    assert reason in evaluate(*calls, **options).reason
