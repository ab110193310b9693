"""Base classes of evaluators that ask a judge, how they receive one, and the text that it judges.

The text is JSON, so that no text of an agent or tool can imitate another call, turn or role.
"""

from __future__ import annotations

import hashlib
import json
import os
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from statistics import median
from typing import Any, ClassVar, TypeVar

from a2a_tool_capture.canonical import canonical
from a2a_tool_capture.models import ToolCall

from ..evaluator import FAILURES, AsyncEvaluator, EvaluatorBase, Measurement, SkipEvaluation, SyncEvaluator
from ..judge.cache import CachingJudge, JudgeCache
from ..judge.function import PromptFunction, as_judge
from ..judge.panel import (
    JudgeOption,
    Poll,
    connect,
    dissent,
    identity_of,
    judge_details,
    judge_of,
    majority,
    most_given,
    poll,
    settings_for,
    spread,
    votes_of,
)
from ..judge.question import (
    FRAME,
    Judge,
    JudgeBudgetError,
    JudgeError,
    JudgeNotConfiguredError,
    Prompt,
    Question,
    Usage,
    load_prompt,
    total,
)
from ..judge.settings import JudgeSettings
from ..matching.placeholders import SAME, Texts, by_meaning
from ..model import OVER_BUDGET, EvalCase, EvalResult, ToolDefinition
from ..options import OptionError

E = TypeVar("E", bound=EvaluatorBase)


@dataclass(frozen=True, kw_only=True)
class JudgeableEvaluator(EvaluatorBase):
    """Base of evaluators that can use a judge.

    `prompt` is the instructions, or the name of their file, which by default is that of the evaluator; its version is
    the evaluator's.
    """

    prompt: ClassVar[str | Prompt] = ""

    judge: JudgeOption = None
    """A judge, a function from prompt to text, or settings that override the suite's. None: those of the suite or the
    environment."""
    votes: int | None = None
    """Number of votes. None: as in the judge's settings, by default 1."""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "judge", as_judge(self.judge))
        if isinstance(self.judge, Mapping):
            try:
                JudgeSettings.from_mapping(self.judge)
            except OptionError as error:
                raise OptionError(f"{self.name}: option {error}", "judge") from None
        if self.votes is not None and not 1 <= self.votes <= 99:
            raise OptionError(f"{self.name}: option votes must lie between 1 and 99; got {self.votes}", "votes")

    async def _ask_each(
        self, datas: Iterable[Mapping[str, str]], schema: Mapping[str, Any], criteria: str = ""
    ) -> list[Poll]:
        """The answers to the question about each of the data. Raises JudgeError."""
        prompt = self.prompt if isinstance(self.prompt, Prompt) else load_prompt(self.prompt or self.name)
        questions = [Question(prompt, data, schema, criteria) for data in datas]
        return await poll(judge_of(self.judge), questions, votes_of(self.judge, self.votes))

    @cached_property
    def judge_key(self) -> str:
        """Identifies what a calibration holds for: a hash (16 hex digits) of prompt, criteria and other options, model,
        parameters, votes, and what reads the answers. `id` and `threshold` are no part."""
        try:
            prompt = self.prompt if isinstance(self.prompt, Prompt) else load_prompt(self.prompt or self.name)
        except LookupError:  # a custom metric, which writes its own
            prompt = Prompt(self.name, self.version, "")
        own = {item.name: getattr(self, item.name) for item in fields(self) if item.name not in _NOT_IN_KEY}
        content = [
            [self.name, self.version, self.scale, votes_of(self.judge, self.votes)],
            [str(prompt), prompt.text, load_prompt(FRAME).text],
            [getattr(self, "labels", None), getattr(self, "grades", None), own],
            identity_of(self.judge),
        ]
        return hashlib.sha256(canonical(content).encode()).hexdigest()[:16]

    def _scored(self, found: Measurement) -> EvalResult:
        if isinstance(judge := found.details.get("judge"), Mapping):
            found = replace(found, details={**found.details, "judge": {**judge, "key": self.judge_key}})
        return super()._scored(found)

    def _failed(self, error: BaseException) -> EvalResult:
        if isinstance(error, JudgeBudgetError):
            error = SkipEvaluation(str(error), OVER_BUDGET, error.details)
        return super()._failed(error)


