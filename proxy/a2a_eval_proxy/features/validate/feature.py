from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ...cli.command import command, run_async
from ...cli.options import DrivenAgentOptions, agent_option, suite_format_option, suites_option
from ...errors import BAD_INPUT
from ...feature import Feature
from ...settings import parsing as types
from ...settings.parts import PluginOption

if TYPE_CHECKING:
    from tool_call_evaluators.importers import Imported


class ValidateOptions(DrivenAgentOptions, PluginOption):
    suite: tuple[str, ...] = suites_option()
    format: str | None = suite_format_option()
    otlp: str | None = agent_option(types.ADDRESS, "Where `run` receives the agent's traces, which show tool calls.")
    traces: str | None = agent_option(types.TEXT, "Where `run` fetches them from.")


@command(ValidateOptions)
def validate(options: ValidateOptions) -> None:
    """Check suites and their agents before a run.

    Finds errors of the suite, unknown gates, judges without a model or key, plug-ins that do not load, expectations
    that no evaluator reads, and misspelt placeholders. With an agent (--agent, or the suite's), reads its card. The
    agent gets no message.

    \b
    Exit codes: 0 valid, 2 not valid, 3 the agent is unreachable.
    Example: a2a-eval-proxy validate suite.yaml --agent localhost:9999
    """
    from tool_call_evaluators.importers import import_suite, suite_files
    from tool_call_evaluators.suite.model import combined
    from tool_call_evaluators.texts import counted, printable

    files, skipped = suite_files(options.suite)
    for file in skipped:
        click.echo(printable(f"{file} is skipped: it is not a suite"))
    imported = [import_suite(file, options.format, allow_plugins=options.allow_plugins) for file in files]
    combined([item.suite for item in imported], files)  # no two of them have a case of the same id
    errors = sum(_check_suite(file, item, options) for file, item in zip(files, imported, strict=True))
    if errors:
        click.echo(f"\nnot valid: {counted(errors, 'error')}")
        click.get_current_context().exit(BAD_INPUT)
    click.echo("\nvalid")


def _check_suite(file: str, imported: Imported, options: ValidateOptions) -> int:
    """Print what is wrong with the suite of a file, and what its agent declares; the number of errors."""
    from tool_call_evaluators.texts import printable

    from ...runs.run_plan import unresolved_headers
    from .suite_check import check_agents, check_suite, suite_line

    suite = imported.suite
    errors, warnings = check_suite(suite)
    unresolved = unresolved_headers(file, suite, options.agent_defaults().headers)
    errors += unresolved
    lines = [suite_line(suite), *(f"not imported: {note}" for note in imported.notes)]
    lines += [f"error: {sentence}" for sentence in errors]
    lines += [f"warning: {sentence}" for sentence in warnings]
    click.echo(printable("\n".join(lines)))
    if (options.agent or suite.agent.url) and not unresolved:
        traced = bool(options.otlp or options.traces)
        lines, unseen = run_async(check_agents(options.agent_options(suite.agent), suite, traced=traced))
        click.echo(printable("\n".join([*lines, *(f"warning: {sentence}" for sentence in unseen)])))
    return len(errors)


FEATURE = Feature(commands=[validate])
