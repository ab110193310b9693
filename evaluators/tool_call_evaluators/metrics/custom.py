"""Metrics as plain functions: `@metric` turns a function into an evaluator."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, fields, make_dataclass
from types import EllipsisType
from typing import Any, ClassVar, TypeVar, get_type_hints

from ..evaluator import AsyncEvaluator, EvaluatorBase, Measurement, Scope, SkipEvaluation, SyncEvaluator
from ..model import EvalCase, EvalResult, Status
from ..options import OptionError
from ..registry import register

F = TypeVar("F", bound=Callable[..., Any])

_RESULT_KEYS = ("score", "label", "reason", "details", "skipped")


def metric(
    *,
    name: str = "",
    scope: Scope = "turn",
    scale: tuple[float, float] = (0.0, 1.0),
    threshold: float | EllipsisType | None = ...,
    needs: Sequence[str] = (),
    labels: Mapping[str, float] | None = None,
    version: str = "1",
) -> Callable[[F], F]:
    """Decorator: register a function of a case as the evaluator `name`, by default the function's own.

    The function's further parameters are the options; those without a default are required. It may be `async`.
    `measurement_of` reads its return value: a score on `scale`, a boolean, one of `labels`, or an object. `threshold`
    is by default the top of the scale, so that any lower score fails; None: measure only. `needs` names fields of
    EvalCase without which the evaluator is skipped. The function itself is returned unchanged.

    Raises OptionError for a taken name, a parameter that every evaluator has, or a `threshold` outside the scale.
    """

    def decorate(function: F) -> F:
        base: type[EvaluatorBase] = _AsyncFunction if inspect.iscoroutinefunction(function) else _SyncFunction
        own_name = name or function.__name__
        least = scale[1] if isinstance(threshold, EllipsisType) else threshold
        options = _options(function, own_name)
        cls = make_dataclass(
            own_name,
            [("threshold", float | None, least), *options],
            bases=(base,),
            namespace={
                "__module__": function.__module__,
                "__doc__": inspect.getdoc(function) or f"The metric {own_name}.",
                "name": own_name,
                "version": version,
                "scope": scope,
                "scale": scale,
                "needs": tuple(needs),
                "labels": labels,
                "function": staticmethod(function),
                "options": tuple(option for option, *_ in options),
            },
            frozen=True,
            kw_only=True,
        )
        if least is not None and not scale[0] <= least <= scale[1]:
            raise OptionError(f"{own_name}: threshold {least:g} is not between {scale[0]:g} and {scale[1]:g}")
        register(cls)
        return function

    return decorate


def measurement_of(value: Any, labels: Mapping[str, float] | None = None) -> Measurement:
    """The measurement that a custom metric returned.

    - a number is the score; true is 1 and false is 0
    - a string is a label, with a score in `labels`; without `labels` it has none
    - an object has `score` or `label` or both, and optionally `reason` and `details`; or only `skipped`, the reason
    - an EvalResult, of another evaluator counts with its score, reason, details and label

    Raises SkipEvaluation if nothing was measured, ValueError for anything else.
    """
    if isinstance(value, Measurement):
        return value
    if isinstance(value, EvalResult):
        return _measurement_of_result(value)
    if isinstance(value, bool):
        return Measurement(float(value), f"returned {value}")
    if isinstance(value, int | float):
        return Measurement(float(value), f"returned {value:g}")
    if isinstance(value, str):
        value = {"label": value}
    if not isinstance(value, Mapping):
        raise ValueError(f"expected a number, a label or an object, got {type(value).__name__}")
    if unknown := [key for key in value if key not in _RESULT_KEYS]:
        raise ValueError(f"unknown key {unknown[0]!r}; accepted are {', '.join(_RESULT_KEYS)}")
    if value.get("skipped"):
        raise SkipEvaluation(str(value["skipped"]))
    score, label, details = value.get("score"), value.get("label"), value.get("details") or {}
    if label is not None and not isinstance(label, str):
        raise ValueError(f"label must be a string, got {label!r}")
    if score is None and label is not None and labels is not None:
        if label not in labels:
            raise ValueError(
                f"label {label!r} has no score: return a score with it, or list it in labels "
                f"(known are {', '.join(labels)})"
            )
        score = labels[label]
    if not isinstance(score, bool | int | float) and (score is not None or label is None):
        raise ValueError(f"score must be a number, got {score!r}")
    if not isinstance(details, Mapping):
        raise ValueError(f"details must be an object, got {details!r}")
    return Measurement(None if score is None else float(score), str(value.get("reason") or ""), details, label)


def _measurement_of_result(result: EvalResult) -> Measurement:
    """The measurement of another evaluator; the threshold is the metric's own."""
    if result.status is Status.SKIPPED:
        raise SkipEvaluation(result.reason)
    if not result.measured:
        raise ValueError(f"{result.evaluator} has no score: {result.reason}")
    return Measurement(result.score, result.reason, result.details, result.label)


class _Function(EvaluatorBase):
    labels: ClassVar[Mapping[str, float] | None]
    options: ClassVar[tuple[str, ...]]
    function: ClassVar[Callable[..., Any]]

    def returned(self, case: EvalCase) -> Any:
        return self.function(case, **{option: getattr(self, option) for option in self.options})


class _SyncFunction(_Function, SyncEvaluator):
    def measure(self, case: EvalCase) -> Measurement:
        return measurement_of(self.returned(case), self.labels)


class _AsyncFunction(_Function, AsyncEvaluator):
    async def measure(self, case: EvalCase) -> Measurement:
        return measurement_of(await self.returned(case), self.labels)


def _options(function: Callable[..., Any], owner: str) -> list[tuple[str, Any, Any]]:
    """Name, type and default of the parameters after the first, as dataclass fields."""
    hints = get_type_hints(function)
    taken = {item.name for item in fields(EvaluatorBase)}
    out = []
    for parameter in list(inspect.signature(function).parameters.values())[1:]:
        if parameter.name in taken:
            raise OptionError(f"{owner}: every evaluator has an option {parameter.name}; use another name")
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise OptionError(f"{owner}: parameter {parameter} cannot be an option")
        out.append((parameter.name, hints.get(parameter.name, Any), _default(parameter.default)))
    return out


def _default(value: Any) -> Any:
    if value is inspect.Parameter.empty:
        return field()
    if isinstance(value, list | dict | set):
        return field(default_factory=lambda: value.copy())
    return value
