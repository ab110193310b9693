"""Distinct errors behind many behaviour failures."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tool_call_evaluators import EvalCase, EvalResult
from tool_call_evaluators.behavior_failures import (
    NO_FAILURE,
    SEVERITY,
    BehaviorFailure,
    behavior_failures,
    normalised,
    unique_errors,
    worst_first,
)
from tool_call_evaluators.judge import JudgeUnreachableError, PreparedJudge, Usage
from tool_call_evaluators.judged.unique_errors import errors_of_run, judged_unique_errors


def test_failures_are_gathered_from_the_results_of_turns():
    failed = EvalResult("agent_behavior_failure", 0.0, passed=False, label="repetition", reason="Said it twice.")
    turns = [
        EvalCase(results=[EvalResult("agent_behavior_failure", 1.0, label=NO_FAILURE)]),
        EvalCase(results=[EvalResult("helpfulness", 2.0, label="poor"), failed]),
        EvalCase(results=[EvalResult.errored("agent_behavior_failure", "no answer")]),
    ]
    assert behavior_failures("c1", turns) == [BehaviorFailure("c1", 2, "repetition", "Said it twice.")]
    assert behavior_failures("c1", turns, metrics=["helpfulness"]) == [BehaviorFailure("c1", 2, "poor", "")]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("It said twice.", "it said,  TWICE", True),
        ("Order ORD-1001 was made up.", "Order ORD-77 was made up.", True),
        ("The price 12.50 is wrong", "The price 3 is wrong", True),
        ('It claims "sent today".', 'It claims "lost".', True),
        ("It calls `lookup_order`.", "It calls `refund`.", True),
        ("It claims 'sent'", "It claims 'never sent at all'", True),
        ("At 2026-01-31T10:00:00Z it gave up", "At 2027-02-01T11:30:00Z it gave up", True),
        ("It made up the order.", "It made up the price.", False),
        ("The agent's answer isn't right", "The agent's reply isn't right", False),
        ("It claims 'sent'", "It claims", False),
    ],
)
def test_reasons_that_say_the_same(one, other, same):
    assert (normalised(one) == normalised(other)) is same


def test_errors_are_grouped_worst_and_most_frequent_first():
    errors = unique_errors(
        [
            BehaviorFailure("c1", 1, "repetition", "Said it twice."),
            BehaviorFailure("c1", 2, "false information", "Made up ORD-1."),
            BehaviorFailure("c2", 1, "lack of specific information", "No date."),
            BehaviorFailure("c2", 2, "false information", "Wrong carrier."),
            BehaviorFailure("c3", 4, "false information", "made up ord-2"),
            BehaviorFailure("c3", 5, "repetition", "Made up ORD-3."),
            BehaviorFailure("c3", 6, "rudeness", "Shouted."),
        ]
    )
    assert [(error.label, error.description, error.severity) for error in errors] == [
        ("false information", "Made up ORD-1.", "critical"),
        ("false information", "Wrong carrier.", "critical"),
        ("lack of specific information", "No date.", "medium"),
        ("rudeness", "Shouted.", "medium"),
        ("repetition", "Said it twice.", "low"),
        ("repetition", "Made up ORD-3.", "low"),
    ]
    assert errors[0].occurrences == (("c1", 2), ("c3", 4))
    assert json.loads(json.dumps(errors[0].to_dict()))["occurrences"][1] == {"conversation": "c3", "turn": 4}


failures = st.lists(
    st.builds(
        BehaviorFailure,
        st.sampled_from(["c1", "c2"]),
        st.integers(1, 3),
        st.sampled_from([*SEVERITY, "other"]),
        st.text(max_size=8),
    ),
    max_size=8,
)


@given(failures)
def test_no_occurrence_is_lost_or_doubled(found):
    errors = unique_errors(found)
    assert sorted(
        (error.label, normalised(error.description), *place) for error in errors for place in error.occurrences
    ) == sorted({(item.label, normalised(item.reason), item.conversation, item.turn) for item in found})
    assert len({(error.label, normalised(error.description)) for error in errors}) == len(errors)


def test_a_failure_is_worse_than_a_turn_that_was_not_asked_about():
    labels = ["skipped_good_performance", "repetition", "no failure", "false information"]
    assert worst_first(labels) == ("false information", "repetition", "skipped_good_performance", "no failure")


FAILURES = [
    BehaviorFailure("c1", 1, "false information", "It made up an order."),
    BehaviorFailure("c1", 2, "repetition", "Said it twice."),
    BehaviorFailure("c2", 1, "false information", "The order it names does not exist."),
    BehaviorFailure("c2", 3, "false information", "Wrong price."),
    BehaviorFailure("c3", 1, "false information", "it made up an ORDER"),
]


def same_as(*numbers):
    return {f"error_{index}": {"reason": "r", "same_as": number} for index, number in enumerate(numbers, start=1)}


@pytest.mark.statement(68)
async def test_errors_of_a_run_are_merged_where_there_is_a_judge():
    other = BehaviorFailure("c1", 1, "tool_error", "1 of 2 calls failed.")
    judge = PreparedJudge([same_as(1, 1, 3)])
    errors, spent = await errors_of_run([other, *FAILURES], judge)
    assert [(error.description, error.occurrences) for error in errors] == [
        ("It made up an order.", (("c1", 1), ("c3", 1), ("c2", 1))),
        ("Wrong price.", (("c2", 3),)),
        ("1 of 2 calls failed.", (("c1", 1),)),
        ("Said it twice.", (("c1", 2),)),
    ]
    assert spent.requests == 1
    (question,) = judge.questions
    assert len(question.data["errors"].splitlines()) == 3, "one label, and what words already show is not asked"
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
