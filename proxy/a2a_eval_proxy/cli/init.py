"""`init`: from an agent's URL to a suite that passes."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .command import command, run_async
from .options import InitOptions
from .receiving import receiving

if TYPE_CHECKING:
    from ..runs.drive import AgentOptions
    from ..runs.init import FirstSuite


@command(InitOptions)
def init(options: InitOptions) -> None:
    """Write a first suite for an agent.

    Reads the agent's card, sends it one message, and records what it does: suite.yaml with a case that passes,
    a2a-eval-proxy.yaml with settings, and a job for GitHub Actions. Existing files are kept.

    \b
    Example: a2a-eval-proxy init --agent localhost:9999
    """
    from tool_call_evaluators.report.wording import printable

    from ..files import write_out
    from ..privacy.policy import NO_PRIVACY
    from ..runs.init import CONFIG, SUITE, files
    from ..runs.report_files import PAGE
    from ..telemetry.logs import start_logging

    start_logging("error", "%(levelname)s %(name)s: %(message)s", NO_PRIVACY)  # `unseen` says what a warning would
    folder = options.dir
    if (folder / SUITE).exists():
        raise click.UsageError(f"{folder / SUITE} already exists; choose another directory with --dir")
    url = options.agent
    if url is None and sys.stdin.isatty():
        url = click.prompt("URL of the agent", value_proc=_agent_url, err=True)
    if url is None:
        raise click.UsageError("--agent is required: give --agent URL, or set A2A_EVAL_PROXY_AGENT")
    agent = options.agent_options(url=url)
    suite = run_async(_first_suite(options, agent))
    click.echo(printable(suite.summary))
    for name, text in files(suite, agent.url).items():
        path = folder / name
        if path.exists():
            click.echo(f"kept {path}: it already exists")
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        write_out(path, text)
        click.echo(f"wrote {path}")
    if suite.unseen:
        how = f"`a2a-eval-proxy doctor {agent.url}` says which lines show them; the suite scores the response alone"
        click.echo(f"warning: no tool calls can be seen: {suite.unseen}. {how}", err=True)
    where = Path(SUITE) if folder == Path() else folder / SUITE
    command = shlex.join(["a2a-eval-proxy", "run", str(where), "--config", str(folder / CONFIG)])
    click.echo(f"\nnext: {command}\nthen open {Path('report', PAGE)}")


async def _first_suite(options: InitOptions, agent: AgentOptions) -> FirstSuite:
    from ..runs.init import first_suite

    async with receiving(options) as tracing:
        return await first_suite(agent, options.message, tracing)


def _agent_url(text: str) -> str:
    """The URL as typed; a wrong one is asked for again."""
    from ..settings.parsing import parse_agent

    try:
        return parse_agent(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
