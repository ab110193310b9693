"""The classes of a custom metric: its bases, its input and its results, with the names and fields of arksim 0.3.8."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, Generic, Literal, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from ...model import CallsUnseenError

MetricScope = Literal["turn", "conversation"]
V = TypeVar("V", float, str)


class MetricLLM(Protocol):
    """What a metric asks as `self.llm`."""

    def call(self, messages: str | list[dict[str, str]], schema: Any = None, **options: Any) -> Any: ...

    async def call_async(self, messages: str | list[dict[str, str]], schema: Any = None, **options: Any) -> Any: ...


class ChatMessage(BaseModel):
    """A message; `role` is `user` or `assistant`."""

    role: str
    content: str


def format_chat_history(messages: Iterable[ChatMessage]) -> str:
    """The messages as text, one `role: content` per line."""
    return "".join(f"{message.role}: {message.content}\n" for message in messages)


class ObservedCall(BaseModel):
    """A tool call, with the fields of arksim's ToolCall."""

    id: str
    name: str
    arguments: dict[str, Any] = Field(default_factory=dict)
    result: str | None = None
    error: str | None = None
    source: str | None = None


class CallOfUnknownArguments(ObservedCall):
    """Its arguments are not seen: a metric that reads them is skipped."""

    def model_post_init(self, _: Any) -> None:
        del self.__dict__["arguments"]  # not `{}`, which would say that there are none

    def __getattr__(self, name: str) -> Any:
        if name == "arguments":
            raise CallsUnseenError(f"the arguments of {self.name}: not seen")
        raise AttributeError(name)


class ScoreInput(BaseModel):
    """What a metric scores: a turn, or a whole conversation, which has no `current_turn`.

    `chat_history` is the conversation up to and including the turn. Further fields are those of the metric's
    `additional_input`, in `model_extra`.
    """

    model_config = ConfigDict(extra="allow")

    chat_history: list[ChatMessage] = Field(default_factory=list)
    current_turn: list[ChatMessage] = Field(default_factory=list)
    knowledge: str = ""
    user_goal: str = ""
    profile: str = ""
    tool_calls: list[Any] = Field(default_factory=list)


class _Result(BaseModel, Generic[V]):
    """What both kinds of results have."""

    model_config = ConfigDict(from_attributes=True)

    name: str
    value: V
    reason: str | None = None
    metadata: dict[str, Any] | None = None
    scope: MetricScope = "turn"


class QuantResult(_Result[float]):
    """A number. A negative one, where the scale has none, means that nothing was measured."""


class QualResult(_Result[str]):
    """A label, which is any string."""


class _Metric(ABC):
    """What both kinds of metrics have. `name` is by default that of the class."""

    def __init__(
        self,
        name: str | None,
        description: str,
        llm: MetricLLM | None,
        scope: MetricScope,
        additional_input: Mapping[str, Any] | None,
    ) -> None:
        self.name = type(self).__name__ if name is None else name
        self.description = description
        self.scope = scope
        self.additional_input = dict(additional_input or {})
        self._llm = llm

    @property
    def llm(self) -> MetricLLM:
        """The judge. Raises RuntimeError if the class does not pass `llm` on to its base."""
        if self._llm is None:
            raise RuntimeError(
                f"{type(self).__name__}.llm is not set: accept llm=None in __init__ and pass it to super().__init__"
            )
        return self._llm

    @abstractmethod
    def run(self, score_input: ScoreInput) -> QuantResult | QualResult:
        """The result with the metric's `additional_input`; it has the metric's scope."""


class QuantitativeMetric(_Metric):
    """Base of metrics that return a number within `score_range`: implement `score`."""

    def __init__(
        self,
        name: str | None = None,
        score_range: tuple[float, float] = (1, 5),
        additional_input: Mapping[str, Any] | None = None,
        description: str = "",
        llm: MetricLLM | None = None,
        scope: MetricScope = "turn",
    ) -> None:
        super().__init__(name, description, llm, scope, additional_input)
        self.score_range = score_range

    @abstractmethod
    def score(self, score_input: ScoreInput) -> QuantResult:
        """The score of a turn or a conversation."""

    def run(self, score_input: ScoreInput) -> QuantResult:
        result = self.score(score_input.model_copy(update=self.additional_input))
        result.scope = self.scope
        return result


class QualitativeMetric(_Metric):
    """Base of metrics that return a label: implement `evaluate`. `label_colors` has no effect here."""

    def __init__(
        self,
        name: str | None = None,
        description: str = "",
        label_colors: Mapping[str, str] | None = None,
        llm: MetricLLM | None = None,
        scope: MetricScope = "turn",
        additional_input: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(name, description, llm, scope, additional_input)
        self.label_colors = dict(label_colors or {})

    @abstractmethod
    def evaluate(self, score_input: ScoreInput) -> QualResult:
        """The label of a turn or a conversation."""

    def run(self, score_input: ScoreInput) -> QualResult:
        result = self.evaluate(score_input.model_copy(update=self.additional_input))
        result.scope = self.scope
        return result
