"""What the admin API says of one run: its numbers, each metric's, and the verdict by the proxy's suite."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Any

from tool_call_evaluators.suite import Suite
from tool_call_evaluators.verdict import MetricSummary

from ..store import Store, TurnQuery, every_turn
from ..store.base import RunSummary
from .run_result import judge_turns
from .stored_turns import conversation_results, without_texts

MAX_TURNS = 10_000
"""A longer run is summarized in numbers only: a verdict needs all turns in memory."""
MAX_REASONS = 100
_PAGE = 200


async def run_details(store: Store, suite: Suite | None, run: RunSummary) -> dict[str, Any]:
    """The run's numbers with `metrics`, `verdict` and `judge_usage`; null all three beyond MAX_TURNS.

    The verdict is that of the suite on what is stored by now, as `evaluate` would say it: a case that has not come
    yet counts against it. Without a suite it is held against what is scored without one.
    """
    details: dict[str, Any] = {**asdict(run), "metrics": None, "verdict": None, "judge_usage": None}
    if run.turns > MAX_TURNS:
        return details
    turns = [without_texts(turn) async for turn in every_turn(store, TurnQuery(run=run.name), _PAGE)]
    results = await conversation_results(store, run.name)
    conclusion = await asyncio.to_thread(judge_turns, suite, turns, results, run.name)
    verdict = conclusion.verdict
    return details | {
        "metrics": [_metric(summary) for summary in verdict.metrics],
        "verdict": {
            "passed": verdict.passed,
            "reason_count": len(verdict.reasons),
            "tolerated_count": len(verdict.tolerated),
            "reasons": [asdict(reason) for reason in verdict.reasons[:MAX_REASONS]],
        },
        "judge_usage": conclusion.usage.to_dict(),
    }


def _metric(summary: MetricSummary) -> dict[str, Any]:
    """With the share of results that passed; null where none has a threshold."""
    judged = summary.passed + summary.failed
    return {**asdict(summary), "pass_rate": summary.passed / judged if judged else None}
