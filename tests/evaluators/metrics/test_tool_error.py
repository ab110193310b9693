"""tool_error: what counts as a failed call."""

from __future__ import annotations

import pytest
from tool_call_evaluators import EvalCase, Status, SuiteError, parse_suite
from tool_call_evaluators.matching import patterns
from tool_call_evaluators.metrics.tool_error import ToolError


def evaluate(*calls, **options):
    return ToolError(**options).evaluate(EvalCase(tool_calls=[{"name": "t", **call} for call in calls]))


@pytest.mark.parametrize(
    "call",
    [
        pytest.param({"result": "ok", "error": "timed out"}, marks=pytest.mark.statement(191)),
        pytest.param({"result": None}, marks=pytest.mark.statement(187)),
        {},
        pytest.param({"result": ""}, marks=pytest.mark.statement(187)),
        pytest.param({"result": " \n\t"}, marks=pytest.mark.statement(187)),
        {"result": "null"},
        {"result": "\n null\t"},
        {"result": '{"\\u0065rror": "an escape in the key"}'},
        {"result": '{"error": "no such order"}'},
        {"result": '{"error": ""}'},
        {"result": '{"error": false}'},
        {"result": {"error": {"code": 4}}},
        {"result": {"content": [{"type": "text", "text": "no seat"}], "isError": True}},
        {"result": '{"is\\u0045rror": true}'},
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
        {"result": {"content": [{"type": "text", "text": "a seat"}], "isError": False}},
        {"result": '{"isError": "true"}'},
        {"result": '{"data": {"isError": true}}'},
    ],
)
def test_succeeded(call):
    assert evaluate(call).score == 1.0


@pytest.mark.statement(189, 190)
@pytest.mark.parametrize("detector", ["HTTP 5\\d\\d", lambda result: "HTTP 500" in result])
def test_a_detector_of_the_result_counts_on_top_of_the_defaults(detector):
    result = evaluate(
        {"result": "HTTP 500: try later"}, {"result": "fine"}, {"result": ""}, {"result": "2"}, error_detector=detector
    )
    assert result.score == 0.5
    why = "the result matches 'HTTP 5\\\\d\\\\d'" if detector == "HTTP 5\\d\\d" else "error_detector returned true"
    assert [entry["reason"] for entry in result.details["failed"]] == [why, "no result"]


def test_a_detector_of_a_suite_is_a_pattern():
    suite = parse_suite('{suite: x, evaluators: [{tool_error: {errorDetector: "HTTP 5"}}]}')
    assert suite.build_evaluators() == [ToolError(error_detector="HTTP 5")]
    with pytest.raises(SuiteError, match=r"tool_error: option error_detector: '\(' does not compile"):
        parse_suite('{suite: x, evaluators: [{tool_error: {errorDetector: "("}}]}')


def test_a_detector_that_takes_too_long_is_an_error_of_the_evaluator(monkeypatch):
    monkeypatch.setattr(patterns, "MAX_MATCH_S", 0.1)
    result = evaluate({"result": "a" * 5_000 + "!"}, error_detector="(a|a)*$")
    assert result.status is Status.ERRORED
    assert "took more than" in result.reason


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
