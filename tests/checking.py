"""Runs a check and puts its report into few words."""

from __future__ import annotations

from a2a_eval_proxy.check.judging import Report, judge
from a2a_eval_proxy.check.probing import examine
from a2a_eval_proxy.check.talking import Line
from a2a_eval_proxy.check.verdict import Status


async def check(url: str, *messages: str, timeout_s: float = 20) -> Report:
    """What `a2a-eval-proxy check` finds out about the agent at `url`."""
    async with Line({}, timeout_s=timeout_s) as line:
        return judge(await examine(line, url, messages, lambda what: None))


def rules_with(report: Report, status: Status) -> set[str]:
    """Ids of the rules that came to `status`, for the card or over any interface."""
    return {result.rule.id for result in report.results if result.status is status}
