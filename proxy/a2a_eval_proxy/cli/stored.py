"""Commands about stored turns: `export`, `runs`, `show`, `compare`, `record`, `prune`, `accept` and `calibrate`."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..runs import audit
from .command import command, run_async, wide_console
from .options import (
    AcceptOptions,
    CalibrateOptions,
    CompareOptions,
    ExportOptions,
    PruneOptions,
    RecordOptions,
    RunsOptions,
    ShowOptions,
)
from .output import JsonOutput, echo_document, echo_json, put_document, refuse_existing

if TYPE_CHECKING:
    from tool_call_evaluators.runs.accepting import Acceptance, Proposal


@command(ExportOptions)
def export(options: ExportOptions) -> None:
    """Write stored turns to standard output as JSON Lines.

    Turns come in the order in which they were stored, in the format of /api/turns of the admin API.

    \b
    Example: a2a-eval-proxy export --run monday > turns.jsonl
    """
    from ..runs.stored_turns import write_turns

    run_async(write_turns(options.store, options.run, JsonOutput(), options.agent_name))


@command(RunsOptions)
def runs(options: RunsOptions) -> None:
    """List the runs of the store, newest first.

    The verdict is that with which `run`, or a later `evaluate`, ended; of traffic through `serve --suite`, that of the
    suite that scored it. The last column counts results of evaluators.

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
        of_agent = f" of the agent {options.agent_name}" if options.agent_name else ""
        click.echo(f"the store has no runs{of_agent}", err=True)


@command(ShowOptions)
def show(options: ShowOptions) -> None:
    """Show a stored run or turn.

    Of a run: its conversations, with the reasons of failures. Of a turn: its messages, tool calls with results, scores
    with reasons, findings, and the tree of agents that asked each other.

    \b
    Example: a2a-eval-proxy show monday
    """
    from ..runs.tables import StoredRun, agents_asked, conversation_list, find, run_heading, turn_text

    found = run_async(find(options.store, options.name, options.agent_name))
    if options.output == "json":
        echo_json(found.to_dict() if isinstance(found, StoredRun) else found)
    elif isinstance(found, StoredRun):
        console = wide_console()
        console.print(conversation_list(found.turns))
        if found.more:
            console.print(f"… and {found.more} more turns; see `export`")
        console.print(f"\n{run_heading(found)}", soft_wrap=True)
    else:
        click.echo(turn_text(found))
        if tree := run_async(agents_asked(options.store, found)):
            click.echo(f"\n{tree}")


@command(CompareOptions)
def compare(options: CompareOptions) -> bool:
    """Show what changed from RUN_A to RUN_B, case by case.

    Reports changed tool calls, score changes, new failures and fixes. RUN_B has regressed if a case is missing, or if
    the pass rate or a metric drops significantly, over all cases or over the repetitions of one. At most 5 % of
    comparisons of an unchanged agent report a regression. The smallest drop that would be detected is shown too.

    Metrics that the runs measured differently (another judge model, prompt, evaluator version or threshold) are listed
    but not compared. With --fail-on-regression, the exit code is 2 if no metric can be compared.

    \b
    Example: a2a-eval-proxy compare monday tuesday --fail-on-regression
    """
    from ..runs.compare import FORMS, compare_runs, write_page

    comparison = run_async(
        compare_runs(
            options.store,
            options.run_a,
            options.run_b,
            margin=options.margin,
            detect=options.detect,
            agent=options.agent_name,
        )
    )
    text = FORMS[options.format](comparison)
    if options.format == "text":  # in colour on a terminal, unless NO_COLOR is set (https://no-color.org)
        click.echo(text, nl=False, color=False if os.environ.get("NO_COLOR") else None)
    elif options.format == "json":
        JsonOutput().write(text)
    else:
        echo_document(text)
    if options.report is not None:
        click.echo(f"page {write_page(comparison, options.report)}", err=True)
    if not options.conditions:
        return True
    if "undecided" not in options.conditions and not (comparison.regressed or comparison.comparable):
        raise click.UsageError(
            f"{options.run_a} and {options.run_b} cannot be compared: they share no metric measured in the same way"
        )
    return not comparison.fails_on(options.conditions)


@command(RecordOptions)
def record(options: RecordOptions) -> None:
    """Write a suite that expects the tool calls of stored turns.

    Each conversation becomes a case. Conversations of the same case, or of none, with the same user messages become
    one, and so do cases with the same messages and tool calls. Values that differ between conversations become
    placeholders, as do values that look generated (UUIDs, times, tokens).
    Failed conversations, and those whose tool calls could not be captured, are left out.
    With --suite, everything else of that suite stays: other expectations, agent, evaluators and gates; its
    comments are lost.

    \b
    Examples:
      a2a-eval-proxy record --run monday --out suite.yaml
      a2a-eval-proxy record --run tuesday --suite suite.yaml --out next.yaml
    """
    from tool_call_evaluators import load_suite

    from ..runs.accept import record_run

    refuse_existing(options.out)
    known = None if options.suite is None else load_suite(options.suite)
    recording = run_async(record_run(options.store, options.run, known))
    put_document(recording.text, options.out)
    if options.out is not None:
        audit.changed(run=options.run or "", file=str(options.out.absolute()))
    summary = f"recorded {recording.cases} case{'s' if recording.cases > 1 else ''}"
    click.echo("\n".join([*recording.left_out, summary + (f" to {options.out}" if options.out else "")]), err=True)


