"""A judge that is a plain function from prompt to text."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

from .answers import Completion, UnfitAnswerError, read_answer, shortened
from .errors import JudgeAnswerError, JudgeUnreachableError
from .prompt import REPAIR
from .question import Answer, Judge, Question
from .usage import Usage

PromptFunction = Callable[[str], Any]
"""A function from a prompt to the model's text, or to an awaitable text."""


class FunctionJudge:
    """Asks a function, which may be asynchronous; an invalid answer is sent back once for repair.

    A synchronous function runs in a thread. Nothing is known about tokens and cost.
    """

    def __init__(self, function: PromptFunction) -> None:
        self.function = function
        self.model = getattr(function, "__name__", type(function).__name__)

    def __repr__(self) -> str:
        return f"FunctionJudge({self.model})"

    async def ask(self, question: Question) -> Answer:
        """Answer. Raises JudgeUnreachableError if the function raises, JudgeAnswerError for an invalid answer."""
        prompt = "\n\n".join(message["content"] for message in question.messages())
        text = await self._text(prompt, 1)
        try:
            return self._answer(text, question, 1)
        except UnfitAnswerError as unfit:
            repair = REPAIR.format(problem=unfit)
        text = await self._text(f"{prompt}\n\n{text}\n\n{repair}", 2)
        try:
            return self._answer(text, question, 2)
        except UnfitAnswerError as still:
            problem = (
                f"the answer is invalid, and so is its repair: {still}; the answer was {shortened(text) or 'empty'}"
            )
            raise JudgeAnswerError(f"judge {self.model}: {problem}").costing(_spent(2)) from None

    def _answer(self, text: str, question: Question, requests: int) -> Answer:
        value = read_answer(Completion(text, self.model, "", None, None), question.schema)
        return Answer(value, self.model, _spent(requests))

    async def _text(self, prompt: str, requests: int) -> str:
        try:
            if inspect.iscoroutinefunction(self.function):
                text = await self.function(prompt)
            else:
                text = await asyncio.to_thread(self.function, prompt)
        except (Exception, SystemExit) as error:  # the function may raise anything
            problem = f"judge {self.model}: {type(error).__name__}: {error}"
            raise JudgeUnreachableError(problem).costing(_spent(requests)) from error
        if not isinstance(text, str):
            problem = f"judge {self.model}: it returned {type(text).__name__}, not a text"
            raise JudgeAnswerError(problem).costing(_spent(requests))
        return text


def as_judge(value: Any) -> Any:
    """A function as a judge; anything else unchanged."""
    return FunctionJudge(value) if callable(value) and not isinstance(value, Judge) else value


def _spent(requests: int) -> Usage:
    return Usage(requests, None, None, None)
