"""`run` and `evaluate`: a progress bar while they work, then the table of turns, the verdict and its reasons."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from tool_call_evaluators.importers import import_suite, suite_files
from tool_call_evaluators.model import CALLS_UNSEEN
from tool_call_evaluators.report import json_report
from tool_call_evaluators.report.causes import causes
from tool_call_evaluators.report.compared import change_line
from tool_call_evaluators.report.figures import attempts, attempts_text
from tool_call_evaluators.report.model import Report
from tool_call_evaluators.suite import Suite
from tool_call_evaluators.suite.lint import missing_inputs, unknown_gates, unknown_placeholders, unmeasurable_gates
from tool_call_evaluators.suite.model import combined
from tool_call_evaluators.texts import counted, printable

from ..errors import UNREACHABLE, ConfigError, RunIncompleteError
from ..ids import new_run_name
from ..privacy.policy import Privacy
from ..runs.rescore import evaluate_store
from ..runs.run_plan import RunPlan, store_held, unresolved_headers, write_held
from ..runs.run_result import WORSE, RunResult, RunWatch, Terms
from ..runs.stored_turns import check_baseline, open_existing_store
from ..runs.tables import (
    conversation_lines,
    finding_lines,
    fitting,
    gate_table,
    marked_text,
    plain,
    score_table,
    stored_runs,
    suite_table,
    turn_table,
)
from ..scoring.evidence import turn_trees
from ..settings.store_url import masked_url
from ..telemetry.logs import start_logging
from .command import wide_console
from .options import EvaluateOptions, RunOptions
from .output import JsonOutput
from .traces import fetching, receiving, variables

if TYPE_CHECKING:
    from ..runs.drive import AgentOptions

_LINE_EVERY_S, _REFRESH_S = 10.0, 0.1


@contextmanager
def shown_progress(*, silent: bool, every_s: float = _LINE_EVERY_S) -> Iterator[RunWatch]:
    """Show progress on standard error until the end of the block, in a running event loop: a bar, or without a terminal
    a line at that interval."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(complete_style="cyan"),  # by default it is red until the end
        MofNCompleteColumn(),
        TextColumn("{task.fields[counts]}", markup=False),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    console, watch = Console(stderr=True), RunWatch()
    with Progress(*columns, console=console, transient=True, disable=silent or not console.is_terminal) as bar:
        showing = asyncio.get_running_loop().create_task(_show(watch, None if bar.disable else bar, every_s))
        if silent:
            showing.cancel()
        try:
            yield watch
        finally:
            showing.cancel()


async def _show(watch: RunWatch, bar: Progress | None, every_s: float) -> None:
    task = None if bar is None else bar.add_task("starting", total=None, counts=watch)
    while True:
        await asyncio.sleep(every_s if bar is None else _REFRESH_S)
        if bar is None or task is None:
            click.echo(watch.line, err=True)
        elif watch.planned:
            bar.update(task, description="running", total=watch.planned, completed=watch.done)


_MOST_LINES = 45  # of turns, metrics, gates and causes together; headings and the rest make it 60
_FEWEST_LINES = 5  # of turns
_MOST_CAUSES = 30


