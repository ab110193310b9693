"""helpfulness, coherence, relevance, verbosity, faithfulness."""

from __future__ import annotations

import re

import pytest
from tool_call_evaluators import EvalCase, Status
from tool_call_evaluators.judge import PreparedJudge
from tool_call_evaluators.judge.question import load_prompt
from tool_call_evaluators.judged.base import band
from tool_call_evaluators.judged.quality import Coherence, Faithfulness, Helpfulness, Relevance, Verbosity

ALL = [Helpfulness, Coherence, Relevance, Verbosity, Faithfulness]
CASE = EvalCase(
    user_text="Where is order 7?",
    response_text="It was sent.",
    tool_calls=[{"name": "lookup", "result": "sent"}],
    history=[{"user_text": "Hello", "response_text": "Hi"}],
    knowledge="Orders are sent within two days.",
)


def judge(score):
    return PreparedJudge([{"reason": "Because.", "score": score}])


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(Helpfulness, marks=pytest.mark.statement(51)),
        pytest.param(Coherence, marks=pytest.mark.statement(52)),
        pytest.param(Relevance, marks=pytest.mark.statement(53)),
        Verbosity,
        Faithfulness,
    ],
)
@pytest.mark.parametrize(
    ("score", "status"), [(1, Status.FAILED), (2, Status.FAILED), (3, Status.PASSED), (5, Status.PASSED)]
)
async def test_the_grade_is_the_score_and_3_passes(kind, score, status):
    result = await kind(judge=judge(score)).evaluate(CASE)
    assert (result.score, result.status, result.scale, result.threshold) == (score, status, (1.0, 5.0), 3.0)
    assert result.reason == "Because."


@pytest.mark.parametrize("kind", ALL)
async def test_the_judge_sees_the_turn_and_what_came_before(kind):
    asked = judge(3)
    await kind(judge=asked).evaluate(CASE)
    (question,) = asked.questions
    expected = ["earlier turns", "user message", "tool calls", "answer"]
    assert list(question.data) == (["knowledge", *expected] if kind is Faithfulness else expected)
    assert question.data["answer"] == "It was sent."
    assert question.prompt.name == kind.name


@pytest.mark.statement(54)
def test_5_is_concise():
    judged = Verbosity()
    assert judged.scale == (1.0, 5.0)
    grades = load_prompt(judged.name).text
    assert "A high grade means\nconcise, a low one long-winded." in grades


@pytest.mark.statement(55)
async def test_the_lowest_grades_are_for_contradictions_of_the_knowledge():
    asked = judge(1)
    assert (await Faithfulness(judge=asked).evaluate(CASE)).score == 1
    (question,) = asked.questions
    assert question.data["knowledge"] == "Orders are sent within two days."
    assert re.search(r"^- 1: .*contradict", question.prompt.text, re.MULTILINE)


@pytest.mark.statement(56)
@pytest.mark.parametrize(
    ("score", "name"), [(1, "Poor"), (2, "Needs Improvement"), (3, "Good"), (4, "Excellent"), (5, "Excellent")]
)
async def test_grades_have_names(score, name):
    assert (await Helpfulness(judge=judge(score)).evaluate(CASE)).details["band"] == name
    assert band(score + 0.5, (1.0, 5.0)) == name
    assert band(score, (0.0, 5.0)) is band(None, (1.0, 5.0)) is None
