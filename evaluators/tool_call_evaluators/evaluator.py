"""What an evaluator is, and the bases to derive one from: one that computes, one that must wait."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol, final, runtime_checkable

from .model import EvalCase, EvalResult
from .options import IN_FILES, OptionError, check_options

Scope = Literal["turn", "conversation"]

FAILURES = (Exception, SystemExit)
"""What other people's code may raise and is held to account for. One that calls `sys.exit` must not end the run, the
less so with the exit code of one that passed."""


@runtime_checkable
class Evaluator(Protocol):
    """Anything that scores a case. `evaluate` may return the result or an awaitable of it."""

    @property
    def metric(self) -> str:
        """The name its results go by."""

    def evaluate(self, case: EvalCase) -> EvalResult | Awaitable[EvalResult]: ...


@dataclass(frozen=True, slots=True)
class Measurement:
    """What an evaluator found, before it is held against its threshold."""

    score: float
    reason: str
    details: Mapping[str, Any] = field(default_factory=dict)
    label: str | None = None


class SkipEvaluation(Exception):  # noqa: N818  # it is a verdict, not a fault
    """Raised while measuring: this case lacks what the evaluator needs; the message says what."""


def error_reason(error: BaseException) -> str:
    """The reason of an errored result: what was raised, and what it says."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


@dataclass(frozen=True, kw_only=True)
class EvaluatorBase(ABC):
    """The part that every evaluator shares. Its fields are its options. Derive from one of the two below.

    Class attributes: `name` in the registry; `version`, raised when scores change for equal input; `scope`,
    whether it looks at a turn or a conversation; `scale`, the range of its scores; `needs`, the fields of
    `EvalCase` that must be given (not None), without which it is skipped; `reads_results`, whether it is computed
    from the results of others, and so runs after them; `reads_calls`, whether it looks at the tool calls made, and so
    is skipped where these could not be seen; `spellings`, names that options have elsewhere, and the
    options meant: `get_evaluator` and suites take them too.
    """

    name: ClassVar[str]
    version: ClassVar[str] = "1"
    scope: ClassVar[Scope] = "turn"
    scale: ClassVar[tuple[float, float]] = (0.0, 1.0)
    needs: ClassVar[tuple[str, ...]] = ()
    reads_results: ClassVar[bool] = False
    reads_calls: ClassVar[bool] = False
    spellings: ClassVar[Mapping[str, str]] = {}

    __pydantic_config__: ClassVar[Mapping[str, Any]] = IN_FILES

    threshold: float | None = 1.0
    """The least score that passes; None: measure only."""
    id: str | None = None
    """The name of its results, where one suite uses an evaluator twice. Default: the registry name."""

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
        """Whether `evaluate` returns something to be awaited, and so needs an event loop."""
        return False

    @abstractmethod
    def evaluate(self, case: EvalCase) -> EvalResult | Awaitable[EvalResult]:
        """The result for `case`; skipped where an input is missing."""

    def _missing(self, case: EvalCase) -> str:
        """Why `case` cannot be measured, or an empty text."""
        missing = [need for need in self.needs if getattr(case, need) is None]
        return f"not given: {', '.join(missing)}" if missing else ""

    def _not_measurable(self, case: EvalCase) -> EvalResult | None:
        """The result for a case that lacks what the evaluator needs; None where it can be measured."""
        if self.reads_calls and case.calls_unseen is not None:
            return EvalResult.unseen(self.metric, case.calls_unseen, version=self.version)
        missing = self._missing(case)
        return self._skipped(missing) if missing else None

    def _skipped(self, reason: str) -> EvalResult:
        return EvalResult.skipped(self.metric, reason, version=self.version)

    def _errored(self, error: BaseException) -> EvalResult:
        details = getattr(error, "details", None)
        details = details if isinstance(details, Mapping) else {}
        return EvalResult.errored(self.metric, error_reason(error), version=self.version, details=details)

    def _scored(self, found: Measurement) -> EvalResult:
        low, high = self.scale
        if not (math.isfinite(found.score) and low <= found.score <= high):
            raise ValueError(f"score {found.score!r} is outside the scale {low:g} to {high:g}")
        return EvalResult(
            self.metric,
            score=float(found.score),
            passed=None if self.threshold is None else found.score >= self.threshold,
            threshold=self.threshold,
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
        """The result for `case`: skipped where an input is missing, errored where `measure` raises."""
        if (unmeasured := self._not_measurable(case)) is not None:
            return unmeasured
        try:
            return self._scored(self.measure(case))
        except SkipEvaluation as skip:
            return self._skipped(str(skip))
        except FAILURES as error:  # what measures may raise anything, and a result says so
            return self._errored(error)


@dataclass(frozen=True, kw_only=True)
class AsyncEvaluator(EvaluatorBase):
    """Base of evaluators that wait for something, a judge's answer for one: implement `measure`."""

    @property
    def is_async(self) -> bool:
        return True

    @abstractmethod
    async def measure(self, case: EvalCase) -> Measurement:
        """Score `case`, in which every field named in `needs` is given. May raise SkipEvaluation."""

    @final
    async def evaluate(self, case: EvalCase) -> EvalResult:
        """The result for `case`: skipped where an input is missing, errored where `measure` raises. Cancellation
        passes through."""
        if (unmeasured := self._not_measurable(case)) is not None:
            return unmeasured
        try:
            return self._scored(await self.measure(case))
        except SkipEvaluation as skip:
            return self._skipped(str(skip))
        except FAILURES as error:  # what measures may raise anything, and a result says so
            return self._errored(error)


def is_built_in(evaluator: type[EvaluatorBase]) -> bool:
    """Whether the class is one of this package, not of a plug-in."""
    return evaluator.__module__.partition(".")[0] == __name__.partition(".")[0]
