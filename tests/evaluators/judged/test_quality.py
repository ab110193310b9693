"""Metrics of a turn that a judge measures: grades such as helpfulness, labels of behavior, goals."""

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
from tool_call_evaluators.judged.base import band
from tool_call_evaluators.judged.behavior import AgentBehaviorFailure, GoalCompletion, ToolCallBehaviorFailure
from tool_call_evaluators.judged.quality import (
    Coherence,
    Faithfulness,
    Helpfulness,
    LlmJudgeOutput,
    LlmJudgeTrajectory,
    Relevance,
    Verbosity,
)
from tool_call_evaluators.judged.tasks import TaskCompletion, ToolArgumentHallucination
from tool_call_evaluators.metrics.conversation_scores import TurnSuccessRatio

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
        pytest.param(Verbosity, marks=pytest.mark.statement(54)),
        pytest.param(Faithfulness, marks=pytest.mark.statement(55)),
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


@pytest.mark.statement(56)
@pytest.mark.parametrize(
    ("score", "name"), [(1, "Poor"), (2, "Needs Improvement"), (3, "Good"), (4, "Excellent"), (5, "Excellent")]
)
async def test_grades_have_names(score, name):
    assert (await Helpfulness(judge=judge(score)).evaluate(CASE)).details["band"] == name
    assert band(score + 0.5, (1.0, 5.0)) == name
    assert band(score, (0.0, 5.0)) is band(None, (1.0, 5.0)) is None


TURN = {"user_text": "Where is 7?", "response_text": "Sent.", "tool_calls": [{"name": "lookup"}]}


def grading(score=80):
    return PreparedJudge([{"reason": "Close.", "score": score}])


@pytest.mark.parametrize(("score", "expected"), [(0, 0.0), (49, 0.49), (50, 0.5), (100, 1.0)])
@pytest.mark.parametrize("kind", [LlmJudgeOutput, LlmJudgeTrajectory])
async def test_a_grade_of_100_is_1(kind, score, expected):
    case = EvalCase(**TURN, expected_response="It was sent.", expected_behavior="Looks it up.")
    result = await kind(judge=grading(score)).evaluate(case)
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
    asked = grading()
    await LlmJudgeOutput(judge=asked, **options).evaluate(EvalCase(**TURN, expected_response=given))
    assert asked.questions[0].data["expected answer"] == shown
    assert "tool calls" not in asked.questions[0].data


async def test_criteria_need_no_expectation():
    asked = grading()
    await LlmJudgeOutput(judge=asked, criteria="It must rhyme.").evaluate(EvalCase(response_text="Sent."))
    (question,) = asked.questions
    assert (question.criteria, list(question.data)) == ("It must rhyme.", ["answer"])


async def test_what_behavior_is_expected():
    asked = grading()
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


# ── behavior ─────────────────────────────────────────────────────────────────────────────────────────────────────────


REFUSED = EvalCase(
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
        result = await kind(judge=said(label)).evaluate(REFUSED)
        fine = label == "no failure"
        assert (result.label, result.score) == (label, 1.0 if fine else 0.0)
        assert result.status is (Status.PASSED if fine else Status.FAILED)
        assert result.details["severity"] == (None if fine else SEVERITY[label])
        assert behavior_failures("c", [EvalCase(results=[result])]) == [] or not fine


@pytest.mark.parametrize(("kind", "labels"), KINDS)
async def test_the_judge_may_only_choose_among_the_labels(kind, labels):
    judge = said("no failure")
    await kind(judge=judge).evaluate(REFUSED)
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
    result = await AgentBehaviorFailure(judge=said(*votes), votes=len(votes)).evaluate(REFUSED)
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
    result = await evaluator.evaluate(replace(REFUSED, results=tuple(results)))
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
    found = await evaluate(REFUSED, [AgentBehaviorFailure(judge=judge, ask_below=0.6), helpful])
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
        turns=[REFUSED, {"user_text": "Thanks", "response_text": "Welcome"}], user_goal="Order 7 cancelled"
    )
    result = await GoalCompletion(judge=judge).evaluate(conversation)
    assert (result.score, result.passed) == (expected, expected >= 0.5)
    (question,) = judge.questions
    assert question.data["user goal"] == "Order 7 cancelled"
    assert len(question.data["conversation"].splitlines()) == 2


async def test_goal_completion_of_one_turn_and_those_before_it():
    judge = PreparedJudge([{"reason": "So.", "score": 5}])
    turn = EvalCase(user_text="Thanks", response_text="Welcome", history=[REFUSED], user_goal="Order 7 cancelled")
    assert (await GoalCompletion(judge=judge).evaluate(turn)).score == 1.0
    first, second = judge.questions[0].data["conversation"].splitlines()
    assert '"user": "Cancel order 7"' in first
    assert '"user": "Thanks"' in second
