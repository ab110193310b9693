from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...cli.command import command, run_async
from ...cli.options import DrivenAgentOptions, ReceivedTracesOptions, agent_option
from ...cli.traces import receiving
from ...feature import Feature
from ...settings import parsing as types
from ...settings.options import option

if TYPE_CHECKING:
    from ...runs.drive import AgentOptions
    from .first_suite import FirstSuite


class InitOptions(ReceivedTracesOptions, DrivenAgentOptions):
    agent: str = agent_option(types.AGENT, "URL of the agent, or as for `run`.", required=True)
    dir: Path = option(types.OUTPUT_DIRECTORY, "Directory for the files; created if it does not exist.", Path())
    message: str | None = option(types.TEXT, "Message to send. Default: the first example in the agent card.")


@command(InitOptions)
def init(options: InitOptions) -> None:
    """Write a first suite for an agent.

    Reads the agent's card, sends it one message, and records what it does: suite.yaml with a case that passes,
    a2a-eval-proxy.yaml with settings, and a job for GitHub Actions. Existing files are kept.

    \b
    Example: a2a-eval-proxy init --agent localhost:9999
    """
    from tool_call_evaluators.texts import printable

    from ...privacy.policy import NO_PRIVACY
    from ...runs.files import write_out
    from ...runs.run_plan import PAGE
    from ...telemetry.logs import start_logging
    from .first_suite import CI, CONFIG, SUITE, files

    start_logging("error", "%(levelname)s %(name)s: %(message)s", NO_PRIVACY)  # `unseen` says what a warning would
    folder = options.dir
    if (folder / SUITE).exists():
        raise click.UsageError(f"{folder / SUITE} already exists; choose another directory with --dir")
    agent = options.agent_options()
    suite = run_async(_first_suite(options, agent))
    click.echo(printable(suite.summary))
    top = _repository_of(folder)
    below = folder.resolve().relative_to(top.resolve()).as_posix().removeprefix(".")
    for name, text in files(suite, agent.url, options.otlp, below).items():
        path = (top if name == CI else folder) / name
        if path.exists():
            click.echo(f"kept {path}: it already exists")
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        write_out(path, text)
        click.echo(f"wrote {path}")
    if suite.unseen:
        how = f"`a2a-eval-proxy doctor {agent.url}` says which lines show them; the suite scores the response alone"
        click.echo(f"warning: no tool calls can be seen: {suite.unseen}. {how}", err=True)
    config = [] if folder == Path() else ["--config", str(folder / CONFIG)]  # it is read where a command runs
    command = shlex.join(["a2a-eval-proxy", "run", str(folder / SUITE), *config])
    click.echo(f"\nnext: {command}\nthen open {Path('report', PAGE)}")


def _repository_of(folder: Path) -> Path:
    """The repository with this folder: a forge looks for jobs at its top alone. Without one, the folder."""
    whole = folder.resolve()
    top = next((parent for parent in (whole, *whole.parents) if (parent / ".git").exists()), whole)
    return folder if top == whole else top


async def _first_suite(options: InitOptions, agent: AgentOptions) -> FirstSuite:
    from .first_suite import first_suite

    async with receiving(options) as tracing:
        return await first_suite(agent, options.message, tracing)


FEATURE = Feature(commands=[init])
