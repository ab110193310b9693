"""Decides from a turn's state and findings whether the turn failed.

Live scoring, `evaluate` and the verdict on a run all use it, so that they agree.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from a2a_tool_capture.models import Finding, Severity

from .model import EvalResult

FAILED_STATES = ("TASK_STATE_FAILED", "TASK_STATE_REJECTED", "TASK_STATE_CANCELED")

TURN_SUCCEEDED = "turn_succeeded"
"""The name of the additional result of a failed turn, always `failed`."""

AGENT_UNREACHABLE = "agent_unreachable"
"""The finding of a turn of `run` that broke off since the agent could not be reached any more."""


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


def failed_turn_result(failure: TurnFailure) -> EvalResult:
    """The additional result of a failed turn."""
    return EvalResult(
        TURN_SUCCEEDED, score=0.0, passed=False, threshold=1.0, reason=failure.message, label=failure.code
    )
