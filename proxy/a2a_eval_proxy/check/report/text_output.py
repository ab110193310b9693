"""A report for people: a table of rules and interfaces, then each fault with its evidence and its fix."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ..rules.base import Problem, Result, Status, Verdict
from .report import Report
from .wording import Breach, breaches, card_name, excerpt_text, messages, place, request_lines, unseen, verdict_sentence

_SHOWN_PROBLEMS = 3
"""Problems of a rule that are shown with their evidence, each of another kind."""

_RULE_WIDTH, _LEAST_RULE_WIDTH, _MARK_WIDTH = 34, 12, len("HTTP+JSON")

_MARKS = {
    Status.PASSED: "[green]passed[/green]",
    Status.FAILED: "[bold red]FAILED[/bold red]",
    Status.WARNING: "[yellow]warning[/yellow]",
    Status.UNSEEN: "[yellow]not seen[/yellow]",
    Status.SKIPPED: "[dim]-[/dim]",
}
_COLOURS = {Verdict.CONFORMING: "green", Verdict.NOT_CONFORMING: "red", Verdict.INCONCLUSIVE: "yellow"}


def show(report: Report, url: str, console: Console) -> None:
    """Print the report: what is wrong and how to mend it, then what was looked at."""
    console.print(f"agent    {escape(card_name(report) or 'unnamed')}, {escape(url)}", soft_wrap=True)
    for message in messages(report):
        console.print(f"message  {escape(message)}", soft_wrap=True)
    for breach in breaches(report):
        _show_breach(breach, console)
    console.print()
    console.print(_card_table(report))
    if report.record.conversations:
        console.print()
        console.print(_traffic_table(report, console.width))
    console.print()
    for text in unseen(report):
        console.print(_labelled("not seen", text))
    for left in report.record.not_checked:
        console.print(_labelled("not checked", f"{left.interface}: {left.reason}"))
    colour = _COLOURS[report.verdict]
    console.print(f"\n[{colour}]{escape(verdict_sentence(report))}[/{colour}]", soft_wrap=True)


def _card_table(report: Report) -> Table:
    table = _table("agent card")
    table.add_column("")
    for result in report.results:
        if result.interface is None and result.status is not Status.UNSEEN:
            table.add_row(result.rule.title, _MARKS[result.status])
    return table


def _traffic_table(report: Report, width: int) -> Table:
    interfaces = [item.interface for item in report.record.conversations]
    table = _table("traffic", width - 2 - len(interfaces) * (_MARK_WIDTH + 2))  # 2 between columns
    for interface in interfaces:
        table.add_column(str(interface).replace(" ", "\n"), overflow="fold", min_width=_MARK_WIDTH)
    rows: dict[str, list[Result]] = {}
    for result in report.results:
        if result.interface is not None:
            rows.setdefault(result.rule.id, []).append(result)
    for results in rows.values():
        statuses = {result.status for result in results}
        if statuses <= {Status.UNSEEN, Status.SKIPPED} and Status.UNSEEN in statuses:
            continue  # told once, below the table
        table.add_row(results[0].rule.title, *(_MARKS[result.status] for result in results))
    return table


def _table(name: str, room: int = _RULE_WIDTH) -> Table:
    """Its first column is for rules; in little room they take several lines, so that no outcome is cut."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(name, min_width=max(_LEAST_RULE_WIDTH, min(_RULE_WIDTH, room)))
    return table


def _show_breach(breach: Breach, console: Console) -> None:
    failed = breach.results[0].status is Status.FAILED
    mark = "[bold red]FAILED[/bold red]" if failed else "[yellow]warning[/yellow]"
    console.print(f"\n{mark} [bold]{breach.rule.id}[/bold] on {escape(breach.where)}", soft_wrap=True)
    problems = breach.problems
    kinds: dict[str, Problem] = {}
    for problem in problems:
        kinds.setdefault(problem.message, problem)
    shown = list(kinds.values())[:_SHOWN_PROBLEMS]
    for problem in shown:
        _show_problem(problem, console)
    if len(problems) > len(shown):
        console.print(f"  and {len(problems) - len(shown)} more like it")
    console.print(Padding(_labelled("why", breach.rule.why), (0, 0, 0, 2)))
    console.print(Padding(_labelled("fix", breach.rule.fix), (0, 0, 0, 2)))


def _show_problem(problem: Problem, console: Console) -> None:
    console.print(f"  {escape(problem.message)}", soft_wrap=True)
    for number, line in enumerate(request_lines(problem.request)):
        console.print(f"    {'asked' if number == 0 else '':9}{escape(line)}", style="dim", soft_wrap=True)
    console.print(f"    {'answered':9}{escape(place(problem))}", style="dim", soft_wrap=True)
    if excerpt := excerpt_text(problem):
        console.print(f"    {'':9}{escape(excerpt)}", style="dim", soft_wrap=True)


def _labelled(label: str, text: str) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_row(label, Text(text))
    return grid
