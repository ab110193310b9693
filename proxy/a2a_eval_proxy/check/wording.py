"""Texts for requests, excerpts and results, shared by all report formats."""

from __future__ import annotations

import json
from collections.abc import Iterator

from rich.markup import escape
from tool_call_evaluators.grouping import grouped
from tool_call_evaluators.texts import counted, excerpt, one_line, printable

from .record import ProbeRequest
from .report import CheckReport
from .rules import NO_CALLS, CheckVerdict, Problem, RuleResult, RuleStatus

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
