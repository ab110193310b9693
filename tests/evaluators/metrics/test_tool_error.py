"""tool_error: what counts as a failed call."""

from __future__ import annotations

import pytest
from tool_call_evaluators import EvalCase, ToolError


def evaluate(*calls, **options):
    return ToolError(**options).evaluate(EvalCase(tool_calls=[{"name": "t", **call} for call in calls]))


@pytest.mark.parametrize(
    "call",
    [
        {"result": "ok", "error": "timed out"},
        {"result": None},
        {},
        {"result": ""},
        {"result": " \n\t"},
        {"result": "null"},
        {"result": "\n null\t"},
        {"result": '{"\\u0065rror": "an escape in the key"}'},
        {"result": '{"error": "no such order"}'},
        {"result": '{"error": ""}'},
        {"result": '{"error": false}'},
        {"result": {"error": {"code": 4}}},
    ],
)
def test_failed(call):
    assert evaluate(call).score == 0.0


@pytest.mark.parametrize(
    "call",
    [
        {"result": "ok"},
        {"result": "ok", "error": ""},
        {"result": "0"},
        {"result": "false"},
        {"result": "[]"},
        {"result": "{}"},
        {"result": '{"error": null}'},
        {"result": '{"data": {"error": "nested"}}'},
        {"result": '[{"error": "in a list"}]'},
        {"result": '{"error": '},
        {"result": "error: this is only a text"},
        {"result": '"error"'},
        {"result": "\u00a0null"},
        {"result": 'null "error"'},
    ],
)
def test_succeeded(call):
    assert evaluate(call).score == 1.0


def test_no_calls_score_1():
    result = evaluate()
    assert (result.score, result.reason) == (1.0, "0 of 0 calls succeeded.")


def test_a_predicate_may_say_more():
    def is_error(call):
        return "sorry" in call.result

    assert evaluate({"result": "sorry"}, {"result": "fine"}, is_error=is_error).score == 0.5


def test_fraction_details_and_reason():
    result = evaluate({"result": "ok"}, {"error": "boom"}, {"result": '{"error": 7}'}, {})
    assert result.score == 0.25
    assert result.details == {
        "failed": [
            {"position": 2, "name": "t", "reason": 'error "boom"'},
            {"position": 3, "name": "t", "reason": "result has error 7"},
            {"position": 4, "name": "t", "reason": "no result"},
        ]
    }
    assert result.reason == (
        '1 of 4 calls succeeded: call 2 (t): error "boom"; call 3 (t): result has error 7; call 4 (t): no result.'
    )
