"""Agents that offer push notifications: right senders pass, each fault is found, and no webhook is left behind."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from a2a.server.request_handlers import RequestHandler
from a2a.types import AgentCard
from a2a_eval_proxy.check.probe import dialogue, push_trials
from a2a_eval_proxy.check.probe.push_trials import PushOptions, WebhookListener
from a2a_eval_proxy.check.report.outputs import report_json
from a2a_eval_proxy.check.report.report import CheckReport
from a2a_eval_proxy.check.report.wording import notified_lines
from a2a_eval_proxy.check.rules.base import CheckVerdict, RuleResult, RuleStatus
from a2a_eval_proxy.check.rules.push import PUSH_RULES
from a2a_eval_proxy.errors import ListenError
from agents.capture_agent import build_app
from agents.faulty_grpc_agent import checked_agent
from agents.faulty_push_agent import PUSH_FAULTS, REFUSES_ADDRESSES, Webhooks, pushing_app, pushing_handler
from agents.recording_agent import build_app as recording_app
from agents.serving import ServerThread
from support.checking import check, rules_with
from support.patience import PATIENCE_S

PATIENT = PushOptions(wait_s=PATIENCE_S, retry_wait_s=PATIENCE_S)
"""What must come is waited for."""
BRIEF_S = 0.2
"""What never comes need not be waited for."""


@pytest.fixture(autouse=True)
def _brief_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The senders here send in order, one after another."""
    monkeypatch.setattr(push_trials, "MISSING_S", BRIEF_S)
    monkeypatch.setattr(push_trials, "LATE_S", 0.02)


def push_results(report: CheckReport, status: RuleStatus) -> set[str]:
    return {result.rule.id for result in report.results if result.status is status and is_push(result)}


def is_push(result: RuleResult) -> bool:
    return result.rule.about == "push notifications"


def left_behind(app: Any) -> list[Any]:
    """The webhooks that are still set at the agent."""
    return set_in(app.state.webhooks)


def set_in(webhooks: Webhooks) -> list[Any]:
    stored = webhooks._push_notification_infos
    return [config for owner in stored.values() for configs in owner.values() for config in configs]


@pytest.fixture
def apps() -> list[Any]:
    return []


def kept(apps: list[Any], **options: Any) -> Any:
    """A factory for ServerThread that keeps the application it builds in `apps`."""

    def build(url: str) -> Any:
        apps.append(pushing_app(url, **options))
        return apps[0]

    return build


async def test_a_right_sender_passes_over_every_interface(apps: list[Any]) -> None:
    with ServerThread(kept(apps, every_interface=True)) as agent:
        report = await check(agent.url, "Got a kettle?", push=PATIENT)

    assert report.verdict is CheckVerdict.CONFORMING
    assert push_results(report, RuleStatus.FAILED) == set()
    assert push_results(report, RuleStatus.WARNING) == {"push-payload-version"}  # it knows only the form of 1.0
    assert push_results(report, RuleStatus.PASSED) >= {rule.id for rule in PUSH_RULES} - {"push-payload-version"}
    assert push_results(report, RuleStatus.UNSEEN) == {"push-delete"}  # over HTTP+JSON 0.3
    created = [seen.created for seen in report.record.push]
    assert all(trial is not None and trial.was_open and trial.notifications for trial in created)
    assert left_behind(apps[0]) == []
    kinds = {"task": 1, "statusUpdate": 2, "artifactUpdate": 2}
    arrived = report_json(report, agent.url)["notifications"]
    assert list(arrived) == [str(seen.interface) for seen in report.record.push]
    assert all(forms == {f"StreamResponse with {kind}": n for kind, n in kinds.items()} for forms in arrived.values())
    (line,) = notified_lines(report)
    assert line.startswith("JSONRPC 1.0, HTTP+JSON 1.0, JSONRPC 0.3, HTTP+JSON 0.3: 1 x StreamResponse with task, 2 x ")


async def test_webhooks_are_set_over_grpc_too() -> None:
    stores = []

    def handler(card: AgentCard) -> RequestHandler:
        made, webhooks = pushing_handler(card, extended_agent_card=card)
        stores.append(webhooks)
        return made

    async with checked_agent(make_handler=handler) as address:
        report = await check(f"grpc://{address}", "Got a kettle?", push=PATIENT)

    assert [str(seen.interface) for seen in report.record.push] == ["GRPC 1.0", "GRPC 0.3"]
    assert rules_with(report, RuleStatus.FAILED) == set()
    assert push_results(report, RuleStatus.WARNING) == {"push-payload-version"}
    assert push_results(report, RuleStatus.UNSEEN) == set()
    assert set_in(stores[0]) == []


