"""llm_judge_output and llm_judge_trajectory."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tool_call_evaluators import EvalCase
from tool_call_evaluators.judge import PreparedJudge
from tool_call_evaluators.judged.behavior import ToolCallBehaviorFailure
from tool_call_evaluators.judged.quality import LlmJudgeOutput, LlmJudgeTrajectory
from tool_call_evaluators.judged.tasks import TaskCompletion, ToolArgumentHallucination

TURN = {"user_text": "Where is 7?", "response_text": "Sent.", "tool_calls": [{"name": "lookup"}]}


def judge(score=80):
    return PreparedJudge([{"reason": "Close.", "score": score}])


@pytest.mark.parametrize(("score", "expected"), [(0, 0.0), (49, 0.49), (50, 0.5), (100, 1.0)])
@pytest.mark.parametrize("kind", [LlmJudgeOutput, LlmJudgeTrajectory])
async def test_a_grade_of_100_is_1(kind, score, expected):
    case = EvalCase(**TURN, expected_response="It was sent.", expected_behavior="Looks it up.")
    result = await kind(judge=judge(score)).evaluate(case)
    assert (result.score, result.passed, result.reason) == (pytest.approx(expected), expected >= 0.5, "Close.")


@pytest.mark.parametrize(
    ("options", "given", "shown"),
    [
        ({}, "from the case", "from the case"),
        ({"expected": "from the option"}, None, "from the option"),
        ({"expected": "from the option"}, "from the case", "from the case"),
        ({}, {"status": "sent"}, '{"status": "sent"}'),
    ],
)
async def test_what_output_is_expected(options, given, shown):
    asked = judge()
    await LlmJudgeOutput(judge=asked, **options).evaluate(EvalCase(**TURN, expected_response=given))
    assert asked.questions[0].data["expected answer"] == shown
    assert "tool calls" not in asked.questions[0].data


async def test_criteria_need_no_expectation():
    asked = judge()
    await LlmJudgeOutput(judge=asked, criteria="It must rhyme.").evaluate(EvalCase(response_text="Sent."))
    (question,) = asked.questions
    assert (question.criteria, list(question.data)) == ("It must rhyme.", ["answer"])
    asked = judge()
    await LlmJudgeTrajectory(judge=asked, criteria="No mail.").evaluate(EvalCase(**TURN))
    assert asked.questions[0].criteria == "No mail."


async def test_what_behavior_is_expected():
    asked = judge()
    case = EvalCase(**TURN, tools=[{"name": "lookup"}], expected_behavior="Looks it up.")
    await LlmJudgeTrajectory(judge=asked, expected_behavior="not this").evaluate(case)
    assert list(asked.questions[0].data) == ["tools", "user message", "tool calls", "answer", "expected behavior"]
    assert asked.questions[0].data["expected behavior"] == "Looks it up."


@pytest.mark.statement(239)
@pytest.mark.parametrize(
    "evaluator", [LlmJudgeTrajectory(criteria="No detours."), ToolCallBehaviorFailure()], ids=lambda one: one.name
)
async def test_the_agents_reasoning_is_for_judges_of_its_way(evaluator):
    asked, before = PreparedJudge([]), {**TURN, "reasoning_steps": ["I know this."]}
    case = EvalCase(**TURN, reasoning_steps=["Look it up.", "Then answer."], history=[before])
    await replace(evaluator, judge=asked).evaluate(case)
    await replace(evaluator, judge=asked).evaluate(EvalCase(**TURN, history=[before]))
    with_own, without = [question.data for question in asked.questions]
    assert with_own["reasoning of the agent"] == '"Look it up."\n"Then answer."'
    assert '"reasoning": ["I know this."]' in with_own["earlier turns"]
    assert "reasoning of the agent" not in without


async def test_the_agents_reasoning_is_no_evidence():
    asked = PreparedJudge([])
    turn = {**TURN, "tool_calls": [{"name": "lookup", "arguments": {"id": "7"}}], "tasks": ["t"]}
    case = EvalCase(**turn, reasoning_steps=["The order must be 7."], expected_response="x")
    for evaluator in (ToolArgumentHallucination, TaskCompletion, LlmJudgeOutput):
        await evaluator(judge=asked).evaluate(case)
    assert len(asked.questions) == 3
    assert not any("must be 7" in str(question.data) for question in asked.questions)
