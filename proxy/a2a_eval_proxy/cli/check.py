"""`check`: probes an agent, applies the rules, writes the report."""

from __future__ import annotations

import asyncio
import io
import json
import sys
from contextlib import redirect_stdout
from dataclasses import replace

from .command import command, run_async
from .options import CheckOptions

_WIDTH = 120
"""Characters in a line of a report that is written to a file."""


@command(CheckOptions)
def check(options: CheckOptions) -> bool:
    """Check that an agent implements the extension correctly.

    Sends messages to the agent at URL over every interface of its card, with and without a request for tool calls.
    grpc://HOST:PORT is an agent that has only gRPC. Reports what is wrong, with the evidence and a fix. The agent's
    tools really run.

    \b
    Exit codes: 0 conforming, 1 not conforming or no tool call seen, 2 bad usage, 3 agent unreachable.
    """
    return run_async(_check(options))


async def _check(options: CheckOptions) -> bool:
    from rich.console import Console
    from rich.markup import escape

    from ..check.probe.client import ProbeClient
    from ..check.probe.dialogue import probe_agent
    from ..check.report.json_output import report_json
    from ..check.report.junit_output import report_junit
    from ..check.report.masking import mask_credentials
    from ..check.report.report import apply_rules
    from ..check.report.text_output import print_report
    from ..check.rules.base import CheckVerdict
    from ..check.signatures.card import verify_card
    from ..connectors.chat_agent import ChatOptions
    from ..connectors.connect import connected
    from ..privacy.private_files import write_out

    url, headers, tls = options.url, dict(options.header), options.tls()
    chat = ChatOptions(options.agent_model, options.agent_system, options.agent_tools)
    with Console(stderr=True).status("") as status, redirect_stdout(sys.stderr):  # a Python agent may print
        async with (
            connected(url, chat, headers, tls, options.timeout) as server,
            ProbeClient({} if server else headers, options.timeout, None if server else tls) as client,
        ):
            asked = server.url if server else url
            record = await probe_agent(client, asked, options.message, lambda what: status.update(escape(what)))
            card = record.card
            signatures = await verify_card(card.body, card.request.url, options.card_key, tls)
            record = replace(record, card=replace(card, signatures=signatures))
    report = mask_credentials(apply_rules(record), client.header_values)
    text = io.StringIO()
    if options.format == "text":
        in_file = {"file": text, "width": _WIDTH} if options.out else {"file": sys.stdout}
        print_report(report, url, Console(highlight=False, **in_file))
    elif options.format == "json":
        text.write(json.dumps(report_json(report, url), indent=2, ensure_ascii=False) + "\n")
    else:
        text.write(report_junit(report, url))
    if options.out is None:
        sys.stdout.write(text.getvalue())
    else:
        await asyncio.to_thread(write_out, options.out, text.getvalue())
    return report.verdict is CheckVerdict.CONFORMING
