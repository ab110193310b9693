"""Whether the tool calls of a turn are known: none made needs evidence, and what is unknown is never scored."""

from __future__ import annotations

from typing import Any

import pytest
from a2a_tool_capture.models import CALLS_UNKNOWN_BY, Finding, Severity
from support.turn_samples import call, finding, turn
from tool_call_evaluators.visibility import visibility_in, visibility_of

COMPLETED, WORKING, FAILED = "TASK_STATE_COMPLETED", "TASK_STATE_WORKING", "TASK_STATE_FAILED"
ERROR = Finding("agent_error", "HTTP status 500", Severity.ERROR)
NO_CAPTURE = Finding("no_capture", "the card does not declare it")


@pytest.mark.parametrize(
    ("state", "calls", "findings", "shown_by", "known"),
    [
        (COMPLETED, 0, [], "", ("unknown", "no_capture")),
        (COMPLETED, 0, [], "extension", ("none_made", "extension")),
        (None, 0, [], "spans", ("none_made", "spans")),
        (COMPLETED, 1, [], "", ("seen", "tool_calls")),
        (COMPLETED, 0, [NO_CAPTURE], "", ("unknown", "no_capture")),
        (COMPLETED, 1, [NO_CAPTURE], "", ("seen", "tool_calls")),
        (COMPLETED, 2, [Finding("repaired_entry", "", Severity.INFO)], "", ("seen", "tool_calls")),
        *((COMPLETED, number, [Finding(code, "")], "extension", ("unknown", code))
          for code in CALLS_UNKNOWN_BY for number in (0, 2)),
        (None, 0, [Finding("malformed_response", "not JSON")], "extension", ("unknown", "malformed_response")),
        (COMPLETED, 0, [Finding("malformed_response", "", Severity.INFO)], "extension", ("none_made", "extension")),
        (COMPLETED, 2, [Finding("malformed_event", "", Severity.INFO)], "extension", ("seen", "tool_calls")),
        (None, 0, [ERROR, Finding("malformed_response", "not JSON")], "extension", ("unknown", "agent_error")),
        (WORKING, 2, [Finding("client_gone", "the client left")], "extension", ("unknown", "client_gone")),
        ("TASK_STATE_INPUT_REQUIRED", 0, [Finding("client_gone", "")], "extension", ("none_made", "extension")),
        (WORKING, 0, [Finding("client_gone", "the client left")], "spans", ("unknown", "client_gone")),
        (None, 0, [ERROR], "extension", ("unknown", "agent_error")),
        (None, 2, [ERROR], "extension", ("unknown", "agent_error")),
        (WORKING, 1, [Finding("incomplete", "closed")], "extension", ("unknown", "incomplete")),
        (FAILED, 0, [], "extension", ("unknown", "task_failed")),
        (FAILED, 1, [], "extension", ("seen", "tool_calls")),
        (FAILED, 1, [ERROR], "extension", ("seen", "tool_calls")),
        ("TASK_STATE_REJECTED", 0, [], "extension", ("none_made", "extension")),
        ("TASK_STATE_REJECTED", 0, [], "", ("unknown", "no_capture")),
    ],
)  # fmt: skip
def test_what_is_known_of_calls(
    state: str | None, calls: int, findings: list[Finding], shown_by: str, known: tuple[str, str]
) -> None:
    found = visibility_of(state, calls, findings, shown_by)
    assert (found.calls, found.evidence) == known
    assert (found.unknown is None) is (found.calls != "unknown")


@pytest.mark.parametrize(
    ("fields", "known"),
    [
        ({"calls": "none_made", "calls_evidence": "spans"}, "none_made"),
        ({"calls": "none_made", "calls_evidence": "spans", "findings": [finding("uri_not_listed")]}, "unknown"),
        ({"calls": "unknown", "calls_evidence": "no_capture"}, "unknown"),
        ({"calls": "seen", "calls_evidence": "tool_calls", "tool_calls": [call("search")]}, "seen"),
        ({}, "none_made"),
        ({"findings": [finding("no_capture")]}, "unknown"),
    ],
)
def test_a_turn_in_json_states_it(fields: dict[str, Any], known: str) -> None:
    """One without the keys is of an earlier version, whose findings said so."""
    assert visibility_in(turn("1") | fields).calls == known
