"""A judge budget limits the requests in a period; results beyond it are neither passed nor failed."""

from __future__ import annotations

import logging

from judges.fake_api import fails, fit, says, served
from tool_call_evaluators import EvalCase, EvalResult, evaluate
from tool_call_evaluators.gates import Gate, Outcome, RunGates
from tool_call_evaluators.judge import ChatJudge, JudgeSettings, MemoryJudgeCache
from tool_call_evaluators.judge.budget import JudgeBudget, spending
from tool_call_evaluators.judge.cache import CachingJudge
from tool_call_evaluators.judged.base import judge_usage
from tool_call_evaluators.judged.quality import Helpfulness
from tool_call_evaluators.model import OVER_BUDGET, Status
from tool_call_evaluators.verdict import gate

CASES = [EvalCase(user_text=f"Where is {number}?", response_text="It was sent.") for number in range(4)]


async def judged(judge, cases, budget, **options):
    with spending(budget):
        return [(await evaluate(case, [Helpfulness(judge=judge, **options)]))[0] for case in cases]


async def test_no_request_is_sent_beyond_the_budget_until_the_next_period(caplog):
    now = 100.0
    budget = JudgeBudget(2, 60.0, "2/min", "agent orders", clock=lambda: now)
    with served(fit) as (judge, api), caplog.at_level(logging.WARNING):
        first = await judged(judge, CASES, budget)
        sent = api.attempts
        now = 159.0
        last = await judged(judge, CASES[:1], budget)
        now = 160.0
        (after,) = await judged(judge, CASES[3:], budget)
    assert (sent, api.attempts) == (2, 3)
    assert [(one.status is Status.SKIPPED, one.label) for one in (*first, *last)][1:] == [
        (False, None),
        *[(True, OVER_BUDGET)] * 3,
    ]
    assert "the judge budget of 2/min is spent" in first[3].reason
    assert after.measured
    assert [record.message for record in caplog.records] == [
        "agent orders: the judge budget of 2/min is spent; for 60 s, results that need a judge are skipped"
    ]


async def test_every_request_counts_and_a_cached_answer_is_none():
    """A request that is tried again, and one that asks for a repair."""
    budget = JudgeBudget(4, 60.0, "4/min", "scoring")
    with served(fails(503, "busy", retry_after="0"), fit, says("no JSON"), fit) as (judge, api):
        kept = CachingJudge(judge, MemoryJudgeCache(), "j")
        results = [*await judged(kept, CASES[:2], budget), *await judged(kept, CASES[:3], budget)]
    assert api.attempts == 4
    assert [one.measured for one in results] == [True, True, True, True, False]
    assert results[4].label == OVER_BUDGET


async def test_what_was_spent_on_a_result_that_the_budget_left_out_is_told():
    with served(fit) as (judge, api):
        (result,) = await judged(judge, CASES[:1], JudgeBudget(2, 60.0, "2/min", "scoring"), votes=3)
    assert (result.status, result.label, judge_usage([result]).requests, api.attempts) == (
        Status.SKIPPED,
        OVER_BUDGET,
        2,
        2,
    )


LEFT_OUT = EvalResult.skipped("helpfulness", "the judge budget of 2/h is spent", label=OVER_BUDGET)
GOOD = EvalResult("helpfulness", 4.0, True, 3.0, scale=(1, 5))


def test_a_run_shows_what_the_budget_left_out_and_is_judged_by_the_rest():
    outcomes = [Outcome("a", "a", [GOOD]), Outcome("b", "b", [LEFT_OUT])]
    for gates, run in (({}, None), ({"helpfulness": Gate(mean=3.0)}, RunGates(pass_rate=1.0))):
        verdict = gate(outcomes, metrics=["helpfulness"], gates=gates, run=run)
        assert verdict.passed
        assert [reason.code for reason in verdict.tolerated] == [OVER_BUDGET]
        assert "helpfulness: 1 of 2 results skipped, as the judge budget was spent" in verdict.tolerated[0].message
    nothing = gate(outcomes[1:], metrics=["helpfulness"])
    assert [reason.code for reason in nothing.reasons] == ["unmeasured"]


async def test_a_judge_that_fails_is_not_hidden_by_the_budget():
    """Neither one that cannot be reached, to which nothing is sent, nor one whose retries the budget ends."""
    settings = JudgeSettings(base_url="http://127.0.0.1:9/v1", model="none", retries=1)
    budget = JudgeBudget(1, 60.0, "1/min", "scoring")
    for _ in range(2):
        (result,) = await judged(ChatJudge(settings), CASES[:1], budget)
        assert (result.status, "after 2 attempts" in result.reason) == (Status.ERRORED, True)
    with served(fails(503, "busy", retry_after="0")) as (judge, api):
        (result,) = await judged(judge, CASES[:1], budget)
    assert (result.status, api.attempts) == (Status.ERRORED, 1)
    assert "HTTP 503: busy; no retry, as the judge budget of 1/min is spent" in result.reason
