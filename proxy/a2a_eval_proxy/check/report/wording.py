"""How a report puts requests, excerpts and findings into words, alike in every form."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from tool_call_evaluators.report.wording import counted, cut, one_line, printable

from ..probe.record import Record, Request
from ..rules.base import Problem, Result, Rule, Status, Subject, Verdict
from ..rules.selectors import NO_CALLS
from .report import Report

MAX_EXCERPT = 500
MAX_REQUEST = 400

SENTENCES = {
    Verdict.CONFORMING: "conforming",
    Verdict.NOT_CONFORMING: "not conforming",
    Verdict.INCONCLUSIVE: (
        "inconclusive: no tool call was ever seen; send a message that makes your agent call a tool: --message"
    ),
}


def verdict_sentence(report: Report) -> str:
    """The verdict with its reason."""
    broken = {result.rule.id for result in report.results if result.status is Status.FAILED}
    warned = {result.rule.id for result in report.results if result.status is Status.WARNING}
    told = [f"{counted(len(broken), 'rule')} broken"] if broken else []
    told += [counted(len(warned), "warning")] if warned else []
    return SENTENCES[report.verdict] + (f" ({', '.join(told)})" if told else "")


def card_name(report: Report) -> str:
    """What the agent calls itself; "" where it does not say."""
    name = report.record.card.card.get("name")
    return one_line(name, 100) if isinstance(name, str) else ""


def messages(report: Report) -> list[str]:
    """What was said to the agent, each once."""
    return list(dict.fromkeys(turn.message for item in report.record.conversations for turn in item.turns))


def request_lines(request: Request) -> list[str]:
    """The request as one would type it; without the headers that the user added."""
    lines = [f"{request.method} {request.url}"]
    lines += [f"{name}: {value}" for name, value in request.headers]
    if request.body:
        lines.append(cut(request.body.decode(errors="replace"), MAX_REQUEST))
    return lines


def excerpt_text(problem: Problem) -> str:
    """What stands at the place of the problem, as JSON; "" where the fault is that nothing does."""
    if problem.excerpt is None:
        return ""
    text = json.dumps(problem.excerpt, ensure_ascii=False, default=str)
    return printable(cut(text, MAX_EXCERPT))


def place(problem: Problem) -> str:
    """Where in the answer it is: the HTTP status and the path."""
    status = f"HTTP {problem.status}" if problem.status else "no answer"
    return f"{status}, {problem.where}" if problem.where else status


@dataclass(frozen=True, slots=True)
class Breach:
    """One rule that was broken, and where: `results` are those of the interfaces that broke it."""

    rule: Rule[Record] | Rule[Subject]
    results: tuple[Result, ...]

    @property
    def where(self) -> str:
        names = [str(result.interface) if result.interface else "agent card" for result in self.results]
        return ", ".join(names)

    @property
    def problems(self) -> list[Problem]:
        return [problem for result in self.results for problem in result.outcome.problems]


def breaches(report: Report) -> Iterator[Breach]:
    """What failed and what was warned of, failures first, rule by rule."""
    for status in (Status.FAILED, Status.WARNING):
        by_rule: dict[str, list[Result]] = {}
        for result in report.results:
            if result.status is status:
                by_rule.setdefault(result.rule.id, []).append(result)
        yield from (Breach(results[0].rule, tuple(results)) for results in by_rule.values())


def unseen(report: Report) -> list[str]:
    """Which rules could not be judged, and why: a line for each reason.

    One line is all where no tool call was ever seen, which leaves most rules without anything to judge.
    """
    if not report.calls_seen:
        rules = {result.rule.id for result in report.results if result.status is Status.UNSEEN}
        return [f"{counted(len(rules), 'rule')} had nothing to judge: {NO_CALLS}"] if rules else []
    reasons = _unseen_by_reason(report)
    return [f"{', '.join(rules)}: {reason}" for reason, rules in reasons.items()]


def _unseen_by_reason(report: Report) -> dict[str, list[str]]:
    """For each reason the rules, with the interfaces where it is not all of them."""
    reasons: dict[str, dict[str, list[str]]] = {}
    for result in report.results:
        if result.status is Status.UNSEEN:
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
