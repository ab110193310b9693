"""A conversation: its turns, then the whole."""

from __future__ import annotations

import json

import pytest
from tool_call_evaluators import EvalCase, EvalResult, Status, evaluate_conversation
from tool_call_evaluators.judge import PreparedJudge
from tool_call_evaluators.judged.behavior import AgentBehaviorFailure, GoalCompletion
from tool_call_evaluators.judged.quality import Helpfulness
from tool_call_evaluators.metrics.conversation_scores import OverallAgentScore, TurnSuccessRatio
from tool_call_evaluators.metrics.tool_error import ToolError

TURNS = [
    {"user_text": "Where is 7?", "response_text": "Sent.", "tool_calls": [{"name": "lookup", "result": "sent"}]},
    {"user_text": "And 8?", "response_text": "Sent."},
]
CONVERSATION = EvalCase(turns=TURNS, user_goal="Know both", knowledge="k", tools=[{"name": "lookup"}])
FINE = EvalResult("agent_behavior_failure", 1.0, passed=True, label="no failure")
MADE_UP = EvalResult("agent_behavior_failure", 0.0, passed=False, label="false information", reason="Made up 8.")


def judged(*turns):
    return EvalCase(turns=[{**turn, "results": [result]} for turn, result in zip(TURNS, turns, strict=True)],
                    user_goal="Know both")  # fmt: skip


def goal(score):
    return GoalCompletion(judge=PreparedJudge([{"reason": "So.", "score": score}]))


@pytest.mark.parametrize(
    ("turns", "score", "overall", "status"),
    [
        ((FINE, FINE), 5, 1.0, "Done"),
        ((FINE, MADE_UP), 5, 0.625, "Partial Failure"),
        ((FINE, MADE_UP), 4, 0.5625, "Failed"),
        ((MADE_UP, MADE_UP), 5, 0.25, "Failed"),
    ],
)
async def test_scores_and_status_of_turns_that_were_judged(turns, score, overall, status):
    found = await evaluate_conversation(judged(*turns), [goal(score), OverallAgentScore(), TurnSuccessRatio()])
    completion, agent, ratio = found.results
    assert completion.score == (score - 1) / 4
    assert ratio.score == sum(turn is FINE for turn in turns) / 2
    assert (agent.score, found.status) == (pytest.approx(overall), status)
    assert found.turns == ((turns[0],), (turns[1],))


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
