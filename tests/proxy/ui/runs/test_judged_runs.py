"""Runs of a real store, judged for the pages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import pytest_asyncio
from a2a_eval_proxy.admin.long_computations import LongComputations
from a2a_eval_proxy.features.pages import judged_runs
from a2a_eval_proxy.features.pages.judged_runs import JudgedRuns
from a2a_eval_proxy.runs import run_result as run_summary
from a2a_eval_proxy.runs.run_result import JudgedBy, Plan
from a2a_eval_proxy.runs.stored_turns import open_existing_store
from a2a_eval_proxy.store import RunSummary, Store
from a2a_eval_proxy.store.base import KeptVerdict
from support.stored_runs import store_turns
from support.turn_samples import result, turn
from tool_call_evaluators import parse_suite
from tool_call_evaluators.suite import Suite

SUITE = parse_suite(
    "suite: s\nevaluators: [tool_error]\ncases: [{id: a, turns: [{user: x}]}, {id: b, turns: [{user: y}]}]"
)

pytestmark = pytest.mark.asyncio(loop_scope="module")


def link(*segments: str, **query: str) -> str:
    return "/".join(segments) or "./"


def live(suite: Suite) -> KeptVerdict:
    return KeptVerdict("s", Plan([JudgedBy(suite)]).to_dict(), "pending", None, "none yet")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def store(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Store]:
    path = tmp_path_factory.mktemp("store") / "turns.db"
    store_turns(path, [turn("1", "x", evaluations=[result("tool_error", 1.0)], case="a")], "of suite")
    store_turns(path, [turn("1", "x", evaluations=[result("tool_error", 1.0)], case="z")], "of another")
    async with open_existing_store(str(path)) as opened:
        await opened.keep_verdict("of suite", live(SUITE))
        yield opened


@pytest.fixture
def reads(store: Store, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The runs that were read."""
    found: list[str] = []
    every_turn = run_summary.every_turn

    def counted(asked, query, page):
        found.append(query.run)
        return every_turn(asked, query, page)

    monkeypatch.setattr(run_summary, "every_turn", counted)
    return found


async def summary(store: Store, name: str) -> RunSummary:
    (found,) = await store.runs(name)
    return found


async def test_a_run_is_judged_by_the_suite_that_is_kept_with_it(store):
    runs = JudgedRuns(store, LongComputations(), lambda agent, suite: f"{suite}.yaml")
    own, other = [await runs.view(await summary(store, name), link) for name in ("of suite", "of another")]
    assert (own.planned, own.missing, own.status, own.again is None) == (2, 1, "incomplete", False)
    assert (other.planned, other.missing, other.status, other.again) == (0, 0, "unjudged", None)
    assert (await summary(store, "of suite")).verdict.status == "incomplete", "as it was read"


async def test_a_run_is_judged_once_until_it_changes(store, reads, monkeypatch):
    runs, run = JudgedRuns(store, LongComputations()), await summary(store, "of suite")
    assert runs.lags(run, link)
    views = await asyncio.gather(*(runs.view(run, link) for _ in range(5)))
    assert len(set(map(id, views))) == 1
    assert not runs.lags(run, link)
    assert reads == ["of suite"]
    changed = RunSummary("of suite", 2, 0, 1, 0, 0, 0, None, None)
    assert runs.lags(changed, link)
    monkeypatch.setattr(judged_runs, "_REST", 0)
    await runs.view(changed, link)
    assert len(reads) == 2


async def test_a_run_that_changes_all_the_time_is_not_judged_all_the_time(store, reads, monkeypatch):
    monkeypatch.setattr(judged_runs, "_REST", 1_000_000)
    runs, run = JudgedRuns(store, LongComputations()), await summary(store, "of suite")
    first = await runs.view(run, link)
    assert await runs.view(RunSummary("of suite", 9, 0, 1, 0, 0, 0, None, None), link) is first
    assert len(reads) == 1


async def test_a_run_that_is_too_long_is_not_judged_and_few_are_kept(store, monkeypatch):
    monkeypatch.setattr(judged_runs, "MAX_TURNS", 0)
    assert await JudgedRuns(store, LongComputations()).view(await summary(store, "of suite"), link) is None
    monkeypatch.setattr(judged_runs, "MAX_TURNS", 10)
    monkeypatch.setattr(judged_runs, "MAX_KEPT", 1)
    runs, both = (
        JudgedRuns(store, LongComputations()),
        [await summary(store, name) for name in ("of suite", "of another")],
    )
    for run in both:
        await runs.view(run, link)
    assert [runs.lags(run, link) for run in both] == [True, False]


async def test_a_judgement_outlives_the_request_that_did_not_wait_for_it(store, reads):
    runs, run = JudgedRuns(store, LongComputations()), await summary(store, "of suite")
    assert await runs.view(run, link, within_s=0) is None
    while runs.lags(run, link):
        await asyncio.sleep(0.001)
    assert await runs.view(run, link, within_s=0) is not None
    assert reads == ["of suite"]


async def test_other_suites_count_once_they_are_kept(store):
    runs = JudgedRuns(store, LongComputations())
    assert (await runs.view(await summary(store, "of suite"), link)).planned == 2
    await store.keep_verdict("of suite", live(replace(SUITE, cases=SUITE.cases[:1])))
    fewer = await JudgedRuns(store, LongComputations()).view(await summary(store, "of suite"), link)
    assert (fewer.planned, fewer.status) == (1, "passed")


async def test_a_page_does_not_wait_for_a_verdict_that_is_sure_to_come_later(store: Store) -> None:
    class Work(LongComputations):
        async def run(self, key, compute, within_s=None, *, keep=False):
            waits.append(within_s)

    waits: list[float | None] = []
    (run,) = await store.runs("of suite")
    runs = JudgedRuns(store, Work())
    await runs.view(run, link, 0.4)
    await runs.view(replace(run, turns=10_000), link, 0.4)
    await runs.view(replace(run, turns=10_000), link, 5.0)
    await runs.view(replace(run, turns=10_000), link)
    assert waits == [0.4, 0.0, 5.0, None]
