"""Runs evaluators on a case, and turns their exceptions into results."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter

from .evaluator import FAILURES, Evaluator, EvaluatorBase, error_reason
from .model import EvalCase, EvalResult

_reads_results = attrgetter("reads_results")


async def evaluate(case: EvalCase, evaluators: Iterable[Evaluator]) -> list[EvalResult]:
    """One result for each evaluator, in their order. Asynchronous evaluators run concurrently.

    Evaluators with `reads_results` run last and get the results of the others in their case. An exception becomes an
    `errored` result and does not affect the others; cancellation passes through.
    """
    evaluators = list(evaluators)
    results: dict[int, EvalResult] = {}
    for positions in filter(None, _in_order(evaluators)):
        informed = _informed(case, results)
        waiting: dict[int, Awaitable[EvalResult]] = {}
        for position in positions:
            begun = _begin(informed, evaluators[position])
            if isinstance(begun, EvalResult):
                results[position] = begun
            else:
                waiting[position] = _finish(begun, evaluators[position])
        if waiting:
            results |= zip(waiting, await asyncio.gather(*waiting.values()), strict=True)
    return [results[position] for position in range(len(evaluators))]


def evaluate_sync(case: EvalCase, evaluators: Sequence[EvaluatorBase]) -> list[EvalResult]:
    """`evaluate` without an event loop, for synchronous evaluators; the result of an asynchronous one is errored."""
    if not any(map(_reads_results, evaluators)):
        return [_compute(case, evaluator) for evaluator in evaluators]
    results: dict[int, EvalResult] = {}
    for positions in filter(None, _in_order(evaluators)):
        informed = _informed(case, results)
        results |= {position: _compute(informed, evaluators[position]) for position in positions}
    return [results[position] for position in range(len(evaluators))]


def _in_order(evaluators: Sequence[Evaluator]) -> tuple[list[int], list[int]]:
    """The positions of the evaluators that run first, and of those that read their results."""
    readers = [index for index, evaluator in enumerate(evaluators) if getattr(evaluator, "reads_results", False)]
    return [index for index in range(len(evaluators)) if index not in readers], readers


def _informed(case: EvalCase, results: Mapping[int, EvalResult]) -> EvalCase:
    found = (results[position] for position in sorted(results))
    return replace(case, results=(*case.results, *found)) if results else case


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
    result = _begin(case, evaluator)
    return result if isinstance(result, EvalResult) else _errored(evaluator, TypeError("it returned no result"))


def _errored(evaluator: Evaluator, error: BaseException) -> EvalResult:
    return EvalResult.errored(evaluator.metric, error_reason(error), version=getattr(evaluator, "version", "1"))
