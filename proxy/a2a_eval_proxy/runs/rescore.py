"""`evaluate`: turns that are stored, scored again with another suite. No agent is needed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tool_call_evaluators.options import or_known
from tool_call_evaluators.suite import Suite
from tool_call_evaluators.suite.model import combined

from ..errors import ConfigError
from ..feature import features
from ..privacy.policy import NO_PRIVACY, Privacy
from ..privacy.redactor import lacks_content
from ..scoring.case_book import CaseBook
from ..scoring.rescoring import Rescoring, with_traces
from ..scoring.scorer import Scorer, ThreadExecutor, TurnJson
from ..store import Store, StoreError
from .run_plan import ALL, Selection
from .run_result import NO_TERMS, RunResult, RunWatch, Terms, load_and_judge_run
from .stored_turns import open_existing_store, turns_of

if TYPE_CHECKING:
    from ..otlp.trace_service import Tracing

IN_PROCESS = "in-process"
"""The engine that is no feature's: evaluators run in a thread of this process."""


async def evaluate_store(
    suite: Suite,
    location: str,
    run: str | None,
    *,
    texts: bool = True,
    privacy: Privacy = NO_PRIVACY,
    engine: str = IN_PROCESS,
    selection: Selection = ALL,
    others: Sequence[Suite] = (),
    terms: Terms = NO_TERMS,
    watch: RunWatch | None = None,
    tracing: Tracing | None = None,
) -> RunResult:
    """Score the turns of `run` (None: all) in the store at `location` again, store the results, and judge the run.

    Which case a turn belongs to: see `Rescoring`. `watch` counts the turns; for `texts` and `terms`, see
    `load_and_judge_run`. `others` are further suites, each for its own cases. Turns of cases that are not selected keep
    their results and do not count; with `others`, nor do those without a case. Evaluators see the turns as `privacy`
    redacts them; the store keeps them as they are, and adds what `tracing` shows of turns of which it has no calls.
    `engine` is IN_PROCESS or that of a feature (`Feature.engines`).
    Raises StoreError where there is no store, no such run in it, or no content in its turns; ConfigError for an engine
    that is not there, and ExecutorLostError where it fails: then turns that are scored by then keep their new results;
    in this process JudgeNotConfiguredError for a judge without a model or key.
    """
    suites = [suite, *others]
    whole = combined(suites)
    selected = selection.of_each(suites) if selection else suites
    engines = {IN_PROCESS: None} | {name: make for feature in features() for name, make in feature.engines.items()}
    if engine not in engines:
        raise ConfigError(
            f"--engine: no feature of this installation is the engine {engine}{or_known(engine, engines)}"
        )
    make = engines[engine]
    if make is None:  # other processes have their own environment
        for part in selected:
            part.check_judges()
    async with open_existing_store(location) as store:
        watch = watch or RunWatch()
        watch.store = store.health
        watch.plan(sum(summary.turns for summary in await store.runs(run)))
        judged = [privacy.suite(part) for part in selected]
        only = {case.id for part in (*judged, *selected) for case in part.cases} if selection or others else None
        cases = CaseBook(whole, privacy=privacy)
        scorer = Scorer(cases, whole, privacy.judge_cache(store.judge_cache))
        executor = ThreadExecutor(scorer) if make is None else make(privacy.suite(whole), location, privacy)
        rescoring = Rescoring(store, cases, scorer, executor, watch, privacy, only)
        try:
            await _score_again(store, run, rescoring, executor.batch, watch, tracing, privacy)
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


async def _score_again(
    store: Store,
    run: str | None,
    rescoring: Rescoring,
    page_size: int,
    watch: RunWatch,
    tracing: Tracing | None,
    privacy: Privacy,
) -> None:
    async def score(page: Sequence[TurnJson]) -> None:
        await rescoring.score(page if tracing is None else await with_traces(page, store, tracing, privacy))
        watch.advance(len(page))

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
            await score(page)
            page = []
    await score(page)
    await rescoring.score_conversations()
