"""Bases of evaluators that ask a judge, and the way a judge gets to them."""

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
    """Base of evaluators that put one question to a judge.

    `prompt` is the instructions, or the name of their file; its version is the evaluator's. Where no judge is
    configured, none can be reached, or its answer cannot be used, `measure` raises JudgeError, and the result is
    errored.
    Details of each: `judge`, `{model, prompt, votes, spread, cached, requests, prompt_tokens, completion_tokens,
    cost}`, and `votes`, what each answer said.
    """

    prompt: ClassVar[str | Prompt]

    judge: JudgeOption = None
    """A judge, or settings that come before the suite's. None: the suite's, or the environment's."""
    votes: int | None = None
    """So often the question is asked. None: as the judge's settings say, which is once."""

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
    """Base of those that ask for a grade: the score is the median grade, put on the evaluator's own scale.

    `grades` are the lowest and highest grade, whole numbers.
    """

    grades: ClassVar[tuple[int, int]] = (1, 5)

    @abstractmethod
    def data(self, case: EvalCase) -> Mapping[str, str]:
        """What is shown to the judge. May raise SkipEvaluation."""

    def instructions(self) -> str:
        """What the suite's author adds to the prompt; trusted."""
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
    """Base of those that ask for one of several labels: 1 for `good_label`, else 0.

    `labels` are ordered from worst to best: where as many votes are for two, the worse one counts.
    """

    labels: ClassVar[Sequence[str]]
    good_label: ClassVar[str]

    async def labelled(self, data: Mapping[str, str]) -> Measurement:
        """The label that most votes gave, and the reason of the first of them."""
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
    """What a judge said of one of several things: yes or no, and why."""

    passed: bool
    reason: str


def rulings(given: Poll) -> dict[str, Ruling]:
    """For each thing asked about: what most votes say (a draw is a no), and the reason of the first of them."""
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
    """An answer with a reason and a whole `score`. Grades are listed: not every API knows `minimum`."""
    grade = {"type": "integer", "enum": list(range(lowest, highest + 1))}
    return object_schema({"reason": {"type": "string"}, "score": grade})


def label_schema(labels: Iterable[str]) -> dict[str, Any]:
    """An answer with a reason and a `label`."""
    return object_schema({"reason": {"type": "string"}, "label": {"type": "string", "enum": list(labels)}})


def rulings_schema(keys: Iterable[str]) -> dict[str, Any]:
    """An answer with a reason and a yes or no for each key: none can be left out."""
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
    """Raise OptionError for settings of a judge, or a number of votes, that cannot be."""
    if isinstance(judge, Mapping):
        try:
            JudgeSettings.from_mapping(judge)
        except OptionError as error:
            raise OptionError(f"{owner}: option {error}", "judge") from None
    if votes is not None and not 1 <= votes <= 99:
        raise OptionError(f"{owner}: option votes must lie between 1 and 99; got {votes}", "votes")


def judge_usage(results: Iterable[EvalResult]) -> Usage:
    """What the verdicts in these results cost altogether; zero where no judge was asked."""
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
    """The evaluators, those that can ask a judge with one to ask.

    `judge` is that judge, or the settings of one: under the environment, and with an evaluator's own `judge`
    settings over them. An evaluator that has a judge already keeps it, and where no model is named nothing is
    changed. Answers of judges made here are kept in `cache`. Nothing is sent yet.
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
