"""What passes between an evaluator and a judge."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from a2a_tool_capture.canonical import canonical

from .prompt import Message, Prompt, frame_version, render
from .usage import Usage


@dataclass(frozen=True, slots=True)
class Question:
    """What a judge is asked.

    `data` holds, by label, what others wrote and what is to be judged; `criteria` is the suite author's own text,
    which the judge follows. The answer must fit `schema`, a JSON Schema of an object. `vote` tells apart the times
    that one question is asked.
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
        """A hash that is equal exactly where this very question is put to the same judge; 64 hex digits.

        `judge` says which judge that is, and all about it on which answers depend.
        """
        content = [
            judge,
            frame_version(),
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
    """What a judge said: `value` fits the question's schema. `model` is what answered, as it calls itself."""

    value: Mapping[str, Any]
    model: str = ""
    usage: Usage = field(default_factory=Usage)
    cached: bool = False


@runtime_checkable
class Judge(Protocol):
    """Anything that answers questions."""

    async def ask(self, question: Question) -> Answer:
        """Answer. Raises JudgeError where there is no answer that fits the question's schema."""
