"""A run with turns of several agents, each judged by a suite of its own."""

from __future__ import annotations

import json
from typing import Any
from xml.etree import ElementTree as ET

from a2a_eval_proxy.runs.run_result import JudgedBy, Plan, judge
from support.turn_samples import result, turn
from tool_call_evaluators.report import junit_xml
from tool_call_evaluators.report.model import Report
from tool_call_evaluators.suite import parse_suite

CASE = {"id": "one", "repeat": {"times": 2, "pass": 1}, "turns": [{"user": "Do it."}]}
QUARANTINE = {"one": {"until": "2999-01-01", "reason": "not ours"}}
TRIP = {"id": "trip", "agent": "orders", "turns": [{"user": "Do it."}, {"user": "Then this.", "agent": "refunds"}]}


def judges(**suites: dict[str, Any]) -> list[JudgedBy]:
    texts = {name: {"suite": f"of {name}", "evaluators": ["tool_error"], **suite} for name, suite in suites.items()}
    return [JudgedBy(parse_suite(json.dumps(text)), agents=frozenset({name})) for name, text in texts.items()]


def report(by: list[JudgedBy], turns: list[dict[str, Any]]) -> Report:
    return judge(Plan(by), turns, {}, "both").report


def test_attempts_and_quarantine_are_those_of_the_agent_where_ids_of_cases_are_equal() -> None:
    turns = [
        turn(
            f"{name}-{number}",
            "Do it.",
            [],
            [result("tool_error", score)],
            case="one",
            conversation=str(number),
            agent_name=name,
        )
        for name, score in (("orders", 0.0), ("refunds", 1.0))
        for number in (1, 2)
    ]
    made = report(judges(orders={"cases": [CASE], "quarantine": QUARANTINE}, refunds={"cases": [CASE]}), turns)
    passed = {case: (attempts.passed, attempts.made) for case, attempts in made.attempts.items()}
    assert passed == {"orders: one": (0, 2), "refunds: one": (2, 2)}
    assert list(made.quarantined) == ["orders: one"]
    assert made.quarantined["orders: one"].startswith("orders: one is in quarantine until 2999-01-01")
    cases = ET.fromstring(junit_xml(made)).iter("testcase")  # ours
    skipped = {case.get("name"): len(case.findall("skipped")) for case in cases}
    assert skipped == {"orders: one": 1, "refunds: one": 0, "unmeasured": 0}


def test_a_conversation_of_several_agents_is_followed_by_the_suite_that_has_its_case() -> None:
    """Though the suites of its agents are different files, and the other has a case with its id, too."""
    held = {"attempt": {"number": 1, "enough": None}, "conversation": "c", "case": "trip"}
    turns = [
        turn("first", "Do it.", [], [result("tool_error", 1.0)], agent_name="orders", **held),
        turn("then", "Then this.", [], [result("tool_error", 1.0)], agent_name="refunds", start=2, **held),
        turn("other", "Do it.", [], [result("tool_error", 1.0)], agent_name="refunds", start=3, case="trip"),
    ]
    made = report(judges(orders={"cases": [TRIP]}, refunds={"cases": [{**CASE, "id": "trip", "repeat": 1}]}), turns)
    found = {one.label: [item.turn and item.turn["turn_id"] for item in one.turns] for one in made.conversations}
    assert found == {"orders: trip": ["first", "then"], "refunds: trip": ["other"]}
