"""Makes an evaluator of a custom metric of arksim, whose `self.llm` is a judge."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field, make_dataclass
from functools import cache, cached_property
from statistics import median
from typing import Any, ClassVar, TypeVar, overload

from a2a_tool_capture.canonical import canonical
from a2a_tool_capture.models import ToolCall
from pydantic import BaseModel

from ...evaluator import AsyncEvaluator, Measurement, SkipEvaluation
from ...judge.panel import JudgeOption, Poll, dissent, judge_details, judge_of, spread, votes_of
from ...judge.question import Answer, JudgeError, Message, Prompt, Question, total
from ...judged.base import JudgeableEvaluator, band, object_schema
from ...model import EvalCase, UnseenCalls
from ...options import OptionError
from ...registry import register
from .metric_types import CallOfUnknownArguments, ChatMessage, ObservedCall, ScoreInput

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


FAILURE_THRESHOLD = 0.6
"""A score below this share of the top of its range is a failure (arksim's rule)."""

MAX_THREADS = 50
"""The maximum number of metrics that run at once; arksim's default number of workers."""


@dataclass(frozen=True, kw_only=True)
class CustomMetric(JudgeableEvaluator, AsyncEvaluator):
    """Runs a custom metric in a thread of its own, as often as there are votes if it asks the judge.

    The score is the median, the label the most frequent one. Details: the metric's `metadata`, and `judge` as of all
    judged evaluators.
    """

    metric_class: ClassVar[type]
    quantitative: ClassVar[bool]

    @cached_property
    def custom(self) -> Any:
        """The metric, built once: it may load a model."""
        return build(self.metric_class, self.llm)

    @cached_property
    def llm(self) -> JudgeLLM:
        return JudgeLLM(self.judge, Prompt(self.name, self.version, ""))

    async def measure(self, case: EvalCase) -> Measurement:
        given = score_input(case, self.scope)
        answers: list[Answer] = []
        found = []
        try:
            for vote in range(votes_of(self.judge, self.votes)):
                found.append(await self._run(given, vote, answers))
                if not answers:
                    break  # it asks no judge: it would only repeat itself
        except Exception as error:
            spent = total(answer.usage for answer in answers)
            if isinstance(error, JudgeError):
                error.costing(spent)
            elif spent.requests:
                error.details = {"judge": spent.to_dict()}  # type: ignore[attr-defined]  # of the errored result
            raise
        return self._measurement(found, answers)

    async def _run(self, given: ScoreInput, vote: int, answers: list[Answer]) -> Any:
        """Not in the loop's own threads: the judge's cache needs these while a metric waits for it in its thread."""
        with self.llm.asking(vote, answers):
            context = copy_context()
            return await asyncio.get_running_loop().run_in_executor(_threads(), context.run, self.custom.run, given)

    def _measurement(self, found: Sequence[Any], answers: Sequence[Answer]) -> Measurement:
        values = [result.value for result in found]
        if self.quantitative:
            score, label = float(median(values)), None
            if score < 0 <= self.scale[0]:
                raise SkipEvaluation(f"{found[0].reason or 'the metric measured nothing'} ({score:g})")
            chosen = min(found, key=lambda result: abs(result.value - score))
            varying = spread(values)
        else:
            score, label = None, Counter(values).most_common(1)[0][0]
            chosen = found[values.index(label)]
            varying = dissent(values, label)
        metadata = chosen.model_dump(mode="json")["metadata"]
        details: dict[str, Any] = {} if metadata is None else {"metadata": metadata}
        if name := band(score, self.scale):
            details["band"] = name
        if answers:
            details |= {"votes": values, "judge": judge_details([Poll(self.llm.prompt, answers)], varying)}
            details["judge"]["votes"] = len(found)
        return Measurement(score, chosen.reason or "", details, label)


def register_metric(metric_class: type, quantitative: bool, module: str) -> str:
    """Register the metric under its name, which is returned. `module` is the file's.

    Raises OptionError if the class cannot be built, or its name is taken.
    """
    try:
        probe = build(metric_class, JudgeLLM())
    except Exception as error:
        raise OptionError(
            f"{metric_class.__name__} cannot be created: {error}; all parameters of its __init__ but llm need defaults"
        ) from error
    low, high = probe.score_range if quantitative else (0.0, 1.0)
    least = max(low, FAILURE_THRESHOLD * high) if quantitative else None
    evaluator = make_dataclass(
        probe.name,
        [("threshold", float | None, least)],
        bases=(CustomMetric,),
        namespace={
            "__module__": module,
            "__doc__": probe.description or inspect.getdoc(metric_class) or f"The metric {probe.name}.",
            "name": probe.name,
            "scope": probe.scope,
            "scale": (low, high),
            "needs": ("user_text", "response_text") if probe.scope == "turn" else (),
            "needs_judge": _asks(metric_class),
            "metric_class": metric_class,
            "quantitative": quantitative,
        },
        frozen=True,
        kw_only=True,
    )
    register(evaluator)
    return str(probe.name)


def _asks(metric_class: type) -> bool:
    """Whether a method uses `self.llm`. Accepting `llm` says nothing: most metrics do."""
    bases = ("arksim", "tool_call_evaluators")
    own = [cls for cls in metric_class.__mro__ if cls.__module__.partition(".")[0] not in bases]
    methods = [method for cls in own for method in vars(cls).values() if inspect.isfunction(method)]
    used = {name for method in methods if method.__name__ != "__init__" for name in method.__code__.co_names}
    return not used.isdisjoint(("llm", "_llm"))


def build(metric_class: type, llm: JudgeLLM) -> Any:
    """The metric, with `llm` if its `__init__` accepts that."""
    accepts = "llm" in inspect.signature(metric_class.__init__).parameters  # type: ignore[misc]  # of this very class
    return metric_class(llm=llm) if accepts else metric_class()


def score_input(case: EvalCase, scope: str) -> ScoreInput:
    """The input for a turn with the turns before it, or for a whole conversation. Raises SkipEvaluation if empty."""
    turns = (*case.history, *((case,) if case.turns is None else case.turns))
    if not any(turn.user_text for turn in turns):
        raise SkipEvaluation("the conversation has no turns")
    given = ScoreInput(
        chat_history=_messages(turns),
        current_turn=_messages([case]) if scope == "turn" else [],
        knowledge=case.knowledge or "",
        user_goal=case.user_goal or "",
        profile=case.profile or "",
        tool_calls=[*map(_observed, case.captured_calls)],
    )
    if case.calls_unseen is not None:
        unseen: Any = UnseenCalls(case.captured_calls, case.calls_unseen)
        given.tool_calls = unseen  # a metric that reads none runs
    return given


def _observed(call: ToolCall) -> ObservedCall:
    known = {name: getattr(call, name) for name in ("id", "name", "result", "error", "source")}
    if call.arguments is None:
        return CallOfUnknownArguments(**known)
    return ObservedCall(**known, arguments=dict(call.arguments))


def _messages(turns: Iterable[EvalCase]) -> list[ChatMessage]:
    texts = ((("user", turn.user_text), ("assistant", turn.response_text)) for turn in turns)
    return [ChatMessage(role=role, content=text) for pair in texts for role, text in pair if text is not None]


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="arksim-metric")
