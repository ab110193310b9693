"""The classes of a custom metric and of `evaluation.json` (schema v1.1), as in arksim 0.3.8, and arksim's gates."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any, Generic, Literal, TypeVar

from a2a_tool_capture.models import ToolCallSource
from pydantic import BaseModel, ConfigDict, Field

from ...model import CallsUnseenError

MetricScope = Literal["turn", "conversation"]
V = TypeVar("V", float, str)


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
    source: ToolCallSource | None = None


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
        llm: Any,
        scope: MetricScope,
        additional_input: Mapping[str, Any] | None,
    ) -> None:
        self.name = type(self).__name__ if name is None else name
        self.description = description
        self.scope = scope
        self.additional_input = dict(additional_input or {})
        self._llm = llm

    @property
    def llm(self) -> Any:
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
        llm: Any = None,
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
        llm: Any = None,
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


T = TypeVar("T")

logger = logging.getLogger(__name__)

NOT_MEASURED = ("evaluation_run_failed", "agent_api_error")
"""Values of `turn_behavior_failure` of turns that could not be judged."""


class _Entity(BaseModel):
    """Also read from objects with the same attributes, such as arksim's own. What no limit concerns is kept."""

    model_config = ConfigDict(from_attributes=True, extra="allow")


class TurnEvaluation(_Entity):
    """A turn, from 0."""

    turn_id: int
    scores: list[QuantResult]
    turn_behavior_failure: str
    qual_scores: list[QualResult] = Field(default_factory=list)


class ConversationEvaluation(_Entity):
    """A conversation. `goal_completion_score` is -1 if the goal was not scored."""

    conversation_id: str
    goal_completion_score: float
    overall_agent_score: float
    turn_scores: list[TurnEvaluation]
    convo_scores: list[QuantResult] = Field(default_factory=list)
    convo_qual_scores: list[QualResult] = Field(default_factory=list)


class Evaluation(_Entity):
    """The whole file."""

    conversations: list[ConversationEvaluation]


def check_numeric_thresholds(
    evaluation: Evaluation | Mapping[str, Any], numeric_thresholds: Mapping[str, float] | None
) -> bool:
    """Whether every conversation reaches the threshold of each metric, on the metric's own scale.

    A metric of turns counts with its mean in the conversation, one of conversations with its score; `overall_score` is
    the `overall_agent_score`. A conversation without the metric is left out, with a warning. Unlike arksim's, a metric
    that no conversation has fails. Failures are logged. `evaluation` is an `Evaluation` or the content of
    evaluation.json; raises pydantic's ValidationError, a ValueError, for anything else.
    """
    return _hold(evaluation, numeric_thresholds, _low_scores)


def check_qualitative_failure_labels(
    evaluation: Evaluation | Mapping[str, Any], qualitative_failure_labels: Mapping[str, Sequence[str]] | None
) -> bool:
    """Whether no turn and no conversation has one of the labels listed for its metric.

    Turns without the metric are left out. Unlike arksim's, a metric that no conversation has fails. Failures are
    logged. `evaluation`: see `check_numeric_thresholds`.
    """
    return _hold(evaluation, qualitative_failure_labels, _forbidden_labels)


def _hold(
    evaluation: Evaluation | Mapping[str, Any],
    limits: Mapping[str, T] | None,
    problems_of: Callable[[ConversationEvaluation, str, T], list[str] | None],
) -> bool:
    """Whether no conversation has a problem, and each metric was measured in some: elsewhere the problems are None."""
    conversations = Evaluation.model_validate(evaluation).conversations
    hold = True
    for metric, limit in (limits or {}).items():
        measured = False
        for conversation in conversations:
            problems = problems_of(conversation, metric, limit)
            if problems is None:
                logger.warning("%s: %s was not measured and is not compared", conversation.conversation_id, metric)
            measured = measured or problems is not None
            for problem in problems or ():
                logger.error("%s%s", conversation.conversation_id, problem)
                hold = False
        if not measured:
            logger.error("%s was measured in no conversation: nothing shows that its limit holds", metric)
            hold = False
    return hold


def _low_scores(conversation: ConversationEvaluation, metric: str, least: float) -> list[str] | None:
    """Of the score that the threshold applies to. Negative values were not computed."""
    if metric == "overall_score":
        scores = [conversation.overall_agent_score]
    elif metric == "goal_completion":
        scores = [conversation.goal_completion_score]
    else:
        scores = [item.value for item in conversation.convo_scores if item.name == metric][:1] or [
            item.value for turn in conversation.turn_scores for item in turn.scores if item.name == metric
        ]
    computed = [score for score in scores if score >= 0 or metric == "overall_score"]
    if not computed:
        return None
    score = fmean(computed)
    return [f": {metric} is {score:.3f}, below {least:g}"] if score < least else []


def _forbidden_labels(conversation: ConversationEvaluation, metric: str, forbidden: Sequence[str]) -> list[str] | None:
    found = [("the conversation", item.value) for item in conversation.convo_qual_scores if item.name == metric]
    for turn in conversation.turn_scores:
        own = [item.value for item in turn.qual_scores if item.name == metric][:1]
        if metric == "agent_behavior_failure":
            own = [] if turn.turn_behavior_failure in NOT_MEASURED else [turn.turn_behavior_failure]
        found += [(f"turn {turn.turn_id}", label) for label in own]
    problems = [f", {place}: {metric} is {label!r}" for place, label in found if label in forbidden]
    return problems if found else None
