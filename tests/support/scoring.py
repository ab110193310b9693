"""A pipeline with a store of its own, and the turns that it takes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from a2a_eval_proxy.scoring.case_book import CaseBook
from a2a_eval_proxy.scoring.pipeline import Pipeline
from a2a_eval_proxy.scoring.scorer import Scorer
from a2a_eval_proxy.store import SqliteStore, TurnQuery
from a2a_eval_proxy.telemetry.counters import Metrics
from a2a_eval_proxy.telemetry.event_bus import EventBus
from a2a_eval_proxy.telemetry.turn_events import TurnEvents
from a2a_eval_proxy.telemetry.turn_listener import TurnListener
from a2a_eval_proxy.turn import Turn
from a2a_tool_capture import ToolCall, ToolCallSource
from support.kept import turn
from tool_call_evaluators.suite import parse_suite


def turn_with(number: int, *calls: str, **fields: Any) -> Turn:
    """A closed turn with these calls."""
    made = [ToolCall(name, result="done", source=ToolCallSource.A2A_PROTOCOL) for name in calls]
    return turn(number, tool_calls=made, **fields)


@dataclass
class Scoring:
    pipeline: Pipeline
    store: SqliteStore
    cases: CaseBook
    bus: EventBus
    metrics: Metrics
    scorer: Scorer | None

    async def take(self, *turns: Turn) -> None:
        """All of them at once; return when they are scored."""
        for one in turns:
            self.pipeline.take(one)
        await self.pipeline.drained()

    async def resume(self, run: str | None = None) -> int:
        """Score what another process left; how many turns that is."""
        number = await self.pipeline.resume(run)
        await self.pipeline.drained()
        return number

    async def stored(self, **query: Any) -> list[dict[str, Any]]:
        return (await self.store.turns(TurnQuery(limit=1000, **query))).items

    async def outcomes(self) -> list[list[str]]:
        """Statuses of the results of each turn."""
        return [[result["status"] for result in item["evaluations"]] for item in await self.stored()]

    async def scores(self) -> dict[tuple[str, str | None], dict[str, Any]]:
        """Those of conversations, by conversation and case."""
        return {
            (found.key.conversation_id, found.key.case_id): {
                result["evaluator"]: result["score"] for result in found.evaluations
            }
            for found in await self.store.conversations()
        }


@asynccontextmanager
async def scoring(
    path: Path,
    text: str | None = None,
    *,
    evaluate: bool = True,
    listener: TurnListener | None = None,
    **more: Any,
) -> AsyncIterator[Scoring]:
    suite = parse_suite(text) if text else None
    store, cases, bus, metrics = SqliteStore(str(path)), CaseBook(suite), EventBus(), Metrics()
    scorer = Scorer(cases, suite, store.judge_cache) if evaluate else None
    pipeline = Pipeline(store, cases, scorer, listener or TurnEvents(bus), metrics, **more)
    try:
        yield Scoring(pipeline, store, cases, bus, metrics, scorer)
    finally:
        await pipeline.close()
        await asyncio.to_thread(store.close)
