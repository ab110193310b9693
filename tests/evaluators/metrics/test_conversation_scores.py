"""turn_success_ratio and overall_agent_score."""

from __future__ import annotations

import json

import pytest
from tool_call_evaluators import EvalCase, EvalResult, Status, evaluate_conversation
from tool_call_evaluators.judge import PreparedJudge
from tool_call_evaluators.judged.behavior import AgentBehaviorFailure
from tool_call_evaluators.judged.quality import Helpfulness
from tool_call_evaluators.metrics.conversation_scores import OverallAgentScore, TurnSuccessRatio
from tool_call_evaluators.metrics.tool_error import ToolError


def behavior(label, metric="agent_behavior_failure"):
    return EvalResult(metric, float(label == "no failure"), passed=label == "no failure", label=label)


def conversation(*labels, **fields):
    """One turn for each label."""
    return EvalCase(turns=[EvalCase(results=[behavior(label)]) for label in labels], **fields)


@pytest.mark.statement(58)
@pytest.mark.parametrize(
    ("labels", "score"),
    [
        (["no failure"], 1),
        (["no failure", "repetition"], 1 / 2),
        (["false information", "repetition"], 0),
        (["no failure", "no failure", "disobey user request", "no failure"], 3 / 4),
    ],
)
def test_ratio(labels, score):
    assert TurnSuccessRatio().evaluate(conversation(*labels)).score == score


def test_a_turn_failed_once_however_many_judges_say_so():
    def turn_of(one, other):
        return EvalCase(results=[behavior(one), behavior(other, "tool_call_behavior_failure")])

    turns = [
        turn_of("repetition", "unsafe action"),
        turn_of("no failure", "no failure"),
        turn_of("no failure", "unsafe state"),
        turn_of("repetition", "repetition"),
    ]
    result = TurnSuccessRatio().evaluate(EvalCase(turns=turns))
    assert result.score == 1 / 4
    assert result.reason == (
        "1 of 4 turns without a failure: turn 1: repetition; turn 1: unsafe action; turn 3: unsafe state; and 1 more."
    )
    assert result.details["failed"][2] == {
        "turn": 3,
        "metric": "tool_call_behavior_failure",
        "label": "unsafe state",
        "reason": "",
    }


def test_a_metric_without_labels_fails_by_its_threshold():
    turns = [
        EvalCase(results=[EvalResult("tool_error", 0.5, passed=False)]),
        EvalCase(results=[EvalResult("tool_error", 1.0, passed=True)]),
    ]
    result = TurnSuccessRatio(metrics=["tool_error"]).evaluate(EvalCase(turns=turns))
    assert (result.score, result.reason) == (0.5, "1 of 2 turns without a failure: turn 1: tool_error.")


@pytest.mark.statement(59, 60)
@pytest.mark.parametrize(
    ("labels", "goal", "score", "label"),
    [
        (["no failure"], 1.0, 1.0, "Done"),
        (["no failure"], 0.0, 0.75, "Partial Failure"),
        (["no failure", "repetition"], 1.0, 0.625, "Partial Failure"),
        (["no failure", "repetition"], 0.5, 0.5, "Failed"),
        (["repetition"], 1.0, 0.25, "Failed"),
        (["no failure", "no failure"], None, 1.0, "Done"),
        (["no failure", "repetition"], None, 0.5, "Failed"),
    ],
)
def test_overall(labels, goal, score, label):
    results = [] if goal is None else [EvalResult("goal_completion", goal)]
    fields = {} if goal is None else {"user_goal": "to know"}
    result = OverallAgentScore().evaluate(conversation(*labels, results=results, **fields))
    assert (result.score, result.label) == (score, label)
    assert result.passed is (score >= 0.6)


def test_a_goal_that_was_not_measured_leaves_no_overall_score():
    for results, label in ([], None), ([EvalResult.errored("goal_completion", "no answer")], "Evaluation Failed"):
        result = OverallAgentScore().evaluate(conversation("no failure", user_goal="to know", results=results))
        assert (result.status, result.label) == (Status.SKIPPED, label)
        assert result.reason == "there is a goal, but goal_completion has no score"


@pytest.mark.parametrize(
    ("calls", "score", "turn"),
    [([["a"], ["b"], []], 1.0, None), ([["a"], ["c"], []], 2 / 3, 2), ([[], [], []], 2 / 3, 3)],
)
def test_expected_calls_count_against_the_last_turn_with_calls(calls, score, turn):
    good = EvalResult("agent_behavior_failure", 1.0, passed=True, label="no failure")
    turns = [EvalCase(results=[good], tool_calls=[{"name": name} for name in names]) for names in calls]
    made = [call for item in turns for call in item.tool_calls]
    case = EvalCase(turns=turns, tool_calls=made, expected_tool_calls=[{"name": "a"}, {"name": "b"}])
    result = TurnSuccessRatio(trajectory={"mode": "superset"}).evaluate(case)
    assert result.score == score
    assert [failed["turn"] for failed in result.details["failed"]] == ([turn] if turn else [])
    assert TurnSuccessRatio().evaluate(case).score == 1.0


