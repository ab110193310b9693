"""Turns as rows of a list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from a2a_tool_capture import Finding
from tool_call_evaluators.report.model import duration
from tool_call_evaluators.report.wording import one_line
from tool_call_evaluators.turn_health import TURN_SUCCEEDED, turn_failure_of

from ..store.base import TurnJson

_MAX_TEXT = 60
_MAX_CHIPS = 6


@dataclass(frozen=True, slots=True)
class ToolChip:
    name: str
    failed: bool


@dataclass(frozen=True, slots=True)
class TurnRow:
    """`seconds` is None while a turn is open. `more` is the number of tools that have no chip."""

    turn_id: str
    started_at: str
    verdict: str
    case_id: str | None
    text: str
    tools: tuple[ToolChip, ...]
    more: int
    seconds: float | None


def turn_row(turn: TurnJson) -> TurnRow:
    """The row of a turn in its JSON form."""
    calls = turn["tool_calls"]
    return TurnRow(
        turn["turn_id"],
        turn["started_at"],
        verdict_of(turn),
        turn["case_id"],
        one_line(turn["user_text"], _MAX_TEXT),
        tuple(ToolChip(one_line(call["name"], _MAX_TEXT), call["error"] is not None) for call in calls[:_MAX_CHIPS]),
        max(0, len(calls) - _MAX_CHIPS),
        duration(turn),
    )


def verdict_of(turn: TurnJson) -> str:
    """`open`, `pending`, `failed`, `errored`, `passed`, or `unscored` if no evaluator measured anything."""
    if turn["status"] != "done":
        return str(turn["status"])
    if turn_failure_of(turn["state"], turn["response_text"], map(Finding.from_dict, turn["findings"])) is not None:
        return "failed"
    statuses = {result["status"] for result in own_results(turn)}
    worst = (status for status in ("errored", "failed") if status in statuses)
    return next(worst, "passed" if statuses - {"skipped"} else "unscored")


def own_results(turn: TurnJson) -> list[dict[str, Any]]:
    """The results of evaluators, without the one that stands for a failure of the turn itself."""
    return [result for result in turn["evaluations"] if result["evaluator"] != TURN_SUCCEEDED]