async def run_and_show(options: RunOptions) -> bool:
    """Run the suite; returns whether it passed. Raises as `import_suite`, `run_suite` and `receiving` do."""
    from ..runs.drive import run_suite  # slow to import, and `evaluate` does not need it

    privacy = options.privacy()
    plan = _start(options, privacy).selecting(options.selection).repeating(options.repeat)
    if options.baseline is not None:
        await check_baseline(options.store, options.baseline, options.run)
    parts = [_ready(file, suite, plan, options) for file, suite in plan.suites.items()]
    for suite, _ in () if options.quiet or options.selection else parts:
        for sentence in missing_inputs(suite):
            click.echo(printable(f"warning: {sentence}"), err=True)
    name = options.run or new_run_name(plan.suite.name.replace(", ", "+"))
    try:
        with shown_progress(silent=options.quiet) as progress:
            traced = fetching(options) if options.traces else receiving(options, silent=options.quiet)
            async with traced as tracing:
                progress.fail_fast = options.fail_fast
                conclusion = await run_suite(
                    *parts[0],
                    options.store,
                    name,
                    others=parts[1:],
                    resume=options.resume,
                    repeat_all=options.repeat_all,
                    seed=options.seed,
                    agent_version=options.agent_version,
                    replay_user=options.replay_user,
                    texts=_keeps_texts(plan, options),
                    privacy=privacy,
                    partial=bool(options.selection),
                    terms=_terms(options),
                    watch=progress,
                    tracing=tracing,
                )
    except asyncio.CancelledError:  # Ctrl-C
        begun = options.resume or progress.store.writes
        click.echo(f"\ninterrupted; {_resuming(name) if begun else 'nothing is stored yet'}", err=True)
        raise
    except Exception as error:
        if getattr(error, "exit_code", None) != UNREACHABLE or not (options.resume or progress.store.writes):
            raise
        raise RunIncompleteError(f"{error} ({_resuming(name)})") from error
    if tracing is not None and not tracing.received:
        needed = "to continue the trace of its requests" if options.traces else variables(f"http://{options.otlp}")
        place = f"from {options.traces}" if options.traces else f"to {options.otlp}"
        plan = replace(plan, warnings=[*plan.warnings, f"no spans came {place}; the agent needs {needed}"])
    if plan.files and (output := plan.output):
        if privacy.keeps_content:
            await write_held(output, conclusion.report, plan.files, options.store)
        else:
            plan = replace(plan, warnings=[*plan.warnings, f"{output} is not written: --no-content"])
    return await _concluded(conclusion, name, plan, options)


def _resuming(run: str) -> str:
    return f"to resume the run, repeat the command of `run` with --run {shlex.quote(run)} --resume"


async def _concluded(
    conclusion: RunResult, run: str, plan: RunPlan, options: RunOptions | EvaluateOptions, *, trees: bool = True
) -> bool:
    """Show the result of the run; returns whether it passed. `trees`: its report has who asked whom from the store.
    Raises RunIncompleteError, StoreError."""
    report = conclusion.report
    if options.report and trees:
        failed_first = sorted(report.conversations, key=lambda one: report.status(one) != "failed")
        turn_ids = [turn["turn_id"] for item in failed_first for turn in item.executed]
        async with open_existing_store(options.store) as store:
            below = [(turn_id, await turn_trees(store).below(turn_id)) for turn_id in turn_ids[:_MOST_TREES]]
        found = {turn_id: tree for turn_id, tree in below if tree is not None and tree.children}
        report = replace(report, trees=found)
    passed = show_result(replace(conclusion, report=report), plan, options)
    if conclusion.unreachable and not passed:
        raise RunIncompleteError(f"the run is incomplete: {conclusion.unreachable} ({_resuming(run)})")
    return passed


_MOST_TREES = 1_000
"""Turns of a report whose trees are looked up."""


def _terms(options: RunOptions | EvaluateOptions) -> Terms:
    return Terms(options.allow_no_capture, options.baseline, options.fail_on)


def _ready(file: str, suite: Suite, plan: RunPlan, options: RunOptions) -> tuple[Suite, AgentOptions]:
    """A suite, and its agent as the command line says. Raises ConfigError for what is known to fail."""
    wrong = unknown_gates(suite)
    if not options.selection:  # else it may measure the other cases
        wrong += unmeasurable_gates(suite)
    if plan.files is None and wrong:
        raise ConfigError(f"{file}: {'; '.join(wrong)}")
    if unresolved := unresolved_headers(file, suite, options.agent_defaults().headers):
        raise ConfigError("; ".join(unresolved))
    return suite, replace(options.agent_options(suite.agent), agent_name=options.agent_name)


