"""Turns as rows of a list."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from tool_call_evaluators.report.model import seconds_between
from tool_call_evaluators.report.wording import one_line
from tool_call_evaluators.visibility import Calls

from ..store.base import TurnJson
from ..store.turn_summary import turn_summary

_MAX_TEXT = 60
_MAX_CHIPS = 6


def turn_row(turn: TurnJson) -> dict[str, Any]:
    """A turn in short (`store.turn_summary`, which `turn` may be), and what its row shows.

    `verdict` is that of the results, or the status of a turn without results yet: `open`, `pending`. `seconds` is None
    while a turn is open. `tools` have the name of a called tool, and whether the call `failed`; `more` is the number of
    the other calls; `unseen` says that there may be unknown ones. `annotated` is how people assessed the turn, in
    words; "" without annotations.
    """
    summary = turn if "verdict" in turn else turn_summary(turn)
    calls = summary["tool_calls"][:_MAX_CHIPS]
    is_done = summary["status"] == "done"
    return {
        **summary,
        "verdict": summary["verdict"] if is_done else summary["status"],
        "text": one_line(summary["user_text"], _MAX_TEXT),
        "tools": [{"name": one_line(call["name"], _MAX_TEXT), "failed": call["error"]} for call in calls],
        "more": summary["tool_call_count"] - len(calls),
        "unseen": is_done and summary["calls"] == Calls.UNKNOWN,
        "seconds": seconds_between(summary["started_at"], summary["ended_at"]),
        "annotated": _annotated(summary.get("assessments", ())),
    }


def _annotated(assessments: Sequence[str]) -> str:
    counts = Counter(assessments)
    return ", ".join(f"{counts[kind]} {kind}" for kind in ("right", "wrong") if counts[kind])
