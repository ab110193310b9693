"""Conversations of simulated users in what follows a run: comparison, recorded suites, suites of what failed."""

from __future__ import annotations

from typing import Any

from support.turn_samples import result, turn
from tool_call_evaluators import parse_suite
from tool_call_evaluators.outcomes.comparison import compare
from tool_call_evaluators.outcomes.conversations import follow, run_verdict
from tool_call_evaluators.outcomes.recording import record_suite
from tool_call_evaluators.report import build_report
from tool_call_evaluators.report.focus import focus_suites
from tool_call_evaluators.simulation.record import UserRecord
from tool_call_evaluators.simulation.user import USER_EMPTY, USER_NO_END, user_fault

SUITE = parse_suite("suite: x\nevaluators: [tool_error]\ncases: [{id: refund, simulate: {goal: Money back}}]")


def conversation(*texts: str, number: int = 1, fault: str | None = None, score: float = 1.0) -> list[dict[str, Any]]:
    """The turns of a simulated conversation, whose user ended it."""
    found = user_fault(fault, "at fault") if fault else None
    record = UserRecord(number, "fault" if fault else "goal_reached", (*texts, "###STOP###"), "h", "p", fault=found)
    turns = [
        turn(
            f"{number}-{index}",
            text,
            case="refund",
            conversation=f"c{number}",
            start=10 * number + index,
            evaluations=[result("tool_error", score)],
            simulated_user={"conversation": number},
        )
        for index, text in enumerate(texts)
    ]
    turns[-1]["simulated_user"] = record.to_dict()
    return turns


def test_a_shorter_conversation_is_no_worse() -> None:
    longer, shorter = conversation("Hello", "Money back"), conversation("Hello")
    (case,) = compare(longer, shorter).cases
    assert (case.status, case.failures, case.passed) == ("same", (), ((1, 1), (1, 1)))


def test_an_invalid_conversation_is_compared_with_none() -> None:
    good, invalid = conversation("Hello"), conversation("Hello", number=2, fault=USER_EMPTY, score=0.0)
    (case,) = compare(good, [*good, *invalid]).cases
    assert (case.status, case.passed, case.excluded) == ("same", ((1, 1), (1, 1)), (0, 1))
    comparison = compare(good, invalid)
    assert [case.status for case in comparison.cases] == ["unscored"]
    assert comparison.exclusions == ({}, {"simulated_user": 1})
    (case,) = compare(good, conversation("Hello", fault=USER_NO_END, score=0.0)).cases
    assert case.status == "newly_failing"


def test_an_invalid_conversation_is_not_recorded() -> None:
    text = record_suite([*conversation("Hello"), *conversation("Hi", number=2, fault=USER_EMPTY)])
    assert "# Left out, conversations invalidated by the simulated user: 1.\n" in text
    (case,) = parse_suite(text).cases
    assert [item.user for item in case.turns] == ["Hello"]


def test_only_what_the_agent_failed_is_run_again() -> None:
    for fault, score, expected in ((USER_EMPTY, 1.0, 0), (None, 0.0, 2)):
        turns = conversation("Hello", fault=fault, score=score)
        verdict = run_verdict(SUITE, follow(turns, SUITE))
        assert not verdict.passed
        focused = focus_suites(build_report("r", turns, verdict.to_dict(), suite=SUITE))
        assert len(focused) == expected
        assert all(parse_suite(text).cases[0].simulate == SUITE.cases[0].simulate for text in focused.values())


def test_a_run_that_was_cut_off_lacks_a_turn() -> None:
    whole = conversation("Hello", "Money back")
    cut = whole[:1]
    (found,) = follow(cut, SUITE)
    assert (found.complete, [item.turn is None for item in found.turns]) == (False, [False, True])
    assert follow(whole, SUITE)[0].complete


def test_turns_of_other_users_need_no_record() -> None:
    """Such as those that a proxy captured, or that were imported."""
    turns = [{key: value for key, value in item.items() if key != "simulated_user"} for item in conversation("Hello")]
    (found,) = follow(turns, SUITE)
    assert (found.complete, len(found.turns)) == (True, 1)
    assert run_verdict(SUITE, [found]).passed
