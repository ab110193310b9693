"""`validate`: everything that can be known about a suite and its agent before a run."""

from __future__ import annotations

import click

from ..errors import BAD_INPUT
from .command import command, run_async
from .options import ValidateOptions


@command(ValidateOptions)
def validate(options: ValidateOptions) -> None:
    """Check a suite and its agent before a run.

    Finds errors of the suite, unknown gates, judges without a model or key, plug-ins that do not load, expectations
    that no evaluator reads, and misspelt placeholders. With an agent (--agent, or the suite's), reads its card. The
    agent gets no message.

    \b
    Exit codes: 0 valid, 2 not valid, 3 the agent is unreachable.
    Example: a2a-eval-proxy validate suite.yaml --agent localhost:9999
    """
    from tool_call_evaluators.importers import import_suite
    from tool_call_evaluators.report.wording import counted, printable

    from ..runs.preflight import check_agent, check_suite, suite_line

    imported = import_suite(options.suite, options.format, allow_plugins=options.allow_plugins)
    suite = imported.suite
    found = check_suite(suite)
    lines = [suite_line(suite), *(f"not imported: {note}" for note in imported.notes)]
    lines += [f"error: {sentence}" for sentence in found.errors]
    lines += [f"warning: {sentence}" for sentence in found.warnings]
    click.echo(printable("\n".join(lines)))
    if options.agent or suite.agent.url:
        line, unseen = run_async(check_agent(options.agent_options(suite.agent), suite))
        click.echo(printable("\n".join([line, *(f"warning: {sentence}" for sentence in unseen)])))
    if found.errors:
        click.echo(f"\nnot valid: {counted(len(found.errors), 'error')}")
        click.get_current_context().exit(BAD_INPUT)
    click.echo("\nvalid")
