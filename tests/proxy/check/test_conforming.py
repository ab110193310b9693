"""Agents that get the extension right pass, however they answer; what cannot be seen is no pass. Every planted fault is
named, and nothing else is; every rule has a fault that breaks it."""

from __future__ import annotations

import pytest
from a2a_eval_proxy.features.check.rules import CARD_RULES, TRAFFIC_RULES, CheckVerdict, RuleStatus
from agents.capture_agent import build_app
from agents.faulty_agent import FAULTS, Fault, Json, faulty, faulty_app
from agents.serving import ServerThread
from support.checking import check, rules_with

UNSEEN_WHEN_QUICK = {"subscribe-asked", "subscribe-silent"}
"""The task may be over before a subscription begins."""


@pytest.mark.parametrize(
    ("streaming", "message"), [(True, "ask me"), (True, "resume me"), (False, "Got a kettle?"), (False, "resume me")]
)
async def test_a_right_agent_passes(streaming: bool, message: str) -> None:
    with ServerThread(lambda url: build_app(url, streaming=streaming)) as agent:
        report = await check(agent.url, message)

    assert report.verdict is CheckVerdict.CONFORMING
    assert not rules_with(report, RuleStatus.FAILED) | rules_with(report, RuleStatus.WARNING)
    assert rules_with(report, RuleStatus.UNSEEN) <= (UNSEEN_WHEN_QUICK if streaming else set())
    assert ("stream-asked" in rules_with(report, RuleStatus.SKIPPED)) is not streaming


async def test_every_rule_can_be_seen() -> None:
    """One message keeps the agent busy until two have subscribed; a tamperer without fault shows it the streams."""
    with ServerThread(lambda url: faulty_app(url, Fault())) as agent:
        report = await check(agent.url, "slow down", "ask me", "Got a kettle?")

    assert report.verdict is CheckVerdict.CONFORMING
    assert {result.status for result in report.results} == {RuleStatus.PASSED, RuleStatus.SKIPPED}
    assert rules_with(report, RuleStatus.SKIPPED) == {"list-asked", "list-silent"}


async def test_the_cards_example_that_calls_a_tool_is_what_is_said() -> None:
    with ServerThread(build_app) as agent:
        report = await check(agent.url)

    assert report.verdict is CheckVerdict.CONFORMING
    assert {turn.message for item in report.record.conversations for turn in item.turns} == {"Got a kettle?"}


@pytest.mark.parametrize(("message", "hint"), [("reply to me", "Messages"), ("idle talk", "--message")])
async def test_an_agent_that_told_no_calls_has_not_passed(message: str, hint: str) -> None:
    with ServerThread(build_app) as agent:
        report = await check(agent.url, message)

    assert report.verdict is CheckVerdict.INCONCLUSIVE
    assert not rules_with(report, RuleStatus.FAILED)
    assert {"send-asked", "send-silent", "entry-schema"} <= rules_with(report, RuleStatus.UNSEEN)
    reasons = {result.reason for result in report.results if result.rule.id == "send-asked"}
    assert any(hint in reason for reason in reasons)


def requires_another(card: Json) -> None:
    card["capabilities"]["extensions"].append({"uri": "urn:times", "required": True})


PICKY = Fault(card=requires_another, refuses=lambda asked: "urn:times" not in asked)


@pytest.mark.parametrize("right", [Fault(at_once=True), PICKY], ids=["answers before it is done", "requires others"])
async def test_what_an_agent_may_do_is_no_fault(right: Fault) -> None:
    """What the task shows later counts."""
    with ServerThread(lambda url: faulty_app(url, right)) as agent:
        report = await check(agent.url, "Got a kettle?")

    sends = [str(turn.opening.events) for item in report.record.conversations for turn in item.turns]
    assert right is PICKY or any("TASK_STATE_SUBMITTED" in send or "'submitted'" in send for send in sends)
    assert rules_with(report, RuleStatus.FAILED) == set()
    assert report.verdict is CheckVerdict.CONFORMING


async def test_a_model_that_does_not_always_call_its_tools_is_asked_again() -> None:
    """Half of its answers have no tool calls: those to every second request that asks for them."""
    asked_before: list[str] = []

    def forgetful(operation: str, asked: list[str]) -> list[str]:
        if operation in ("send", "stream") and len(asked_before) % 2 == 0 and asked != [""]:
            asked_before.append(operation)
            return []
        asked_before.extend([operation] if operation in ("send", "stream") and asked else [])
        return asked

    with ServerThread(lambda url: faulty_app(url, Fault(believes=forgetful))) as agent:
        report = await check(agent.url, "Got a kettle?")

    assert len(asked_before) > 8
    assert rules_with(report, RuleStatus.FAILED) == set()
    assert report.verdict is CheckVerdict.CONFORMING


# ── faults ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", FAULTS)
async def test_a_fault_is_found_over_every_interface(name: str) -> None:
    fault = FAULTS[name]
    with ServerThread(faulty(name)) as agent:
        report = await check(agent.url, fault.message)

    assert rules_with(report, RuleStatus.FAILED) == fault.breaks
    assert rules_with(report, RuleStatus.WARNING) == fault.warns
    assert report.verdict is (CheckVerdict.NOT_CONFORMING if fault.breaks else CheckVerdict.CONFORMING)
    for result in report.results:
        if result.rule.id in fault.breaks | fault.warns and result.status is not RuleStatus.SKIPPED:
            assert result.problems, f"{result.rule.id} over {result.interface}"


def test_every_rule_is_broken_by_some_fault() -> None:
    broken = {rule for fault in FAULTS.values() for rule in fault.breaks | fault.warns}
    assert broken == {rule.id for rule in (*CARD_RULES, *TRAFFIC_RULES)}