async def test_a_check_that_is_stopped_leaves_no_webhook(apps: list[Any]) -> None:
    """It is stopped while it waits for a notification that never comes."""
    with ServerThread(kept(apps, fault=PUSH_FAULTS["silent"])) as agent:
        running = asyncio.create_task(check(agent.url, "Got a kettle?", push=PATIENT))
        while not apps or not left_behind(apps[0]):
            await asyncio.sleep(0.01)
        running.cancel()
        await asyncio.wait([running])
        assert running.cancelled()
        assert left_behind(apps[0]) == []


@pytest.mark.parametrize("name", PUSH_FAULTS)
async def test_a_fault_is_found(name: str, apps: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages without webhooks are sent in the fewest ways that still show tool calls."""
    monkeypatch.setattr(dialogue, "_VARIANTS", dialogue._VARIANTS[:3])
    fault = PUSH_FAULTS[name]
    retry_wait_s = BRIEF_S if "push-retry" in fault.warns else 20
    options = PushOptions(wait_s=BRIEF_S if fault.omits else 20, retry_wait_s=retry_wait_s)
    with ServerThread(kept(apps, fault=fault)) as agent:
        report = await check(agent.url, "Got a kettle?", push=options)

    assert rules_with(report, RuleStatus.FAILED) == fault.breaks
    assert push_results(report, RuleStatus.WARNING) == fault.warns
    (seen,) = report.record.push
    assert seen.created is not None
    assert seen.created.was_open or "push-create" in fault.breaks
    if fault.breaks != {"push-delete"}:
        assert left_behind(apps[0]) == []


async def test_an_agent_that_refuses_private_addresses_is_not_blamed(apps: list[Any]) -> None:
    with ServerThread(kept(apps, fault=REFUSES_ADDRESSES)) as agent:
        report = await check(agent.url, "Got a kettle?", push=PATIENT)

    assert push_results(report, RuleStatus.FAILED) == set()
    (result,) = [result for result in report.results if result.rule.id == "push-in-message"]
    assert result.status is RuleStatus.UNSEEN
    assert "the webhook is at a private address" in result.reason
    assert "--push-url" in result.reason


async def test_the_sender_of_the_sdk() -> None:
    """It passes, with its known weaknesses as warnings."""
    with ServerThread(recording_app) as agent:
        options = PushOptions(wait_s=20, retry_wait_s=BRIEF_S)
        report = await check(agent.url, "chunks please", push=options)

    assert rules_with(report, RuleStatus.FAILED) == set()
    assert push_results(report, RuleStatus.WARNING) == {"push-media-type", "push-payload-version", "push-retry"}


async def test_agents_elsewhere_are_skipped_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(push_trials, "is_local", lambda url: False)
    with ServerThread(pushing_app) as agent:
        report = await check(agent.url, "Got a kettle?", push=PATIENT)

    assert report.record.push == ()
    (left,) = report.record.not_checked
    assert left.interface == "push notifications"
    assert "--push-listen HOST:PORT" in left.reason


async def test_agents_without_push_are_notified_of_nothing() -> None:
    with ServerThread(build_app) as agent:
        report = await check(agent.url, "Got a kettle?", push=PATIENT)
        asked = await check(agent.url, "Got a kettle?", push=PushOptions(url="http://127.0.0.1:1", wait_s=BRIEF_S))

    assert report.record.push == ()
    assert "push-create" in rules_with(asked, RuleStatus.FAILED)


async def test_an_address_in_use_is_said_in_a_sentence() -> None:
    with ServerThread(pushing_app) as agent:
        taken = agent.url.removeprefix("http://")
        with pytest.raises(ListenError, match=f"{taken}: Address already in use; choose another .* --push-listen"):
            WebhookListener(PushOptions(listen=taken))


def test_every_rule_is_broken_by_some_fault() -> None:
    broken = {rule for fault in PUSH_FAULTS.values() for rule in fault.breaks | fault.warns}
    assert broken | {"push-payload-version"} == {rule.id for rule in PUSH_RULES}
