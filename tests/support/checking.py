"""Runs a check and puts its report into few words."""

from __future__ import annotations

from a2a_eval_proxy.features.check.client import ProbeClient
from a2a_eval_proxy.features.check.dialogue import probe_agent
from a2a_eval_proxy.features.check.report import CheckReport, apply_rules
from a2a_eval_proxy.features.check.rules import RuleStatus
from support.patience import PATIENCE_S


async def check(url: str, *messages: str, timeout_s: float = PATIENCE_S) -> CheckReport:
    """What the rules of `a2a-eval-proxy check` say of what is at `url`: an agent, or a proxy, which the command refuses
    to take for one."""
    async with ProbeClient({}, timeout_s) as client:
        return apply_rules(await probe_agent(client, url, messages, lambda step: None))


def rules_with(report: CheckReport, status: RuleStatus) -> set[str]:
    """Ids of the rules that came to `status`, for the card or over any interface."""
    return {result.rule.id for result in report.results if result.status is status}
