"""The report of a check: all rules applied to a record, without credentials; as text, JSON and JUnit XML. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from itertools import groupby
from typing import Any
from xml.etree import ElementTree as ET

from a2a_tool_capture.json_limits import WALKED
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text
from tool_call_evaluators.grouping import grouped
from tool_call_evaluators.report.junit import junit_document
from tool_call_evaluators.texts import counted, excerpt, finite, one_line, printable

from .record import ProbeRecord, ProbeRequest
from .rules import CARD_RULES, NO_CALLS, CheckVerdict, Problem, RuleResult, RuleStatus, subjects_of
from .traffic_rules import TRAFFIC_RULES


@dataclass(frozen=True, slots=True)
class CheckReport:
    """A finished check: the record, and the result of each rule for the card and for each interface."""

    record: ProbeRecord
    results: tuple[RuleResult, ...]
    calls_seen: bool
    """Whether any answer to a request that activates version 1 shows calls."""

    @property
    def by_rule(self) -> list[list[RuleResult]]:
        """The results of each rule, in the order of the tables."""
        return [list(results) for _, results in groupby(self.results, key=lambda result: result.rule.id)]

    @property
    def verdict(self) -> CheckVerdict:
        if any(result.status is RuleStatus.FAILED for result in self.results):
            return CheckVerdict.NOT_CONFORMING
        return CheckVerdict.CONFORMING if self.calls_seen else CheckVerdict.INCONCLUSIVE


def apply_rules(record: ProbeRecord) -> CheckReport:
    """Apply every rule to the record, in the order of the tables."""
    results = [] if record.card.missing else [rule.judge(record.card) for rule in CARD_RULES]
    subjects = subjects_of(record)
    for rule in TRAFFIC_RULES:
        results += [rule.judge(subject, subject.conversation.interface) for subject in subjects]
    return CheckReport(record, tuple(results), any(subject.messages_with_calls for subject in subjects))


LEAST_LENGTH = 6
"""Minimum length of a credential; shorter words also occur in ordinary text."""


def mask_credentials(report: CheckReport, header_values: Iterable[str]) -> CheckReport:
    """Returns the report with `***` in place of every credential in these values of request headers."""
    masked: CheckReport = masking(header_values)(report)
    return masked


def masking(header_values: Iterable[str]) -> Callable[[Any], Any]:
    """Returns a function that masks every credential in these values of request headers, at any depth of its argument.

    It copies dictionaries, lists, tuples and dataclasses.
    """
    longest_first = sorted(_credentials_in(header_values), key=len, reverse=True)

    def text(original: str) -> str:
        for credential in longest_first:
            original = _without_prefix_at_end(original.replace(credential, "***"), credential)
        return original

    def value(original: Any, depth: int = WALKED) -> Any:
        if type(original) is str:
            return text(original)
        if isinstance(original, bytes):
            return text(original.decode(errors="replace")).encode()
        if isinstance(original, dict | list) and depth == 0:
            return "***"
        if isinstance(original, dict):
            return {text(str(key)): value(item, depth - 1) for key, item in original.items()}
        if isinstance(original, list | tuple):
            return type(original)(value(item, depth - 1) for item in original)
        if not is_dataclass(original) or isinstance(original, type):
            return original
        return replace(original, **{each.name: value(getattr(original, each.name), depth) for each in fields(original)})

    return value if longest_first else lambda original: original


def _credentials_in(header_values: Iterable[str]) -> frozenset[str]:
    """Returns the strings to mask: each value and each of its words except the scheme, also in their JSON escape."""
    texts = {text for value in header_values for text in (value, *value.split())}
    long = {text for text in texts if len(text) >= LEAST_LENGTH and text.lower() not in ("bearer", "digest")}
    return frozenset(long | {json.dumps(text)[1:-1] for text in long})


def _without_prefix_at_end(text: str, credential: str) -> str:
    """Masks a credential that truncation cut in two: its prefix at the end of `text`."""
    end = text.rstrip("'\"")
    for length in range(len(credential) - 1, LEAST_LENGTH - 1, -1):
        if end.endswith(credential[:length]):
            return f"{end[:-length]}***{text[len(end) :]}"
    return text


MAX_PROBLEMS = 3
"""Maximum number of a rule's problems to show, each with another message."""
MAX_EXCERPT = 500
MAX_REQUEST = 400
INCONCLUSIVE = "no tool call was seen; send a message that makes your agent call a tool (--message)"


def as_markup(text: str) -> str:
    """Text of an agent for a terminal, as markup of Rich: without escape sequences, and not read as markup."""
    return escape(printable(text))


def verdict_sentence(report: CheckReport) -> str:
    """Returns the verdict and the number of broken rules and warnings."""
    broken, warned = _count(report, RuleStatus.FAILED), _count(report, RuleStatus.WARNING)
    counts = [f"{counted(broken, 'rule')} broken"] if broken else []
    counts += [counted(warned, "warning")] if warned else []
    reason = f": {INCONCLUSIVE}" if report.verdict is CheckVerdict.INCONCLUSIVE else ""
    return report.verdict.value + reason + (f" ({', '.join(counts)})" if counts else "")


def card_name(report: CheckReport) -> str:
    name = report.record.card.card.get("name")
    return one_line(name, 100) if isinstance(name, str) else ""


