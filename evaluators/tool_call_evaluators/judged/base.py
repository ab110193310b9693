"""Base classes of evaluators that ask a judge, and how they receive one."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, TypeVar

from ..evaluator import AsyncEvaluator, EvaluatorBase, Measurement
from ..judge.cache import CachingJudge, JudgeCache
from ..judge.panel import JudgeOption, Poll, connect, judge_of, poll, votes_of
from ..judge.prompt import Prompt, load_prompt
from ..judge.question import Judge, Question
from ..judge.settings import JudgeSettings
from ..judge.usage import Usage, total
from ..judge.votes import dissent, majority, middle, most_given, spread
from ..model import EvalCase, EvalResult
from ..options import OptionError

E = TypeVar("E", bound=EvaluatorBase)


@dataclass(frozen=True, kw_only=True)
class JudgedEvaluator(AsyncEvaluator):
    """Base of evaluators that ask a judge one question.

    `prompt` is the instructions, or the name of their file; its version is the evaluator's. If no judge is configured
    or reachable, or its answer is invalid, `measure` raises JudgeError, and the result is errored.
    Details of each: `judge`, `{model, prompt, votes, spread, cached, requests, prompt_tokens, completion_tokens,
    cost}`, and `votes`, the values of the answers.
    """

    prompt: ClassVar[str | Prompt]

    judge: JudgeOption = None
    """A judge, or settings that override the suite's. None: those of the suite or the environment."""
    votes: int | None = None
    """Number of votes. None: as in the judge's settings, by default 1."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_judge_options(self.name, self.judge, self.votes)

    async def ask(self, data: Mapping[str, str], schema: Mapping[str, Any], criteria: str = "") -> Poll:
        """The answers to the question. Raises JudgeError."""
        prompt = load_prompt(self.prompt) if isinstance(self.prompt, str) else self.prompt
        question = Question(prompt, data, schema, criteria)
        (given,) = await poll(judge_of(self.judge), [question], votes_of(self.judge, self.votes))
        return given


@dataclass(frozen=True, kw_only=True)
class GradedEvaluator(JudgedEvaluator):
    """Base of evaluators that ask for a grade: the score is the median grade, mapped to the evaluator's scale.

    `grades` are the lowest and highest grade, whole numbers.
    """

    grades: ClassVar[tuple[int, int]] = (1, 5)

    @abstractmethod
    def data(self, case: EvalCase) -> Mapping[str, str]:
        """The data for the judge. May raise SkipEvaluation."""

    def instructions(self) -> str:
        """Criteria that the suite's author adds to the prompt; trusted."""
        return ""

    async def measure(self, case: EvalCase) -> Measurement:
        given = await self.ask(self.data(case), grade_schema(*self.grades), self.instructions())
        scores = [self._on_scale(value["score"]) for value in given.values()]
        score = middle(scores)
        nearest = min(range(len(scores)), key=lambda index: abs(scores[index] - score))
        return Measurement(
            score,
            str(given.values()[nearest]["reason"]),
            {"votes": scores, "judge": given.details(spread(scores))},
        )

    def _on_scale(self, grade: float) -> float:
        (lowest, highest), (low, high) = self.grades, self.scale
        return low + (grade - lowest) / (highest - lowest) * (high - low)


@dataclass(frozen=True, kw_only=True)
class LabelledEvaluator(JudgedEvaluator):
    """Base of evaluators that ask for one of several labels: 1 for `good_label`, else 0.

    `labels` are ordered from worst to best: in a tie, the worse one counts.
    """

    labels: ClassVar[Sequence[str]]
    good_label: ClassVar[str]

    async def labelled(self, data: Mapping[str, str]) -> Measurement:
        """The most frequent label, and the reason of its first vote."""
        given = await self.ask(data, label_schema(self.labels))
        labels = [str(value["label"]) for value in given.values()]
        label = most_given(labels, self.labels)
        return Measurement(
            float(label == self.good_label),
            str(given.values()[labels.index(label)]["reason"]),
            {"votes": labels, "judge": given.details(dissent(labels, label))},
            label,
        )


@dataclass(frozen=True, slots=True)
class Ruling:
    """A judge's ruling on one of several items: yes or no, and why."""

    passed: bool
    reason: str


