"""Turns in short: one for lists of many, and the figures of many."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tool_call_evaluators.visibility import visibility_in

from .base import TurnJson
from .turn_filter import turn_verdict

_TEXT, _NAME = 200, 100
"""Characters of texts and of names."""
_MOST_CALLS = 50

_KEPT = (
    "turn_id", "run", "case_id", "conversation_id", "task_id", "state", "status",
    "started_at", "first_event_at", "ended_at",
)  # fmt: skip


def turn_summary(turn: TurnJson) -> TurnJson:
    """Ids, times, state, verdict, the beginnings of the texts, the called tools, what is known of calls, the codes of
    findings, and how people assessed the turn and its results, if they did."""
    calls = turn["tool_calls"]
    summary = {
        **{name: turn[name] for name in _KEPT},
        "user_text": _cut(turn["user_text"], _TEXT),
        "response_text": _cut(turn["response_text"], _TEXT),
        "tool_calls": [
            {"name": _cut(call["name"], _NAME), "error": bool(call["error"])} for call in calls[:_MOST_CALLS]
        ],
        "tool_call_count": len(calls),
        "calls": visibility_in(turn).calls.value,
        "findings": list(dict.fromkeys(finding["code"] for finding in turn["findings"])),
        "verdict": turn_verdict(turn["evaluations"]),
    }
    if annotations := turn.get("annotations"):
        summary["assessments"] = [annotation["assessment"] for annotation in annotations]
    return summary


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


MAX_COUNTED = 1_000
"""The newest turns that `calls` and the following figures count: they cost the same in a store of any size."""

ERRORED, FAILED = 1, 2

FigureRow = tuple[str, int, int | None, float | None]
"""Of a turn: status, number of calls, the worst of `ERRORED` and `FAILED` among its results, seconds."""


@dataclass(frozen=True, slots=True)
class TurnFigures:
    """`turns` is the number of all turns of the query; `failed` and `errored` count turns. `seconds` is sorted."""

    turns: int
    counted: int
    calls: int
    failed: int
    errored: int
    seconds: tuple[float, ...]


def turn_figures(turns: int, rows: Iterable[FigureRow]) -> TurnFigures:
    """The figures of `rows`, at most `MAX_COUNTED`, of `turns` turns."""
    counted = list(rows)
    worst = [row[2] for row in counted]
    seconds = sorted(round(row[3], 3) for row in counted if row[3] is not None)
    calls = sum(row[1] for row in counted)
    return TurnFigures(turns, len(counted), calls, worst.count(FAILED), worst.count(ERRORED), tuple(seconds))
