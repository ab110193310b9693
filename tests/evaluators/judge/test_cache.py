"""Answers that are kept: the same question costs nothing, another one is asked."""

from __future__ import annotations

from unittest.mock import AsyncMock

import pytest
from judges.fake_api import KEY, says, served
from tool_call_evaluators import parse_suite, with_judge
from tool_call_evaluators.judge import (
    ChatJudge,
    JudgeAnswerError,
    JudgeSettings,
    MemoryJudgeCache,
    PreparedJudge,
    Question,
)
from tool_call_evaluators.judge.cache import CachingJudge, judged_apart
from tool_call_evaluators.judge.question import load_prompt
from tool_call_evaluators.judged.base import grade_schema
from tool_call_evaluators.judged.quality import Helpfulness

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
