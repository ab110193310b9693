"""What `run` and `evaluate` show: a progress bar while they work, a table of turns, the verdict and its reasons."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from tool_call_evaluators.importers import import_suite
from tool_call_evaluators.suite import AgentDefaults, Suite
from tool_call_evaluators.suite.lint import unchecked

from .conclusion import Conclusion
from .display import conversation_lines, failed_turns, plain, score_table, turn_table, usage_line
from .errors import ConfigError
from .location import shown
from .logs import start_logging
from .privacy import Privacy
from .reporting import publish_report
from .rescoring import Engine, evaluate_store

_SHOWN_TURNS = 200
_SHOWN_REASONS = 50


async def run_and_show(
    suite_file: str,
    form: str | None,
    agent: AgentDefaults,
    dialects: tuple[str, ...],
    tls: ssl.SSLContext | None,
    store: str,
    run: str | None,
    folder: Path | None,
    console: Console,
    *,
    resume: bool = False,
    privacy: Privacy | None = None,
    judge_cache: bool = True,
    allow_plugins: bool = False,
) -> bool:
    """Run the suite; returns whether it passed. Raises as `import_suite` and `run_suite` do."""
    from .runner import AgentOptions, run_suite  # slow to import, and `evaluate` does without

    _start_logging(privacy)
    suite, in_vain = _suite(suite_file, form, judge_cache, allow_plugins)
    if not suite.cases:
        raise ConfigError(f"{suite_file}: has no cases, and so nothing to say to the agent")
    options = AgentOptions.merged(suite.agent, agent, dialects, tls)
    name = run or f"{suite.name}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    try:
        with _progress() as bar:
            conclusion = await run_suite(
                suite,
                options,
                store,
                name,
                resume=resume,
                texts=folder is not None,
                privacy=privacy,
                planned=lambda turns: bar.begin("running", turns),
                advanced=lambda case: bar.advance(1, case.id),
            )
    except asyncio.CancelledError:  # Ctrl-C
        Console(stderr=True).print(f"\ninterrupted; to go on with it: --run {escape(name)} --resume", soft_wrap=True)
        raise
    return _show(conclusion, suite, in_vain, store, folder, console)


async def evaluate_and_show(
    suite_file: str,
    form: str | None,
    store: str,
    run: str | None,
    folder: Path | None,
    console: Console,
    *,
    privacy: Privacy | None = None,
    engine: Engine = "in-process",
    judge_cache: bool = True,
    allow_plugins: bool = False,
) -> bool:
    """Score stored turns again; returns whether they passed. Raises as `import_suite` and `evaluate_store` do."""
    _start_logging(privacy)
    suite, in_vain = _suite(suite_file, form, judge_cache, allow_plugins)
    with _progress() as bar:
        conclusion = await evaluate_store(
            suite,
            store,
            run,
            texts=folder is not None,
            privacy=privacy,
            engine=engine,
            planned=lambda turns: bar.begin("scoring", turns),
            advanced=bar.advance,
        )
    return _show(conclusion, suite, in_vain, store, folder, console)


def _start_logging(privacy: Privacy | None) -> None:
    start_logging("warning", "%(levelname)s %(name)s: %(message)s", privacy)


def _suite(path: str, form: str | None, judge_cache: bool, allow_plugins: bool) -> tuple[Suite, list[str]]:
    """The suite, and what it expects in vain; of others' files, the notes of the importer tell that."""
    imported = import_suite(path, form, allow_plugins=allow_plugins)
    if not judge_cache:
        imported = replace(imported, suite=imported.suite.with_fresh_judge())
    if imported.notes:
        notes = Console(stderr=True, highlight=False)
        notes.print(f"{escape(path)} is a file of {imported.format}; of it, this was not taken over:", soft_wrap=True)
        for note in imported.notes:
            notes.print(f"  {escape(note)}", soft_wrap=True)
        return imported.suite, []
    return imported.suite, unchecked(imported.suite)


class _Bar:
    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("starting", total=None)

    def begin(self, what: str, turns: int) -> None:
        self._progress.update(self._task, description=what, total=turns)

    def advance(self, turns: int, what: str | None = None) -> None:
        description = None if what is None else escape(what)
        self._progress.update(self._task, advance=turns, description=description)


@contextmanager
def _progress() -> Iterator[_Bar]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        yield _Bar(progress)


def _show(
    conclusion: Conclusion, suite: Suite, in_vain: list[str], store: str, folder: Path | None, console: Console
) -> bool:
    """Print the end of a run and write its report; returns whether it passed."""
    report, verdict = conclusion.report, conclusion.verdict
    if report.turns:
        console.print(turn_table(report.turns[:_SHOWN_TURNS], failed_turns(report)))
    if len(report.turns) > _SHOWN_TURNS:
        console.print(f"… and {len(report.turns) - _SHOWN_TURNS} more turns; see the report or the export")
    for line in conversation_lines(report.conversations)[:_SHOWN_TURNS]:
        console.print(line, soft_wrap=True)
    if metrics := report.verdict["metrics"]:
        console.print()
        console.print(score_table(metrics))
    console.print("\n[green]passed[/green]" if verdict.passed else f"\n[red]failed[/red], {_count(verdict.reasons)}:")
    places = {where: place for place, where in enumerate(dict.fromkeys(reason.where for reason in verdict.reasons))}
    for reason in sorted(verdict.reasons, key=lambda reason: places[reason.where])[:_SHOWN_REASONS]:
        console.print(f"  {escape(plain(reason.message))}", soft_wrap=True)
    if len(verdict.reasons) > _SHOWN_REASONS:
        console.print(f"  … and {len(verdict.reasons) - _SHOWN_REASONS} more")
    if verdict.tolerated:
        console.print(f"tolerated, as the suite says: {_count(verdict.tolerated)}")
    for sentence in in_vain:
        console.print(f"note: {escape(sentence)}", soft_wrap=True)
    if usage := usage_line(conclusion.usage):
        console.print(usage)
    page = publish_report(report, folder)  # last: a disk that is full does not hide the verdict
    where = f"store {shown(store)}" + (f", report {page}" if page else "")
    turns = "1 turn" if len(report.turns) == 1 else f"{len(report.turns)} turns"
    run = report.run if len({turn["run"] for turn in report.turns}) > 1 else f"run {report.run}"  # else "3 runs"
    console.print(f"\n{escape(run)}: {turns}, {escape(where)}", soft_wrap=True)
    return verdict.passed


def _count(reasons: tuple[object, ...]) -> str:
    return "1 reason" if len(reasons) == 1 else f"{len(reasons)} reasons"
