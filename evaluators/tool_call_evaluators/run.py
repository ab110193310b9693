"""Runs evaluators on a case, and turns their exceptions into results."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import replace

from .evaluator import FAILURES, Evaluator, EvaluatorBase, error_reason
from .model import EvalCase, EvalResult


async def evaluate(case: EvalCase, evaluators: Iterable[Evaluator]) -> list[EvalResult]:
    """One result for each evaluator, in their order. Asynchronous evaluators run concurrently.

    Evaluators with `reads_results` run last and get the results of the others in their case. An exception becomes an
    `errored` result and does not affect the others; cancellation passes through.
    """
    evaluators = list(evaluators)
    results: dict[int, EvalResult] = {}
    waiting: dict[int, Awaitable[EvalResult]] = {}
    for position, evaluator in enumerate(evaluators):
        if not _reads_results(evaluator):
            begun = _begin(case, evaluator)
            if isinstance(begun, EvalResult):
                results[position] = begun
            else:
                waiting[position] = _finish(begun, evaluator)
    if waiting:
        results |= zip(waiting, await asyncio.gather(*waiting.values()), strict=True)
    if len(results) < len(evaluators):
        informed = replace(case, results=(*case.results, *(results[position] for position in sorted(results))))
        for position, evaluator in enumerate(evaluators):
            if position not in results:
                begun = _begin(informed, evaluator)
                results[position] = begun if isinstance(begun, EvalResult) else await _finish(begun, evaluator)
    return [results[position] for position in range(len(evaluators))]


def evaluate_sync(case: EvalCase, evaluators: Sequence[EvaluatorBase]) -> list[EvalResult]:
    """`evaluate` without an event loop, for synchronous evaluators; the result of an asynchronous one is errored."""
    results = {position: _compute(case, item) for position, item in enumerate(evaluators) if not item.reads_results}
    if len(results) < len(evaluators):
        informed = replace(case, results=(*case.results, *results.values()))
        for position, evaluator in enumerate(evaluators):
            if position not in results:
                results[position] = _compute(informed, evaluator)
    return [results[position] for position in range(len(evaluators))]


def _begin(case: EvalCase, evaluator: Evaluator) -> EvalResult | Awaitable[EvalResult]:
    try:
        return evaluator.evaluate(case)
    except FAILURES as error:  # error boundary: plug-ins may raise anything
        return _errored(evaluator, error)


async def _finish(begun: Awaitable[EvalResult], evaluator: Evaluator) -> EvalResult:
    try:
        return await begun
    except FAILURES as error:  # error boundary: plug-ins may raise anything
        return _errored(evaluator, error)


def _compute(case: EvalCase, evaluator: EvaluatorBase) -> EvalResult:
    if evaluator.is_async:
        return EvalResult.errored(evaluator.metric, "it is asynchronous: use `evaluate`", version=evaluator.version)
    try:
        result = evaluator.evaluate(case)
        return result if isinstance(result, EvalResult) else _errored(evaluator, TypeError("it returned no result"))
    except FAILURES as error:  # error boundary: plug-ins may raise anything
        return _errored(evaluator, error)


def _errored(evaluator: Evaluator, error: BaseException) -> EvalResult:
    return EvalResult.errored(evaluator.metric, error_reason(error), version=getattr(evaluator, "version", "1"))


def _reads_results(evaluator: Evaluator) -> bool:
    return bool(getattr(evaluator, "reads_results", False))
