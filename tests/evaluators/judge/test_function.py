"""A plain function from prompt to text as a judge."""

from __future__ import annotations

import json
import sys
import threading

import pytest
from tool_call_evaluators import EvalCase, OptionError, Status, with_judge
from tool_call_evaluators.judge import Judge, JudgeAnswerError, JudgeUnreachableError, Question, Usage
from tool_call_evaluators.judge.function import FunctionJudge
from tool_call_evaluators.judge.question import Prompt
from tool_call_evaluators.judged.tasks import TaskCompletion, ToolArgumentHallucination

SCHEMA = {
    "type": "object",
    "properties": {"reason": {"type": "string"}, "score": {"type": "integer", "enum": [1, 2, 3]}},
    "required": ["reason", "score"],
}
QUESTION = Question(Prompt("p", "1", "Grade the answer."), {"answer": "Paris"}, SCHEMA)
GOOD = '{"reason": "Right.", "score": 3}'


class Answers:
    """Returns the texts in order, and keeps the prompts."""

    def __init__(self, *texts):
        self.texts, self.prompts, self.threads = iter(texts), [], set()

    def __call__(self, prompt):
        self.prompts.append(prompt)
        self.threads.add(threading.current_thread())
        return next(self.texts)


@pytest.mark.statement(147)
async def test_a_function_answers_a_question():
    model = Answers(f"<think>Hm.</think> ```json\n{GOOD}\n```")
    judge = FunctionJudge(model)
    assert isinstance(judge, Judge)
    answer = await judge.ask(QUESTION)
    assert answer.value == {"reason": "Right.", "score": 3}
    assert (answer.model, answer.usage) == ("Answers", Usage(1, None, None, None))
    (prompt,) = model.prompts
    assert all(text in prompt for text in ("Grade the answer.", "Paris", json.dumps(SCHEMA)))
    assert threading.current_thread() not in model.threads


@pytest.mark.statement(147)
async def test_evaluators_accept_a_function_as_their_judge():
    def model(prompt: str) -> str:
        key = "task_1" if "task_1" in prompt else "call_1"
        return json.dumps({key: {"reason": "Yes.", "verdict": True}})

    async def asynchronous(prompt: str) -> str:
        return model(prompt)

    case = EvalCase(
        user_text="Find 7.", response_text="Done.", tasks=["find 7"], tool_calls=[{"name": "a", "args": {"x": 7}}]
    )
    for judge in (model, asynchronous):
        assert (await TaskCompletion(judge=judge).evaluate(case)).score == 1.0
        (evaluator,) = with_judge([ToolArgumentHallucination()], judge)
        result = await evaluator.evaluate(case)
        assert (result.score, result.details["judge"]["model"]) == (1.0, judge.__name__)
    with pytest.raises(OptionError, match="option judge must be"):
        TaskCompletion(judge=3)


async def test_an_answer_that_does_not_fit_is_asked_for_again_once():
    model = Answers("I think it is good.", GOOD)
    answer = await FunctionJudge(model).ask(QUESTION)
    assert (answer.value["score"], answer.usage.requests) == (3, 2)
    assert "I think it is good." in model.prompts[1]
    assert "Your answer cannot be used: it is not JSON" in model.prompts[1]
    with pytest.raises(JudgeAnswerError, match="judge Answers: the answer is invalid, and so is its repair"):
        await FunctionJudge(Answers("no", "no")).ask(QUESTION)


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (lambda prompt: None, JudgeAnswerError, "it returned NoneType, not a text"),
        (lambda prompt: 1 / 0, JudgeUnreachableError, "ZeroDivisionError: division by zero"),
        (lambda prompt: sys.exit(0), JudgeUnreachableError, "SystemExit: 0"),
    ],
)
async def test_what_goes_wrong_in_the_function_is_named(function, error, message):
    with pytest.raises(error, match=f"judge <lambda>: {message}") as caught:
        await FunctionJudge(function).ask(QUESTION)
    assert caught.value.usage.requests == 1
    result = await TaskCompletion(judge=function).evaluate(EvalCase(user_text="hi", tasks=["t"]))
    assert result.status is Status.ERRORED
