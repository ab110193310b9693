"""Decides from a turn's state and findings whether the turn failed and whether its calls are known.

Live scoring, `evaluate` and the verdict on a run all use it, so that they agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from a2a_tool_capture.models import Finding, Severity
from a2a_tool_capture.wire import TERMINAL_STATES

from .model import EvalResult, Status

FAILED_STATES = ("TASK_STATE_FAILED", "TASK_STATE_REJECTED", "TASK_STATE_CANCELED")

TURN_SUCCEEDED = "turn_succeeded"
"""The name of the additional result of a failed turn, always `failed`."""

NO_CAPTURE = "no_capture"
"""The finding of a turn without calls if nothing shows that calls would have been captured."""

AGENT_UNREACHABLE = "agent_unreachable"
"""The finding of a turn of `run` that broke off since the agent could not be reached any more."""

UNREAD_REPORTS = (
    "malformed_entry",
    "calls_not_a_list",
    "uri_not_listed",
    "calls_not_on_artifact",
    "malformed_event",
    "too_many_calls",
)
"""Findings of tool calls that the agent reported and that were not read: the turn has more calls than are known."""

_LOST_ANSWER = frozenset({"malformed_response", "client_gone"})


class TurnFailure(NamedTuple):
    """How a turn failed: a code (of the finding, or `task_failed`, `task_rejected`, `task_canceled`) and a
    sentence."""

    code: str
    message: str


def turn_failure_of(state: str | None, response_text: str, findings: Iterable[Finding]) -> TurnFailure | None:
    """How a closed turn failed, whatever its scores; None if it did not (DESIGN, section 9)."""
    if state in FAILED_STATES:
        code = state.removeprefix("TASK_STATE_").lower()
        return TurnFailure(
            f"task_{code}", f"the task ended as {state}" + (f": {response_text}" if response_text else "")
        )
    for finding in findings:
        if finding.severity is Severity.ERROR or finding.code == "incomplete":
            return TurnFailure(finding.code, f"{finding.code}: {finding.message}")
    return None


def unseen_because(state: str | None, calls: int, findings: Iterable[Finding]) -> Finding | None:
    """The finding because of which the tool calls of a turn are unknown, or more of them than its `calls` were made.

    None if they are known. `without_vacuous_passes` handles turns that the agent failed.
    """
    for finding in findings:
        if finding.code in UNREAD_REPORTS:
            return finding
        lost = finding.code in _LOST_ANSWER and state not in TERMINAL_STATES
        if not calls and (lost or finding.code == NO_CAPTURE):
            return finding
    return None


def calls_unseen(state: str | None, calls: int, findings: Iterable[Finding]) -> str | None:
    """`unseen_because` as the reason of a skipped result."""
    finding = unseen_because(state, calls, findings)
    return None if finding is None else f"the tool calls are unknown: {finding.message}"


def failed_turn_result(failure: TurnFailure) -> EvalResult:
    """The additional result of a failed turn."""
    return EvalResult(
        TURN_SUCCEEDED, score=0.0, passed=False, threshold=1.0, reason=failure.message, label=failure.code
    )


def without_vacuous_passes(
    results: Sequence[EvalResult], readers: frozenset[str], state: str | None, failure: TurnFailure
) -> list[EvalResult]:
    """The results of a failed turn with none of `readers` (metrics that read calls) passed.

    For turns without captured calls, and for those whose answer was not read to its end: calls may be lost with it, so
    only a failed result is reliable. A task that the agent rejected ended as intended: there, no captured call means no
    call.
    """
    if state == "TASK_STATE_REJECTED":
        return list(results)
    reason = f"tool calls may be lost, because the turn failed: {failure.message}"
    return [
        EvalResult.unseen(result.evaluator, reason, version=result.version)
        if result.evaluator in readers and result.status in (Status.PASSED, Status.SCORED)
        else result
        for result in results
    ]
