"""Whether a turn without calls says that its calls could not be seen."""

from __future__ import annotations

import pytest
from a2a_eval_proxy.capture.visibility import NOT_ASKED, CallVisibility
from a2a_eval_proxy.turn import Turn
from a2a_tool_capture import Finding, ToolCall


def closed(*, kept_from_asking: bool, calls: bool = False) -> Turn:
    turn = Turn(turn_id="1", run="r", agent="http://agent", binding="JSONRPC", protocol_version="1.0", started_at=0.0)
    turn.state = "TASK_STATE_COMPLETED"
    turn.capture.declared = True
    turn.tool_calls = [ToolCall("search", {})] if calls else []
    turn.findings = [Finding(NOT_ASKED, "a webhook")] if kept_from_asking else []
    return turn


@pytest.mark.parametrize(
    ("code", "added"), [("dialect_not_read", True), ("uri_not_listed", False), ("id_reused", False)]
)
def test_a_turn_of_an_agent_that_declares_the_extension(code: str, added: bool) -> None:
    """Parts in the form of another framework are a sign of calls; unread reports say so themselves."""
    turn = closed(kept_from_asking=False)
    turn.findings = [Finding(code, "in the response")]
    CallVisibility(negotiate="declared", dialects=False).judge(turn)
    assert ("no_capture" in [finding.code for finding in turn.findings]) is added


@pytest.mark.parametrize(("kept_from_asking", "shown_by"), [(True, ""), (False, "extension")])
def test_a_turn_in_which_the_agent_was_not_asked(kept_from_asking: bool, shown_by: str) -> None:
    """Also where earlier turns had calls: they were asked."""
    visibility = CallVisibility(negotiate="declared", dialects=False)
    visibility.judge(closed(kept_from_asking=False, calls=True))
    turn = closed(kept_from_asking=kept_from_asking)
    visibility.judge(turn)
    assert ("no_capture" in [finding.code for finding in turn.findings]) is kept_from_asking
    assert turn.shown_by == shown_by


@pytest.mark.parametrize(
    ("first", "then", "shown_by"),
    [(True, True, "earlier_calls"), (False, True, "earlier_calls"), (True, False, "")],
)
def test_earlier_calls_show_that_there_would_be_more_if_the_agent_is_asked_no_less(
    first: bool, then: bool, shown_by: str
) -> None:
    visibility = CallVisibility(negotiate="never", dialects=False)
    turns = [closed(kept_from_asking=False, calls=calls) for calls in (True, False)]
    for asked, turn in zip((first, then), turns, strict=True):
        turn.capture.declared, turn.capture.requested_by_client = False, asked
        visibility.judge(turn)
    assert turns[1].shown_by == shown_by
