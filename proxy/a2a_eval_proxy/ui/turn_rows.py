"""Turns as rows of a list."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tool_call_evaluators.report.model import seconds_between
from tool_call_evaluators.report.wording import one_line
from tool_call_evaluators.visibility import Calls

from ..store.base import TurnJson
from ..store.turn_summary import turn_summary

_MAX_TEXT = 60
_MAX_CHIPS = 6


@dataclass(frozen=True, slots=True)
class ToolChip:
    """A called tool. `failed`: the call has an error."""

    name: str
    failed: bool


@dataclass(frozen=True, slots=True)
class TurnRow:
    """`verdict` is that of the results, or the status of a turn without results yet: `open`, `pending`.

    `seconds` is None while a turn is open. `more` is the number of calls that have no chip; `unseen` says
    that there may be unknown ones.
    """

    turn_id: str
    started_at: str
    verdict: str
    case_id: str | None
    text: str
    tools: tuple[ToolChip, ...]
    more: int
    unseen: bool
    seconds: float | None
    annotated: str
    """How people assessed it, in words; "" without annotations."""


def turn_row(turn: TurnJson) -> TurnRow:
    """The row of a turn, which may be in short (`store.turn_summary`)."""
    summary = turn if "verdict" in turn else turn_summary(turn)
    calls = summary["tool_calls"][:_MAX_CHIPS]
    return TurnRow(
        summary["turn_id"],
        summary["started_at"],
        summary["verdict"] if summary["status"] == "done" else summary["status"],
        summary["case_id"],
        one_line(summary["user_text"], _MAX_TEXT),
        tuple(ToolChip(one_line(call["name"], _MAX_TEXT), call["error"]) for call in calls),
        summary["tool_call_count"] - len(calls),
        summary["status"] == "done" and summary["calls"] == Calls.UNKNOWN,
        seconds_between(summary["started_at"], summary["ended_at"]),
        _annotated(summary.get("assessments", ())),
    )


def _annotated(assessments: Sequence[str]) -> str:
    counts = Counter(assessments)
    return ", ".join(f"{counts[kind]} {kind}" for kind in ("right", "wrong") if counts[kind])
