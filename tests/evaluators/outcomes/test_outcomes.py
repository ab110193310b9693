"""Turns compared with the plan: which case, which turn of the case, what is missing, what the gates decide."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.turn_samples import call, finding, result, turn
from tool_call_evaluators import parse_suite
from tool_call_evaluators.behavior_failures import unique_errors
from tool_call_evaluators.gates import RunGates
from tool_call_evaluators.outcomes.comparison import compare
from tool_call_evaluators.outcomes.conversations import failures, follow, outcomes, quarantined, run_verdict
from tool_call_evaluators.outcomes.recording import record_suite
from tool_call_evaluators.report import build_report
from tool_call_evaluators.report.focus import focus_suites
from tool_call_evaluators.simulation.record import UserRecord
from tool_call_evaluators.simulation.user import USER_EMPTY, USER_NO_END, user_fault
from tool_call_evaluators.suite.writing import suite_dict

SUITE = parse_suite(
    """
suite: orders
evaluators: [tool_error]
tolerate: [unread_expectation]
cases:
  - id: status
    repeat: 2
    turns: [{user: Where is it?, expect: {tool_calls: [{name: lookup_order}]}}]
  - id: refund
    turns: [{user: I want my money back.}, {user: "Yes, please.", expect: {tool_calls: []}}]
"""
)


AGENTS = [turn(name, conversation="c", agent_name=name, start=at) for at, name in enumerate(["orders", "refunds"])]


def plan(turns, suite=SUITE, **more):
    """Label, and for each turn its index and id."""
    return [
        (item.label, [(turn.index, turn.turn and turn.turn["turn_id"]) for turn in item.turns])
        for item in follow(turns, suite, **more)
    ]


WHERE, BACK, YES = "Where is it?", "I want my money back.", "Yes, please."
MISSING = [("status #1", [(0, None)]), ("status #2", [(0, None)])]
OTHERS = [turn("a", conversation="free"), turn("b", case="other"), turn("c", conversation="")]
OTHER_PLAN = [("other", [(0, "b")]), ("free", [(0, "a")]), ("c", [(0, "c")])]
IDS = ["ada-monday", "0a0a5d5e-4444-4c1d-9f2a-000000000001", "ctx-0A0A5D5E4444", "x" * 41, ""]
SIMULATED = parse_suite(
    """
suite: orders
evaluators: [tool_error]
cases:
  - {id: refund, turns: [{user: Hello}], simulate: {goal: Money back., conversations: 2}}
