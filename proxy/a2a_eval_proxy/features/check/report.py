"""The report of a check: all rules applied to a record; as text and JSON. Pure."""

from __future__ import annotations

import json
import textwrap
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from jinja2 import PackageLoader
from tool_call_evaluators.grouping import grouped
from tool_call_evaluators.report.templating import plain_text
from tool_call_evaluators.texts import counted, excerpt, finite, in_json, one_line, printable

from .record import ProbeRecord
from .rules import NO_CALLS, CheckVerdict, Problem, RuleResult, RuleStatus, judged

MAX_PROBLEMS = 3
"""Maximum number of a rule's problems to show, each with another message."""
MAX_EXCERPT_CHARS = 10_000
"""Of an excerpt in the JSON report."""
INCONCLUSIVE = "no tool call was seen; send a message that makes your agent call a tool (--message)"

_MARKS = {status: status.value for status in RuleStatus} | {
    RuleStatus.FAILED: "FAILED",
    RuleStatus.UNSEEN: "not seen",
    RuleStatus.SKIPPED: "-",
}
_WIDTH = 120
_TEMPLATES = PackageLoader(__package__, "")


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


# ── text ────────────────────────────────────────────────────────────────────────────────────────────────────


def report_text(report: CheckReport, url: str) -> str:
    """The violations and their fixes, then the results of all rules and the verdict."""
    broken = (
        [result for result in results if result.status is status]
        for status in (RuleStatus.FAILED, RuleStatus.WARNING)
        for results in report.by_rule
    )
    text = plain_text(
        "report.txt",
        _TEMPLATES,
        report=report,
        url=url,
        broken=list(filter(None, broken)),
        card=[each for each in report.results if each.interface is None and each.status is not RuleStatus.UNSEEN],
        traffic=[results for results in report.by_rule if results[0].interface and _is_told(results)],
        unseen=_unseen(report),
        marks=_MARKS,
        most=MAX_PROBLEMS,
        place=place,
        in_json=in_json,
        labelled=_labelled,
    )
    return "".join(f"{line.rstrip()}\n" for line in printable(text).split("\n"))


def _labelled(label: str, text: str) -> str:
    return textwrap.fill(text, _WIDTH, initial_indent=label, subsequent_indent=" " * len(label))


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
