"""`self.llm` of a custom metric: a judge with the two methods of arksim's language models."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar, overload

from a2a_tool_capture.canonical import canonical
from pydantic import BaseModel

from ...judge.panel import JudgeOption, judge_of
from ...judge.question import Answer, JudgeError, Message, Prompt, Question
from ...judged.base import object_schema
from ...options import OptionError

T = TypeVar("T", bound=BaseModel)

_PROMPT = Prompt("arksim", "1", "")
_TEXT = object_schema({"answer": {"type": "string"}})


@dataclass(frozen=True, slots=True)
class ChatQuestion(Question):
    """A question whose messages are a metric's own, with the schema of the answer at the end of the last one."""

    chat: tuple[Message, ...] = ()

    def messages(self) -> list[Message]:
        *earlier, last = self.chat
        form = f"Answer with nothing but a JSON object that fits this JSON Schema: {json.dumps(self.schema)}"
        return [*map(dict, earlier), {**last, "content": f"{last['content']}\n\n{form}"}]

    def key(self, judge: str) -> str:
        return Question.key(self, canonical([judge, list(self.chat)]))


@dataclass(frozen=True, slots=True)
class Asking:
    """One evaluation: the number of the vote, and the answers so far."""

    vote: int = 0
    answers: list[Answer] = field(default_factory=list)


_asking: ContextVar[Asking | None] = ContextVar("arksim_asking", default=None)


class JudgeLLM:
    """Answers with a judge: text, or an object of a pydantic class.

    `judge` is a judge or its settings, as in the option of an evaluator. The messages reach the model as the metric
    writes them, so what they quote of the agent is not fenced off, as it is in the prompts of built-in evaluators.
    """

    def __init__(self, judge: JudgeOption = None, prompt: Prompt = _PROMPT) -> None:
        self._judge = judge
        self._loop: asyncio.AbstractEventLoop | None = None
        self._others = Asking()
        self.prompt = prompt

    @contextmanager
    def asking(self, vote: int, answers: list[Answer]) -> Iterator[None]:
        """Context in which calls are answered on the running loop, to which the judge may be bound, and their answers
        are appended to `answers`; with them those to threads that a metric has started, which have no context."""
        self._loop = asyncio.get_running_loop()
        token = _asking.set(Asking(vote, answers))
        try:
            yield
        finally:
            _asking.reset(token)
            while self._others.answers:
                answers.append(self._others.answers.pop())

    @overload
    def call(self, messages: str | list[Message], schema: type[T], **options: Any) -> T: ...

    @overload
    def call(self, messages: str | list[Message], schema: None = None, **options: Any) -> str: ...

    def call(self, messages: str | list[Message], schema: type[T] | None = None, **options: Any) -> T | str:
        """The answer: an object of `schema`, without it the text. `options` have no effect: the judge's settings hold.

        Blocks, so it must not be called on an event loop. Raises JudgeError, or pydantic's ValidationError where a
        validator of `schema` refuses the answer.
        """
        answer = self._answer(messages, schema, _asking.get() or self._others)
        if self._loop is None:
            return asyncio.run(answer)
        return asyncio.run_coroutine_threadsafe(answer, self._loop).result()

    async def call_async(self, messages: str | list[Message], schema: type[T] | None = None, **options: Any) -> T | str:
        """As `call`, for coroutines."""
        answer = self._answer(messages, schema, _asking.get() or self._others)
        if self._loop is None or self._loop is asyncio.get_running_loop():
            return await answer
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(answer, self._loop))

    async def _answer(self, messages: str | list[Message], schema: type[T] | None, asking: Asking) -> T | str:
        chat = [{"role": "user", "content": messages}] if isinstance(messages, str) else messages
        question = ChatQuestion(
            self.prompt,
            {},
            _TEXT if schema is None else strict_schema(schema.model_json_schema()),
            vote=asking.vote,
            chat=tuple({"role": message["role"], "content": message["content"]} for message in chat),
        )
        try:
            answer = await judge_of(self._judge).ask(question)
        except JudgeError as error:
            if error.usage.requests:
                asking.answers.append(Answer({}, usage=error.usage))  # paid for, even if the metric handles the error
            raise
        asking.answers.append(answer)
        return str(answer.value["answer"]) if schema is None else schema.model_validate(answer.value)


class LLM(JudgeLLM):
    """arksim's own language model, for metrics that create one: a judge of this model."""

    def __init__(
        self, model: str, provider: str | None = None, temperature: float | None = None, **options: Any
    ) -> None:
        """Raises OptionError for a provider other than OpenAI, whose API most servers offer too."""
        if provider not in (None, "openai"):
            raise OptionError(f"provider {provider} is not supported in a metric's own LLM; use the injected self.llm")
        super().__init__({"model": model, "temperature": temperature})


BaseLLM = JudgeLLM
"""Its name in arksim."""


def strict_schema(schema: Any) -> Any:
    """A JSON Schema in which objects have all of their properties and no others, as structured outputs require."""
    if isinstance(schema, list):
        return [strict_schema(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    strict = {
        key: {name: strict_schema(item) for name, item in value.items()}
        if key in ("properties", "$defs")
        else strict_schema(value)
        for key, value in schema.items()
        if key not in ("default", "title")
    }
    if "properties" in strict:
        strict |= {"required": list(strict["properties"]), "additionalProperties": False}
    return strict
