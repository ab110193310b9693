"""What a verdict reads and gives: outcomes of turns, the reasons against a run, and gates with their actual values."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from a2a_tool_capture.models import Finding, Severity

from .attempts import Attempts, AttemptStatus
from .model import EvalResult


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one planned turn, or of one conversation as a whole.

    `where` is its name in reports; outcomes with an equal `conversation` belong together; `results` is None if the
    turn was not executed. Reasons copy `case_id` and `turn_id`. `failure` describes how the turn itself failed (a
    failed task, an unreachable agent), else None. `captured`: whether any tool call was captured; None if none was
    expected. `called`: whether any was captured, expected or not. `unseen`: why evaluators of calls skipped the turn
    because its calls are unknown, else None. `user_fault` is a fault of the simulated user; `invalid`: it cut the
    conversation short. `attempt` says what the conversation shows as an attempt at its case, of which `must_pass` must
    pass (None: all).
    """

    where: str
    conversation: str
    results: Sequence[EvalResult] | None
    case_id: str | None = None
    turn_id: str | None = None
    failure: str | None = None
    captured: bool | None = None
    findings: Sequence[Severity] = ()
    called: bool = False
    unseen: str | None = None
    user_fault: Finding | None = None
    invalid: bool = False
    attempt: AttemptStatus | None = None
    must_pass: int | None = None


def attempts_in(outcomes: Iterable[Outcome]) -> list[Attempts]:
    """Those at each case of which not all attempts must pass; `planned` is the number made."""
    found: dict[tuple[str, int], dict[str, AttemptStatus]] = {}
    for outcome in outcomes:
        if outcome.must_pass is not None and outcome.attempt is not None and outcome.case_id is not None:
            found.setdefault((outcome.case_id, outcome.must_pass), {})[outcome.conversation] = outcome.attempt
    return [Attempts(case_id, made, len(made), must_pass) for (case_id, must_pass), made in found.items()]


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a run did not pass: a stable `code`, a sentence, and the metric and place it concerns, if any."""

    code: str
    message: str
    metric: str | None = None
    where: str | None = None
    case_id: str | None = None
    turn_id: str | None = None


@dataclass(frozen=True, slots=True)
class GateCheck:
    """A limit and the value that the run reached.

    `gate` is the limit's key in suites, and `metric` is None for a limit of the run. `label` and `text` write the limit
    and the actual value for people. `actual` is None if nothing was measured. `passed` is None if the limit is not met
    only for `reasons` that the suite tolerates.
    """

    metric: str | None
    gate: str
    label: str
    limit: Any
    actual: float | None
    text: str
    passed: bool | None
    reasons: tuple[Reason, ...]

    def tolerating(self, tolerate: Collection[str]) -> GateCheck:
        """This check in a suite that tolerates the codes `tolerate`."""
        tolerated = bool(self.reasons) and all(reason.code in tolerate for reason in self.reasons)
        return replace(self, passed=None) if tolerated else self

    def to_dict(self) -> dict[str, Any]:
        """JSON form without the reasons, which the verdict lists."""
        return {item.name: getattr(self, item.name) for item in fields(self) if item.name != "reasons"}


Measured = Sequence[tuple[Outcome, EvalResult]]
"""The results of a metric that have a score or a label, each with its outcome."""


def reason_of(code: str, message: str, outcome: Outcome, metric: str | None = None) -> Reason:
    return Reason(code, message, metric, outcome.where, outcome.case_id, outcome.turn_id)
