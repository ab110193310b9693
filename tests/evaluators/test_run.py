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


async def test_an_evaluator_asked_by_itself_tells_what_was_raised():
    error = KeyError("judge")
    found = [Computed(id="mine", score=error).evaluate(CASE), await Awaited(id="mine", score=error).evaluate(CASE)]
    assert found == [
        EvalResult.errored("mine", "KeyError: 'judge'", version="7"),
        EvalResult.errored("mine", "KeyError: 'judge'", version="1"),
    ]


@pytest.mark.parametrize("kind", [Computed, Awaited])
async def test_one_that_raises_becomes_a_result_and_the_others_go_on(kind):
    results = await evaluate(CASE, [kind(score=KeyError("judge")), ToolError()])
    assert [item.status for item in results] == [Status.ERRORED, Status.PASSED]
    assert results[0].reason == "KeyError: 'judge'"
    assert results[0].evaluator == kind.name
    assert results[0].score is None


@pytest.mark.parametrize("kind", [Computed, Awaited])
async def test_one_that_exits_has_not_passed_the_run(kind):
    results = await evaluate(CASE, [kind(score=SystemExit(0)), ToolError()])
    assert (results[0].status, results[0].reason) == (Status.ERRORED, "SystemExit: 0")
    assert results[1].status is Status.PASSED


class Foreign:
    """An evaluator that is derived from nothing of ours, and raises."""

    metric = "foreign"

    def __init__(self, error: type[BaseException]) -> None:
        self.error = error

    def evaluate(self, case: EvalCase) -> EvalResult:
        raise self.error(case.response_text)


@pytest.mark.parametrize(("error", "reason"), [(KeyError, "KeyError: 'hello'"), (SystemExit, "SystemExit: hello")])
async def test_the_wall_holds_for_evaluators_of_other_makes(error, reason):
    results = await evaluate(CASE, [Foreign(error), ToolError()])
    assert (results[0].status, results[0].reason) == (Status.ERRORED, reason)
    assert results[1].status is Status.PASSED


@pytest.mark.parametrize("kind", [Computed, Awaited])
@pytest.mark.parametrize("score", [1.01, -0.1, float("nan"), float("inf")])
async def test_a_score_off_the_scale_is_an_error(kind, score):
    (result,) = await evaluate(CASE, [kind(score=score)])
    assert result.status is Status.ERRORED
    assert "outside the scale 0 to 1" in result.reason


@pytest.mark.parametrize("kind", [Computed, Awaited])
async def test_measuring_may_end_in_a_skip(kind):
    (result,) = await evaluate(CASE, [kind(score=SkipEvaluation("nothing to evaluate"))])
    assert (result.status, result.reason) == (Status.SKIPPED, "nothing to evaluate")


async def test_a_missing_input_is_a_skip_that_names_it():
    (result,) = await evaluate(EvalCase(), [Awaited()])
    assert (result.status, result.reason) == (Status.SKIPPED, "not given: response_text")


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


def test_without_an_event_loop():
    results = evaluate_sync(CASE, [Computed(score=ValueError()), Computed()])
    assert [(item.status, item.reason) for item in results] == [
        (Status.ERRORED, "ValueError"),
        (Status.PASSED, "as given"),
    ]


def test_what_waits_cannot_be_computed():
    results = evaluate_sync(CASE, [Awaited(), ToolError()])
    assert [(item.status, item.reason) for item in results[:1]] == [
        (Status.ERRORED, "TypeError: it is asynchronous: use `evaluate`")
    ]
    assert results[1].status is Status.PASSED


async def test_anything_with_the_method_will_do():
    class Plain:
        metric = "plain"

        def evaluate(self, case: EvalCase) -> EvalResult:
            return EvalResult(self.metric, 1.0)

    assert [item.evaluator for item in await evaluate(CASE, [Plain()])] == ["plain"]
