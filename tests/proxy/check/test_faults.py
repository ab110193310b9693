"""Every planted fault is named, and nothing else is, over every interface; every rule has a fault that breaks it."""

from __future__ import annotations

import pytest
from a2a_eval_proxy.features.check.rules import CARD_RULES, TRAFFIC_RULES, CheckVerdict, RuleStatus
from agents.faulty_agent import FAULTS, faulty
from agents.serving import ServerThread
from support.checking import check, rules_with


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


def test_rules_are_named_once_and_explained() -> None:
    rules = (*CARD_RULES, *TRAFFIC_RULES)
    assert len({rule.id for rule in rules}) == len(rules)
    assert all(rule.title and rule.why.endswith(".") and rule.fix.endswith(".") for rule in rules)
