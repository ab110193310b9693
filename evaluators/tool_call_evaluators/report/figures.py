"""Figures of a run: the durations of turns, and calls, errors and mismatches of each tool."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from ..attempts import Attempts, pass_rates
from .model import Report, duration, seconds_between
from .templating import plain_text


def percentile(values: Sequence[float], share: float) -> float | None:
    """The smallest value that is not below `share` of `values` (nearest rank); None without values."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)] if values else None


def turn_seconds(report: Report) -> list[float]:
    """The durations of the turns that ended."""
    return [seconds for turn in report.turns if (seconds := duration(turn)) is not None]


def attempts(report: Report) -> list[Attempts]:
    """Of each case with several attempts, planned or made."""
    return [item for item in report.attempts.values() if item.planned > 1]


def attempts_text(found: Sequence[Attempts]) -> str:
    """The cases with several attempts in one line: how many always passed, and the rates; empty without any."""
    verdicts = Counter(item.verdict for item in found)
    if not found:
        return ""
    return plain_text("attempts.txt", found=found, rates=pass_rates(found), verdicts=verdicts)


def models_usage(report: Report) -> tuple[dict[str, Any], int]:
    """The sums of the usage of the agent's models (`Turn.usage`), and the number of turns that have one."""
    stated = [turn["usage"] for turn in report.turns if turn.get("usage")]
    names = [name for name in ("input_tokens", "output_tokens", "cost") if any(name in usage for usage in stated)]
    return {name: sum(usage.get(name, 0) for usage in stated) for name in names}, len(stated)


def tool_figures(report: Report) -> list[dict[str, Any]]:
    """Each tool that was called or expected, the one with the most mismatches and errors first: its `name`, `calls`,
    `errors`, `mismatches` (unexpected, changed, moved or missing calls), and the 95th percentile of its calls (`p95`)
    in seconds, None without times."""
    calls: Counter[str] = Counter()
    errors: Counter[str] = Counter()
    times: dict[str, list[float]] = {}
    for turn in report.turns:
        for call in turn["tool_calls"]:
            name = call["name"]
            calls[name] += 1
            errors[name] += bool(call["error"])
            seconds = seconds_between(call.get("started_at"), call.get("ended_at"))
            if seconds is not None:
                times.setdefault(name, []).append(seconds)
    mismatches = Counter(
        tool
        for conversation in report.conversations
        for turn in conversation.turns
        for _, tool in report.differences(conversation, turn)
    )
    names = sorted({*calls, *mismatches}, key=lambda name: (-mismatches[name] - errors[name], -calls[name], name))
    return [
        {
            "name": name,
            "calls": calls[name],
            "errors": errors[name],
            "mismatches": mismatches[name],
            "p95": percentile(times.get(name, []), 0.95),
        }
        for name in names
    ]
