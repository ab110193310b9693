"""`check`: probes an agent, applies the rules, writes the report."""

from __future__ import annotations

import asyncio
import io
import json
import ssl
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from ..privacy.private_files import write_out
from .probe.client import ProbeClient
from .probe.dialogue import probe_agent
from .report.json_output import report_json
from .report.junit_output import report_junit
from .report.masking import mask_credentials
from .report.report import CheckReport, apply_rules
from .report.text_output import print_report
from .rules.base import CheckVerdict

_WIDTH = 120


async def run_check(
    url: str,
    messages: Sequence[str],
    headers: Mapping[str, str],
    tls: ssl.SSLContext | None,
    timeout_s: float,
    form: str,
    out: Path | None,
) -> bool:
    """Check the agent at `url` and write the report as `text`, `json` or `junit`; returns whether the agent conforms.

    Raises AgentUnreachableError or AgentError without a card, ConfigurationError for a header, OSError for `out`.
    """
    with Console(stderr=True).status("") as status:
        async with ProbeClient(headers, timeout_s, tls) as client:
            record = await probe_agent(client, url, messages, lambda what: status.update(escape(what)))
    report = mask_credentials(apply_rules(record), client.credentials)
    if out is None:
        _write(report, url, form, Console(highlight=False, file=sys.stdout))
    else:
        text = io.StringIO()
        _write(report, url, form, Console(highlight=False, file=text, width=_WIDTH))
        await asyncio.to_thread(write_out, out, text.getvalue())
    return report.verdict is CheckVerdict.CONFORMING


def _write(report: CheckReport, url: str, form: str, console: Console) -> None:
    if form == "text":
        print_report(report, url, console)
    elif form == "json":
        console.file.write(json.dumps(report_json(report, url), indent=2, ensure_ascii=False) + "\n")
    else:
        console.file.write(report_junit(report, url))
