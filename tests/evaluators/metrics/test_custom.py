"""Metrics as plain functions, and what their answers mean."""

from __future__ import annotations

from dataclasses import fields

import pytest
from tool_call_evaluators import (
    EvalCase,
    EvalResult,
    Measurement,
    OptionError,
    Status,
    evaluate,
    evaluator_class,
    get_evaluator,
    metric,
)
from tool_call_evaluators.metrics.custom import measurement_of

CASE = EvalCase(response_text="You are welcome", tool_calls=[{"name": "a"}, {"name": "b"}])


async def score(name, case=CASE, **options):
    (result,) = await evaluate(case, [get_evaluator(name, **options)])
    return result


async def test_a_function_becomes_an_evaluator_whose_parameters_are_options():
    @metric()
    def few_calls(case: EvalCase, most: int = 1) -> bool:
        """Whether there were at most `most` calls."""
        return len(case.tool_calls) <= most

    assert few_calls(CASE) is False, "the function stays a function"
    failed, passed = await score("few_calls"), await score("few_calls", most=2, id="few")
    assert (failed.score, failed.status, failed.threshold) == (0.0, Status.FAILED, 1.0)
    assert (passed.score, passed.status, passed.evaluator) == (1.0, Status.PASSED, "few")
    cls = evaluator_class("few_calls")
    assert cls.__doc__ == "Whether there were at most `most` calls."
    assert {item.name for item in fields(cls)} == {"threshold", "id", "most"}
    with pytest.raises(OptionError, match=r"unknown option 'mots' \(did you mean most\?\)"):
        get_evaluator("few_calls", mots=1)
    with pytest.raises(OptionError, match="few_calls: option most must be a whole number; got '2'"):
        get_evaluator("few_calls", most="2")


async def test_everything_that_can_be_said_of_a_metric():
    @metric(
        name="tone", scope="conversation", scale=(-1, 1), threshold=0, needs=["turns"], version="3",
        labels={"kind": 1, "neutral": 0, "rude": -1},
    )  # fmt: skip
    async def judge_of_tone(case: EvalCase, answer: str = "neutral") -> str:
        return answer

    result = await score("tone", EvalCase(turns=[]))
    assert (result.score, result.label, result.status, result.version) == (0.0, "neutral", Status.PASSED, "3")
    assert result.scale == (-1, 1)
    assert (await score("tone", EvalCase(turns=[]), answer="rude")).status is Status.FAILED
    assert (await score("tone")).reason == "not given: turns"
    assert evaluator_class("tone").scope == "conversation"
    unknown = await score("tone", EvalCase(turns=[]), answer="odd")
    assert unknown.reason.startswith(
        "ValueError: label 'odd' has no score: return a score with it, or list it in labels (known are kind,"
    )


async def test_options_of_all_kinds():
    @metric()
    def listed(case, words: list = ["a"], *, least: float):  # noqa: B006  # what people write
        return Measurement(least, ",".join(words))

    with pytest.raises(OptionError, match="listed: option least must be given"):
        get_evaluator("listed")
    assert (await score("listed", least=0.5)).reason == "a"
    first, second = get_evaluator("listed", least=1), get_evaluator("listed", least=1)
    assert first.words is not second.words


@pytest.mark.parametrize(
    ("options", "function", "complaint"),
    [
        ({}, lambda case, threshold=1: 1, "bad: every evaluator has an option threshold; use another name"),
        ({}, lambda case, **rest: 1, r"bad: parameter \*\*rest cannot be an option"),
        ({"threshold": 3}, lambda case: 1, "bad: threshold 3 is not between 0 and 1"),
        ({"name": "tool_error"}, lambda case: 1, "evaluator tool_error: already registered"),
    ],
)
def test_what_cannot_be_a_metric(options, function, complaint):
    with pytest.raises(OptionError, match=complaint):
        metric(**{"name": "bad", **options})(function)


@pytest.mark.parametrize(
    ("value", "labels", "expected"),
    [
        (0.25, None, Measurement(0.25, "returned 0.25")),
        (True, None, Measurement(1.0, "returned True")),
        (False, None, Measurement(0.0, "returned False")),
        ("good", {"good": 1}, Measurement(1.0, "", {}, "good")),
        ({"label": "good"}, {"good": 1}, Measurement(1.0, "", {}, "good")),
        ({"label": "bad", "score": 0.5, "reason": "r"}, {"bad": 0}, Measurement(0.5, "r", {}, "bad")),
        ({"score": False, "details": {"a": 1}, "reason": None}, None, Measurement(0.0, "", {"a": 1})),
        (Measurement(0.5, "r"), None, Measurement(0.5, "r")),
        ("good", None, Measurement(None, "", {}, "good")),
        ({"label": "good", "reason": "r"}, None, Measurement(None, "r", {}, "good")),
    ],
)
def test_what_an_answer_means(value, labels, expected):
    assert measurement_of(value, labels) == expected


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        (None, "expected a number, a label or an object, got NoneType"),
        ([1], "expected a number, a label or an object, got list"),
        ({}, "score must be a number, got None"),
        ({"score": "1"}, "score must be a number, got '1'"),
        ({"score": 1, "labels": "x"}, "unknown key 'labels'; accepted are score, label, reason, details, skipped"),
        ({"score": 1, "label": 2}, "label must be a string, got 2"),
        ({"score": 1, "details": [1]}, r"details must be an object, got \[1\]"),
    ],
)
def test_what_is_no_answer(value, complaint):
    with pytest.raises(ValueError, match=complaint):
        measurement_of(value)


async def test_what_another_evaluator_says_may_be_returned():
    @metric(threshold=0.5)
    def half_is_enough(case):
        return get_evaluator("tool_error").evaluate(case)

    @metric()
    def needs_tools(case):
        return get_evaluator("tool_call_validity").evaluate(case)

    @metric()
    def breaks(case):
        return EvalResult.errored("other", "it broke")

    case = EvalCase(tool_calls=[{"name": "a", "result": "x"}, {"name": "b"}])
    found = await score("half_is_enough", case)
    assert (found.evaluator, found.score, found.status, found.threshold) == ("half_is_enough", 0.5, Status.PASSED, 0.5)
    assert found.reason == get_evaluator("tool_error").evaluate(case).reason
    skipped, errored = await score("needs_tools", case), await score("breaks", case)
    assert (skipped.status, skipped.reason) == (Status.SKIPPED, "not given: tools")
    assert (errored.status, errored.reason) == (Status.ERRORED, "ValueError: other has no score: it broke")