"""
)
SCRIPTED = [turn("a", "Hello", case="refund", conversation="c", start=1)]
SECOND = ("refund #2", [(0, None), (1, None)])


@pytest.mark.parametrize(
    ("suite", "turns", "found"),
    [
        (SUITE, [], [*MISSING, ("refund", [(0, None), (1, None)])]),
        (
            SUITE,
            [
                turn("r2", YES, case="refund", conversation="c", start=9),
                turn("r1", BACK, case="refund", conversation="c", start=5),
                turn("s", WHERE, case="status", start=1),
            ],
            [("status #1", [(0, "s")]), MISSING[1], ("refund", [(0, "r1"), (1, "r2")])],
        ),
        (SUITE, [turn("r2", YES, case="refund")], [*MISSING, ("refund", [(0, None), (1, "r2")])]),
        (
            SUITE,
            [turn(f"s{number}", WHERE, case="status", start=number) for number in range(3)],
            [*((f"status #{number + 1}", [(0, f"s{number}")]) for number in range(3)),
             ("refund", [(0, None), (1, None)])],
        ),
        (
            SUITE,
            [
                turn(f"t{number}", text, case="refund", conversation="", start=number)
                for number, text in enumerate([BACK, YES, BACK])
            ],
            [*MISSING, ("refund #1", [(0, "t0"), (1, "t1")]), ("refund #2", [(0, "t2"), (1, None)])],
        ),
        (SUITE, OTHERS, [*MISSING, ("refund", [(0, None), (1, None)]), *OTHER_PLAN]),
        (None, OTHERS, OTHER_PLAN),
        (
            None,
            [turn(f"{number:032x}", conversation=name) for number, name in enumerate(IDS)],
            [(name, [(0, f"{number:032x}")])
             for number, name in enumerate(["ada-monday", *(f"conversation {n}" for n in (2, 3, 4, 5))])],
        ),
        # equal ids that clients gave conversations with different agents are of two, unless `run` held one
        (None, AGENTS, [("c", [(0, "orders")]), ("c", [(0, "refunds")])]),
        (None, [{**one, "attempt": 1} for one in AGENTS], [("c", [(0, "orders"), (1, "refunds")])]),
        (SIMULATED, [], [("refund #1", [(0, None), (1, None)]), SECOND]),
        (SIMULATED, SCRIPTED, [("refund #1", [(0, "a"), (1, None)]), SECOND]),
        (
            SIMULATED,
            [*SCRIPTED, turn("b", "Hello", case="refund", conversation="c", start=2)],
            [("refund #1", [(0, "a"), (1, "b")]), SECOND],
        ),
    ],
)  # fmt: skip
def test_turns_are_put_where_the_plan_has_them(suite, turns, found):
    """Whatever never came is there as missing; what the plan does not have comes last."""
    assert plan(turns, suite) == found


def test_a_conversation_may_go_on_longer():
    longer = [turn(f"t{number}", f"{number}", case="refund", conversation="c", start=number) for number in range(3)]
    (*_, refund) = follow(longer, SUITE)
    assert [(item.index, item.expect is None) for item in refund.turns] == [(0, False), (1, False), (2, True)]
    assert [refund.where(item) for item in refund.turns] == ["refund, turn 1", "refund, turn 2", "refund, turn 3"]


@pytest.mark.parametrize(
    ("fields", "failure"),
    [
        ({}, None),
        ({"state": None}, None),
        (
            {"state": "TASK_STATE_FAILED", "findings": [finding("task_failed", "info", "no stock")]},
            "the task ended as TASK_STATE_FAILED: no stock",
        ),
        ({"state": "TASK_STATE_FAILED", "response_text": "partial"}, "the task ended as TASK_STATE_FAILED"),
        ({"state": "TASK_STATE_REJECTED", "response_text": ""}, "the task ended as TASK_STATE_REJECTED"),
        ({"findings": [finding("odd"), finding("agent_error", "error", "HTTP 500")]}, "agent_error: HTTP 500"),
        ({"findings": [finding("incomplete", message="no end")]}, "incomplete: no end"),
        ({"status": "pending"}, "the turn was not scored (status: pending)"),
    ],
)
def test_how_a_turn_went_wrong(fields, failure):
    (conversation,) = follow([turn("a", **fields)])
    assert conversation.turns[0].failure == failure


@pytest.mark.parametrize(
    ("expect", "captured"),
    [
        ("tool_calls: [{name: f}]", False),
        ("tool_calls: []", None),
        ("tool_calls_order: [f]", False),
        ("tool_calls_order: []", None),
        ("tool_outputs: [{name: f, output: x}]", False),
        ('tool_calls_count: {f: ["<=", 2], g: [">", 0]}', False),
        ('tool_calls_count: {f: ["<=", 2], g: ["=", 0]}', None),
        ("response: Hello", None),
    ],
)
def test_a_silent_agent_is_seen_whatever_expects_its_calls_of_a_turn_or_of_the_conversation(expect, captured):
    head = "suite: x\nevaluators: [{tool_error: {scope: conversation}}]\ntolerate: [unread_expectation]\n"
    head += "cases:\n  - id: a\n    turns: "
    of_turn = parse_suite(f"{head}[{{user: Hi, expect: {{{expect}}}}}]")
    of_conversation = parse_suite(f"{head}[{{user: Hi}}]\n    expect: {{{expect}}}")
    silent = turn("s", "Hi", case="a", conversation="c")
    said = {"c": [result("tool_error", 1.0)]}
    for suite in (of_turn, of_conversation):
        conversations = follow([silent], suite, said)
        seen = [item.captured for item in outcomes(conversations) if item.captured is not None]
        assert seen == ([] if captured is None else [captured])
        codes = [reason.code for reason in run_verdict(suite, conversations).reasons]
        assert codes == ([] if captured is None else ["nothing_captured"])
        assert run_verdict(suite, follow([{**silent, "tool_calls": [call("f")]}], suite, said)).passed


def test_the_verdict_on_a_whole_run():
    good = [result("tool_error", 1.0)]
    turns = [
        turn("s1", "Where is it?", [call("lookup_order")], good, case="status", start=0),
        turn("s2", "Where is it?", [call("lookup_order")], good, case="status", start=1),
        turn("r1", "I want my money back.", [], good, case="refund", conversation="c", start=2),
        turn("r2", "Yes, please.", [], good, case="refund", conversation="c", start=3),
    ]
    assert run_verdict(SUITE, follow(turns, SUITE)).passed
    verdict = run_verdict(SUITE, follow(turns[1:], SUITE))
    assert [(reason.code, reason.where, reason.case_id) for reason in verdict.reasons] == [
        ("missing_turn", "status #2", "status")
    ]
    silent = [{**turns[0], "tool_calls": []}, {**turns[1], "tool_calls": []}, *turns[2:]]
    assert [reason.code for reason in run_verdict(SUITE, follow(silent, SUITE)).reasons] == ["nothing_captured"]


def test_results_of_whole_conversations_are_judged_too():
    suite = parse_suite("suite: x\nevaluators: [{tool_trajectory: {scope: conversation}}]\ncases: []")
    turns = [turn("a", conversation="c")]
    conversations = follow(turns, suite, {"c": [result("tool_trajectory", 0.0)]})
    verdict = run_verdict(suite, conversations)
    assert [(reason.code, reason.where) for reason in verdict.reasons] == [("failed", "c")]
    assert [error.to_dict()["occurrences"] for error in unique_errors(failures(conversations))] == [
        [{"conversation": "c", "turn": 0}]
    ]


def test_a_result_that_names_its_case_is_not_about_another_case_of_the_conversation():
    turns = [turn("a", case="status", conversation="c"), turn("b", case="other", conversation="c", start=9)]
    said = {"c": [{**result("tool_trajectory", 0.5), "case_id": "other"}, result("tool_error", 1.0)]}
    found = {item.case_id: [said.evaluator for said in item.results] for item in follow(turns, None, said)}
    assert found == {"status": ["tool_error"], "other": ["tool_trajectory", "tool_error"]}


@pytest.mark.parametrize("how", [{"status": "open"}, {"turn": None}, {"state": "TASK_STATE_FAILED"}, {}])
def test_a_resumed_run_repeats_what_did_not_end(how):
    turns = [
        turn("r1", "I want my money back.", case="refund", conversation="c", start=1),
        {**turn("r2", "Yes, please.", case="refund", conversation="c", start=2), **how},
    ]
    refund = follow(turns[:1] if "turn" in how else turns, SUITE)[-1]
    assert refund.cut_off is ("status" in how or "turn" in how)


REPEATED = """
suite: orders
evaluators: [tool_error]
repeat: {times: 3, pass: 2}
tolerate: [vacuous]
cases:
  - {id: status, turns: [{user: Where is it?}]}
  - {id: refund, repeat: 1, turns: [{user: Refund me.}]}
