"""A judge with prepared answers, for tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .answers import misfit
from .errors import JudgeAnswerError, JudgeError
from .question import Answer, Question
from .usage import Usage


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
