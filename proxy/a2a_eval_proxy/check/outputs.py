"""The report as text, as JSON and as JUnit XML."""

from __future__ import annotations

import json
from typing import Any
from xml.etree import ElementTree as ET

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text
from tool_call_evaluators.report.junit import junit_document
from tool_call_evaluators.texts import excerpt, finite, printable

from . import wording
from .report import CheckReport
from .rules import CheckVerdict, Problem, RuleResult, RuleStatus
from .wording import as_markup, card_name, excerpt_text, messages, place, request_lines, verdict_sentence

_RULE_WIDTH, _LEAST_RULE_WIDTH, _MARK_WIDTH = 34, 12, len("HTTP+JSON")

_MARKS = {
    RuleStatus.PASSED: "[green]passed[/green]",
    RuleStatus.FAILED: "[bold red]FAILED[/bold red]",
    RuleStatus.WARNING: "[yellow]warning[/yellow]",
    RuleStatus.UNSEEN: "[yellow]not seen[/yellow]",
    RuleStatus.SKIPPED: "[dim]-[/dim]",
}
_COLOURS = {CheckVerdict.CONFORMING: "green", CheckVerdict.NOT_CONFORMING: "red", CheckVerdict.INCONCLUSIVE: "yellow"}


def print_report(report: CheckReport, url: str, console: Console) -> None:
    """Print the violations and their fixes, then the results of all rules and the verdict."""
    console.print(f"agent    {as_markup(wording.card_name(report) or 'unnamed')}, {as_markup(url)}", soft_wrap=True)
    for message in wording.messages(report):
        console.print(f"message  {as_markup(message)}", soft_wrap=True)
    for results in wording.broken_rules(report):
        _print_broken_rule(results, console)
    if not report.record.card.missing:
        console.print()
        console.print(_card_table(report))
    if rows := wording.traffic_results(report):
        console.print()
        console.print(_traffic_table(rows, console.width))
    console.print()
    for text in wording.unseen(report):
        console.print(_labelled("not seen", text))
    for left in report.record.not_checked:
        console.print(_labelled("not checked", f"{left.interface}: {left.reason}"))
    colour = _COLOURS[report.verdict]
    console.print(f"\n[{colour}]{as_markup(wording.verdict_sentence(report))}[/{colour}]", soft_wrap=True)


def _card_table(report: CheckReport) -> Table:
    table = _table("agent card")
    table.add_column("")
    for result in wording.card_results(report):
        table.add_row(result.rule.title, _MARKS[result.status])
    return table


def _traffic_table(rows: list[list[RuleResult]], width: int) -> Table:
    table = _table("traffic", width - 2 - len(rows[0]) * (_MARK_WIDTH + 2))  # 2 between columns
    for result in rows[0]:
        table.add_column(as_markup(result.place.replace(" ", "\n")), overflow="fold", min_width=_MARK_WIDTH)
    for results in rows:
        table.add_row(results[0].rule.title, *(_MARKS[result.status] for result in results))
    return table


