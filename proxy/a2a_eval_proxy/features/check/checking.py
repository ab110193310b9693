"""One check: the dialogue with the agent, judged by the rules."""

from __future__ import annotations

from collections.abc import Sequence

from a2a_tool_capture.errors import CaptureError

from ...errors import ConfigError
from .client import ProbeClient
from .dialogue import Progress, failed_throughout, probe_agent
from .report import CheckReport, apply_rules, mask_credentials
from .rules import CARD_RULES, RuleStatus


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


_OF_THE_CARD = {rule.id for rule in CARD_RULES} - {"card-declares"}
"""Rules that tell something also of an agent that answers no message."""


def failure_of(report: CheckReport) -> CaptureError | None:
    """Why the agent answered no message: then it is not known whether it conforms, and None else."""
    broken = {result.rule.id for result in report.results if result.status is RuleStatus.FAILED}
    return None if broken & _OF_THE_CARD else failed_throughout(report.record)