"""


def attempt(number: int, score: float | None, **fields: object) -> dict[str, object]:
    return turn(f"s{number}", "Where is it?", (), [result("tool_error", score)], case="status", start=number, **fields)


@pytest.mark.parametrize(
    ("attempts", "messages"),
    [
        ([attempt(0, 1.0), attempt(1, 1.0)], []),
        ([attempt(0, 1.0), attempt(1, 0.0), attempt(2, 1.0)], []),
        ([attempt(0, 1.0), attempt(1, None, state="TASK_STATE_FAILED"), attempt(2, 1.0)], []),
        (
            [attempt(0, 0.0), attempt(1, 0.0)],
            [
                "status #1: tool_error failed: tool_error said so",
                "status #2: tool_error failed: tool_error said so",
                "status #2: 0 of 2 attempts at the case passed, and 2 must pass",
            ],
        ),
        (
            [attempt(0, 1.0), attempt(1, None), attempt(2, None)],
            ["status #3: 1 of 3 attempts at the case passed, and 2 must pass; 2 of them show nothing about the agent"],
        ),
        (
            [attempt(0, 1.0)],
            [
                "status #2: not executed (no matching turn)",
                "status #3: not executed (no matching turn)",
                "status #3: 1 of 3 attempts at the case passed, and 2 must pass; "
                "2 of them show nothing about the agent",
            ],
        ),
    ],
)
def test_as_many_attempts_must_pass_as_the_suite_says(attempts, messages):
    refund = turn("r", "Refund me.", (), [result("tool_error", 1.0)], case="refund", start=9)
    suite = parse_suite(REPEATED)
    verdict = run_verdict(suite, follow([*attempts, refund], suite))
    assert [reason.message for reason in verdict.reasons] == messages
    shares = run_verdict(replace(suite, run_gates=RunGates(pass_rate=0.75)), follow([*attempts, refund], suite))
    (check,) = shares.gates
    assert check.actual == (0.5 if messages else 1.0), "the attempts count as one"


def test_a_gate_on_a_metric_counts_every_attempt():
    suite = parse_suite(REPEATED + "gates: {tool_error: 0.9}")
    refund = turn("r", "Refund me.", (), [result("tool_error", 1.0)], case="refund", start=9)
    turns = [attempt(0, 1.0), attempt(1, 0.0), attempt(2, 1.0), refund]
    assert [reason.code for reason in run_verdict(suite, follow(turns, suite)).reasons] == ["below_mean"]


def test_the_attempts_of_a_suite_are_those_of_each_case_without_its_own():
    suite = parse_suite(REPEATED)
    assert [(case.conversations, case.must_pass) for case in suite.cases] == [(3, 2), (1, None)]
    assert [case.get("repeat") for case in suite_dict(suite)["cases"]] == [None, 1]


QUARANTINED = """
suite: orders
evaluators: [tool_error]
tolerate: [vacuous]
quarantine: {status: {reason: the search index is down, until: 2026-11-21}}
cases:
  - {id: status, turns: [{user: Where is it?}]}
  - {id: refund, turns: [{user: Refund me.}]}