@command(PruneOptions)
def prune(options: PruneOptions) -> None:
    """Delete old turns of the store, once and now.

    Deletes turns that ended more than --retain-days ago, then the oldest ones until the store takes at most
    --retain-mb, with their results and annotations: what `serve` does every ten minutes with the same settings.
    With --agent NAME, turns of that agent; --retain-mb is for what these take. Proxies may use the store meanwhile.

    \b
    Example: a2a-eval-proxy prune --store turns.db --retain-days 30 --dry-run
    """
    from ..runs.stored_turns import pruned

    limits = options.retain_days, options.retain_mb
    click.echo(run_async(pruned(options.store, *limits, agent=options.agent_name, dry_run=options.dry_run)))


_MOST_DISAGREEMENTS = 20
_LINE_EVERY_S = 10.0


@command(CalibrateOptions)
def calibrate(options: CalibrateOptions) -> None:
    """Compare the judges of a suite with labels of people.

    Labels are the annotations in the store, given on the page /label, or a file. Says how consistent a judge is, how
    often it agrees with people, what it passes and fails wrongly, and where. Every score of that judge shows it from
    then on, until its prompt, criteria, model, parameters or threshold change.

    \b
    Exit codes: 0 compared, 2 nothing to compare, 3 no judge answered.
    Example: a2a-eval-proxy calibrate suite.yaml --labels labels.csv
    """
    from tool_call_evaluators.importers import import_suites
    from tool_call_evaluators.runs.calibration import calibration_lines
    from tool_call_evaluators.texts import counted, printable

    from ..runs.calibrate import calibrate

    suite = import_suites(options.suite, allow_plugins=options.allow_plugins).suite
    said_at = time.monotonic()

    def advance(done: int, of: int) -> None:
        nonlocal said_at
        if time.monotonic() - said_at > _LINE_EVERY_S:
            said_at = time.monotonic()
            click.echo(f"{done:,} of {of:,} labelled", err=True)

    labels = None if options.labels is None else Path(options.labels)
    made = run_async(
        calibrate(
            suite, options.store, options.run, options.evaluator, labels, privacy=options.privacy(), advance=advance
        )
    )
    if options.output == "json":
        echo_json(made)
        return
    for one in made:
        threshold = f"threshold {one['threshold']:g}"
        lines = [f"{one['metric']}: {one['model'] or 'a judge'}, {one['prompt']}, {threshold}"]
        lines += [f"  {line}" for line in calibration_lines(one)]
        wrong = one["disagreements"]
        if wrong:
            lines.append(
                f"  {counted(one['disagreement_count'], 'disagreement')}; each in full: "
                + ("the page /judges" if one["scope"] == "conversation" else "a2a-eval-proxy show ID")
            )
        for found in wrong[:_MOST_DISAGREEMENTS]:
            people, judge = ("passes" if found[who] else "fails" for who in ("people", "judge"))
            name, said = found.get("conversation_id") or found["turn_id"], found["label"] or found["score"]
            lines.append(f"    {name}: people: {people}, judge: {judge} ({said})")
        if one["disagreement_count"] > _MOST_DISAGREEMENTS:
            lines.append(
                f"    … and {one['disagreement_count'] - _MOST_DISAGREEMENTS:,} more: the page /judges lists them"
            )
        click.echo(printable("\n".join(lines)) + "\n")


async def newest_run(store: str) -> str | None:
    """The name of the newest run, after saying so; None in an empty store."""
    from ..runs.tables import plain, stored_runs

    runs = await stored_runs(store)
    if not runs:
        return None
    others = f" of {len(runs)} runs; choose another with --run NAME" if len(runs) > 1 else ""
    click.echo(plain(f"run {runs[0].name}, the newest{others}"), err=True)
    return runs[0].name


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

    file = Path(options.suite)
    if options.undo:
        undo(file, allow_plugins=options.allow_plugins)
        click.echo(f"{file} is as before the last accepted change")
        return
    run = options.run
    if run is None:
        run = run_async(newest_run(options.store))
        if run is None:
            raise click.UsageError("the store has no runs: nothing to accept")
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
        for line in difference(text, after):
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
        click.echo(f"{file} stays as it is" + (f" (--dry-run): {_changes(chosen)}" if chosen else ""))
        return
    accept(file, chosen, allow_plugins=allow_plugins)
    click.echo(f"{file}: {_changes(chosen)} accepted; to take it back: a2a-eval-proxy accept {file} --undo")


def _changes(chosen: Sequence[Proposal]) -> str:
    return f"{len(chosen)} change{'s' * (len(chosen) != 1)}"
