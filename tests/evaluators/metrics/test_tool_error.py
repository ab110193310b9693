"""tool_error: what counts as a failed call."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from a2a_tool_capture.models import ToolCall, ToolCallSource
from tool_call_evaluators import EvalCase, Status, SuiteError, get_evaluator, parse_suite
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


TRACE = ToolCallSource.OTEL_TRACE
NAMED = ToolCall("lookup", None, source=TRACE)
WHOLE = ToolCall("lookup", {"id": 1}, result="found", source=TRACE)
FAILED = ToolCall("lookup", None, error="down", source=TRACE)
PROTOCOL = ToolCall("lookup", {"id": 1}, source=ToolCallSource.A2A_PROTOCOL)
EXPECTED = {"name": "lookup", "arguments": {"id": 1}}
OTHER = {"name": "refund", "arguments": {}}
ANY = {"name": "lookup", "arguments": None}


@pytest.mark.parametrize("source", [TRACE, ToolCallSource.A2A_PROTOCOL], ids=str)
@pytest.mark.parametrize(
    ("name", "calls", "expected", "options", "status"),
    [
        ("tool_error", [NAMED], [], {}, "skipped"),
        ("tool_error", [NAMED, WHOLE], [], {}, "passed"),
        ("tool_error", [NAMED, FAILED], [], {}, "failed"),
        ("tool_error", [PROTOCOL], [], {}, "failed"),
        *(
            (name, calls, expected, options, status)
            for name, options in (
                ("tool_trajectory", {}),
                ("tool_trajectory", {"mode": "subset"}),
                ("tool_trajectory", {"mode": "within"}),
                ("tool_call_args", {}),
                ("tool_call_args", {"argument_score": "similarity"}),
                ("tool_correctness", {"mode": "names_and_args"}),
            )
            for calls, expected, status in (
                ([NAMED], [EXPECTED], "skipped"),
                ([NAMED], [ANY], "passed"),
                ([NAMED], [{**ANY, "result": "found"}], "skipped"),
                ([WHOLE], [{**EXPECTED, "result": "found"}], "passed"),
                ([PROTOCOL], [{**EXPECTED, "result": "found"}], "failed"),
                ([NAMED], [OTHER], "failed"),
                ([NAMED], [], "failed"),
            )
        ),
        ("tool_trajectory", [NAMED], [EXPECTED], {"matcher": "ignore"}, "passed"),
        ("tool_trajectory", [WHOLE, NAMED], [EXPECTED], {}, "failed"),
        ("tool_trajectory", [WHOLE, NAMED], [EXPECTED], {"mode": "within"}, "skipped"),
        ("tool_correctness", [NAMED], [EXPECTED], {}, "passed"),
        ("tool_efficiency", [NAMED, NAMED], [], {}, "skipped"),
        ("tool_efficiency", [NAMED, ToolCall("refund", {})], [], {}, "passed"),
        ("tool_efficiency", [NAMED, NAMED], [], {"matcher": "ignore"}, "failed"),
        ("tool_call_output", [NAMED], [], {"tool_outputs": [{"name": "lookup", "output": "found"}]}, "skipped"),
        ("tool_call_output", [WHOLE, NAMED], [], {"tool_outputs": [{"name": "lookup", "output": "found"}]}, "passed"),
        ("tool_call_output", [PROTOCOL], [], {"tool_outputs": [{"name": "lookup", "output": "found"}]}, "failed"),
        ("tool_call_count", [NAMED], [], {"tool_calls_count": {"lookup": ["=", 1]}}, "passed"),
        ("tool_call_validity", [NAMED], [], {}, "skipped"),
    ],
)
def test_what_is_not_known_is_skipped(
    name: str, calls: list[ToolCall], expected: list[Any], options: dict[str, Any], status: str, source: ToolCallSource
) -> None:
    """Whoever says that the content of `NAMED` is unknown."""
    calls = [replace(NAMED, source=source) if call is NAMED else call for call in calls]
    case = EvalCase(tool_calls=calls, expected_tool_calls=expected, tools=[{"name": "lookup"}])
    result = get_evaluator(name, **options).evaluate(case)
    assert result.status == status, result.reason
    if status == "skipped" and name != "tool_call_validity":
        assert result.label == "calls_unseen"
        assert result.reason.endswith("not seen")
