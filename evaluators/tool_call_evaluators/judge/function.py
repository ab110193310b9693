"""Judges that are no model behind an API: a plain function from prompt to text, and prepared answers for tests."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .answers import Completion, fitting_answer, misfit
from .budget import spend_request
from .question import Answer, Judge, JudgeAnswerError, JudgeError, JudgeUnreachableError, Message, Question, Usage

PromptFunction = Callable[[str], Any]
"""A function from a prompt to the model's text, or to an awaitable text."""


class FunctionJudge:
    """Asks a function, which may be asynchronous; an invalid answer is sent back once for repair.

    A synchronous function runs in a thread. Nothing is known about tokens and cost.
    """

    def __init__(self, function: PromptFunction) -> None:
        self.function = function
        self.model = getattr(function, "__name__", type(function).__name__)
        self.identity = f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', self.model)}"

    async def ask(self, question: Question) -> Answer:
        """Answer. Raises JudgeUnreachableError if the function raises, JudgeAnswerError for an invalid answer."""
        usage = Usage(0, None, None, None)

        async def complete(messages: list[Message]) -> Completion:
            nonlocal usage
            spend_request()
            usage += Usage(1)
            text = await self._text("\n\n".join(message["content"] for message in messages))
            return Completion(text, self.model, "", None, None)

        try:
            return Answer(await fitting_answer(complete, question), self.model, usage)
        except JudgeError as error:
            raise type(error)(f"judge {self.model}: {error}").costing(usage) from error.__cause__

    async def _text(self, prompt: str) -> str:
        try:
            if inspect.iscoroutinefunction(self.function):
                text = await self.function(prompt)
            else:
                text = await asyncio.to_thread(self.function, prompt)
        except (Exception, SystemExit) as error:  # the function may raise anything
            raise JudgeUnreachableError(f"{type(error).__name__}: {error}") from error
        if not isinstance(text, str):
            raise JudgeAnswerError(f"it returned {type(text).__name__}, not a text")
        return text


def as_judge(value: Any) -> Any:
    """A function as a judge; anything else unchanged."""
    return FunctionJudge(value) if callable(value) and not isinstance(value, Judge) else value


class PreparedJudge:
    """Returns the prepared answers in order; `questions` records the questions.

    Raises an answer that is a JudgeError. Raises JudgeAnswerError, as a real judge would, if no answer is left or the
    next one does not fit the question.
    """

    def __init__(self, answers: Iterable[Mapping[str, Any] | JudgeError]) -> None:
        self._answers = iter(answers)
        self.questions: list[Question] = []

    async def ask(self, question: Question) -> Answer:
        self.questions.append(question)
        answer = next(self._answers, None)
        if answer is None:
            raise JudgeAnswerError("no prepared answer is left")
        if isinstance(answer, JudgeError):
            raise answer
        if problem := misfit(answer, question.schema):
            raise JudgeAnswerError(f"the prepared answer does not fit: {problem}")
        return Answer(answer, "prepared", Usage(requests=1))
