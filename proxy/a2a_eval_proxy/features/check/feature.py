from __future__ import annotations

import asyncio
import io
import json
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

from ...cli.command import command, run_async
from ...cli.options import AgentClientOptions
from ...cli.output import JsonOutput, echo_document
from ...feature import Feature
from ...settings import parsing as types
from ...settings.options import option

if TYPE_CHECKING:
    from .report import CheckReport


class CheckOptions(AgentClientOptions):
    url: str = option(types.AGENT, "URL of the agent.", required=True, positional=True)
    message: tuple[str, ...] = option(
        types.TEXTS,
        "Message that makes the agent call a tool. Repeatable. Default: an example from the agent card.",
        repeatable=True,
    )
    timeout: float = option(types.SECONDS, "Maximum time of a response.", 120.0)
    format: str = option(types.one_of("text", "json", "junit"), "Output format.", "text")
    out: Path | None = option(types.OUTPUT_FILE, "File to write the report to. Default: standard output.")


_WIDTH = 120  # characters in a line of a report that is written to a file


@command(CheckOptions)
def check(options: CheckOptions) -> bool:
    """Check that an agent implements the extension correctly.

    Sends messages to the agent at URL over every interface of its card, with and without a request for tool calls.
    grpc://HOST:PORT is an agent that has only gRPC. Reports what is wrong, with the evidence and a fix. The agent's
    tools really run.

    \b
    Exit codes: 0 conforming, 1 not conforming or no tool call seen, 2 bad usage, 3 agent unreachable or failing.
    """
    return run_async(_check(options))


async def _check(options: CheckOptions) -> bool:
    from rich.console import Console
    from tool_call_evaluators.suite import AgentDefaults

    from ...runs.served_agents import connected
    from .checking import check_agent, failure_of
    from .client import ProbeClient
    from .report import as_markup
    from .rules import CheckVerdict

    url, headers, tls = options.url, dict(options.header), options.tls()
    chat = AgentDefaults(model=options.agent_model, system=options.agent_system, tools=options.agent_tools)
    with Console(stderr=True).status("") as status, redirect_stdout(sys.stderr):  # a Python agent may print

        def progress(step: str) -> None:
            status.update(as_markup(step))

        async with (
            connected(url, chat, headers, tls, options.timeout) as server,
            ProbeClient(
                {} if server else headers, options.timeout, None if server else tls, trust_env=server is None
            ) as client,
        ):
            report = await check_agent(client, server.url if server else url, options.message, progress)
    failure = failure_of(report)
    if failure is None or options.format != "text":
        await _write(options, report)
    if failure is not None:
        raise failure
    return report.verdict is CheckVerdict.CONFORMING


async def _write(options: CheckOptions, report: CheckReport) -> None:
    from rich.console import Console

    from ...runs.files import write_out
    from .report import print_report, report_json, report_junit

    console = Console(highlight=False)
    if options.format == "text" and options.out is None and console.is_terminal:
        print_report(report, options.url, console)
        return
    if options.format == "text":
        printed = io.StringIO()
        print_report(
            report, options.url, Console(highlight=False, file=printed, width=_WIDTH if options.out else console.width)
        )
        text = "".join(f"{line.rstrip()}\n" for line in printed.getvalue().splitlines())
    elif options.format == "json":
        text = json.dumps(report_json(report, options.url), indent=2, ensure_ascii=False) + "\n"
    else:
        text = report_junit(report, options.url)
    if options.out is not None:
        await asyncio.to_thread(write_out, options.out, text)
    elif options.format == "text":
        sys.stdout.write(text)
    else:
        (JsonOutput().write if options.format == "json" else echo_document)(text)


FEATURE = Feature(commands=[check])
