"""agent_behavior_failure, tool_call_behavior_failure, goal_completion."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tool_call_evaluators import EvalCase, EvalResult, Status, evaluate
from tool_call_evaluators.behavior_failures import (
    AGENT_BEHAVIOR_LABELS,
    SEVERITY,
    TOOL_CALL_BEHAVIOR_LABELS,
    behavior_failures,
)
from tool_call_evaluators.judge import PreparedJudge
from tool_call_evaluators.judged.behavior import AgentBehaviorFailure, GoalCompletion, ToolCallBehaviorFailure
from tool_call_evaluators.judged.quality import Helpfulness
from tool_call_evaluators.metrics.conversation_scores import TurnSuccessRatio

CASE = EvalCase(
    user_text="Cancel order 7",
    response_text="Done.",
    tool_calls=[{"name": "cancel", "arguments": {"id": "8"}, "result": "ok"}],
    tools=[{"name": "cancel"}],
    user_goal="Order 7 cancelled",
    knowledge="Cancelling is free.",
)
KINDS = [(AgentBehaviorFailure, AGENT_BEHAVIOR_LABELS), (ToolCallBehaviorFailure, TOOL_CALL_BEHAVIOR_LABELS)]


def said(*labels):
    return PreparedJudge([{"reason": f"It is {label}.", "label": label} for label in labels])


@pytest.mark.statement(62, 63, 64, 65, 66, 67)
@pytest.mark.parametrize(("kind", "labels"), KINDS)
async def test_labels_scores_and_severities(kind, labels):
    assert set(kind.labels) == set(labels)
    assert kind.labels[-1] == "no failure"
    for label in labels:
        result = await kind(judge=said(label)).evaluate(CASE)
        fine = label == "no failure"
        assert (result.label, result.score) == (label, 1.0 if fine else 0.0)
        assert result.status is (Status.PASSED if fine else Status.FAILED)
        assert result.details["severity"] == (None if fine else SEVERITY[label])
        assert behavior_failures("c", [EvalCase(results=[result])]) == [] or not fine


@pytest.mark.parametrize(("kind", "labels"), KINDS)
async def test_the_judge_may_only_choose_among_the_labels(kind, labels):
    judge = said("no failure")
    await kind(judge=judge).evaluate(CASE)
    (question,) = judge.questions
    assert set(question.schema["properties"]["label"]["enum"]) == set(labels)
    shown = ["user goal", "knowledge", "user message", "tool calls", "answer"]
    assert list(question.data) == (shown if kind is AgentBehaviorFailure else [*shown[:2], "tools", *shown[2:]])
    assert all(f"`{label}`" in question.prompt.text for label in labels)


@pytest.mark.parametrize(
    ("votes", "label", "spread"),
    [
        (["no failure", "repetition", "no failure"], "no failure", 1 / 3),
        (["no failure", "repetition"], "repetition", 1 / 2),
        (["repetition", "false information"], "false information", 1 / 2),
        (["repetition", "disobey user request", "no failure"], "disobey user request", 2 / 3),
    ],
)
async def test_most_votes_decide_and_of_several_the_most_severe(votes, label, spread):
    result = await AgentBehaviorFailure(judge=said(*votes), votes=len(votes)).evaluate(CASE)
    assert (result.label, result.reason) == (label, f"It is {label}.")
    assert result.details["votes"] == votes
    assert result.details["judge"]["spread"] == pytest.approx(spread)


def scored(score, **fields):
    return EvalResult("helpfulness", score, scale=(1, 5), **fields)


@pytest.mark.statement(61)
@pytest.mark.parametrize(
    ("results", "asked"),
    [
        ([scored(3), scored(5)], False),
        ([scored(2.9), scored(5)], True),
        ([EvalResult("tool_error", 0.6)], False),
        ([EvalResult("tool_error", 0.5)], True),
        ([scored(3), EvalResult("tool_call_behavior_failure", 0.0, label="unsafe action")], False),
        ([scored(5), EvalResult.errored("relevance", "no answer")], True),
        ([scored(5), EvalResult.skipped("faithfulness", "not given: knowledge")], False),
        ([EvalResult.skipped("faithfulness", "not given: knowledge")], True),
        ([], True),
    ],
)
async def test_only_a_turn_that_underperforms_is_asked_about(results, asked):
    judge = said("repetition")
    evaluator = AgentBehaviorFailure(judge=judge, ask_below=0.6)
    result = await evaluator.evaluate(replace(CASE, results=tuple(results)))
    assert len(judge.questions) == asked
    assert (result.label, result.score) == (("repetition", 0.0) if asked else ("skipped_good_performance", 1.0))
    if not asked:
        assert result.reason == "Not asked: every score of the turn reaches 60% of its maximum."
        turns = [EvalCase(results=[result])]
        assert behavior_failures("c", turns) == []
        assert TurnSuccessRatio().evaluate(EvalCase(turns=turns)).score == 1.0


@pytest.mark.statement(61)
async def test_whether_a_turn_underperforms_is_decided_after_the_other_evaluators():
    judge = said("false information")
    helpful = Helpfulness(judge=PreparedJudge([{"reason": "r", "score": 2}]))
    found = await evaluate(CASE, [AgentBehaviorFailure(judge=judge, ask_below=0.6), helpful])
    assert [result.label for result in found] == ["false information", None]
    assert not AgentBehaviorFailure().reads_results, "without the option, the two are asked at the same time"


async def test_without_calls_no_call_failed_and_nobody_is_asked():
    judge = said()
    result = await ToolCallBehaviorFailure(judge=judge).evaluate(EvalCase(user_text="hi", response_text="hello"))
    assert (result.score, result.label, judge.questions) == (1.0, "no failure", [])
    assert result.reason == "No tool was called."


@pytest.mark.statement(57)
@pytest.mark.parametrize(("score", "expected"), [(1, 0.0), (2, 0.25), (3, 0.5), (4, 0.75), (5, 1.0)])
async def test_goal_completion_is_between_0_and_1(score, expected):
    judge = PreparedJudge([{"reason": "So.", "score": score}])
    conversation = EvalCase(
        turns=[CASE, {"user_text": "Thanks", "response_text": "Welcome"}], user_goal="Order 7 cancelled"
    )
    result = await GoalCompletion(judge=judge).evaluate(conversation)
    assert (result.score, result.passed) == (expected, expected >= 0.5)
    (question,) = judge.questions
    assert question.data["user goal"] == "Order 7 cancelled"
    assert len(question.data["conversation"].splitlines()) == 2


async def test_goal_completion_of_one_turn_and_those_before_it():
    judge = PreparedJudge([{"reason": "So.", "score": 5}])
    turn = EvalCase(user_text="Thanks", response_text="Welcome", history=[CASE], user_goal="Order 7 cancelled")
    assert (await GoalCompletion(judge=judge).evaluate(turn)).score == 1.0
    first, second = judge.questions[0].data["conversation"].splitlines()
    assert '"user": "Cancel order 7"' in first
    assert '"user": "Thanks"' in second
