"""What judging costs: answers that are kept are asked for once, and a budget ends what is asked."""

from __future__ import annotations

import logging
from unittest.mock import AsyncMock

import pytest
from judges.fake_api import KEY, fails, fit, says, served
from tool_call_evaluators import EvalCase, EvalResult, evaluate, parse_suite, with_judge
from tool_call_evaluators.gates import Gate, Outcome, RunGates
from tool_call_evaluators.judge import (
    ChatJudge,
    JudgeAnswerError,
    JudgeSettings,
    MemoryJudgeCache,
    PreparedJudge,
    Question,
)
from tool_call_evaluators.judge.budget import JudgeBudget, spending
from tool_call_evaluators.judge.cache import CachingJudge, judged_apart
from tool_call_evaluators.judge.question import load_prompt
from tool_call_evaluators.judged.base import grade_schema, judge_usage
from tool_call_evaluators.judged.quality import Helpfulness
from tool_call_evaluators.model import OVER_BUDGET, Status
from tool_call_evaluators.verdict import gate

QUESTION = Question(load_prompt("helpfulness"), {"user message": "hi", "answer": "hello"}, grade_schema(1, 5))
GOOD = {"reason": "Good.", "score": 4}
FULL = OSError("the disk is full")
BETTER = {"reason": "Better.", "score": 5}


@pytest.fixture
def cache():
    return MemoryJudgeCache()


async def test_no_answer_is_not_kept(cache):
    judge = CachingJudge(PreparedJudge([JudgeAnswerError("no"), GOOD]), cache, "j")
    with pytest.raises(JudgeAnswerError):
        await judge.ask(QUESTION)
    assert (await judge.ask(QUESTION)).value == GOOD


@pytest.mark.parametrize("entry", [{}, {"value": 4}, {"value": {"score": 9}}])
async def test_what_does_not_fit_is_asked_again(cache, entry):
    await cache.put(QUESTION.key("j"), entry)
    judge = CachingJudge(PreparedJudge([GOOD]), cache, "j")
    assert not (await judge.ask(QUESTION)).cached
    assert (await judge.ask(QUESTION)).cached


async def test_an_answer_is_kept_without_the_key_of_the_api():
    cache = AsyncMock(wraps=MemoryJudgeCache())
    with served(says(GOOD)) as (judge, api):
        for cached in (False, True):
            answer = await CachingJudge(judge, cache, judge.settings.identity).ask(QUESTION)
            assert (answer.cached, answer.usage.requests, answer.value) == (cached, int(not cached), GOOD)
        assert (len(api.requests), answer.usage.cost) == (1, 0)
    cache.put.assert_called_once()
    assert KEY not in repr(cache.put.call_args)


async def test_a_cache_that_fails_is_done_without(caplog):
    cache = AsyncMock(get=AsyncMock(side_effect=FULL), put=AsyncMock(side_effect=FULL))
    judge = CachingJudge(PreparedJudge([GOOD, BETTER]), cache, "j")
    assert (await judge.ask(QUESTION)).value == GOOD
    assert (await judge.ask(QUESTION)).value == BETTER
    assert "the disk is full" in caplog.text


async def test_samples_are_judged_apart_and_each_of_them_once():
    judge = PreparedJudge([{"reason": str(score), "score": score} for score in (1, 3, 5)])
    cached = CachingJudge(judge, MemoryJudgeCache(), "judge")
    for _ in range(2):
        scores = []
        for sample in ("conversation-1", "conversation-2", ""):
            with judged_apart(sample):
                scores.append((await cached.ask(QUESTION)).value["score"])
        assert scores == [1, 3, 5]
    assert len(judge.questions) == 3


def test_a_judge_may_do_without_a_cache():
    settings = JudgeSettings(model="m", cache=False)
    (evaluator,) = with_judge([Helpfulness()], settings, cache=MemoryJudgeCache(), environ={})
    assert isinstance(evaluator.judge, ChatJudge)
    suite = parse_suite("{suite: s, evaluators: [helpfulness], judge: {model: m}}")
    (evaluator,) = suite.build_evaluators(judge_cache=MemoryJudgeCache())
    assert isinstance(evaluator.judge, CachingJudge)
    (evaluator,) = suite.with_fresh_judge().build_evaluators(judge_cache=MemoryJudgeCache())
    assert isinstance(evaluator.judge, ChatJudge)


# ── budgets ──────────────────────────────────────────────────────────────────────────────────────────────────────────


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
FINE = EvalResult("helpfulness", 4.0, True, 3.0, scale=(1, 5))


def test_a_run_shows_what_the_budget_left_out_and_is_judged_by_the_rest():
    outcomes = [Outcome("a", "a", [FINE]), Outcome("b", "b", [LEFT_OUT])]
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
