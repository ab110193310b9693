"""Arguments and results as the types a program works with."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from a2a_tool_capture.models import ToolCall
from pydantic import BaseModel
from tool_call_evaluators import EvalCase, arguments_as, result_as
from tool_call_evaluators.type_conversion import result_json


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


@pytest.mark.statement(230)
@pytest.mark.parametrize("text", ['{"a":  1} ', "sent", " ", "null"])
def test_a_result_is_kept_as_it_is(text):
    assert ToolCall("order", result=text).result == text
    assert EvalCase(tool_calls=[{"name": "order", "result": text}]).tool_calls[0].result == text


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
