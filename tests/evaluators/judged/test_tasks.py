"""task_completion and tool_argument_hallucination."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tool_call_evaluators import EvalCase, Status
from tool_call_evaluators.judge import PreparedJudge
from tool_call_evaluators.judged.tasks import TaskCompletion, ToolArgumentHallucination

SAID = {"user_text": "Cancel order 7 and write to Ann", "response_text": "Done."}


def verdicts(kind, *passed):
    return {f"{kind}_{number}": {"reason": f"Reason {number}.", "verdict": ok} for number, ok in passed}


def tasks(*passed):
    return verdicts("task", *enumerate(passed, start=1))


@pytest.mark.statement(195, 196)
async def test_completed_over_all():
    judge = PreparedJudge([tasks(True, False, True)])
    case = EvalCase(**SAID, tasks=["cancel 7", "write to Ann", "be kind"], constraints=["no refunds"])
    result = await TaskCompletion(judge=judge).evaluate(case)
    assert (result.score, result.passed) == (2 / 3, True)
    assert result.reason == "2 of 3 tasks completed: write to Ann: Reason 2."
    assert result.details["tasks"][1] == {"task": "write to Ann", "completed": False, "reason": "Reason 2."}
    (question,) = judge.questions
    assert question.data["tasks"].splitlines()[0] == '{"task_1": "cancel 7"}'
    assert question.data["constraints"] == '{"constraint_1": "no refunds"}'
    assert (question.data["user message"], question.data["answer"]) == (SAID["user_text"], SAID["response_text"])


@given(st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=1, max_size=5))
async def test_a_task_is_completed_where_most_votes_say_so(votes):
    case = EvalCase(**SAID, tasks=["a", "b", "c"])
    result = await TaskCompletion(judge=PreparedJudge(tasks(*vote) for vote in votes), votes=len(votes)).evaluate(case)
    expected = [sum(vote[index] for vote in votes) * 2 > len(votes) for index in range(3)]
    assert [task["completed"] for task in result.details["tasks"]] == expected
    assert result.score == pytest.approx(sum(expected) / 3)
    assert result.details["votes"] == [sum(vote) / 3 for vote in votes]


async def test_a_whole_conversation():
    judge = PreparedJudge([tasks(True)])
    case = EvalCase(turns=[SAID, SAID], tasks=["a"])
    assert (await TaskCompletion(judge=judge).evaluate(case)).score == 1
    assert list(judge.questions[0].data) == ["conversation", "tasks"]


def call(name, arguments, result=None):
    return {"name": name, "arguments": arguments, "result": result}


@pytest.mark.statement(201)
async def test_derived_over_all_calls():
    judge = PreparedJudge([verdicts("call", (1, True), (3, False))])
    calls = [call("find", {"id": "7"}, "Ann"), call("list", {}), call("mail", {"to": "Bob"}), call("log", None)]
    result = await ToolArgumentHallucination(judge=judge).evaluate(EvalCase(**SAID, tool_calls=calls))
    assert (result.score, result.passed) == (pytest.approx(2 / 3), False)
    assert result.reason == "the arguments of 2 of 3 calls can be derived: call 3 (mail): Reason 3."
    assert result.details["calls"] == [
        {"position": 1, "name": "find", "derived": True, "reason": "Reason 1."},
        {"position": 2, "name": "list", "derived": True, "reason": "it has no arguments"},
        {"position": 3, "name": "mail", "derived": False, "reason": "Reason 3."},
    ]
    (question,) = judge.questions
    assert list(question.data) == ["user message", "tool calls"], "the answer is not known before the calls"
    assert len(question.data["tool calls"].splitlines()) == 4
    assert list(question.schema["properties"]) == ["call_1", "call_3"]


@pytest.mark.parametrize(
    ("calls", "status", "reason"),
    [
        ([], Status.PASSED, "No tool was called."),
        ([call("list", {})], Status.PASSED, "the arguments of 1 of 1 call can be derived."),
        ([call("list", None)], Status.SKIPPED, "the arguments of the calls were not recorded"),
    ],
)
async def test_calls_about_which_nobody_is_asked(calls, status, reason):
    judge = PreparedJudge([])
    result = await ToolArgumentHallucination(judge=judge).evaluate(EvalCase(**SAID, tool_calls=calls))
    assert (result.status, result.reason, judge.questions) == (status, reason, [])
