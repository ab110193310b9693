"""The evaluator protocol, base classes for synchronous and asynchronous evaluators, and running them on a case."""

from __future__ import annotations

import asyncio
import math
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Protocol, final, runtime_checkable

from .model import EXPECT_KEYS, CallsUnseenError, EvalCase, EvalResult
from .options import IN_FILES, OptionError, check_options, snake_case
from .texts import counted, sentence
from .tool_classes import NoClassesError

Scope = Literal["turn", "conversation"]

FAILURES = (Exception, SystemExit)
"""What an evaluator may raise. Plug-in code that calls `sys.exit` must not end the run, least of all with exit code
0."""


@runtime_checkable
class Evaluator(Protocol):
    """Anything that scores a case. `evaluate` may return the result or an awaitable that returns it."""

    @property
    def metric(self) -> str:
        """The name its results go by."""

    def evaluate(self, case: EvalCase) -> EvalResult | Awaitable[EvalResult]: ...


@dataclass(slots=True)
class Measurement:
    """The score of an evaluator before it is compared with the threshold; None for a label without a score."""

    score: float | None
    reason: str
    details: Mapping[str, Any] = field(default_factory=dict)
    label: str | None = None

    @classmethod
    def share(
        cls, passed: int, judged: int, noun: str, verb: str, problems: Sequence[str], details: Mapping[str, Any]
    ) -> Measurement:
        """`passed` / `judged`; 1 if there was nothing to judge. The reason is `2 of 3 calls succeeded: ...`."""
        reason = sentence(f"{passed} of {counted(judged, noun)} {verb}", problems)
        return cls(passed / judged if judged else 1.0, reason, details)


