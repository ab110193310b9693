"""`check`: probes an agent, applies the rules, writes the report."""

from __future__ import annotations

import asyncio
import io
import json
import sys
from contextlib import redirect_stdout
from typing import TYPE_CHECKING

from .command import command, run_async
from .options import CheckOptions
from .output import JsonOutput, echo_document

if TYPE_CHECKING:
    from ..check import ReportForms

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
    return run_async(_check(options))


async def _check(options: CheckOptions) -> bool:
    from rich.console import Console

    from ..check import ProbeClient, PushOptions, check_agent, compare_agent, forms_of, wording
    from ..connectors.chat_agent import ChatOptions
    from ..connectors.connect import connected

    url, headers, tls = options.url, dict(options.header), options.tls()
    chat = ChatOptions(options.agent_model, options.agent_system, options.agent_tools)
    push = PushOptions(options.push_listen, options.push_url)
    with Console(stderr=True).status("") as status, redirect_stdout(sys.stderr):  # a Python agent may print

        def progress(step: str) -> None:
            status.update(wording.as_markup(step))

        if options.via is not None:
            async with ProbeClient(headers, options.timeout, tls) as client:
                forms = forms_of(await compare_agent(client, url, options.via, options.message, progress), url)
        else:
            async with (
                connected(url, chat, headers, tls, options.timeout) as server,
                ProbeClient({} if server else headers, options.timeout, None if server else tls) as client,
            ):
                asked = server.url if server else url
                report = await check_agent(
                    client, asked, options.message, progress, push=push, card_key=options.card_key
                )
            forms = forms_of(report, url)
    await _write(options, forms)
    return forms.passed


async def _write(options: CheckOptions, forms: ReportForms) -> None:
    """Write a report in the format of the options to its file or standard output."""
    from rich.console import Console

    from ..files import write_out

    console = Console(highlight=False)
    if options.format == "text" and options.out is None and console.is_terminal:
        forms.print_text(console)
        return
    if options.format == "text":
        printed = io.StringIO()
        forms.print_text(Console(highlight=False, file=printed, width=_WIDTH if options.out else console.width))
        text = "".join(f"{line.rstrip()}\n" for line in printed.getvalue().splitlines())
    elif options.format == "json":
        text = json.dumps(forms.as_json(), indent=2, ensure_ascii=False) + "\n"
    else:
        text = forms.as_junit()
    if options.out is not None:
        await asyncio.to_thread(write_out, options.out, text)
    elif options.format == "text":
        sys.stdout.write(text)
    else:
        (JsonOutput().write if options.format == "json" else echo_document)(text)