def test_a_goal_may_be_left_out():
    case = conversation("no failure", "repetition", user_goal="to know", results=[EvalResult("goal_completion", 1.0)])
    result = OverallAgentScore(with_goal=False).evaluate(case)
    assert (result.score, result.details["goal_completion"]) == (0.5, None)


@pytest.mark.statement(60)
def test_a_conversation_with_a_turn_whose_judge_failed_has_a_status_of_its_own():
    unjudged = EvalCase(results=[EvalResult.errored("agent_behavior_failure", "no answer")])
    turns = (*conversation("no failure").turns, unjudged)
    result = OverallAgentScore().evaluate(EvalCase(turns=turns))
    assert (result.status, result.score, result.label) == (Status.SKIPPED, None, "Evaluation Failed")
    assert result.reason.startswith("turn 2 has no result of agent_behavior_failure")


def test_a_ratio_that_is_there_is_taken():
    results = [EvalResult("turn_success_ratio", 0.8), EvalResult("goal_completion", 1.0)]
    result = OverallAgentScore().evaluate(conversation("repetition", results=results))
    assert result.score == pytest.approx(0.85)
    assert result.reason == "Partial Failure: turn_success_ratio 0.8, goal_completion 1."


async def test_it_reads_what_the_others_said_whatever_the_order():
    class Goal:
        metric = "goal_completion"

        async def evaluate(self, case):
            assert case.results == ()
            return EvalResult(self.metric, 0.5)

    case = conversation("no failure", "repetition", user_goal="to know")
    evaluators = [OverallAgentScore(), TurnSuccessRatio(metrics=["agent_behavior_failure"]), Goal()]
    found = await evaluate_conversation(case, evaluators)
    assert [item.evaluator for item in found.results] == [
        "overall_agent_score",
        "turn_success_ratio",
        "goal_completion",
    ]
    assert (found.results[0].score, found.status) == (0.75 * 0.5 + 0.25 * 0.5, "Failed")


TURNS = [
    {"user_text": "Where is 7?", "response_text": "Sent.", "tool_calls": [{"name": "lookup", "result": "sent"}]},
    {"user_text": "And 8?", "response_text": "Sent."},
]
CONVERSATION = EvalCase(turns=TURNS, user_goal="Know both", knowledge="k", tools=[{"name": "lookup"}])


async def test_turns_are_judged_in_context():
    judge = PreparedJudge([{"reason": "r", "label": "no failure"}] * 2)
    found = await evaluate_conversation(
        CONVERSATION, [], turn_evaluators=[AgentBehaviorFailure(judge=judge), ToolError()]
    )
    assert [[result.evaluator for result in turn] for turn in found.turns] == [
        ["agent_behavior_failure", "tool_error"]
    ] * 2
    first, second = judge.questions
    assert "earlier turns" not in first.data
    assert json.loads(second.data["earlier turns"])["user"] == "Where is 7?"
    assert {question.data["user goal"] for question in judge.questions} == {"Know both"}
    assert {question.data["knowledge"] for question in judge.questions} == {"k"}
    assert (found.status, found.errors) == (None, ()), "there is a goal, and no evaluator asked for it"


async def test_a_turn_keeps_what_it_has():
    judge = PreparedJudge([{"reason": "r", "score": 4}])
    turns = [{**TURNS[0], "results": [EvalResult("helpfulness", 2.0, scale=(1, 5))]}, TURNS[1]]
    evaluators = [Helpfulness(judge=judge)]
    found = await evaluate_conversation(EvalCase(turns=turns), [], turn_evaluators=evaluators)
    assert [turn[0].score for turn in found.turns] == [2.0, 4.0]
    assert len(judge.questions) == 1
    own = [{**TURNS[0], "knowledge": "mine", "history": [{"user_text": "before"}]}]
    judge = PreparedJudge([{"reason": "r", "label": "no failure"}])
    await evaluate_conversation(
        EvalCase(turns=own, knowledge="shared"), [], turn_evaluators=[AgentBehaviorFailure(judge=judge)]
    )
    assert judge.questions[0].data["knowledge"] == "mine"
    assert "before" in judge.questions[0].data["earlier turns"]


async def test_an_empty_conversation_and_none():
    found = await evaluate_conversation(EvalCase(turns=[]), [OverallAgentScore()])
    assert (found.turns, found.status, found.results[0].status) == ((), None, Status.SKIPPED)
    with pytest.raises(ValueError, match="is not a conversation"):
        await evaluate_conversation(EvalCase(), [])
