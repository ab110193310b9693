"""What `run` shows: a progress bar while it works, a table of turns, the verdict and its reasons."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from tool_call_evaluators.report import Report
from tool_call_evaluators.suite import Case, load_suite

from .display import turn_table
from .reporting import publish_report
from .runner import AgentOptions, RunResult, run_suite

_SHOWN_TURNS = 200
_SHOWN_REASONS = 50


async def run_and_show(
    suite_file: str, agent: AgentOptions, store: str, run: str | None, folder: Path | None, console: Console
) -> bool:
    """Run the suite; returns whether it passed. Raises as `run_suite` and `load_suite` do."""
    suite = load_suite(suite_file)
    name = run or f"{suite.name}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        total = sum(len(case.turns) * case.repetitions for case in suite.cases)
        bar = progress.add_task("running", total=total)

        def advanced(case: Case) -> None:
            progress.update(bar, advance=1, description=escape(case.id))

        result = await run_suite(suite, agent, store, name, advanced)
    report = Report.build(name, result.turns, result.verdict.to_dict(), suite=suite)
    page = publish_report(report, folder)
    _show(result, [evaluator.metric for evaluator in suite.build_evaluators()], console)
    where = f"store {store}" + (f", report {page}" if page else "")
    console.print(f"\nrun {escape(name)}: {len(result.turns)} turns, {escape(where)}", soft_wrap=True)
    return result.verdict.passed


def _show(result: RunResult, metrics: list[str], console: Console) -> None:
    console.print(turn_table(result.turns[:_SHOWN_TURNS], metrics))
    if len(result.turns) > _SHOWN_TURNS:
        console.print(f"… and {len(result.turns) - _SHOWN_TURNS} more turns; see the export")
    reasons = result.verdict.reasons
    console.print(
        "\n[green]passed[/green]" if result.verdict.passed else f"\n[red]failed[/red], {len(reasons)} reasons:"
    )
    for reason in reasons[:_SHOWN_REASONS]:
        console.print(f"  {escape(reason.message)}", soft_wrap=True)
    if len(reasons) > _SHOWN_REASONS:
        console.print(f"  … and {len(reasons) - _SHOWN_REASONS} more")
