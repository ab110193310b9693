"""Texts for requests, excerpts and results, shared by all report formats."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from tool_call_evaluators.report.wording import counted, cut, one_line, printable

from ..probe.record import ProbeRecord, ProbeRequest
from ..rules.base import CheckVerdict, Problem, Rule, RuleResult, RuleStatus, Subject
from ..rules.selectors import NO_CALLS
from .report import CheckReport

MAX_EXCERPT = 500
MAX_REQUEST = 400

SENTENCES = {
    CheckVerdict.CONFORMING: "conforming",
    CheckVerdict.NOT_CONFORMING: "not conforming",
    CheckVerdict.INCONCLUSIVE: (
        "inconclusive: no tool call was seen; send a message that makes your agent call a tool (--message)"
    ),
}


def verdict_sentence(report: CheckReport) -> str:
    """Returns the verdict and the number of broken rules and warnings."""
    broken = {result.rule.id for result in report.results if result.status is RuleStatus.FAILED}
    warned = {result.rule.id for result in report.results if result.status is RuleStatus.WARNING}
    counts = [f"{counted(len(broken), 'rule')} broken"] if broken else []
    counts += [counted(len(warned), "warning")] if warned else []
    return SENTENCES[report.verdict] + (f" ({', '.join(counts)})" if counts else "")


def card_name(report: CheckReport) -> str:
    """Returns the `name` of the card; "" without one."""
    name = report.record.card.card.get("name")
    return one_line(name, 100) if isinstance(name, str) else ""


def messages(report: CheckReport) -> list[str]:
    """Returns the messages sent to the agent, without duplicates."""
    return list(dict.fromkeys(turn.message for item in report.record.conversations for turn in item.turns))


def request_lines(request: ProbeRequest) -> list[str]:
    """Returns request line, headers and body; without the headers that the user added."""
    lines = [f"{request.method} {request.url}"]
    lines += [f"{name}: {value}" for name, value in request.headers]
    if request.body:
        lines.append(cut(request.body.decode(errors="replace"), MAX_REQUEST))
    return lines


def excerpt_text(problem: Problem) -> str:
    """Returns the excerpt of the problem as JSON; "" without one."""
    if problem.excerpt is None:
        return ""
    text = json.dumps(problem.excerpt, ensure_ascii=False, default=str)
    return printable(cut(text, MAX_EXCERPT))


def place(problem: Problem) -> str:
    """Returns the HTTP status and the path of the problem in the answer."""
    status = f"HTTP {problem.status}" if problem.status else "no answer"
    return f"{status}, {problem.where}" if problem.where else status


@dataclass(frozen=True, slots=True)
class BrokenRule:
    """One broken rule, with the results for the interfaces that broke it."""

    rule: Rule[ProbeRecord] | Rule[Subject]
    results: tuple[RuleResult, ...]

    @property
    def where(self) -> str:
        names = [str(result.interface) if result.interface else "agent card" for result in self.results]
        return ", ".join(names)

    @property
    def problems(self) -> list[Problem]:
        return [problem for result in self.results for problem in result.outcome.problems]


def broken_rules(report: CheckReport) -> Iterator[BrokenRule]:
    """Yields the broken rules: failures first, then warnings."""
    for status in (RuleStatus.FAILED, RuleStatus.WARNING):
        by_rule: dict[str, list[RuleResult]] = {}
        for result in report.results:
            if result.status is status:
                by_rule.setdefault(result.rule.id, []).append(result)
        yield from (BrokenRule(results[0].rule, tuple(results)) for results in by_rule.values())


def unseen(report: CheckReport) -> list[str]:
    """Returns a line for each reason why rules are unseen; one line for all if no tool call was seen."""
    if not report.calls_seen:
        rules = {result.rule.id for result in report.results if result.status is RuleStatus.UNSEEN}
        return [f"{counted(len(rules), 'rule')} had nothing to check: {NO_CALLS}"] if rules else []
    reasons = _unseen_by_reason(report)
    return [f"{', '.join(rules)}: {reason}" for reason, rules in reasons.items()]


def _unseen_by_reason(report: CheckReport) -> dict[str, list[str]]:
    """Returns the rules of each reason, with their interfaces unless they are all."""
    reasons: dict[str, dict[str, list[str]]] = {}
    for result in report.results:
        if result.status is RuleStatus.UNSEEN:
            interfaces = reasons.setdefault(result.outcome.unseen, {}).setdefault(result.rule.id, [])
            interfaces += [str(result.interface)] if result.interface else []
    everywhere = len(report.record.conversations)
    return {
        reason: [
            rule if len(interfaces) in (0, everywhere) else f"{rule} ({', '.join(interfaces)})"
            for rule, interfaces in rules.items()
        ]
        for reason, rules in reasons.items()
    }
