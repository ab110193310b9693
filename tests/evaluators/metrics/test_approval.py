"""approval: which call waits, and what counts as executed before it was approved."""

from __future__ import annotations

from typing import Any

import pytest
from tool_call_evaluators import EvalCase, Status
from tool_call_evaluators.metrics.approval import Approval

ARGUMENTS = {"order": "A-1", "amount": 20}
WAITS = {"name": "refund", "arguments": ARGUMENTS, "id": "c1"}
ASKED = WAITS | {"error": "This tool call requires confirmation, please approve or reject."}
MANAGER = WAITS | {"result": '{"status": "Manager approval is required."}'}
DONE = WAITS | {"result": "refunded A-1"}
DENIED = WAITS | {"error": "This tool call is rejected."}


def evaluate(**fields: Any) -> Any:
    fields = {"expected_approval": {"tool": "refund"}, "approvals": [WAITS], **fields}
    return Approval().evaluate(EvalCase(**fields))


@pytest.mark.parametrize(
    ("fields", "score"),
    [
        ({}, 1),
        ({"tool_calls": [ASKED]}, 1),
        ({"tool_calls": [MANAGER]}, 1),
        ({"tool_calls": [WAITS | {"result": '{"pending_approval": true}'}]}, 1),
        ({"tool_calls": [WAITS]}, 1),
        ({"tool_calls": [ASKED | {"id": ""}]}, 1),
        ({"tool_calls": [{"name": "lookup", "result": "{}"}]}, 1),
        ({"expected_approval": {"tool": "re*", "arguments": {"order": "A-1"}}}, 1),
        ({"expected_approval": {"tool": "refund", "arguments": {"order": "A-2"}}}, 0),
        ({"expected_approval": {"tool": "ship"}}, 0),
        ({"approvals": []}, 0),
        ({"tool_calls": [DONE]}, 0),
        ({"tool_calls": [WAITS | {"result": '{"status": "refunded", "approved_by": "x", "pending": false}'}]}, 0),
        ({"tool_calls": [WAITS | {"result": '{"status": "refunded", "requires_approval": false}'}]}, 0),
        ({"tool_calls": [WAITS | {"error": "the bank is closed"}]}, 0),
        ({"tool_calls": [ASKED | {"id": "c2"}]}, 0),
        ({"tool_calls": [DONE], "calls_unseen": "why"}, 0),
        ({"history": [{"tool_calls": [DONE], "approvals": []}]}, 0),
        ({"history": [{"approvals": [WAITS]}, {"user_text": "approve", "tool_calls": [DONE], "approvals": []}]}, 1),
        ({"history": [{"approvals": [WAITS]}, {"user_text": "reject: no", "tool_calls": [DENIED]}]}, 1),
        ({"history": [{"approvals": [WAITS]}, {"user_text": "reject: no", "tool_calls": [DONE]}]}, 0),
    ],
)
def test_a_call_waits_and_none_was_executed(fields: dict[str, Any], score: float) -> None:
    assert evaluate(**fields).score == score


@pytest.mark.parametrize(
    "fields",
    [
        {"approvals": None},
        {"calls_unseen": "why"},
        {"history": [{"calls_unseen": "why"}]},
        {"tool_calls": [WAITS | {"id": "c2"}]},
        {"history": [{"tool_calls": [WAITS], "approvals": []}]},
        {
            "approvals": [{"name": "refund", "arguments": None}],
            "expected_approval": {"tool": "refund", "arguments": ARGUMENTS},
        },
    ],
)
def test_what_is_unknown_is_not_passed(fields: dict[str, Any]) -> None:
    result = evaluate(**fields)
    assert (result.status, result.label) == (Status.SKIPPED, "calls_unseen")


def test_the_reason_names_the_calls() -> None:
    assert evaluate().reason == 'refund(amount=20, order="A-1") waits for approval'
    assert evaluate(tool_calls=[DONE]).reason == 'executed without approval: refund(amount=20, order="A-1")'
    assert evaluate(expected_approval={"tool": "ship"}).reason == (
        'no call of ship waits for approval; refund(amount=20, order="A-1") waits'
    )