_NOT_IN_KEY = frozenset({"judge", "votes", "id", "threshold"})


@dataclass(frozen=True, kw_only=True)
class JudgedEvaluator(JudgeableEvaluator, AsyncEvaluator):
    """Base of evaluators that ask a judge one question.

    If no judge is configured or reachable, or its answer is invalid, `measure` raises JudgeError, and the result is
    errored; where the judge budget is spent, it is skipped, with the label `over_budget`.
    Details of each: `judge`, `{model, prompt, votes, spread, cached, requests, prompt_tokens, completion_tokens,
    cost, key}` (`key`: see `judge_key`), and `votes`, the values of the answers.
    """

    needs_judge = True

    async def ask(self, data: Mapping[str, str], schema: Mapping[str, Any], criteria: str = "") -> Poll:
        """The answers to the question. Raises JudgeError."""
        (given,) = await self._ask_each([data], schema, criteria)
        return given


GRADES = (1.0, 5.0)
_BANDS = {4.0: "Excellent", 3.0: "Good", 2.0: "Needs Improvement"}


def band(score: float | None, scale: tuple[float, float]) -> str | None:
    """arksim's name for a grade or a mean of grades; None on a scale other than 1 to 5, or without a score."""
    if score is None or scale != GRADES:
        return None
    return next((name for least, name in _BANDS.items() if score >= least), "Poor")


@dataclass(frozen=True, kw_only=True)
class GradedEvaluator(JudgedEvaluator):
    """Base of evaluators that ask for a grade: the score is the median grade, mapped to the evaluator's scale.

    `grades` are the lowest and highest grade, whole numbers. On a scale of 1 to 5 the details contain the name of the
    `band`: `Poor`, `Needs Improvement`, `Good` or `Excellent`.
    """

    grades = (1, 5)

    @abstractmethod
    def data(self, case: EvalCase) -> Mapping[str, str]:
        """The data for the judge. May raise SkipEvaluation."""

    def instructions(self) -> str:
        """Criteria that the suite's author adds to the prompt; trusted."""
        return ""

    async def measure(self, case: EvalCase) -> Measurement:
        given = await self.ask(self.data(case), grade_schema(*self.grades), self.instructions())
        (lowest, highest), (low, high) = self.grades, self.scale
        scores = [low + (one["score"] - lowest) / (highest - lowest) * (high - low) for one in given.values()]
        score = float(median(scores))
        name = band(score, self.scale)
        nearest = min(range(len(scores)), key=lambda index: abs(scores[index] - score))
        return Measurement(
            score,
            str(given.values()[nearest]["reason"]),
            {**({"band": name} if name else {}), "votes": scores, "judge": judge_details([given], spread(scores))},
        )


