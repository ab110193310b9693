"""Checks that an agent implements the extension correctly, and declares it in its card.

The room is given the URL of an agent and a `ProbeClient` for it. `dialogue` sends the same messages over every
interface of the card (`requests`, `client`, `responses`) and keeps the answers (`record`); the rules of `card_rules`
and `traffic_rules` judge them. It hands on a `CheckReport`: commands write it by
`forms_of`, pages by `wording`; rooms above import nothing else here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from a2a_tool_capture.errors import CaptureError
from rich.console import Console

from ..errors import ConfigError
from . import wording
from .card_rules import CARD_RULES
from .client import ProbeClient
from .dialogue import Progress, failed_throughout, probe_agent
from .outputs import print_report, report_json, report_junit
from .report import CheckReport, apply_rules, mask_credentials
from .rules import CheckVerdict, RuleStatus

__all__ = ["CheckReport", "ProbeClient", "ReportForms", "check_agent", "forms_of", "wording"]


async def check_agent(
    client: ProbeClient, url: str, messages: Sequence[str] = (), progress: Progress = lambda step: None
) -> CheckReport:
    """Talk to the agent at `url` and apply the rules to what it answers. Credentials in the report are masked.

    Parameters and errors: see `dialogue.probe_agent`; also ConfigError for the URL of a proxy.
    """
    if url.startswith("http") and await client.is_our_proxy(url):
        raise ConfigError(
            f"{url} is an a2a-eval-proxy, which hides the extension from clients that do not ask: give the URL of the "
            "agent behind it"
        )
    return mask_credentials(apply_rules(await probe_agent(client, url, messages, progress)), client.header_values)


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


def forms_of(report: CheckReport, url: str) -> ReportForms:
    """The forms of the report on the agent at `url`."""
    broken = {result.rule.id for result in report.results if result.status is RuleStatus.FAILED}
    return ReportForms(
        report.verdict is CheckVerdict.CONFORMING,
        None if broken & _OF_THE_CARD else failed_throughout(report.record),
        partial(print_report, report, url),
        partial(report_json, report, url),
        partial(report_junit, report, url),
    )
