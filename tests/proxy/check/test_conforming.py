"""Agents that get the extension right pass, however they answer; what cannot be seen is no pass."""

from __future__ import annotations

import pytest
from a2a_eval_proxy.features.check.rules import CheckVerdict, RuleStatus
from agents.capture_agent import build_app
from agents.faulty_agent import Fault, Json, faulty_app
from agents.serving import ServerThread
from support.checking import check, rules_with

UNSEEN_WHEN_QUICK = {"subscribe-asked", "subscribe-silent"}
"""The task may be over before a subscription begins."""


@pytest.mark.parametrize("message", ["Got a kettle?", "ask me", "resume me"])
@pytest.mark.parametrize("streaming", [True, False])
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


async def test_an_agent_may_answer_before_it_is_done() -> None:
    """What the task shows later counts."""
    with ServerThread(lambda url: faulty_app(url, Fault(at_once=True))) as agent:
        report = await check(agent.url, "Got a kettle?")

    sends = [turn.opening for item in report.record.conversations for turn in item.turns]
    assert any("TASK_STATE_SUBMITTED" in str(send.events) or "'submitted'" in str(send.events) for send in sends)
    assert rules_with(report, RuleStatus.FAILED) == set()
    assert report.verdict is CheckVerdict.CONFORMING


async def test_an_agent_may_require_other_extensions() -> None:
    def card(card: Json) -> None:
        card["capabilities"]["extensions"].append({"uri": "urn:times", "required": True})

    picky = Fault(card=card, refuses=lambda asked: "urn:times" not in asked)
    with ServerThread(lambda url: faulty_app(url, picky)) as agent:
        report = await check(agent.url, "Got a kettle?")

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