async def evaluate_and_show(options: EvaluateOptions) -> bool:
    """Score stored turns again; returns whether they passed. Raises as `import_suite` and `evaluate_store` do."""
    privacy = options.privacy()
    plan, run = _start(options, privacy), options.run
    if file := options.simulation_file_path or (plan.files and plan.files.conversations):
        plan = plan.scoring(Path(file))
        plan.suite.check_judges()  # before anything is stored
        run = privacy.identifier(run or new_run_name(plan.suite.name))
        if plan.held:
            await store_held(plan.held, options.store, run, privacy)
    elif run is None:
        run = await newest_run(options.store)
    if options.baseline is not None:
        await check_baseline(options.store, options.baseline, run)
    suite, *others = plan.suites.values()
    with shown_progress(silent=options.quiet) as progress:
        async with fetching(options) as tracing:
            conclusion = await evaluate_store(
                suite,
                options.store,
                run,
                others=others,
                texts=_keeps_texts(plan, options),
                privacy=privacy,
                selection=options.selection,
                engine=options.engine,
                terms=_terms(options),
                watch=progress,
                tracing=tracing,
            )
    conclusion = replace(conclusion, report=replace(conclusion.report, trace_url=options.trace_url or ""))
    run, plan = conclusion.report.run, plan.selecting(options.selection)
    trees = not privacy.changes_turns  # else what is stored may be redacted by other rules
    return await _concluded(conclusion, run, plan, options, trees=trees)


def _keeps_texts(plan: RunPlan, options: RunOptions | EvaluateOptions) -> bool:
    return plan.report is not None or options.output == "json"


def _start(options: RunOptions | EvaluateOptions, privacy: Privacy) -> RunPlan:
    """The suites and where their results go. An importer prints its notes."""
    start_logging("info" if options.verbose else "warning", "%(levelname)s %(name)s: %(message)s", privacy)
    if options.fail_on and options.baseline is None:
        raise ConfigError("--fail-on: compares with an earlier run; name it with --baseline NAME")
    files, skipped = suite_files(options.suite)
    plan = RunPlan({}, options.report, None, [f"{file} is skipped: it is not a suite" for file in skipped])
    for file in files:
        plan = _with_suite(plan, file, options)
        if plan.files and len(files) > 1:
            raise ConfigError(f"{file}: an ArkSim configuration cannot be run together with other suites")
    without = [file for file, suite in plan.suites.items() if not suite.cases]
    if without and (len(files) > 1 or isinstance(options, RunOptions)):
        raise ConfigError(f"{without[0]}: the suite has no cases")
    combined(list(plan.suites.values()), files)  # no two of them have a case of the same id
    return plan


def _with_suite(plan: RunPlan, file: str, options: RunOptions | EvaluateOptions) -> RunPlan:
    scenario_file = Path(options.scenario_file_path) if options.scenario_file_path else None
    imported = import_suite(file, options.format, allow_plugins=options.allow_plugins, scenario_file=scenario_file)
    suite = imported.suite.with_fresh_judge() if options.no_judge_cache else imported.suite
    plan = replace(plan, suites={**plan.suites, file: suite}, files=imported.run_files)
    if not imported.notes:
        return replace(plan, warnings=[*plan.warnings, *unknown_placeholders(suite)])
    console = Console(stderr=True, highlight=False)
    console.print(f"Imported {escape(file)} ({imported.format}). Not imported:", soft_wrap=True)
    for note in imported.notes:
        console.print(f"  {escape(note)}", soft_wrap=True)
    command = shlex.join(["a2a-eval-proxy", "convert", file, "--out", "suite.yaml"])
    console.print(f"To edit it as a suite: {escape(command)}", soft_wrap=True)
    return plan


