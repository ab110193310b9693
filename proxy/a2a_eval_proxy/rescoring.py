"""`evaluate`: turns that are stored, scored again with another suite. No agent is needed."""

from __future__ import annotations

from collections.abc import Callable

from tool_call_evaluators.suite import Suite

from .cases import CaseBook
from .conclusion import Conclusion, conclude
from .events import EventBus
from .metrics import Metrics
from .pipeline import Pipeline
from .scoring import Scorer, TurnJson
from .stored import reading, turns_of

_PAGE = 200


async def evaluate_store(
    suite: Suite,
    location: str,
    run: str | None,
    *,
    texts: bool = True,
    planned: Callable[[int], None] = lambda turns: None,
    advanced: Callable[[int], None] = lambda turns: None,
) -> Conclusion:
    """Score the turns of `run` (None: all) in the store at `location`, keep the results there, and conclude.

    Which case a turn belongs to: see `Pipeline.rescoring`. `planned` is called with the number of turns, `advanced`
    with how many more are done; for `texts`, see `conclude`. Raises StoreError where there is no store, or no such run
    in it.
    """
    async with reading(location) as store:
        planned(sum(summary.turns for summary in await store.runs(run)))
        cases = CaseBook(suite)
        scorer = Scorer(cases, suite, store.judge_cache)
        pipeline = Pipeline(store, cases, scorer, EventBus(), Metrics())
        try:
            async with pipeline.rescoring() as rescore:
                page: list[TurnJson] = []
                async for turn in turns_of(store, run):
                    page.append(turn)
                    if len(page) == _PAGE:
                        rescore(page)
                        await pipeline.drained()
                        advanced(len(page))
                        page = []
                rescore(page)
            advanced(len(page))
        finally:
            await pipeline.close()
        return await conclude(store, scorer, suite, run, moved=pipeline.moved, texts=texts)