def messages(report: CheckReport) -> list[str]:
    return list(dict.fromkeys(turn.message for item in report.record.conversations for turn in item.turns))


def request_lines(request: ProbeRequest) -> list[str]:
    """Returns request line, headers and body; without the headers that the user added."""
    lines = [f"{request.method} {request.url}"]
    lines += [f"{name}: {value}" for name, value in request.headers]
    if request.body:
        lines.append(excerpt(request.body.decode(errors="replace"), MAX_REQUEST))
    return lines


def excerpt_text(problem: Problem) -> str:
    if problem.excerpt is None:
        return ""
    text = json.dumps(problem.excerpt, ensure_ascii=False, default=str)
    return printable(excerpt(text, MAX_EXCERPT))


def place(problem: Problem) -> str:
    """Returns the status, of HTTP or gRPC, and the path of the problem in the answer."""
    answer = f"gRPC {problem.grpc_status}" if problem.grpc_status else f"HTTP {problem.status}"
    status = answer if problem.status else "no answer"
    return f"{status}, {problem.where}" if problem.where else status


def broken_rules(report: CheckReport) -> Iterator[list[RuleResult]]:
    """Yields the results of each broken rule for the places that broke it: failures first, then warnings."""
    for status in (RuleStatus.FAILED, RuleStatus.WARNING):
        broken = ([result for result in results if result.status is status] for results in report.by_rule)
        yield from filter(None, broken)


def shown_problems(results: list[RuleResult]) -> tuple[list[Problem], int]:
    """Returns the first problems of a rule with different messages, and the number of its other problems."""
    problems = [problem for result in results for problem in result.problems]
    different: dict[str, Problem] = {}
    for problem in problems:
        different.setdefault(problem.message, problem)
    shown = list(different.values())[:MAX_PROBLEMS]
    return shown, len(problems) - len(shown)


def card_results(report: CheckReport) -> list[RuleResult]:
    """Returns the results for the card, without those that had nothing to check."""
    return [item for item in report.results if item.interface is None and item.status is not RuleStatus.UNSEEN]


def traffic_results(report: CheckReport) -> list[list[RuleResult]]:
    """Returns the results of each rule over the interfaces, without rules that had nothing to check."""
    seen = {RuleStatus.PASSED, RuleStatus.FAILED, RuleStatus.WARNING}
    return [
        results
        for results in report.by_rule
        if results[0].interface is not None
        and ({result.status for result in results} & seen or all(one.status is RuleStatus.SKIPPED for one in results))
    ]


def unseen(report: CheckReport) -> list[str]:
    """Returns a line for each reason why rules are unseen; one for all of traffic if no tool call was seen."""
    reasons: dict[str, list[str]] = {}
    without_calls = 0
    for results in report.by_rule:
        found = ((result.reason, result.place) for result in results if result.status is RuleStatus.UNSEEN)
        if results[0].interface is not None and not report.calls_seen:
            without_calls += any(found)
            continue
        for reason, unseen_at in grouped(found).items():
            where = f" ({', '.join(unseen_at)})" if len(unseen_at) < len(results) else ""
            reasons.setdefault(reason, []).append(results[0].rule.id + where)
    lines = [f"{', '.join(rules)}: {reason}" for reason, rules in reasons.items()]
    nothing = f"{counted(without_calls, 'rule')} had nothing to check: {NO_CALLS}"
    return [*lines, nothing] if without_calls else lines


def _count(report: CheckReport, status: RuleStatus) -> int:
    return sum(any(result.status is status for result in results) for results in report.by_rule)


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
    console.print(f"agent    {as_markup(card_name(report) or 'unnamed')}, {as_markup(url)}", soft_wrap=True)
    for message in messages(report):
        console.print(f"message  {as_markup(message)}", soft_wrap=True)
    for results in broken_rules(report):
        _print_broken_rule(results, console)
    if not report.record.card.missing:
        console.print()
        console.print(_card_table(report))
    if rows := traffic_results(report):
        console.print()
        console.print(_traffic_table(rows, console.width))
    console.print()
    for text in unseen(report):
        console.print(_labelled("not seen", text))
    for left in report.record.not_checked:
        console.print(_labelled("not checked", f"{left.interface}: {left.reason}"))
    colour = _COLOURS[report.verdict]
    console.print(f"\n[{colour}]{as_markup(verdict_sentence(report))}[/{colour}]", soft_wrap=True)


def _card_table(report: CheckReport) -> Table:
    table = _table("agent card")
    table.add_column("")
    for result in card_results(report):
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
    shown, more = shown_problems(results)
    for problem in shown:
        _print_problem(problem, console)
    if more:
        console.print(f"  and {more} more")
    console.print(Padding(_labelled("why", rule.why), (0, 0, 0, 2)))
    console.print(Padding(_labelled("fix", rule.fix), (0, 0, 0, 2)))


def _print_problem(problem: Problem, console: Console) -> None:
    console.print(f"  {as_markup(problem.message)}", soft_wrap=True)
    for number, line in enumerate(request_lines(problem.request)):
        console.print(f"    {'request' if number == 0 else '':9}{as_markup(line)}", style="dim", soft_wrap=True)
    console.print(f"    {'response':9}{as_markup(place(problem))}", style="dim", soft_wrap=True)
    if part := excerpt_text(problem):
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
