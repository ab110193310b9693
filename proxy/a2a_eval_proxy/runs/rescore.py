"""`evaluate`: turns that are stored, scored again with another suite. No agent is needed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Literal

from tool_call_evaluators.suite import Suite
from tool_call_evaluators.suite.model import combined

from ..privacy.content_removal import lacks_content
from ..privacy.policy import NO_PRIVACY, Privacy
from ..scoring.case_book import CaseBook
from ..scoring.ray_executor import RayExecutor
from ..scoring.rescoring import Rescoring
from ..scoring.scorer import Scorer, ThreadExecutor, TurnJson
from ..settings.store_url import masked_url
from ..store import Store, StoreError
from . import audit
from .run_plan import ALL, Selection
from .run_result import NO_TERMS, RunResult, RunWatch, Terms, load_and_judge_run
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

    Which case a turn belongs to: see `Rescoring`. `watch` counts the turns; for `texts` and `terms`, see
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
        cases = CaseBook(whole, privacy=privacy)
        scorer = Scorer(cases, whole, privacy.judge_cache(store.judge_cache))
        on_ray = RayExecutor(privacy.suite(whole), location, privacy) if engine == "ray" else None
        executor = on_ray or ThreadExecutor(scorer)
        rescoring = Rescoring(store, cases, scorer, executor, watch, privacy, only)
        try:
            await _score_again(store, run, rescoring, on_ray.batch if on_ray else _PAGE, watch)
        finally:
            await asyncio.to_thread(executor.close)
        return await load_and_judge_run(
            store,
            scorer,
            judged,
            run,
            moved=rescoring.moved,
            texts=texts,
            privacy=privacy,
            partial=bool(selection),
            terms=terms,
        )


async def _score_again(store: Store, run: str | None, rescoring: Rescoring, page_size: int, watch: RunWatch) -> None:
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
            await rescoring.score(page)
            watch.advance(len(page))
            page = []
    await rescoring.score(page)
    await rescoring.score_conversations()
    watch.advance(len(page))
