"""Checks that an agent implements the extension correctly, or that a proxy changes nothing that clients see.

The interface of the room: `check_agent` and `compare_agent` talk to an agent by a `ProbeClient`, `forms_of` writes
their reports, and pages take their texts from `wording`. Rooms above import nothing else here, so that it can become
a distribution. Inside, in one direction: `probe` talks to the agent and records, `rules` decides, `report` shows,
`compare` does all three for a proxy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from a2a_tool_capture.errors import CaptureError
from rich.console import Console

from ..errors import ConfigError
from .compare.comparison import ComparisonReport, compare_sides
from .compare.report import comparison_json, comparison_junit, print_comparison
from .probe.client import ProbeClient
from .probe.dialogue import failed_throughout, probe_agent
from .probe.push_trials import PushOptions
from .report import wording
from .report.outputs import print_report, report_json, report_junit
from .report.report import CheckReport, apply_rules, mask_credentials, masking
from .rules.base import CheckVerdict, RuleStatus
from .rules.card import CARD_RULES

__all__ = [
    "CheckReport",
    "ComparisonReport",
    "ProbeClient",
    "PushOptions",
    "ReportForms",
    "check_agent",
    "compare_agent",
    "forms_of",
    "wording",
]

Progress = Callable[[str], None]
"""Called with the name of each step as it begins."""


async def check_agent(
    client: ProbeClient,
    url: str,
    messages: Sequence[str] = (),
    progress: Progress = lambda step: None,
    *,
    push: PushOptions | None = None,
    card_key: str | None = None,
) -> CheckReport:
    """Talk to the agent at `url` and apply the rules to what it answers. Credentials in the report are masked.

    Parameters and errors: see `probe.dialogue.probe_agent`; also ConfigError for the URL of a proxy.
    """
    if url.startswith("http") and await client.is_our_proxy(url):
        raise ConfigError(
            f"{url} is an a2a-eval-proxy, which hides the extension from clients that do not ask: give the URL of the "
            f"agent behind it; `check AGENT --via {url}` compares the two"
        )
    record = await probe_agent(client, url, messages, progress, push, card_key)
    return mask_credentials(apply_rules(record), client.header_values)


async def compare_agent(
    client: ProbeClient, url: str, via: str, messages: Sequence[str] = (), progress: Progress = lambda step: None
) -> ComparisonReport:
    """Compare the agent at `url` with what the proxy at `via` shows. Credentials in the report are masked.

    Errors: see `compare.comparison.compare_sides`.
    """
    found = await compare_sides(url, via, client, messages, progress)
    report: ComparisonReport = masking(client.header_values)(found)
    return report


@dataclass(frozen=True, slots=True)
class ReportForms:
    """A report in each of its forms; `passed` decides the exit code."""

    passed: bool
    failure: CaptureError | None
    """Why the agent answered no message: then it is not known whether it conforms."""
    print_text: Callable[[Console], None]
    as_json: Callable[[], dict[str, Any]]
    as_junit: Callable[[], str]


_OF_THE_CARD = {rule.id for rule in CARD_RULES} - {"card-declares"}
"""Rules that tell something also of an agent that answers no message."""


def forms_of(report: CheckReport | ComparisonReport, url: str) -> ReportForms:
    """The forms of the report on the agent at `url`."""
    if isinstance(report, ComparisonReport):
        text, values, junit = partial(print_comparison, report), partial(comparison_json, report), comparison_junit
        return ReportForms(report.passed, None, text, values, partial(junit, report))
    broken = {result.rule.id for result in report.results if result.status is RuleStatus.FAILED}
    return ReportForms(
        report.verdict is CheckVerdict.CONFORMING,
        None if broken & _OF_THE_CARD else failed_throughout(report.record),
        partial(print_report, report, url),
        partial(report_json, report, url),
        partial(report_junit, report, url),
    )
