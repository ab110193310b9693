from __future__ import annotations

import asyncio
import json
from pathlib import Path

from ...cli.command import command, run_async
from ...cli.options import AgentClientOptions
from ...cli.output import JsonOutput, echo_document
from ...feature import Feature
from ...settings import parsing as types
from ...settings.options import option


class CheckOptions(AgentClientOptions):
    url: str = option(types.UPSTREAM, "URL of the agent.", required=True, positional=True)
    message: tuple[str, ...] = option(
        types.TEXTS,
        "Message that makes the agent call a tool. Repeatable. Default: an example from the agent card.",
        repeatable=True,
    )
    timeout: float = option(types.SECONDS, "Maximum time of a response.", 120.0)
    format: str = option(types.one_of("text", "json"), "Output format.", "text")
    out: Path | None = option(types.OUTPUT_FILE, "File to write the report to. Default: standard output.")


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
    from rich.markup import escape
    from tool_call_evaluators.texts import printable

    from ...errors import ConfigError
    from ...runs.files import write_out
    from .client import ProbeClient
    from .dialogue import failed_throughout, probe_agent
    from .report import apply_rules, report_json, report_text
    from .rules import CheckVerdict

    url = options.url
    with Console(stderr=True).status("") as status:
        async with ProbeClient(dict(options.header), options.timeout, options.tls()) as client:
            if url.startswith("http") and await client.is_our_proxy(url):
                raise ConfigError(
                    f"{url} is an a2a-eval-proxy, which hides the extension from clients that do not ask: give the URL "
                    "of the agent behind it"
                )
            record = await probe_agent(
                client, url, options.message, lambda step: status.update(escape(printable(step)))
            )
    report, failure = apply_rules(record), failed_throughout(record)
    if options.format == "json":
        text = json.dumps(report_json(report, url), indent=2, ensure_ascii=False) + "\n"
    else:
        text = report_text(report, url)
    if options.out is not None:
        await asyncio.to_thread(write_out, options.out, text)
    elif failure is None or options.format != "text":
        (JsonOutput().write if options.format == "json" else echo_document)(text)
    if failure is not None:
        raise failure
    return report.verdict is CheckVerdict.CONFORMING


FEATURE = Feature(commands=[check])
