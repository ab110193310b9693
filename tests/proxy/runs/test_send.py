"""`send`: what is printed of a turn."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from a2a_eval_proxy.features.send.transcript import turn_json, turn_text
from a2a_tool_capture import Finding, Severity, ToolCall
from a2a_tool_capture.models import CapturedTurn

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


def captured(*calls: ToolCall, text: str = "", **more: Any) -> CapturedTurn:
    fields = {
        "user_text": "hello",
        "text": text,
        "tool_calls": calls,
        "findings": (),
        "state": "TASK_STATE_COMPLETED",
        "task_id": "t-1",
        "context_id": "c-1",
        "declared": True,
        "binding": "JSONRPC",
        "protocol_version": "1.0",
        "started_at": BEGAN,
        "first_event_at": BEGAN,
        "ended_at": BEGAN + timedelta(milliseconds=120),
    }
    return CapturedTurn(**{**fields, **more})


FOUND = ToolCall(id="1", name="lookup", arguments={"id": "A-1"}, result="shipped")
FAILED = ToolCall(id="2", name="mail", arguments={}, error="no such\x1b address")


def test_calls_come_before_the_response() -> None:
    assert turn_text(captured(FOUND, FAILED, text="It is shipped.")) == (
        '→ lookup(id="A-1")\n  shipped\n→ mail()\n  error: no such\N{SYMBOL FOR ESCAPE} address\nIt is shipped.\n'
        "\ncompleted, 2 tool calls, 120 ms\ncontinue with: --conversation c-1"
    ).replace("\N{SYMBOL FOR ESCAPE}", transcript_escape())


def transcript_escape() -> str:
    """What stands for an escape character, which would steer the terminal."""
    from tool_call_evaluators.texts import printable

    return printable("\x1b")


def test_the_json_has_the_names_of_a_turn() -> None:
    turn = turn_json(captured(FOUND, text="Done."))
    assert (turn["response_text"], turn["conversation_id"], turn["duration_ms"]) == ("Done.", "c-1", 120)
    assert (turn["calls"], turn["calls_evidence"]) == ("seen", "tool_calls")
    assert turn["tool_calls"][0]["result"] == "shipped"


def test_a_dialect_that_is_not_read_leaves_the_calls_unknown() -> None:
    assert turn_json(captured())["calls"] == "none_made"
    assert turn_json(captured(findings=(Finding("dialect_not_read", "", Severity.INFO),)))["calls"] == "unknown"
