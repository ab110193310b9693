"""Asks a judge for one or more votes on a question, makes one verdict of them, and builds judges from settings."""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any

from .function import PromptFunction, as_judge
from .openai_chat import ChatJudge
from .question import Answer, Judge, JudgeError, JudgeNotConfiguredError, Prompt, Question, Usage, total
from .settings import ENVIRONMENT, JudgeSettings

JudgeOption = Judge | PromptFunction | Mapping[str, Any] | None
"""A judge; a function from prompt to text; or settings that override those of the suite and the environment; None:
those alone."""


@dataclass(frozen=True, slots=True)
class Poll:
    """The answers to one question, at least one."""

    prompt: Prompt
    answers: Sequence[Answer]

    def values(self) -> list[Mapping[str, Any]]:
        return [answer.value for answer in self.answers]


def judge_details(polls: Sequence[Poll], spread: float) -> dict[str, Any]:
    """For the `details` of a result: model, prompt, number and spread of the votes, and cost."""
    answers = [answer for poll in polls for answer in poll.answers]
    notes = list(dict.fromkeys(note for answer in answers for note in answer.notes))
    return {
        "model": answers[0].model,
        "prompt": str(polls[0].prompt),
        "votes": len(polls[0].answers),
        "spread": spread,
        "cached": sum(answer.cached for answer in answers),
        **total(answer.usage for answer in answers).to_dict(),
        **({"notes": notes} if notes else {}),
    }


async def poll(judge: Judge, questions: Sequence[Question], votes: int) -> list[Poll]:
    """Ask each question `votes` times, concurrently.

    Raises JudgeError if a vote fails, after all others have finished: fewer votes would be a different measurement. Its
    `usage` is that of all votes.
    """
    asked = (judge.ask(replace(question, vote=vote)) for question in questions for vote in range(votes))
    answers: list[Answer] = []
    spent: list[Usage] = []
    errors: list[BaseException] = []
    for answer in await asyncio.gather(*asked, return_exceptions=True):
        if isinstance(answer, BaseException):
            errors.append(answer)
            spent += [answer.usage] if isinstance(answer, JudgeError) else []
        else:
            answers.append(answer)
            spent.append(answer.usage)
    for error in sorted(errors, key=lambda error: isinstance(error, JudgeError)):  # our own bugs come first
        raise error.costing(total(spent)) if isinstance(error, JudgeError) else error
    return [
        Poll(question.prompt, answers[index * votes : (index + 1) * votes]) for index, question in enumerate(questions)
    ]


def judge_of(option: JudgeOption, environ: Mapping[str, str] = os.environ) -> Judge:
    """The judge for an evaluator's option `judge`, which may be a judge or settings.

    Raises JudgeNotConfiguredError if neither the option nor the environment names a model.
    """
    given = as_judge(option)
    if isinstance(given, Judge):
        return given
    settings = settings_for(given, None, environ)
    if settings.model is None:
        raise JudgeNotConfiguredError(
            f"no judge is configured: give the suite a `judge` block with a model, set {ENVIRONMENT}MODEL, "
            "or build the evaluator with judge=..."
        )
    return connect(settings, settings.api_key(environ))


def identity_of(option: JudgeOption) -> str:
    """Everything on which the answers of the judge of an option depend, as far as it is known, as one string."""
    given = as_judge(option)
    if not isinstance(given, Judge):
        return settings_for(given, None, os.environ).identity
    return str(getattr(given, "identity", f"{type(given).__module__}.{type(given).__qualname__}"))


def settings_for(
    own: Mapping[str, Any] | None, suite: JudgeSettings | None, environ: Mapping[str, str]
) -> JudgeSettings:
    """The settings of a judge: those of the suite, the environment and the evaluator, later ones first."""
    return (suite or JudgeSettings()).with_environment(environ).overridden(own or {})


def votes_of(option: JudgeOption, votes: int | None) -> int:
    """The number of votes: `votes`, else that of the option's settings, else 1."""
    own = option.get("votes") if isinstance(option, Mapping) else None
    return votes or own or 1


def connect(settings: JudgeSettings, api_key: str | None) -> ChatJudge:
    """The judge with these settings; equal settings share one judge and its concurrency limit."""
    return _connect(json.dumps(asdict(settings), sort_keys=True), api_key)


@lru_cache(maxsize=32)
def _connect(settings: str, api_key: str | None) -> ChatJudge:
    return ChatJudge(JudgeSettings(**json.loads(settings)), api_key)


def spread(scores: Sequence[float]) -> float:
    """Highest minus lowest of at least one score; 0 where all agree."""
    return max(scores) - min(scores)


def most_given(labels: Sequence[str], worst_first: Sequence[str]) -> str:
    """The most frequent label; of several, the first in `worst_first`, which contains all labels."""
    counts = Counter(labels)
    return max(counts, key=lambda label: (counts[label], -worst_first.index(label)))


def dissent(labels: Sequence[str], chosen: str) -> float:
    """The share of labels (at least one) that differ from `chosen`."""
    return sum(label != chosen for label in labels) / len(labels)


def majority(votes: Sequence[Mapping[str, bool]]) -> dict[str, bool]:
    """For each key of the votes, which have equal keys: whether more than half are true."""
    return {key: sum(vote[key] for vote in votes) * 2 > len(votes) for key in votes[0]}