@dataclass(frozen=True, kw_only=True)
class LabelledEvaluator(JudgedEvaluator):
    """Base of evaluators that ask for one of several labels: 1 for `good_label`, else 0.

    `labels` are ordered from worst to best: in a tie, the worse one counts.
    """

    labels: ClassVar[Sequence[str]]
    good_label: ClassVar[str]

    async def labelled(self, data: Mapping[str, str]) -> Measurement:
        """The most frequent label, and the reason of its first vote."""
        label_schema = {"type": "string", "enum": list(self.labels)}
        given = await self.ask(data, object_schema({"reason": {"type": "string"}, "label": label_schema}))
        labels = [str(value["label"]) for value in given.values()]
        label = most_given(labels, self.labels)
        return Measurement(
            float(label == self.good_label),
            str(given.values()[labels.index(label)]["reason"]),
            {"votes": labels, "judge": judge_details([given], dissent(labels, label))},
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


def shares_details(given: Poll) -> dict[str, Any]:
    """The `votes` and the `judge` in the details of an evaluator that asks for rulings."""
    return {"votes": shares(given), "judge": judge_details([given], spread(shares(given)))}


def grade_schema(lowest: int, highest: int) -> dict[str, Any]:
    """An answer with a reason and an integer `score`. Grades are listed: not every API supports `minimum`."""
    grade = {"type": "integer", "enum": list(range(lowest, highest + 1))}
    return object_schema({"reason": {"type": "string"}, "score": grade})


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


def judge_usage(results: Iterable[EvalResult]) -> Usage:
    """The total cost of the verdicts in these results; zero if no judge was asked."""
    return total(
        Usage(**{item.name: judge.get(item.name, item.default) for item in fields(Usage)})
        for result in results
        if isinstance(judge := result.details.get("judge"), Mapping)
    )


def with_judge(
    evaluators: Iterable[E],
    judge: Judge | PromptFunction | JudgeSettings | None = None,
    *,
    cache: JudgeCache | None = None,
    environ: Mapping[str, str] = os.environ,
) -> list[E]:
    """The evaluators, with a judge set on those that can use one.

    `judge` is a judge, a function from prompt to text, or settings, which the environment and an evaluator's own
    `judge` settings override. An evaluator that already has a judge keeps it; without a model nothing changes. Judges
    created here use `cache`. No request is sent.
    """
    return [_given_judge(evaluator, as_judge(judge), cache, environ) for evaluator in evaluators]


def judge_with(settings: JudgeSettings, cache: JudgeCache) -> Judge | None:
    """The judge with these settings, overridden by the environment, and `cache`; None without a model."""
    return _connected(settings.with_environment(os.environ), cache, os.environ)


def _connected(settings: JudgeSettings, cache: JudgeCache | None, environ: Mapping[str, str]) -> Judge | None:
    if settings.model is None:
        return None
    judge = connect(settings, settings.api_key(environ))
    return judge if cache is None or not settings.cache else CachingJudge(judge, cache, settings.identity)


def _given_judge(
    evaluator: E, judge: Judge | JudgeSettings | None, cache: JudgeCache | None, environ: Mapping[str, str]
) -> E:
    own: Judge | Mapping[str, Any] | None = getattr(evaluator, "judge", None)
    if not {"judge", "votes"} <= {item.name for item in fields(evaluator)} or isinstance(own, Judge):
        return evaluator
    votes = 1
    if own is not None or not isinstance(judge, Judge):
        settings = settings_for(own, judge if isinstance(judge, JudgeSettings) else None, environ)
        judge, votes = _connected(settings, cache, environ), settings.votes
        if judge is None:
            return evaluator
    changes: dict[str, Any] = {"judge": judge, "votes": getattr(evaluator, "votes", None) or votes}
    return replace(evaluator, **changes)


def check_judges(
    evaluators: Iterable[EvaluatorBase], judge: JudgeSettings, environ: Mapping[str, str] = os.environ
) -> None:
    """Raise JudgeNotConfiguredError if the judge of one of these evaluators, with the settings of `with_judge`, has no
    model or no key. The error names them. They are evaluators that cannot score without a judge."""
    missing_for: dict[str, list[str]] = {}
    for evaluator in evaluators:
        own = getattr(evaluator, "judge", None)
        if not isinstance(own, Judge):
            problem = settings_for(own, judge, environ).missing(environ)
            missing_for.setdefault(problem, []).append(evaluator.metric)
    missing_for.pop("", None)
    for problem, metrics in missing_for.items():
        named = ", ".join(dict.fromkeys(metrics))
        raise JudgeNotConfiguredError(f"a judge is needed for {named}: {problem}")


def calls_text(calls: Iterable[ToolCall]) -> str:
    """One line per call, numbered from 1."""
    return "\n".join(_json({"call": number, **_call(call)}) for number, call in enumerate(calls, start=1)) or "none"


def turns_text(turns: Iterable[EvalCase], *, reasoning: bool = False) -> str:
    """One line for each turn, numbered from 1, with the agent's reasoning if `reasoning`."""
    return "\n".join(
        _json(
            {
                "turn": number,
                "user": turn.user_text,
                **({"reasoning": turn.reasoning_steps} if reasoning and turn.reasoning_steps else {}),
                **({"tool_calls": [*map(_call, turn.tool_calls)]} if turn.calls_unseen is None else {}),
                "agent": turn.response_text,
            }
        )
        for number, turn in enumerate(turns, start=1)
    )


def turn_data(case: EvalCase, *, reasoning: bool = False) -> dict[str, str]:
    """The parts of a turn by label, in chronological order; missing parts are omitted.

    `reasoning` adds that of the agent: for judges of its way, as it is no evidence for what it claims."""
    data = {"earlier turns": turns_text(case.history, reasoning=reasoning)} if case.history else {}
    if case.user_text is not None:
        data["user message"] = case.user_text
    if reasoning and case.reasoning_steps:
        data["reasoning of the agent"] = "\n".join(map(_json, case.reasoning_steps))
    if case.calls_unseen is None and case.tool_calls:
        data["tool calls"] = calls_text(case.tool_calls)
    if case.response_text is not None:
        data["answer"] = case.response_text
    return data


def whole_data(case: EvalCase, *, reasoning: bool = False) -> dict[str, str]:
    """A conversation as its turns; a turn as its parts."""
    if case.turns is None:
        return turn_data(case, reasoning=reasoning)
    earlier = {"earlier turns": turns_text(case.history, reasoning=reasoning)} if case.history else {}
    return {**earlier, "conversation": turns_text(case.turns, reasoning=reasoning)}


def numbered(kind: str, texts: Iterable[str]) -> str:
    """One line for each text: `{"task_1": "..."}`, and so on."""
    return "\n".join(_json({f"{kind}_{number}": text}) for number, text in enumerate(texts, start=1))


def tools_text(tools: Iterable[ToolDefinition]) -> str:
    """One line for each definition of a tool."""
    return "\n".join(_json(tool.to_dict()) for tool in tools)


def _call(call: ToolCall) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": call.name, "arguments": call.arguments, "result": call.result}
    if call.arguments is None:
        entry["arguments"] = "not recorded"
    if call.error is not None:
        entry["error"] = call.error
    return entry


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


MAX_PAIRS = 100
"""Maximum number of pairs of texts that a judge compares for one result."""


@dataclass(frozen=True, kw_only=True)
class MeaningEvaluator(JudgeableEvaluator, SyncEvaluator):
    """Base of deterministic evaluators whose expected values may say `{$same: text}`.

    Equal texts need no judge. Without one that is asked, as in `evaluate` of a single evaluator, texts that differ make
    the result errored. Details where a judge decided: `same`, a list of `{expected, actual, same, reason}`, and `judge`
    as of every judged evaluator.
    """

    prompt = "same_meaning"

    async def evaluate_by_meaning(self, case: EvalCase) -> EvalResult:
        """As `evaluate`, with a judge that decides which texts mean the same: all of them in one question."""
        decided: dict[Texts, Ruling] = {}
        polls: list[Poll] = []
        while True:
            undecided: dict[Texts, None] = {}
            with by_meaning({texts: ruling.passed for texts, ruling in decided.items()}, undecided):
                result = self.evaluate(case)
            if not undecided:
                break
            try:
                decided |= await self._asked([*undecided], polls)
            except FAILURES as error:  # a custom judge may raise anything
                if isinstance(error, JudgeError):
                    error.costing(total([error.usage, *(one.usage for poll in polls for one in poll.answers)]))
                return self._failed(error)
        if not polls:
            return result
        same = [
            {"expected": expected, "actual": actual, "same": ruling.passed, "reason": ruling.reason}
            for (expected, actual), ruling in decided.items()
        ]
        judge = judge_details(polls, max(spread(shares(poll)) for poll in polls)) | {"key": self.judge_key}
        return replace(result, details={**result.details, SAME: same, "judge": judge})

    async def _asked(self, pairs: Sequence[Texts], polls: list[Poll]) -> dict[Texts, Ruling]:
        """Raises JudgeError, and ValueError for too many pairs."""
        if len(pairs) > MAX_PAIRS:
            raise ValueError(f"$same: there are {len(pairs):,} pairs of texts to compare, of which {MAX_PAIRS} may be")
        named = {f"pair_{number}": texts for number, texts in enumerate(pairs, start=1)}
        lines = [
            json.dumps({name: {"expected": expected, "actual": actual}}, ensure_ascii=False)
            for name, (expected, actual) in named.items()
        ]
        polls += await self._ask_each([{"pairs of texts": "\n".join(lines)}], rulings_schema(named))
        found = rulings(polls[-1])
        return {texts: found[name] for name, texts in named.items()}
