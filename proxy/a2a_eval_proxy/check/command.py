"""`check`: question an agent, judge what it said, write the report."""

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
from .probe.client import Line
from .probe.dialogue import examine
from .report.json_output import report_json
from .report.junit_output import report_junit
from .report.masking import discreet
from .report.report import Report, judge
from .report.text_output import show
from .rules.base import Verdict

_WIDTH = 120


async def check_and_show(
    url: str,
    messages: Sequence[str],
    headers: Mapping[str, str],
    tls: ssl.SSLContext | None,
    timeout_s: float,
    form: str,
    out: Path | None,
) -> bool:
    """Check the agent at `url` and write the report as `text`, `json` or `junit`; returns whether it conforms.

    Raises AgentUnreachableError or AgentError where there is no card, ConfigurationError for a header, OSError for
    `out`.
    """
    with Console(stderr=True).status("") as status:
        async with Line(headers, timeout_s, tls) as line:
            record = await examine(line, url, messages, lambda what: status.update(escape(what)))
    report = discreet(judge(record), line.credentials)
    if out is None:
        _write(report, url, form, Console(highlight=False, file=sys.stdout))
    else:
        text = io.StringIO()
        _write(report, url, form, Console(highlight=False, file=text, width=_WIDTH))
        await asyncio.to_thread(write_out, out, text.getvalue())
    return report.verdict is Verdict.CONFORMING


def _write(report: Report, url: str, form: str, console: Console) -> None:
    if form == "text":
        show(report, url, console)
    elif form == "json":
        console.file.write(json.dumps(report_json(report, url), indent=2, ensure_ascii=False) + "\n")
    else:
        console.file.write(report_junit(report, url))
