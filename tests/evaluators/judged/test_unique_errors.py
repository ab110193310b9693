"""Distinct errors, distinguished by a judge."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tool_call_evaluators.behavior_failures import BehaviorFailure, unique_errors
from tool_call_evaluators.judge import JudgeUnreachableError, PreparedJudge, Usage
from tool_call_evaluators.judged.unique_errors import errors_of_run, judged_unique_errors

FAILURES = [
    BehaviorFailure("c1", 1, "false information", "It made up an order."),
    BehaviorFailure("c1", 2, "repetition", "Said it twice."),
    BehaviorFailure("c2", 1, "false information", "The order it names does not exist."),
    BehaviorFailure("c2", 3, "false information", "Wrong price."),
    BehaviorFailure("c3", 1, "false information", "it made up an ORDER"),
]


def same_as(*numbers):
    return {f"error_{index}": {"reason": "r", "same_as": number} for index, number in enumerate(numbers, start=1)}


async def test_what_the_judge_takes_for_the_same_is_one_error():
    judge = PreparedJudge([same_as(1, 1, 3)])
    errors = await judged_unique_errors(FAILURES, judge)
    assert [(error.label, error.description, error.occurrences) for error in errors] == [
        ("false information", "It made up an order.", (("c1", 1), ("c3", 1), ("c2", 1))),
        ("false information", "Wrong price.", (("c2", 3),)),
        ("repetition", "Said it twice.", (("c1", 2),)),
    ]
    (question,) = judge.questions
    assert len(question.data["errors"].splitlines()) == 3, "one label, and what words already show is not asked"


async def test_without_a_judge_s_answer_there_is_no_grouping_of_it():
    with pytest.raises(JudgeUnreachableError):
        await judged_unique_errors(FAILURES, PreparedJudge([JudgeUnreachableError("gone")]))


@pytest.mark.statement(68)
async def test_errors_of_a_run_are_merged_where_there_is_a_judge():
    other = BehaviorFailure("c1", 1, "tool_error", "1 of 2 calls failed.")
    judge = PreparedJudge([same_as(1, 1, 3)])
    errors, spent = await errors_of_run([other, *FAILURES], judge)
    assert [(error.label, len(error.occurrences)) for error in errors] == [
        ("false information", 3),
        ("false information", 1),
        ("tool_error", 1),
        ("repetition", 1),
    ]
    assert spent.requests == 1
    assert await errors_of_run(FAILURES, None) == (unique_errors(FAILURES), Usage())


async def test_a_judge_that_does_not_answer_leaves_the_grouping_by_words(caplog):
    errors, spent = await errors_of_run(FAILURES, PreparedJudge([JudgeUnreachableError("gone").costing(Usage(2))]))
    assert (errors, spent.requests) == (unique_errors(FAILURES), 2)
    assert "distinct errors are grouped by their wording alone: gone" in caplog.text


async def test_only_so_many_errors_are_compared(monkeypatch):
    monkeypatch.setattr("tool_call_evaluators.judged.unique_errors.MAX_ERRORS", 2)
    judge = PreparedJudge([same_as(1, 1)])
    errors = await judged_unique_errors(FAILURES, judge)
    assert [len(error.occurrences) for error in errors] == [3, 1, 1]


@given(st.integers(2, 6).flatmap(lambda size: st.lists(st.integers(1, size), min_size=size, max_size=size)))
async def test_whatever_it_says_no_occurrence_is_lost_or_doubled(numbers):
    failures = [BehaviorFailure("c", turn, "repetition", f"reason {'x' * turn}") for turn in range(1, len(numbers) + 1)]
    errors = await judged_unique_errors(failures, PreparedJudge([same_as(*numbers)]))
    assert sorted(place for error in errors for place in error.occurrences) == [("c", item.turn) for item in failures]
    together = {place: error.description for error in errors for place in error.occurrences}
    for turn, number in enumerate(numbers, start=1):
        if number < turn:
            assert together["c", turn] == together["c", number]
