"""The report of a check: all rules applied to a record; as text and JSON. Pure."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from tool_call_evaluators.grouping import grouped
from tool_call_evaluators.texts import counted, excerpt, finite, one_line, printable

from .record import ProbeRecord
from .rules import NO_CALLS, CheckVerdict, Problem, RuleResult, RuleStatus, judged

MAX_PROBLEMS = 3
"""Maximum number of a rule's problems to show, each with another message."""
MAX_EXCERPT = 500
MAX_REQUEST = 400
MAX_EXCERPT_CHARS = 10_000
"""Of an excerpt in the JSON report."""
INCONCLUSIVE = "no tool call was seen; send a message that makes your agent call a tool (--message)"

_MARKS = {status: status.value for status in RuleStatus} | {
    RuleStatus.FAILED: "FAILED",
    RuleStatus.UNSEEN: "not seen",
    RuleStatus.SKIPPED: "-",
}
_WIDTH, _RULE_WIDTH, _MARK_WIDTH = 120, 38, 15


@dataclass(frozen=True, slots=True)
class CheckReport:
    """A finished check: the record, and the result of each rule for the card and for each interface."""

    record: ProbeRecord
    results: tuple[RuleResult, ...]
    calls_seen: bool

    @property
    def by_rule(self) -> list[list[RuleResult]]:
        return [list(results) for _, results in groupby(self.results, key=lambda result: result.rule.id)]

    @property
    def verdict(self) -> CheckVerdict:
        if any(result.status is RuleStatus.FAILED for result in self.results):
            return CheckVerdict.NOT_CONFORMING
        return CheckVerdict.CONFORMING if self.calls_seen else CheckVerdict.INCONCLUSIVE

    @property
    def verdict_sentence(self) -> str:
        """The verdict and the number of broken rules and warnings."""
        broken, warned = (
            sum(any(result.status is status for result in results) for results in self.by_rule)
            for status in (RuleStatus.FAILED, RuleStatus.WARNING)
        )
        counts = [f"{counted(broken, 'rule')} broken"] if broken else []
        counts += [counted(warned, "warning")] if warned else []
        reason = f": {INCONCLUSIVE}" if self.verdict is CheckVerdict.INCONCLUSIVE else ""
        return self.verdict.value + reason + (f" ({', '.join(counts)})" if counts else "")

    @property
    def agent(self) -> str:
        name = self.record.card.card.get("name")
        return one_line(name, 100) if isinstance(name, str) else ""

    @property
    def messages(self) -> list[str]:
        return list(dict.fromkeys(turn.message for item in self.record.conversations for turn in item.turns))


def apply_rules(record: ProbeRecord) -> CheckReport:
    results, calls_seen = judged(record)
    return CheckReport(record, tuple(results), calls_seen)


def place(problem: Problem) -> str:
    status = "gRPC" if problem.request.method == "gRPC" else f"HTTP {problem.status}" if problem.status else "no answer"
    return f"{status}, {problem.where}" if problem.where else status


def _problem_lines(problem: Problem) -> list[str]:
    request = problem.request
    sent = [f"{request.method} {request.url}", *(f"{name}: {value}" for name, value in request.headers)]
    sent += [excerpt(request.body, MAX_REQUEST)] if request.body else []
    lines = [problem.message, f"  request  {sent[0]}", *(f"           {line}" for line in sent[1:])]
    lines.append(f"  response {place(problem)}")
    if problem.excerpt is not None:
        shown = json.dumps(problem.excerpt, ensure_ascii=False, default=str)
        lines.append(f"           {excerpt(shown, MAX_EXCERPT)}")
    return lines


# ── text ────────────────────────────────────────────────────────────────────────────────────────────────────


