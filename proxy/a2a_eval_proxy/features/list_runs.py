from __future__ import annotations

import click

from ..cli.command import command, run_async, wide_console
from ..cli.options import StoredAgentOption, output_option
from ..cli.output import echo_json
from ..feature import Feature
from ..settings.parts import StoreOption


class RunsOptions(StoredAgentOption, StoreOption):
    output: str = output_option()


@command(RunsOptions)
def runs(options: RunsOptions) -> None:
    """List the runs of the store, newest first.

    The verdict is that with which `run`, or a later `evaluate`, ended; of traffic through `serve --suite`, that of the
    suite that scored it. An error is a result that an evaluator could not find out.

    \b
    Example: a2a-eval-proxy runs
    """
    from ..runs.run_result import run_json
    from ..runs.tables import runs_table, stored_runs

    found = run_async(stored_runs(options.store, options.agent_name))
    if options.output == "json":
        echo_json(list(map(run_json, found)))
    elif found:
        wide_console().print(runs_table(found), crop=False)
    else:
        click.echo("the store has no runs", err=True)


FEATURE = Feature(commands=[runs])