def rulings(given: Poll) -> dict[str, Ruling]:
    """The ruling of the majority on each item (a tie is a no), with the reason of its first vote."""
    values = given.values()
    decided = majority([{key: bool(ruling["verdict"]) for key, ruling in value.items()} for value in values])
    return {
        key: Ruling(passed, next(str(value[key]["reason"]) for value in values if value[key]["verdict"] is passed))
        for key, passed in decided.items()
    }


def shares(given: Poll) -> list[float]:
    """The share of yes in each vote."""
    return [sum(bool(found["verdict"]) for found in value.values()) / len(value) for value in given.values()]


def grade_schema(lowest: int, highest: int) -> dict[str, Any]:
    """An answer with a reason and an integer `score`. Grades are listed: not every API supports `minimum`."""
    grade = {"type": "integer", "enum": list(range(lowest, highest + 1))}
    return object_schema({"reason": {"type": "string"}, "score": grade})


def label_schema(labels: Iterable[str]) -> dict[str, Any]:
    """An answer with a reason and a `label`."""
    return object_schema({"reason": {"type": "string"}, "label": {"type": "string", "enum": list(labels)}})


def rulings_schema(keys: Iterable[str]) -> dict[str, Any]:
    """An answer with a reason and a yes or no for each key, all required."""
    ruling = object_schema({"reason": {"type": "string"}, "verdict": {"type": "boolean"}})
    return object_schema(dict.fromkeys(keys, ruling))


def object_schema(properties: Mapping[str, Any]) -> dict[str, Any]:
    """An object with exactly these properties."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def check_judge_options(owner: str, judge: JudgeOption, votes: int | None) -> None:
    """Raise OptionError for invalid settings of a judge or an invalid number of votes."""
    if isinstance(judge, Mapping):
        try:
            JudgeSettings.from_mapping(judge)
        except OptionError as error:
            raise OptionError(f"{owner}: option {error}", "judge") from None
    if votes is not None and not 1 <= votes <= 99:
        raise OptionError(f"{owner}: option votes must lie between 1 and 99; got {votes}", "votes")


def judge_usage(results: Iterable[EvalResult]) -> Usage:
    """The total cost of the verdicts in these results; zero if no judge was asked."""
    return total(
        Usage(judge["requests"], judge["prompt_tokens"], judge["completion_tokens"], judge["cost"])
        for result in results
        if isinstance(judge := result.details.get("judge"), Mapping)
    )


def with_judge(
    evaluators: Iterable[E],
    judge: Judge | JudgeSettings | None = None,
    *,
    cache: JudgeCache | None = None,
    environ: Mapping[str, str] = os.environ,
) -> list[E]:
    """The evaluators, with a judge set on those that can use one.

    `judge` is a judge, or settings, which the environment and an evaluator's own `judge` settings override. An
    evaluator that already has a judge keeps it; without a model nothing changes. Judges created here use `cache`. No
    request is sent.
    """
    return [_given_judge(evaluator, judge, cache, environ) for evaluator in evaluators]


def _given_judge(
    evaluator: E, judge: Judge | JudgeSettings | None, cache: JudgeCache | None, environ: Mapping[str, str]
) -> E:
    own: JudgeOption = getattr(evaluator, "judge", None)
    if not {"judge", "votes"} <= {item.name for item in fields(evaluator)} or isinstance(own, Judge):
        return evaluator
    if isinstance(judge, Judge) and own is None:
        return _replaced(evaluator, judge, 1)
    settings = judge if isinstance(judge, JudgeSettings) else JudgeSettings()
    settings = settings.with_environment(environ).overridden(own or {})
    if settings.model is None:
        return evaluator
    connected: Judge = connect(settings, settings.api_key(environ))
    if cache is not None and settings.cache:
        connected = CachingJudge(connected, cache, settings.identity)
    return _replaced(evaluator, connected, settings.votes)


def _replaced(evaluator: E, judge: Judge, votes: int) -> E:
    own: int | None = getattr(evaluator, "votes", None)
    changes: dict[str, Any] = {"judge": judge, "votes": own or votes}
    return replace(evaluator, **changes)
