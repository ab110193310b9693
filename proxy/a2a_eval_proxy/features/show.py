from __future__ import annotations

from dataclasses import replace

import click

from ..cli.command import command, run_async, wide_console
from ..cli.options import StoredAgentOption, output_option
from ..cli.output import echo_json
from ..feature import Feature
from ..settings import parsing as types
from ..settings.options import option
from ..settings.parts import StoreOption


class ShowOptions(StoredAgentOption, StoreOption):
    name: str = option(
        replace(types.NAME, metavar="RUN|TURN"), "Name of a run, or id of a turn.", required=True, positional=True
    )
    output: str = output_option()


@command(ShowOptions)
def show(options: ShowOptions) -> None:
    """Show a stored run or turn.

    Of a run: its conversations, with the reasons of failures. Of a turn: its messages, tool calls with results, scores
    with reasons, findings, and the tree of agents that asked each other.

    \b
    Example: a2a-eval-proxy show monday
    """
    from tool_call_evaluators.report.text_forms import turn_text

    from ..runs.tables import StoredRun, agents_asked, conversation_list, find, run_text

    found = run_async(find(options.store, options.name, options.agent_name))
    if options.output == "json":
        echo_json(found.to_dict() if isinstance(found, StoredRun) else found)
    elif isinstance(found, StoredRun):
        console = wide_console()
        console.print(conversation_list(found.turns))
        if found.more:
            console.print(f"… and {found.more} more turns; see `export`")
        console.print(f"\n{run_text(found)}", soft_wrap=True)
    else:
        click.echo(turn_text(found))
        if tree := run_async(agents_asked(options.store, found)):
            click.echo(f"\n{tree}")


FEATURE = Feature(commands=[show])
