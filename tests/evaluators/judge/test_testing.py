"""The judge for tests of other people's evaluators."""

from __future__ import annotations

import pytest
from tool_call_evaluators.judge import JudgeAnswerError, JudgeUnreachableError, PreparedJudge, Question
from tool_call_evaluators.judge.question import load_prompt
from tool_call_evaluators.judged.base import grade_schema

QUESTION = Question(load_prompt("helpfulness"), {"answer": "a"}, grade_schema(1, 5))


async def test_prepared_answers_in_turn():
    gone = JudgeUnreachableError("gone")
    judge = PreparedJudge([{"reason": "r", "score": 4}, gone, {"reason": "r", "score": 9}])
    assert (await judge.ask(QUESTION)).value == {"reason": "r", "score": 4}
    with pytest.raises(JudgeUnreachableError):
        await judge.ask(QUESTION)
    with pytest.raises(JudgeAnswerError, match=r"the prepared answer does not fit: score: 9 is not one of"):
        await judge.ask(QUESTION)
    with pytest.raises(JudgeAnswerError, match="no prepared answer is left"):
        await judge.ask(QUESTION)
    assert judge.questions == [QUESTION] * 4