def _table(name: str, room: int = _RULE_WIDTH) -> Table:
    """Returns a table whose first column wraps rule titles if `room` is small, so that no outcome is cut."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(name, min_width=max(_LEAST_RULE_WIDTH, min(_RULE_WIDTH, room)))
    return table


def _print_broken_rule(results: list[RuleResult], console: Console) -> None:
    rule, mark = results[0].rule, _MARKS[results[0].status]
    where = ", ".join(result.place for result in results)
    console.print(f"\n{mark} [bold]{rule.id}[/bold] on {as_markup(where)}", soft_wrap=True)
    shown, more = wording.shown_problems(results)
    for problem in shown:
        _print_problem(problem, console)
    if more:
        console.print(f"  and {more} more")
    console.print(Padding(_labelled("why", rule.why), (0, 0, 0, 2)))
    console.print(Padding(_labelled("fix", rule.fix), (0, 0, 0, 2)))


def _print_problem(problem: Problem, console: Console) -> None:
    console.print(f"  {as_markup(problem.message)}", soft_wrap=True)
    for number, line in enumerate(wording.request_lines(problem.request)):
        console.print(f"    {'request' if number == 0 else '':9}{as_markup(line)}", style="dim", soft_wrap=True)
    console.print(f"    {'response':9}{as_markup(wording.place(problem))}", style="dim", soft_wrap=True)
    if part := wording.excerpt_text(problem):
        console.print(f"    {'':9}{as_markup(part)}", style="dim", soft_wrap=True)


def _labelled(label: str, text: str) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_row(label, Text(printable(text)))
    return grid


MAX_EXCERPT_CHARS = 10_000


def report_json(report: CheckReport, url: str) -> dict[str, Any]:
    """Returns the whole report. `interface` is null for results about the card."""
    return {
        "agent": card_name(report),
        "url": url,
        "verdict": report.verdict.value,
        "tool_calls_seen": report.calls_seen,
        "messages": messages(report),
        "interfaces": [
            {"name": str(item.interface), "url": item.interface.url} for item in report.record.conversations
        ],
        "not_checked": [{"interface": left.interface, "reason": left.reason} for left in report.record.not_checked],
        "results": [_result(result) for result in report.results],
    }


def _result(result: RuleResult) -> dict[str, Any]:
    return {
        "rule": result.rule.id,
        "title": result.rule.title,
        "severity": result.rule.severity.value,
        "interface": str(result.interface) if result.interface else None,
        "status": result.status.value,
        "reason": result.reason or None,
        "why": result.rule.why,
        "fix": result.rule.fix,
        "problems": [_problem(problem) for problem in result.problems],
    }


def _problem(problem: Problem) -> dict[str, Any]:
    request = problem.request
    return {
        "message": problem.message,
        "request": {
            "method": request.method,
            "url": request.url,
            "headers": dict(request.headers),
            "body": request.body.decode(errors="replace") or None,
        },
        "status": problem.status or None,
        "grpc_status": problem.grpc_status or None,
        "where": problem.where or None,
        "excerpt": _bounded(finite(problem.excerpt)),
    }


def _bounded(value: Any) -> Any:
    """Returns the value, or the start of its JSON if it exceeds MAX_EXCERPT_CHARS."""
    text = json.dumps(value, ensure_ascii=False)
    return value if len(text) <= MAX_EXCERPT_CHARS else excerpt(text, MAX_EXCERPT_CHARS)


def report_junit(report: CheckReport, url: str) -> str:
    """Failed rules are failures, warnings pass with their text as output, and unseen rules are skipped.

    An inconclusive check adds a failure: most rules had nothing to check.
    """
    suite = ET.Element("testsuite", name=printable(f"a2a-eval-proxy check {url}"))
    properties = ET.SubElement(suite, "properties")
    for name, value in (("agent", card_name(report)), ("verdict", report.verdict.value)):
        ET.SubElement(properties, "property", name=name, value=printable(value))
    for result in report.results:
        suite.append(_testcase(result))
    if report.verdict is CheckVerdict.INCONCLUSIVE:
        case = ET.SubElement(suite, "testcase", classname="check", name="tool-calls-seen")
        ET.SubElement(case, "failure", message=verdict_sentence(report), type="inconclusive")
    return junit_document(suite)


def _testcase(result: RuleResult) -> ET.Element:
    case = ET.Element("testcase", classname=f"check.{result.place.replace('.', '_')}", name=result.rule.id)
    if result.problems:
        problems = "\n\n".join(_problem_text(problem) for problem in result.problems)
        text = printable(f"{problems}\n\nwhy: {result.rule.why}\nfix: {result.rule.fix}")
        if result.status is RuleStatus.FAILED:
            message = printable(result.problems[0].message)
            ET.SubElement(case, "failure", message=message, type=result.rule.id).text = text
        else:
            ET.SubElement(case, "system-out").text = f"warning: {text}"
    elif result.reason:
        ET.SubElement(case, "skipped", message=printable(result.reason))
    return case


def _problem_text(problem: Problem) -> str:
    lines = [problem.message, *(f"  {line}" for line in request_lines(problem.request)), f"  -> {place(problem)}"]
    if part := excerpt_text(problem):
        lines.append(f"     {part}")
    return "\n".join(lines)
