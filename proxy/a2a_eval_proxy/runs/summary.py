"""One stored run for the admin API and the pages: its numbers, each metric's, the verdict, the report."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, replace
from typing import Any

from tool_call_evaluators.report import html_report, shortened_turn
from tool_call_evaluators.suite import Suite
from tool_call_evaluators.suite.combined import CombinedSuite
from tool_call_evaluators.verdict import MetricSummary

from ..store import Store, TurnQuery, every_turn
from ..store.base import RunSummary
from .run_result import RunResult, judge_suites, judge_turns
from .stored_turns import conversation_results, without_texts

MAX_TURNS = 10_000
"""A longer run is summarized in numbers only: a verdict needs all turns in memory."""
MAX_REASONS = 100
_PAGE = 200


class LongRunError(Exception):
    """The run has more turns than are judged, or compared, in memory together; the message names the command for it."""


async def judged_run(
    store: Store, suite: Suite | None, run: RunSummary, *, current: bool, texts: bool = False
) -> RunResult:
    """The stored turns of a run, judged now; `texts`: with shortened texts, for a report.

    The `suite` judges its `current` run, where a case that has not come yet counts as missing, and runs with turns of
    its cases. Others are judged by the evaluators that need no expectation. Raises LongRunError, StoreError.
    """
    if run.turns > MAX_TURNS:
        raise LongRunError(
            f"run {run.name!r} has more than {MAX_TURNS:,} turns; use `a2a-eval-proxy evaluate --report DIR`"
        )
    shortened = shortened_turn if texts else without_texts
    turns = [shortened(turn) async for turn in every_turn(store, TurnQuery(run=run.name), _PAGE)]
    results = await conversation_results(store, run.name)
    cases = {case.id for case in suite.cases} if suite else ()
    if not current and not any(turn["case_id"] in cases for turn in turns):
        suite = None
    if isinstance(suite, CombinedSuite):
        return await asyncio.to_thread(judge_suites, suite.parts, turns, results, run.name)
    return await asyncio.to_thread(judge_turns, suite, turns, results, run.name)


async def run_details(store: Store, suite: Suite | None, run: RunSummary, *, current: bool) -> dict[str, Any]:
    """The run's numbers with `metrics`, `verdict` and `judge_usage` of `judged_run`; null all three beyond
    MAX_TURNS."""
    details: dict[str, Any] = {**asdict(run), "metrics": None, "verdict": None, "judge_usage": None}
    if run.turns > MAX_TURNS:
        return details
    conclusion = await judged_run(store, suite, run, current=current)
    verdict = conclusion.verdict
    return details | {
        "metrics": [_metric(summary) for summary in verdict.metrics],
        "verdict": {
            "passed": verdict.passed,
            "reason_count": len(verdict.reasons),
            "tolerated_count": len(verdict.tolerated),
            "reasons": [asdict(reason) for reason in verdict.reasons[:MAX_REASONS]],
        },
        "judge_usage": conclusion.report.usage.to_dict(),
    }


async def run_report(
    store: Store, suite: Suite | None, run: RunSummary, *, current: bool, trace_url: str | None
) -> bytes:
    """The HTML report of `judged_run` in UTF-8; `trace_url`: see `Report`. Raises LongRunError, StoreError."""
    result = await judged_run(store, suite, run, current=current, texts=True)
    report = replace(result.report, trace_url=trace_url or "")
    return await asyncio.to_thread(lambda: html_report(report).encode("utf-8", "replace"))


def _metric(summary: MetricSummary) -> dict[str, Any]:
    """With the share of results that passed; null where none has a threshold."""
    judged = summary.passed + summary.failed
    return {**asdict(summary), "pass_rate": summary.passed / judged if judged else None}
