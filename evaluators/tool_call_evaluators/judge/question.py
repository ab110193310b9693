"""The question of an evaluator and the answer of a judge."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from a2a_tool_capture.canonical import canonical

from .prompt import FRAME, Message, Prompt, load_prompt, render
from .usage import Usage


@dataclass(frozen=True, slots=True)
class Question:
    """A question to a judge.

    `data` holds the judged, untrusted texts by label; `criteria` is text of the suite's author, which the judge
    follows. The answer must fit `schema`, a JSON Schema of an object. `vote` numbers the repetitions of a question.
    """

    prompt: Prompt
    data: Mapping[str, str]
    schema: Mapping[str, Any]
    criteria: str = ""
    vote: int = 0

    def messages(self) -> list[Message]:
        """The question as chat messages. The fences around the data differ from one call to the next."""
        text = f"{self.prompt.text}\n\n# Criteria\n\n{self.criteria}" if self.criteria else self.prompt.text
        return render(text, self.data, self.schema)

    def key(self, judge: str) -> str:
        """A hash (64 hex digits) that is equal only for the same question to the same judge.

        `judge` identifies the judge and everything on which its answers depend.
        """
        content = [
            judge,
            load_prompt(FRAME).version,
            str(self.prompt),
            self.prompt.text,
            self.criteria,
            list(self.data.items()),
            self.schema,
            self.vote,
        ]
        return hashlib.sha256(canonical(content).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Answer:
    """A judge's answer: `value` fits the question's schema, `model` is the name that the API returns, `notes` are
    about how it was asked."""

    value: Mapping[str, Any]
    model: str = ""
    usage: Usage = field(default_factory=Usage)
    cached: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reply:
    """A model's next message in a conversation; `model` is the name that the API returns."""

    text: str
    model: str = ""
    usage: Usage = field(default_factory=Usage)


@runtime_checkable
class Judge(Protocol):
    """Anything that answers questions."""

    async def ask(self, question: Question) -> Answer:
        """Answer. Raises JudgeError if no answer fits the question's schema."""
