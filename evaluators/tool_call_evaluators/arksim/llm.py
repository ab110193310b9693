"""`self.llm` of a custom metric: a judge with the two methods of arksim's language models."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar, overload

from a2a_tool_capture.canonical import canonical
from pydantic import BaseModel

from ..judge.panel import JudgeOption, judge_of
from ..judge.prompt import Message, Prompt
from ..judge.question import Answer, Question
from ..judged.base import object_schema
from ..options import OptionError

T = TypeVar("T", bound=BaseModel)
R = TypeVar("R")

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
    """One evaluation: the loop that the judge belongs to, the number of the vote, and the answers so far."""

    loop: asyncio.AbstractEventLoop
    vote: int = 0
    answers: list[Answer] = field(default_factory=list)


_asking: ContextVar[Asking | None] = ContextVar("arksim_asking", default=None)


@contextmanager
def asking(vote: int, answers: list[Answer]) -> Iterator[None]:
    """Context in which calls are answered on the running loop, and their answers are appended to `answers`."""
    token = _asking.set(Asking(asyncio.get_running_loop(), vote, answers))
    try:
        yield
    finally:
        _asking.reset(token)


class JudgeLLM:
    """Answers with a judge: text, or an object of a pydantic class.

    `judge` is a judge or its settings, as in the option of an evaluator. The messages reach the model as the metric
    writes them, so what they quote of the agent is not fenced off, as it is in the prompts of built-in evaluators.
    """

    def __init__(self, judge: JudgeOption = None, prompt: Prompt = _PROMPT) -> None:
        self._judge = judge
        self.prompt = prompt

    @overload
    def call(self, messages: str | list[Message], schema: type[T], **options: Any) -> T: ...

    @overload
    def call(self, messages: str | list[Message], schema: None = None, **options: Any) -> str: ...

    def call(self, messages: str | list[Message], schema: type[T] | None = None, **options: Any) -> T | str:
        """The answer: an object of `schema`, without it the text. `options` have no effect: the judge's settings hold.

        Blocks, so it must not be called on an event loop. Raises JudgeError, or pydantic's ValidationError where a
        validator of `schema` refuses the answer.
        """
        under_way = _asking.get()
        answer = self._answer(messages, schema, under_way)
        return asyncio.run(answer) if under_way is None else _on(under_way.loop, answer).result()

    async def call_async(self, messages: str | list[Message], schema: type[T] | None = None, **options: Any) -> T | str:
        """As `call`, for coroutines."""
        under_way = _asking.get()
        answer = self._answer(messages, schema, under_way)
        if under_way is None or under_way.loop is asyncio.get_running_loop():
            return await answer
        return await asyncio.wrap_future(_on(under_way.loop, answer))

    async def _answer(self, messages: str | list[Message], schema: type[T] | None, under_way: Asking | None) -> T | str:
        chat = [{"role": "user", "content": messages}] if isinstance(messages, str) else messages
        question = ChatQuestion(
            self.prompt,
            {},
            _TEXT if schema is None else strict_schema(schema.model_json_schema()),
            vote=under_way.vote if under_way else 0,
            chat=tuple({"role": message["role"], "content": message["content"]} for message in chat),
        )
        answer = await judge_of(self._judge).ask(question)
        if under_way is not None:
            under_way.answers.append(answer)
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


def _on(loop: asyncio.AbstractEventLoop, answer: Coroutine[Any, Any, R]) -> Any:
    return asyncio.run_coroutine_threadsafe(answer, loop)


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