def _show_tables(console: Console, report: Report, lines: int | None) -> None:
    """Turns and conversations, scores and gates, in about that many lines; None: all."""
    metrics = report.verdict["metrics"]
    room = None if lines is None else max(_FEWEST_LINES, lines - len(metrics) - len(report.gates) - len(report.parts))
    count = len(report.turns)
    shown = count if room is None else fitting(console, report, room)
    if count:
        console.print(turn_table(report, shown))
    for line in finding_lines(report, shown):
        console.print(line, soft_wrap=True)
    if count > shown:
        more = f"… and {counted(count - shown, 'more turn')}; see the report, `export`, or --verbose"
        console.print(f"{more}\nconversations: {', '.join(report.count_texts)}", soft_wrap=True)
    for line in conversation_lines(report.conversations)[: None if room is None else max(0, room - shown)]:
        console.print(line, soft_wrap=True)
    if metrics:
        console.print()
        console.print(score_table(metrics))
        for line in report.judge_lines:
            console.print(line, soft_wrap=True, markup=False)
    if report.gates:
        console.print()
        console.print(gate_table(report.gates))
    if report.parts:
        console.print()
        console.print(suite_table(report.parts))
    if text := attempts_text(attempts(report)):
        console.print(f"\n{text}", soft_wrap=True, markup=False)


def show_result(conclusion: RunResult, plan: RunPlan, options: RunOptions | EvaluateOptions) -> bool:
    """Print the result of a run and write its report; returns whether it passed."""
    as_json = options.output == "json"
    console, details = wide_console(silent=as_json), wide_console(silent=as_json or options.quiet)
    report, verdict = conclusion.report, conclusion.verdict
    if as_json:
        JsonOutput().write(json_report(report))
    found = [] if report.passed else [cause for cause in causes(report) if cause.counts]
    most = len(found) if options.verbose else _MOST_CAUSES
    _show_tables(details, report, None if options.verbose else _MOST_LINES - min(len(found), most))
    details.print()
    worse = any(reason.code == WORSE for reason in verdict.reasons)
    compared = "" if worse or report.baseline is None else change_line(report.baseline)
    console.print(marked_text("verdict.txt", report=report, causes=found, most=most, compared=compared), soft_wrap=True)
    if line := report.visibility_text:
        allowed = options.allow_no_capture and report.could_be_allowed
        line += "" if allowed or not report.could_be_allowed else "; if that is intended, add --allow-no-capture"
        style = "dim" if allowed else "yellow"
        Console(stderr=as_json, highlight=False).print(line, soft_wrap=True, markup=False, style=style)
    for sentence in () if options.quiet else (*plan.warnings, *_tolerated_for_nothing(report)):
        click.echo(printable(f"note: {sentence}"), err=as_json)
    for who, cost in report.costs.items():
        details.print(f"{who}: {cost}")
    page = plan.publish(report)  # last: a full disk does not hide the verdict
    where = f"store {masked_url(options.store)}" + (f", report {page}" if page else "")
    run = report.run if len({turn["run"] for turn in report.turns}) > 1 else f"run {report.run}"  # else "3 runs"
    turns = ", ".join(filter(None, (counted(len(report.turns), "turn"), report.given_text)))
    console.print(f"\n{escape(plain(run))}: {turns}, {escape(where)}", soft_wrap=True)
    return verdict.passed


def _tolerated_for_nothing(report: Report) -> Iterator[str]:
    """Of each suite that tolerates calls that are not visible, as one of `init` may, where all are visible by now."""
    for part in report.parts or [report]:
        if part.suite and CALLS_UNSEEN in part.suite.tolerate and part.tool_call_count and not part.not_visible:
            yield (
                f"tool calls are visible now: delete {CALLS_UNSEEN} from `tolerate` of suite {part.suite.name}, "
                "and score them (evaluators: [tool_trajectory, tool_error])"
            )


async def newest_run(store: str) -> str | None:
    """The name of the newest run, after saying so; None in an empty store."""
    runs = await stored_runs(store)
    if not runs:
        return None
    others = f" of {len(runs)} runs; choose another with --run NAME" if len(runs) > 1 else ""
    click.echo(plain(f"run {runs[0].name}, the newest{others}"), err=True)
    return runs[0].name
