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
