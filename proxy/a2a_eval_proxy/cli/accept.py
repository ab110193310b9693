"""`accept`, and `run --update`: review what a suite should expect from now on, change by change."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .command import command, run_async
from .options import AcceptOptions

if TYPE_CHECKING:
    from tool_call_evaluators.runs.accepting import Acceptance, Proposal

_ANSWERS = "accept it? [y]es, [n]o, [a]ll of the rest, [q]uit"


@command(AcceptOptions)
def accept(options: AcceptOptions) -> None:
    """Let a suite expect what the agent did in a stored run.

    Shows a change for each expectation that failed in the run, as a difference of the suite file, and asks for each.
    Only what differs is changed: values and placeholders that still match, comments and format stay. What the run does
    not show is listed and stays: failed conversations, unknown tool calls, flaky cases, expectations for judges.

    \b
    Examples:
      a2a-eval-proxy accept suite.yaml --run monday
      a2a-eval-proxy accept suite.yaml --yes
      a2a-eval-proxy accept suite.yaml --undo
    """
    from ..runs.accept import proposed, undo
    from ..runs.tables import stored_runs

    file = Path(options.suite)
    if options.undo:
        undo(file, allow_plugins=options.allow_plugins)
        click.echo(f"{file} is as before the last accepted change")
        return
    run = options.run
    if run is None:
        stored = run_async(stored_runs(options.store))
        if not stored:
            raise click.UsageError("the store has no runs: nothing to accept")
        run = stored[0].name
        click.echo(f"run {run}, the newest", err=True)
    found = run_async(proposed(options.store, run, file, options.selection, allow_plugins=options.allow_plugins))
    review(file, found, yes=options.yes, dry_run=options.dry_run, allow_plugins=options.allow_plugins)


def review(file: Path, found: Acceptance, *, yes: bool, dry_run: bool = False, allow_plugins: bool = False) -> None:
    """Show each change, ask for it unless `yes`, and write those that are accepted."""
    from tool_call_evaluators.suite.files import read_text

    from ..runs.accept import accept, changed_text, difference

    asks = not (yes or dry_run)
    if asks and found.proposals and not sys.stdin.isatty():
        raise click.UsageError("standard input is no terminal: nothing can be asked. Give --yes to accept every change")
    before = text = read_text(file)
    chosen: list[Proposal] = []
    for number, proposal in enumerate(found.proposals, start=1):
        after = changed_text(before, [*chosen, proposal], file)
        click.echo(f"\n{click.style(f'{number}/{len(found.proposals)} {proposal.where}', bold=True)}")
        for reason in proposal.reasons:
            click.echo(f"  {reason}")
        _show(difference(text, after))
        answer = click.prompt(_ANSWERS, type=click.Choice("ynaq"), show_choices=False, err=True) if asks else "y"
        if answer == "q":
            break
        asks = asks and answer != "a"
        if answer != "n":
            chosen.append(proposal)
            text = after
    for sentence in found.left_out:
        click.echo(f"stays: {sentence}", err=True)
    if dry_run or not chosen:
        click.echo(f"{file} stays as it is" + (f" (--dry-run): {_changes(chosen)}" if chosen else ""))
        return
    accept(file, chosen, allow_plugins=allow_plugins)
    click.echo(f"{file}: {_changes(chosen)} accepted; to take it back: a2a-eval-proxy accept {file} --undo")


def _changes(chosen: Sequence[Proposal]) -> str:
    return f"{len(chosen)} change{'s' * (len(chosen) != 1)}"


def _show(lines: Sequence[str]) -> None:
    for line in lines:
        click.secho(f"  {line}", fg={"+": "green", "-": "red", "@": "cyan"}.get(line[:1]))
