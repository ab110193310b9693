"""`check`: probes an agent, applies the rules, writes the report."""

from __future__ import annotations

import asyncio
import io
import json
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any

from .command import command, run_async
from .options import CheckOptions
from .output import JsonOutput, echo_document

if TYPE_CHECKING:
    from rich.console import Console

_WIDTH = 120
"""Characters in a line of a report that is written to a file."""


@command(CheckOptions)
def check(options: CheckOptions) -> bool:
    """Check that an agent implements the extension correctly.

    Sends messages to the agent at URL over every interface of its card, with and without a request for tool calls.
    grpc://HOST:PORT is an agent that has only gRPC. Reports what is wrong, with the evidence and a fix. The agent's
    tools really run.

    With --via, sends the same requests to the agent and through its proxy instead, and reports what differs.

    \b
    Exit codes: 0 conforming, 1 not conforming or no tool call seen, 2 bad usage, 3 agent unreachable.
    With --via: 0 no differences, 1 differences.
    """
    return run_async(_check(options) if options.via is None else _compare(options, options.via))


async def _check(options: CheckOptions) -> bool:
    from rich.console import Console

    from ..check.probe.client import ProbeClient
    from ..check.probe.dialogue import probe_agent
    from ..check.probe.webhook_listener import PushOptions
    from ..check.report.json_output import report_json
    from ..check.report.junit_output import report_junit
    from ..check.report.masking import mask_credentials
    from ..check.report.report import apply_rules
    from ..check.report.text_output import print_report
    from ..check.report.wording import as_markup
    from ..check.rules.base import CheckVerdict
    from ..connectors.chat_agent import ChatOptions
    from ..connectors.connect import connected

    url, headers, tls = options.url, dict(options.header), options.tls()
    push = PushOptions(options.push_listen, options.push_url)
    chat = ChatOptions(options.agent_model, options.agent_system, options.agent_tools)
    with Console(stderr=True).status("") as status, redirect_stdout(sys.stderr):  # a Python agent may print
        async with (
            connected(url, chat, headers, tls, options.timeout) as server,
            ProbeClient({} if server else headers, options.timeout, None if server else tls) as client,
        ):
            asked = server.url if server else url
            record = await probe_agent(
                client, asked, options.message, lambda what: status.update(as_markup(what)), push, options.card_key
            )
    report = mask_credentials(apply_rules(record), client.header_values)
    await _write(
        options,
        lambda console: print_report(report, url, console),
        lambda: report_json(report, url),
        lambda: report_junit(report, url),
    )
    return report.verdict is CheckVerdict.CONFORMING


async def _compare(options: CheckOptions, via: str) -> bool:
    from rich.console import Console

    from ..check.compare.comparison import ComparisonReport, compare_agent
    from ..check.compare.report import comparison_json, comparison_junit, print_comparison
    from ..check.probe.client import ProbeClient
    from ..check.report.masking import masking
    from ..check.report.wording import as_markup

    headers, tls = dict(options.header), options.tls()
    async with ProbeClient(headers, options.timeout, tls) as client:
        with Console(stderr=True).status("") as status:
            found = await compare_agent(
                options.url, via, client, options.message, lambda what: status.update(as_markup(what))
            )
    report: ComparisonReport = masking(client.header_values)(found)
    await _write(
        options,
        lambda console: print_comparison(report, console),
        lambda: comparison_json(report),
        lambda: comparison_junit(report),
    )
    return report.passed


async def _write(
    options: CheckOptions,
    print_text: Callable[[Console], None],
    as_json: Callable[[], dict[str, Any]],
    as_junit: Callable[[], str],
) -> None:
    """Write a report in the format of the options to its file or standard output."""
    from rich.console import Console

    from ..output_files import write_out

    console = Console(highlight=False)
    if options.format == "text" and options.out is None and console.is_terminal:
        print_text(console)
        return
    if options.format == "text":
        printed = io.StringIO()
        print_text(Console(highlight=False, file=printed, width=_WIDTH if options.out else console.width))
        text = "".join(f"{line.rstrip()}\n" for line in printed.getvalue().splitlines())
    elif options.format == "json":
        text = json.dumps(as_json(), indent=2, ensure_ascii=False) + "\n"
    else:
        text = as_junit()
    if options.out is not None:
        await asyncio.to_thread(write_out, options.out, text)
    elif options.format == "text":
        sys.stdout.write(text)
    else:
        (JsonOutput().write if options.format == "json" else echo_document)(text)
