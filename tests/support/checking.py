"""Runs a check and puts its report into few words."""

from __future__ import annotations

from a2a_eval_proxy.check.probe.client import Line
from a2a_eval_proxy.check.probe.dialogue import examine
from a2a_eval_proxy.check.report.report import Report, judge
from a2a_eval_proxy.check.rules.base import Status


async def check(url: str, *messages: str, timeout_s: float = 20) -> Report:
    """What `a2a-eval-proxy check` finds out about the agent at `url`."""
    async with Line({}, timeout_s=timeout_s) as line:
        return judge(await examine(line, url, messages, lambda what: None))


def rules_with(report: Report, status: Status) -> set[str]:
    """Ids of the rules that came to `status`, for the card or over any interface."""
    return {result.rule.id for result in report.results if result.status is status}
