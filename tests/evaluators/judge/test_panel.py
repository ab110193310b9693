"""Asking several times, and which judge a setting means."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tool_call_evaluators.judge import (
    JudgeAnswerError,
    PreparedJudge,
    Question,
)
from tool_call_evaluators.judge.panel import dissent, judge_details, majority, most_given, poll
from tool_call_evaluators.judge.question import load_prompt
from tool_call_evaluators.judged.base import grade_schema

QUESTION = Question(load_prompt("helpfulness"), {"answer": "a"}, grade_schema(1, 5))


def grades(*scores):
    return [{"reason": "r", "score": score} for score in scores]


async def test_every_question_as_often_as_there_are_votes():
    judge = PreparedJudge(grades(1, 2, 3, 4))
    other = replace(QUESTION, data={"answer": "b"})
    polls = await poll(judge, [QUESTION, other], 2)
    assert [[value["score"] for value in given.values()] for given in polls] == [[1, 2], [3, 4]]
    assert [(question.data["answer"], question.vote) for question in judge.questions] == [
        ("a", 0),
        ("a", 1),
        ("b", 0),
        ("b", 1),
    ]
    told = judge_details(polls, 1.0)
    assert (told["votes"], told["requests"], told["spread"], told["cached"]) == (2, 4, 1.0, 0)
    assert (told["model"], told["prompt"]) == ("prepared", "helpfulness@1")


async def test_all_are_asked_before_the_first_failure_is_told():
    judge = PreparedJudge([JudgeAnswerError("first"), *grades(1), JudgeAnswerError("third")])
    with pytest.raises(JudgeAnswerError, match="first"):
        await poll(judge, [QUESTION], 3)
    assert len(judge.questions) == 3


LABELS = ("worst", "bad", "fine")


@pytest.mark.parametrize(
    ("labels", "chosen", "against"),
    [
        (["fine"], "fine", 0.0),
        (["fine", "bad", "fine"], "fine", 1 / 3),
        (["fine", "worst"], "worst", 0.5),
        (["fine", "worst", "bad"], "worst", 2 / 3),
        (["fine", "bad", "bad", "fine"], "bad", 0.5),
    ],
)
def test_a_draw_goes_to_the_worse(labels, chosen, against):
    assert most_given(labels, LABELS) == chosen
    assert dissent(labels, chosen) == pytest.approx(against)


def test_a_draw_is_a_no():
    votes = [{"a": True, "b": True, "c": False}, {"a": True, "b": False, "c": False}]
    assert majority(votes) == {"a": True, "b": False, "c": False}
