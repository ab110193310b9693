"""Runs a check and puts its report into few words."""

from __future__ import annotations

from a2a_eval_proxy.check import CheckReport, ProbeClient, PushOptions, check_agent
from a2a_eval_proxy.check.rules.base import RuleStatus
from support.patience import PATIENCE_S


async def check(
    url: str, *messages: str, timeout_s: float = PATIENCE_S, push: PushOptions | None = None
) -> CheckReport:
    """What `a2a-eval-proxy check` finds out about the agent at `url`."""
    async with ProbeClient({}, timeout_s) as client:
        return await check_agent(client, url, messages, push=push)


def rules_with(report: CheckReport, status: RuleStatus) -> set[str]:
    """Ids of the rules that came to `status`, for the card or over any interface."""
    return {result.rule.id for result in report.results if result.status is status}
