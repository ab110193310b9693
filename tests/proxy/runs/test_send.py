"""`send`: what of a turn is printed when, each line once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from a2a_eval_proxy.features.send.transcript import MessageTranscript, turn_json
from a2a_tool_capture import Finding, Severity, ToolCall
from a2a_tool_capture.models import CapturedTurn
from hypothesis import given
from hypothesis import strategies as st

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


LOOKUP = ToolCall(id="1", name="lookup", arguments={"id": "A-1"})
FOUND = ToolCall(id="1", name="lookup", arguments={"id": "A-1"}, result="shipped")
FAILED = ToolCall(id="2", name="mail", arguments={}, error="no such\x1b address")


def test_calls_and_text_are_printed_as_they_come() -> None:
    transcript = MessageTranscript()
    assert transcript.update([LOOKUP], "") == '→ lookup(id="A-1")\n'
    assert transcript.update([LOOKUP], "It is ") == "It is "
    assert transcript.update([FOUND], "It is ship") == '\n→ lookup(id="A-1")\n  shipped\nship'
    assert transcript.end(captured(FOUND, FAILED, text="It is shipped.")) == (
        "\n→ mail()\n  error: no such\N{SYMBOL FOR ESCAPE} address\nped.\n"
        "\ncompleted, 2 tool calls, 120 ms\ncontinue with: --conversation c-1\n"
    ).replace("\N{SYMBOL FOR ESCAPE}", transcript_escape())


def transcript_escape() -> str:
    """What stands for an escape character, which would steer the terminal."""
    from tool_call_evaluators.texts import printable

    return printable("\x1b")


def test_a_text_that_is_replaced_is_printed_whole() -> None:
    transcript = MessageTranscript()
    transcript.update([], "Working")
    assert transcript.update([], "Done.") == "\nDone."


@pytest.mark.parametrize(
    ("turn", "line"),
    [
        (captured(state="TASK_STATE_INPUT_REQUIRED"), "continue with: --conversation c-1 --task t-1"),
        (captured(context_id="$(id)"), "continue with: --conversation '$(id)'\n"),
        (captured(context_id="a\x1b[2J"), f"continue with: --conversation 'a{transcript_escape()}[2J'\n"),
        (captured(state=None), "answered, 0 tool calls, 120 ms"),
        (captured(declared=False), "no tool calls can be seen: the agent's card does not declare"),
        (captured(findings=(Finding("odd", "it is odd", Severity.WARNING),)), "warning: odd: it is odd"),
    ],
)
def test_the_end_says_what_follows(turn: CapturedTurn, line: str) -> None:
    assert line in MessageTranscript().end(turn)


def test_without_a_conversation_there_is_nothing_to_continue() -> None:
    assert "continue" not in MessageTranscript().end(captured(context_id=""))


def test_the_json_has_the_names_of_a_turn() -> None:
    turn = turn_json(captured(FOUND, text="Done."))
    assert (turn["response_text"], turn["conversation_id"], turn["duration_ms"]) == ("Done.", "c-1", 120)
    assert (turn["calls"], turn["calls_evidence"]) == ("seen", "tool_calls")
    assert turn["tool_calls"][0]["result"] == "shipped"


def test_a_dialect_that_is_not_read_leaves_the_calls_unknown() -> None:
    assert turn_json(captured())["calls"] == "none_made"
    assert turn_json(captured(findings=(Finding("dialect_not_read", "", Severity.INFO),)))["calls"] == "unknown"


@given(st.lists(st.integers(0, 30), max_size=8), st.text("ab\n", max_size=30))
def test_however_a_text_grows_it_is_printed_once(cuts: list[int], text: str) -> None:
    transcript = MessageTranscript()
    parts = [transcript.update([], text[:cut]) for cut in sorted(cuts)]
    assert "".join([*parts, transcript.update([], text)]) == text