"""


@pytest.mark.parametrize("gates", ["", "gates: {pass_rate: 1.0, tool_error: 1.0}"])
@pytest.mark.parametrize(
    ("day", "reasons"),
    [
        ("2026-11-21", []),
        ("2026-11-22", []),
        ("2026-11-20", ["status: its quarantine ended on 2026-11-20 (the search index is down): repair the case, "]),
    ],
)
def test_a_case_in_quarantine_does_not_count_until_its_day(gates, day, reasons):
    suite = parse_suite(QUARANTINED.replace("2026-11-21", day) + gates)
    refund = turn("r", "Refund me.", (), [result("tool_error", 1.0)], case="refund", start=9)
    conversations = follow([attempt(0, 0.0), refund], suite)  # on 2026-11-21
    verdict = run_verdict(suite, conversations)
    messages = [reason.message for reason in verdict.reasons if reason.code == "quarantine_ended"]
    assert len(messages) == len(reasons) == (not verdict.passed)
    assert all(message.startswith(start) for message, start in zip(messages, reasons, strict=True))
    if verdict.passed:
        assert [check.actual for check in verdict.gates] == ([1.0, 1.0] if gates else [])
        assert [item.sentence(case_id) for case_id, item in quarantined(suite, conversations).items()] == [
            f"status is in quarantine until {day}, and does not count: the search index is down "
            "(0 of 1 scored attempts passed)"
        ]


def test_a_run_whose_every_case_is_in_quarantine_does_not_pass():
    suite = parse_suite(QUARANTINED)
    only = replace(suite, cases=suite.cases[:1])
    verdict = run_verdict(only, follow([attempt(0, 1.0)], only))
    assert [reason.message for reason in verdict.reasons] == ["nothing was measured: every case is in quarantine"]


WITH_A_USER = parse_suite("suite: x\nevaluators: [tool_error]\ncases: [{id: refund, simulate: {goal: Money back}}]")


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


def test_an_invalid_conversation_is_compared_with_none() -> None:
    good, invalid = conversation("Hello"), conversation("Hello", number=2, fault=USER_EMPTY, score=0.0)
    assert compare(conversation("Hello", "Money back"), good).cases[0].status == "same", "shorter is no worse"
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
        verdict = run_verdict(WITH_A_USER, follow(turns, WITH_A_USER))
        assert not verdict.passed
        focused = focus_suites(build_report("r", turns, verdict.to_dict(), suite=WITH_A_USER))
        assert len(focused) == expected
        assert all(parse_suite(text).cases[0].simulate == WITH_A_USER.cases[0].simulate for text in focused.values())


def test_a_run_that_was_cut_off_lacks_a_turn() -> None:
    whole = conversation("Hello", "Money back")
    cut = whole[:1]
    (found,) = follow(cut, WITH_A_USER)
    assert (found.complete, [item.turn is None for item in found.turns]) == (False, [False, True])
    of_others = [{key: value for key, value in item.items() if key != "simulated_user"} for item in whole]
    for turns in (whole, of_others):  # such as those that a proxy captured have no record
        (found,) = follow(turns, WITH_A_USER)
        assert (found.complete, len(found.turns)) == (True, 2)
