"""A turn in short, for lists of many."""

from __future__ import annotations

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