def report_text(report: CheckReport, url: str) -> str:
    """The violations and their fixes, then the results of all rules and the verdict."""
    lines = [f"agent    {report.agent or 'unnamed'}, {url}", *(f"message  {each}" for each in report.messages)]
    for status in (RuleStatus.FAILED, RuleStatus.WARNING):
        for results in report.by_rule:
            if broken := [result for result in results if result.status is status]:
                lines += ["", *_broken_rule(broken)]
    card = [each for each in report.results if each.interface is None and each.status is not RuleStatus.UNSEEN]
    if card:
        lines += ["", "agent card", *(f"{each.rule.title:{_RULE_WIDTH}}{_MARKS[each.status]}" for each in card)]
    rows = [results for results in report.by_rule if results[0].interface and _is_told(results)]
    if rows:
        interfaces = "".join(f"{result.place:{_MARK_WIDTH}}" for result in rows[0])
        lines += ["", f"{'traffic':{_RULE_WIDTH}}{interfaces}"]
    for results in rows:
        marks = "".join(f"{_MARKS[result.status]:{_MARK_WIDTH}}" for result in results)
        lines.append(f"{results[0].rule.title:{_RULE_WIDTH}}{marks}")
    lines.append("")
    for text in _unseen(report):
        lines += _labelled("not seen     ", text)
    for left in report.record.not_checked:
        lines += _labelled("not checked  ", f"{left.interface}: {left.reason}")
    lines += ["", report.verdict_sentence]
    return "".join(f"{printable(line).rstrip()}\n" for line in lines)


def _labelled(label: str, text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent=label, subsequent_indent=" " * len(label))


def _broken_rule(results: list[RuleResult]) -> Iterator[str]:
    rule = results[0].rule
    yield f"{_MARKS[results[0].status]} {rule.id} on {', '.join(result.place for result in results)}"
    problems = [problem for result in results for problem in result.problems]
    different = {problem.message: problem for problem in reversed(problems)}  # the first one with each message
    shown = [problem for problem in problems if different[problem.message] is problem][:MAX_PROBLEMS]
    for problem in shown:
        yield from (f"  {line}" for line in _problem_lines(problem))
    if more := len(problems) - len(shown):
        yield f"  and {more} more"
    yield from _labelled("  why  ", rule.why)
    yield from _labelled("  fix  ", rule.fix)


def _is_told(results: list[RuleResult]) -> bool:
    """Whether a rule had something to check, or applies nowhere."""
    statuses = {result.status for result in results}
    return bool(statuses - {RuleStatus.UNSEEN, RuleStatus.SKIPPED}) or statuses == {RuleStatus.SKIPPED}


def _unseen(report: CheckReport) -> list[str]:
    """A text for each reason why rules are unseen; one for all of them if no tool call was seen."""
    unseen = [result for result in report.results if result.status is RuleStatus.UNSEEN]
    if unseen and not report.calls_seen:
        return [f"{counted(len({result.rule.id for result in unseen}), 'rule')} had nothing to check: {NO_CALLS}"]
    rules = grouped((result.reason, result.rule.id) for result in unseen)
    return [f"{', '.join(dict.fromkeys(found))}: {reason}" for reason, found in rules.items()]


# ── JSON ───────────────────────────────────────────────────────────────────────────────────────────────────


def report_json(report: CheckReport, url: str) -> dict[str, Any]:
    """The whole report. `interface` is null for results about the card."""
    return {
        "agent": report.agent,
        "url": url,
        "verdict": report.verdict.value,
        "tool_calls_seen": report.calls_seen,
        "messages": report.messages,
        "interfaces": [
            {"name": str(item.interface), "url": item.interface.url} for item in report.record.conversations
        ],
        "not_checked": [{"interface": left.interface, "reason": left.reason} for left in report.record.not_checked],
        "results": [
            {
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
            for result in report.results
        ],
    }


def _problem(problem: Problem) -> dict[str, Any]:
    request = problem.request
    shown = finite(problem.excerpt)
    text = json.dumps(shown, ensure_ascii=False)
    return {
        "message": problem.message,
        "request": {
            "method": request.method,
            "url": request.url,
            "headers": dict(request.headers),
            "body": request.body or None,
        },
        "status": problem.status or None,
        "where": problem.where or None,
        "excerpt": shown if len(text) <= MAX_EXCERPT_CHARS else excerpt(text, MAX_EXCERPT_CHARS),
    }
