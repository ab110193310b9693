"""Running evaluators: order, waiting, and the boundary at which failures stop."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import ClassVar

import pytest
from support.patience import PATIENCE_S
from tool_call_evaluators import (
    AsyncEvaluator,
    EvalCase,
    EvalResult,
    Measurement,
    SkipEvaluation,
    Status,
    SyncEvaluator,
    evaluate,
    evaluate_sync,
)
from tool_call_evaluators.metrics.tool_error import ToolError


@dataclass(frozen=True, kw_only=True)
class Computed(SyncEvaluator):
    """Scores `score`, or raises it."""

    name: ClassVar[str] = "computed"
    version: ClassVar[str] = "7"
    score: object = 1.0

    def measure(self, case: EvalCase) -> Measurement:
        if isinstance(self.score, BaseException):
            raise self.score
        return Measurement(self.score, "as given")


@dataclass(frozen=True, kw_only=True)
class Awaited(AsyncEvaluator):
    """The same, after giving way to others."""

    name: ClassVar[str] = "awaited"
    needs: ClassVar[tuple[str, ...]] = ("response_text",)
    score: object = 1.0

    async def measure(self, case: EvalCase) -> Measurement:
        await asyncio.sleep(0)
        if isinstance(self.score, BaseException):
            raise self.score
        return Measurement(self.score, "as given")


CASE = EvalCase(response_text="hello")


async def test_results_come_in_the_order_of_the_evaluators_with_name_and_version():
    results = await evaluate(CASE, [Awaited(), Computed(), Computed(id="again", score=0.5)])
    assert [(item.evaluator, item.version, item.score) for item in results] == [
        ("awaited", "1", 1.0),
        ("computed", "7", 1.0),
        ("again", "7", 0.5),
    ]


class Foreign:
    """An evaluator that is derived from nothing of ours, and raises `score`."""

    metric = "foreign"

    def __init__(self, score: BaseException) -> None:
        self.score = score

    def evaluate(self, case: EvalCase) -> EvalResult:
        raise self.score


ENDS = [
    (KeyError("judge"), Status.ERRORED, "KeyError: 'judge'"),
    (SystemExit(0), Status.ERRORED, "SystemExit: 0"),
    (SkipEvaluation("nothing to evaluate"), Status.SKIPPED, "nothing to evaluate"),
    *((score, Status.ERRORED, "ValueError: score") for score in (1.01, -0.1, float("nan"), float("inf"))),
]


@pytest.mark.parametrize(
    ("kind", "score", "status", "reason"),
    [*((kind, *end) for kind in (Computed, Awaited) for end in ENDS), *((Foreign, *end) for end in ENDS[:2])],
)
async def test_one_that_does_not_measure_leaves_a_result_and_the_others_go_on(kind, score, status, reason):
    results = await evaluate(CASE, [kind(score=score), ToolError()])
    assert (results[0].status, results[0].score, results[1].status) == (status, None, Status.PASSED)
    assert results[0].reason.startswith(reason)


async def test_a_missing_input_is_a_skip_that_names_it():
    (result,) = await evaluate(EvalCase(), [Awaited()])
    assert (result.status, result.reason) == (Status.SKIPPED, "not given: response_text")


def test_without_an_event_loop():
    results = evaluate_sync(CASE, [Computed(score=ValueError()), Computed(), Awaited()])
    assert [(item.status, item.reason) for item in results] == [
        (Status.ERRORED, "ValueError"),
        (Status.PASSED, "as given"),
        (Status.ERRORED, "TypeError: it is asynchronous: use `evaluate`"),
    ]


async def test_those_that_wait_wait_side_by_side():
    arrived = asyncio.Barrier(2)

    class Meeting:
        metric = "meeting"

        async def evaluate(self, case: EvalCase) -> EvalResult:
            async with asyncio.timeout(PATIENCE_S), arrived:
                return EvalResult(self.metric, 1.0)

    results = await evaluate(CASE, [Meeting(), Meeting()])
    assert [item.score for item in results] == [1.0, 1.0]


async def test_cancellation_passes_through():
    with pytest.raises(asyncio.CancelledError):
        await evaluate(CASE, [Awaited(score=asyncio.CancelledError())])
