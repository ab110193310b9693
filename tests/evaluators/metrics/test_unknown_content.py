"""Traces and agents without content: arguments and results are unknown. What is not known is skipped, never failed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from a2a_tool_capture.models import ToolCall, ToolCallSource
from tool_call_evaluators import EvalCase, get_evaluator

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
