from __future__ import annotations

import sys
from difflib import unified_diff
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...cli.command import command, run_async
from ...cli.options import SelectionOptions, StoredRunOptions, new_file_option, run_option
from ...cli.output import put_document, refuse_existing
from ...feature import Feature
from ...settings import parsing as types
from ...settings.options import option
from ...settings.parts import PluginOption, StoreOption

if TYPE_CHECKING:
    from tool_call_evaluators.outcomes.accepting import Acceptance, Proposal


class AcceptOptions(SelectionOptions, PluginOption, StoreOption):
    suite: str = option(types.FILE, "Suite file to change.", required=True, positional=True)
    run: str | None = run_option(types.NAME, "Run that shows the new behaviour. Default: the newest.")
    yes: bool = option(types.FLAG, "Accept every change without asking.")
    dry_run: bool = option(types.FLAG, "Only show the changes.")


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
    """
    from ...cli.run_display import newest_run
    from .changes import proposed

    file, run = Path(options.suite), options.run
    if run is None:
        run = run_async(newest_run(options.store))
        if run is None:
            raise click.UsageError("the store has no runs: nothing to accept")
    found = run_async(proposed(options.store, run, file, options.selection, allow_plugins=options.allow_plugins))
    review(file, found, yes=options.yes, dry_run=options.dry_run, allow_plugins=options.allow_plugins)


def review(file: Path, found: Acceptance, *, yes: bool, dry_run: bool = False, allow_plugins: bool = False) -> None:
    """Show each change, ask for it unless `yes`, and write those that are accepted."""
    from tool_call_evaluators.suite.yaml_document import read_text
    from tool_call_evaluators.texts import counted

    from ...runs.suite_file import change_suite_file
    from .changes import changed_text

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
        for line in list(unified_diff(text.splitlines(), after.splitlines(), n=2, lineterm=""))[2:]:  # the heading goes
            click.secho(f"  {line}", fg={"+": "green", "-": "red", "@": "cyan"}.get(line[:1]))
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
        click.echo(f"{file} stays as it is" + (f" (--dry-run): {counted(len(chosen), 'change')}" if chosen else ""))
        return
    change_suite_file(file, lambda text: changed_text(text, chosen, file), allow_plugins=allow_plugins)
    click.echo(f"{file}: {counted(len(chosen), 'change')} accepted")


class RecordOptions(StoredRunOptions):
    suite: str | None = option(types.FILE, "Suite to keep, except for the calls that it expects.")
    out: Path | None = new_file_option()


@command(RecordOptions)
def record(options: RecordOptions) -> None:
    """Write a suite that expects the tool calls of stored turns.

    Each conversation becomes a case. Conversations of the same case, or of none, with the same user messages become
    one. Values that differ between conversations become
    placeholders, as do values that look generated (UUIDs, times, tokens).
    Conversations with a failed task or turn, or an unexpected state, and those whose tool calls could not be
    captured, are left out; missing any other expectation is no reason.
    With --suite, everything else of that suite stays: other expectations, agent, evaluators and gates; its
    comments are lost.

    \b
    Examples:
      a2a-eval-proxy record --run monday --out suite.yaml
      a2a-eval-proxy record --run tuesday --suite suite.yaml --out next.yaml
    """
    from tool_call_evaluators import load_suite

    from .changes import record_run

    refuse_existing(options.out)
    recording = run_async(
        record_run(options.store, options.run, None if options.suite is None else load_suite(options.suite))
    )
    put_document(recording.text, options.out)
    summary = f"recorded {recording.cases} case{'s' if recording.cases > 1 else ''}"
    click.echo("\n".join([*recording.left_out, summary + (f" to {options.out}" if options.out else "")]), err=True)


FEATURE = Feature(commands=[accept, record])
