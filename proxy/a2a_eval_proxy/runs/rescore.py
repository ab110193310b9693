"""`evaluate`: turns that are stored, scored again with another suite. No agent is needed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

from tool_call_evaluators.suite import Suite
from tool_call_evaluators.suite.model import combined

from .. import audit
from ..privacy.content_removal import lacks_content
from ..privacy.policy import NO_PRIVACY, Privacy
from ..scoring.pipeline import Pipeline
from ..scoring.ray_executor import RayExecutor
from ..scoring.scorer import TurnJson
from ..settings.store_url import masked_url
from ..store import Store, StoreError
from .run_result import NO_TERMS, RunResult, RunWatch, Terms, load_and_judge_run, scoring
from .selection import ALL, Selection
from .stored_turns import open_existing_store, turns_of

Engine = Literal["in-process", "ray"]
"""Where evaluators run: in a thread of this process, or in tasks of Ray (https://ray.io)."""

_PAGE = 200


async def evaluate_store(
    suite: Suite,
    location: str,
    run: str | None,
    *,
    texts: bool = True,
    privacy: Privacy = NO_PRIVACY,
    engine: Engine = "in-process",
    selection: Selection = ALL,
    others: Sequence[Suite] = (),
    terms: Terms = NO_TERMS,
    watch: RunWatch | None = None,
) -> RunResult:
    """Score the turns of `run` (None: all) in the store at `location` again, store the results, and judge the run.

    Which case a turn belongs to: see `Pipeline.rescoring`. `watch` counts the turns; for `texts` and `terms`, see
    `load_and_judge_run`. `others` are further suites, each for its own cases. Turns of cases that are not selected keep
    their results and do not count; with `others`, nor do those without a case. Evaluators see the turns as `privacy`
    redacts them; the store keeps them as they are.
    Raises StoreError where there is no store, no such run in it, or no content in its turns; with the engine ray
    RayMissingError, and ExecutorLostError where Ray fails: then turns that are scored by then keep their new results;
    else JudgeNotConfiguredError for a judge without a model or key.
    """
    suites = [suite, *others]
    whole = combined(suites)
    selected = selection.of_each(suites) if selection else suites
    if engine != "ray":  # whose processes have their own environment
        for part in selected:
            part.check_judges()
    async with open_existing_store(location) as store:
        watch = watch or RunWatch()
        watch.store = store.health
        audit.changed(run=run or "", store=masked_url(location))
        watch.plan(sum(summary.turns for summary in await store.runs(run)))
        judged = [privacy.suite(part) for part in selected]
        only = {case.id for part in (*judged, *selected) for case in part.cases} if selection or others else None
        executor = RayExecutor(privacy.suite(whole), location, privacy) if engine == "ray" else None
        page_size = executor.batch if executor else _PAGE
        async with scoring(store, whole, privacy, executor, watch) as (pipeline, scorer):
            await _score_again(store, run, pipeline, only, page_size, watch)
        return await load_and_judge_run(
            store,
            scorer,
            judged,
            run,
            moved=pipeline.moved,
            texts=texts,
            privacy=privacy,
            partial=bool(selection),
            terms=terms,
        )


async def _score_again(
    store: Store, run: str | None, pipeline: Pipeline, only: Collection[str] | None, page_size: int, watch: RunWatch
) -> None:
    async with pipeline.rescoring(only) as rescore:
        page: list[TurnJson] = []
        async for turn in turns_of(store, run):
            if turn["status"] == "open":  # its outcome is not known: it counts as never scored
                watch.advance()
                continue
            if lacks_content(turn["user_text"]):
                raise StoreError(
                    f"turn {turn['turn_id']} of run {turn['run']} was stored without content (--no-content); "
                    "it keeps its scores and cannot be scored again"
                )
            page.append(turn)
            if len(page) == page_size:
                rescore(page)
                await pipeline.drained()
                watch.advance(len(page))
                page = []
        rescore(page)
    watch.advance(len(page))
