"""Whether a turn failed, and whether its tool calls are known. All that scores, compares or shows turns asks here."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from itertools import zip_longest
from typing import Any, NamedTuple

from a2a_tool_capture.models import Finding, Severity, ToolCall, calls_unknown_by, epoch_seconds
from a2a_tool_capture.wire import FAILED_STATES, INTERRUPTED_STATES, SETTLED_STATES

from .model import EvalResult

TURN_SUCCEEDED = "turn_succeeded"
"""The name of the additional result of a turn that failed, and of one whose case says in which state it ends."""

UNEXPECTED_STATE = "unexpected_state"
"""The code of the failure of a turn that ended in another state than its case says."""

AUTH_REQUIRED = "TASK_STATE_AUTH_REQUIRED"

HISTORY_LOST = "history_lost"
"""The finding of a turn that was to continue a conversation which the agent keeps, and began another one."""

AGENT_UNREACHABLE = "agent_unreachable"
"""The finding of a turn that something else than the agent answered, or nothing: a gateway, a login, a web page."""


def calls_in(turn: Mapping[str, Any]) -> list[ToolCall]:
    """The tool calls of a turn (JSON form), with the times at which they were seen."""
    return [_call(*one) for one in zip_longest(turn["tool_calls"], turn.get("call_times", ()))]


def approvals_in(
    approvals: Sequence[Mapping[str, Any]] | None, state: str | None
) -> Sequence[Mapping[str, Any]] | None:
    """The calls that wait for approval at the end of a turn, given those that its question names; None where it asks,
    and names none."""
    return () if approvals is None and state not in INTERRUPTED_STATES else approvals


def _call(data: Mapping[str, Any], times: Mapping[str, Any] | None) -> ToolCall:
    call = ToolCall.from_dict(data)
    if times is None or times["source"] != "protocol":
        return call
    first, result = epoch_seconds(times["first_seen_at"]), times["result_seen_at"]
    return replace(call, first_seen_at=first, result_seen_at=None if result is None else epoch_seconds(result))


class TurnFailure(NamedTuple):
    """How a turn failed: a code (of the finding, or `task_failed`, `task_rejected`, `task_canceled`,
    `unexpected_state`) and a sentence."""

    code: str
    message: str


def state_name(state: str) -> str:
    """A state as A2A 0.3 calls it, such as `input-required`."""
    return state.removeprefix("TASK_STATE_").lower().replace("_", "-")


def turn_failure_of(
    state: str | None, response_text: str, findings: Sequence[Finding], expected: Collection[str] = ()
) -> TurnFailure | None:
    """How a closed turn failed, whatever its scores; None if it did not.

    `expected`: the states of which its case says that it ends in one of them. The reason of a failed task, if the agent
    states one, is the finding with the code of the failure.
    """
    if state in FAILED_STATES:
        code = f"task_{state_name(state or '')}"
        response_text = next((finding.message for finding in findings if finding.code == code), "")
    said = f": {response_text}" if response_text else ""
    if state in FAILED_STATES and not expected:
        return TurnFailure(code, f"the task ended as {state}{said}")
    for finding in findings:
        if finding.severity is Severity.ERROR or finding.code == "incomplete":
            return TurnFailure(finding.code, f"{finding.code}: {finding.message}")
    if expected and state not in expected:
        wanted = f"expected the task to end as {' or '.join(map(state_name, expected))}, but "
        ended = f"it ended as {state_name(state)}" if state else "the answer is a message without a task"
        return TurnFailure(UNEXPECTED_STATE, f"{wanted}{ended}{said}")
    return None


def turn_result(
    state: str | None, response_text: str, findings: Sequence[Finding], expected: Collection[str] = ()
) -> EvalResult | None:
    """The additional result `turn_succeeded` of a turn that failed, or for which `expected` states are known."""
    failure = turn_failure_of(state, response_text, findings, expected)
    if failure is not None:
        return EvalResult(
            TURN_SUCCEEDED, score=0.0, passed=False, threshold=1.0, reason=failure.message, label=failure.code
        )
    if not expected or state is None:
        return None
    reason = f"The task ended as {state_name(state)}, as expected."
    return EvalResult(TURN_SUCCEEDED, score=1.0, passed=True, threshold=1.0, reason=reason)


NO_CAPTURE = "no_capture"
"""The finding of a turn without calls if nothing shows that calls would have been captured."""

NOT_RECORDED = "calls_not_recorded"
"""The finding of a turn whose agent says that it may have made calls that it did not record."""

_CLIENT_GONE = "client_gone"
"""The finding of a turn whose answer may not have come to its end."""

_UNSTATED = "unstated"
"""The evidence of a turn of an earlier version: there, only `NO_CAPTURE` says that calls are unknown."""


class Calls(StrEnum):
    """What is known of the tool calls of a turn."""

    SEEN = "seen"
    """They are the captured ones."""
    NONE_MADE = "none_made"
    """The agent made no call: something shows that it would have been captured."""
    UNKNOWN = "unknown"
    """There may be others than the captured ones, if any were captured."""


class Visibility(NamedTuple):
    """What is known of the tool calls of a turn, and why.

    `evidence` of calls that are seen is `tool_calls`; of none made, what would have shown them (`extension`, `spans`,
    `dialect`, `earlier_calls`, or `outputs`, which a program or a file lists); of unknown ones, the code of the finding
    or failure, which `message` describes.
    """

    calls: Calls
    evidence: str
    message: str = ""

    @property
    def unknown(self) -> str | None:
        """Why the calls are unknown, as the reason of a skipped result; None if they are known."""
        return f"the tool calls are unknown: {self.message}" if self.calls is Calls.UNKNOWN else None

    def to_dict(self) -> dict[str, str]:
        """The keys of a turn in JSON that state it."""
        return {"calls": str(self.calls), "calls_evidence": self.evidence}


SEEN = Visibility(Calls.SEEN, "tool_calls")


def visibility_of(state: str | None, calls: int, findings: Sequence[Finding], shown_by: str) -> Visibility:
    """The visibility of a turn with that number of captured `calls`.

    `shown_by`: the evidence that calls would have been captured; "" without any.

    A turn that the agent failed may have lost calls with its answer, unless the task failed after calls were captured,
    or was rejected, which is an intended end.
    """
    if findings or state in FAILED_STATES:
        unknown = _unknown_by(state, calls, findings)
        if unknown is not None:
            return unknown
    if calls:
        return SEEN
    if shown_by:
        return Visibility(Calls.NONE_MADE, shown_by)
    return Visibility(Calls.UNKNOWN, NO_CAPTURE, "nothing shows that tool calls would have been captured")


def _unknown_by(state: str | None, calls: int, findings: Sequence[Finding]) -> Visibility | None:
    """The visibility if the state or a finding says that there may be more calls than the captured ones, else None."""
    failure = turn_failure_of(state, "", findings)
    if failure is not None and state != "TASK_STATE_REJECTED" and not (calls and state in FAILED_STATES):
        return Visibility(Calls.UNKNOWN, failure.code, f"they may be lost, because the turn failed: {failure.message}")
    by_code = {one.code: one for one in findings if one.severity is not Severity.INFO}
    if (unread := calls_unknown_by(findings)) is not None:
        return Visibility(Calls.UNKNOWN, unread.code, unread.message)
    if _CLIENT_GONE in by_code and state not in SETTLED_STATES:
        return Visibility(Calls.UNKNOWN, _CLIENT_GONE, by_code[_CLIENT_GONE].message)
    if NO_CAPTURE in by_code and not calls:
        return Visibility(Calls.UNKNOWN, NO_CAPTURE, by_code[NO_CAPTURE].message)
    return None


def stated_evidence(turn: Mapping[str, Any]) -> str:
    """The evidence, in a turn's JSON form, that calls would have been captured; "" if it states none."""
    if "calls" not in turn:
        return _UNSTATED
    return str(turn["calls_evidence"]) if turn["calls"] == Calls.NONE_MADE else ""


def visibility_in(turn: Mapping[str, Any]) -> Visibility:
    """The visibility of a turn in its JSON form."""
    findings = [Finding.from_dict(finding) for finding in turn["findings"]]
    return visibility_of(turn["state"], len(turn["tool_calls"]), findings, stated_evidence(turn))