class SkipEvaluation(Exception):  # noqa: N818  # a result, not an error
    """Raised by `measure` if the case lacks an input; the message names it. `label` and `details` are those of the
    skipped result."""

    def __init__(self, message: str, label: str | None = None, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.label = label
        self.details = details


def field_text(field: str) -> str:
    """A field of EvalCase by name, with its key in a suite where that differs."""
    key = EXPECT_KEYS.get(field)
    return f"{field} (in a suite: expect.{key})" if key else field


def error_reason(error: BaseException) -> str:
    """The reason of an errored result: the type and message of the exception."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


@dataclass(frozen=True, kw_only=True)
class EvaluatorBase(ABC):
    """Base of all evaluators; its fields are its options. Derive from SyncEvaluator or AsyncEvaluator.

    Class attributes: `name` in the registry, by default that of the class in snake case; `version`, raised when scores
    change for equal input; `scope`, whether it scores a turn or a conversation; `scale`, the range of its scores;
    `needs`, the fields of `EvalCase` that must not be None, else it is skipped; `reads`, the expectations among its
    fields that it reads beside these and the `criterion`, None if it may read any; `reads_results`, whether it uses the
    results of other evaluators, and so runs after them; `reads_calls`, whether it reads the actual tool calls, and so
    is skipped if they are unknown; `needs_judge`, whether it cannot score without a judge; `spellings`, alternative
    names of options, which `get_evaluator` and suites accept besides those of the bases; `criterion`, the option with
    what is expected of cases that do not say it.
    """

    name: ClassVar[str]
    version: ClassVar[str] = "1"
    scope: ClassVar[Scope] = "turn"
    scale: ClassVar[tuple[float, float]] = (0.0, 1.0)
    needs: ClassVar[tuple[str, ...]] = ()
    reads: ClassVar[tuple[str, ...] | None] = ()
    reads_results: ClassVar[bool] = False
    reads_calls: ClassVar[bool] = False
    needs_judge: ClassVar[bool] = False
    spellings: ClassVar[Mapping[str, str]] = {"name": "id"}
    criterion: ClassVar[str] = ""

    __pydantic_config__: ClassVar[Mapping[str, Any]] = IN_FILES

    threshold: float | None = 1.0
    """The lowest score that passes; None: measure only."""
    id: str | None = None
    """The name of its results, where one suite uses an evaluator twice. Default: the registry name."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "name" not in vars(cls):
            cls.name = snake_case(cls.__name__)

    def __post_init__(self) -> None:
        check_options(self, self.name)
        if self.threshold is not None and not self.scale[0] <= self.threshold <= self.scale[1]:
            low, high = self.scale
            raise OptionError(
                f"{self.name}: option threshold must lie between {low:g} and {high:g}; got {self.threshold!r}",
                "threshold",
            )

    @property
    def metric(self) -> str:
        """The name its results go by: `id`, else `name`."""
        return self.id or self.name

    @property
    def is_async(self) -> bool:
        """Whether `evaluate` returns an awaitable and so needs an event loop."""
        return False

    @abstractmethod
    def evaluate(self, case: EvalCase) -> EvalResult | Awaitable[EvalResult]:
        """The result for `case`; skipped if an input is missing."""

    def _not_measurable(self, case: EvalCase) -> EvalResult | None:
        """The result for a case that lacks an input; None if it can be measured."""
        if self.reads_calls and case.calls_unseen is not None:
            return EvalResult.unseen(self.metric, case.calls_unseen, version=self.version)
        if self.needs and (missing := [need for need in self.needs if getattr(case, need) is None]):
            return self._failed(SkipEvaluation(f"not given: {', '.join(map(field_text, missing))}"))
        return None

    def _failed(self, error: BaseException) -> EvalResult:
        """The result for an exception of `measure`: skipped for SkipEvaluation and CallsUnseenError, else errored."""
        if isinstance(error, NoClassesError):
            return EvalResult.skipped(self.metric, str(error), version=self.version)
        if isinstance(error, SkipEvaluation):
            skipped = EvalResult.skipped(
                self.metric, str(error), version=self.version, label=error.label, details=error.details
            )
            return replace(skipped, threshold=self.threshold) if error.details else skipped
        if isinstance(error, CallsUnseenError):
            return EvalResult.unseen(self.metric, str(error), version=self.version)
        details = getattr(error, "details", None)
        return EvalResult.errored(
            self.metric,
            error_reason(error),
            version=self.version,
            details=details if isinstance(details, Mapping) else None,
        )

    def _scored(self, found: Measurement) -> EvalResult:
        (low, high), score = self.scale, found.score
        if score is not None and not (math.isfinite(score) and low <= score <= high):
            raise ValueError(f"score {score!r} is outside the scale {low:g} to {high:g}")
        return EvalResult(
            self.metric,
            score=None if score is None else float(score),
            passed=None if score is None or self.threshold is None else score >= self.threshold,
            threshold=None if score is None else self.threshold,
            reason=found.reason,
            details=found.details,
            label=found.label,
            scale=self.scale,
            version=self.version,
        )


@dataclass(frozen=True, kw_only=True)
class SyncEvaluator(EvaluatorBase):
    """Base of deterministic evaluators: implement `measure`."""

    @abstractmethod
    def measure(self, case: EvalCase) -> Measurement:
        """Score `case`, in which every field named in `needs` is given. May raise SkipEvaluation."""

    @final
    def evaluate(self, case: EvalCase) -> EvalResult:
        """The result for `case`: skipped if an input is missing, errored if `measure` raises."""
        if (unmeasured := self._not_measurable(case)) is not None:
            return unmeasured
        try:
            return self._scored(self.measure(case))
        except FAILURES as error:  # `measure` may raise anything: the result reports it
            return self._failed(error)


@dataclass(frozen=True, kw_only=True)
class AsyncEvaluator(EvaluatorBase):
    """Base of evaluators that await something, such as a judge's answer: implement `measure`."""

    @property
    def is_async(self) -> bool:
        return True

    @abstractmethod
    async def measure(self, case: EvalCase) -> Measurement:
        """Score `case`, in which every field named in `needs` is given. May raise SkipEvaluation."""

    @final
    async def evaluate(self, case: EvalCase) -> EvalResult:
        """The result for `case`: skipped if an input is missing, errored if `measure` raises. Cancellation
        passes through."""
        if (unmeasured := self._not_measurable(case)) is not None:
            return unmeasured
        try:
            return self._scored(await self.measure(case))
        except FAILURES as error:  # `measure` may raise anything: the result reports it
            return self._failed(error)


def expectations_read(evaluator: EvaluatorBase | type[EvaluatorBase]) -> set[str] | None:
    """The keys of `expect` in a suite that it reads, and other fields of EvalCase; None if it may read any: so may that
    of a plug-in."""
    cls = evaluator if isinstance(evaluator, type) else type(evaluator)
    if cls.reads is None or not is_built_in(cls):
        return None
    return {EXPECT_KEYS.get(name, name) for name in (*cls.needs, *cls.reads, cls.criterion)}


def is_built_in(evaluator: type[EvaluatorBase]) -> bool:
    """Whether the class belongs to this package, not to a plug-in."""
    return f"{evaluator.__module__}".partition(".")[0] == __name__.partition(".")[0]


async def evaluate(case: EvalCase, evaluators: Iterable[Evaluator]) -> list[EvalResult]:
    """One result for each evaluator, in their order. Asynchronous evaluators run concurrently.

    Evaluators with `reads_results` run last and get the results of the others in their case. An exception becomes an
    `errored` result and does not affect the others; cancellation passes through.
    """
    evaluators = list(evaluators)
    results: dict[int, EvalResult] = {}
    for positions in filter(None, _in_order(evaluators)):
        informed = _informed(case, results)
        found = await asyncio.gather(*(_result(informed, evaluators[position]) for position in positions))
        results |= zip(positions, found, strict=True)
    return [results[position] for position in range(len(evaluators))]


def evaluate_sync(case: EvalCase, evaluators: Sequence[EvaluatorBase]) -> list[EvalResult]:
    """`evaluate` without an event loop, for synchronous evaluators; the result of an asynchronous one is errored."""
    results: dict[int, EvalResult] = {}
    for positions in filter(None, _in_order(evaluators)):
        informed = _informed(case, results)
        results |= {position: _computed(informed, evaluators[position]) for position in positions}
    return [results[position] for position in range(len(evaluators))]


def _in_order(evaluators: Sequence[Evaluator]) -> tuple[list[int], list[int]]:
    """The positions of the evaluators that run first, and of those that read their results."""
    first: list[int] = []
    readers: list[int] = []
    for index, evaluator in enumerate(evaluators):
        (readers if getattr(evaluator, "reads_results", False) else first).append(index)
    return first, readers


def _informed(case: EvalCase, results: Mapping[int, EvalResult]) -> EvalCase:
    if not results:
        return case
    return replace(case, results=(*case.results, *(results[position] for position in sorted(results))))


async def _result(case: EvalCase, evaluator: Evaluator) -> EvalResult:
    try:
        begun = getattr(evaluator, "evaluate_by_meaning", evaluator.evaluate)(case)
        return begun if isinstance(begun, EvalResult) else await begun
    except FAILURES as error:  # error boundary: plug-ins may raise anything
        return _errored(evaluator, error)


def _computed(case: EvalCase, evaluator: EvaluatorBase) -> EvalResult:
    try:
        if evaluator.is_async:
            raise TypeError("it is asynchronous: use `evaluate`")
        result = evaluator.evaluate(case)
        if not isinstance(result, EvalResult):
            raise TypeError("it returned no result")
        return result
    except FAILURES as error:  # error boundary: plug-ins may raise anything
        return _errored(evaluator, error)


def _errored(evaluator: Evaluator, error: BaseException) -> EvalResult:
    return EvalResult.errored(evaluator.metric, error_reason(error), version=getattr(evaluator, "version", "1"))
