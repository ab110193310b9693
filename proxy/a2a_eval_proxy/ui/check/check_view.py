"""The report of a check as a page shows it: the facts of the text report."""

from __future__ import annotations

from dataclasses import dataclass

from ...check.report import wording
from ...check.report.report import CheckReport
from ...check.rules.base import CheckVerdict, Problem, RuleResult, RuleStatus

STATUSES = {
    CheckVerdict.CONFORMING: "passed",
    CheckVerdict.NOT_CONFORMING: "failed",
    CheckVerdict.INCONCLUSIVE: "unscored",
}
"""The sign of each verdict."""
_NAMES = {RuleStatus.UNSEEN: "not seen"}


@dataclass(frozen=True, slots=True)
class ProblemView:
    """A violation with its evidence."""

    message: str
    request: str
    place: str
    excerpt: str


@dataclass(frozen=True, slots=True)
class BrokenRule:
    """A rule with violations at `places`; `more` is the number of problems that are not shown."""

    rule: str
    status: str
    places: str
    problems: tuple[ProblemView, ...]
    more: int
    why: str
    fix: str


@dataclass(frozen=True, slots=True)
class RuleTable:
    """Rules over interfaces: each of `rows` has a rule's title and a status for each of `interfaces`."""

    heading: str
    interfaces: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class CheckView:
    """A finished check. `card` has title and status of each rule about the card."""

    agent: str
    status: str
    sentence: str
    messages: tuple[str, ...]
    broken: tuple[BrokenRule, ...]
    card: tuple[tuple[str, str], ...]
    tables: tuple[RuleTable, ...]
    notes: tuple[str, ...]


def check_view(report: CheckReport) -> CheckView:
    """The report of a check; credentials must be masked by now."""
    return CheckView(
        agent=wording.card_name(report) or "unnamed",
        status=STATUSES[report.verdict],
        sentence=wording.verdict_sentence(report),
        messages=tuple(wording.messages(report)),
        broken=tuple(map(_broken, wording.broken_rules(report))),
        card=tuple((result.rule.title, _name(result)) for result in wording.card_results(report)),
        tables=tuple(
            RuleTable(
                heading.capitalize() if heading.islower() else heading,
                tuple(result.place for result in rows[0]),
                tuple((results[0].rule.title, tuple(map(_name, results))) for results in rows),
            )
            for heading, rows in wording.tables(report)
        ),
        notes=(
            *(f"notified: {text}" for text in wording.notified_lines(report)),
            *(f"not seen: {text}" for text in wording.unseen(report)),
            *(f"not checked: {left.interface}: {left.reason}" for left in report.record.not_checked),
        ),
    )


def _name(result: RuleResult) -> str:
    return _NAMES.get(result.status, result.status.value)


def _broken(results: list[RuleResult]) -> BrokenRule:
    rule = results[0].rule
    shown, more = wording.shown_problems(results)
    places = ", ".join(result.place for result in results)
    return BrokenRule(rule.id, results[0].status.value, places, tuple(map(_problem, shown)), more, rule.why, rule.fix)


def _problem(problem: Problem) -> ProblemView:
    request = "\n".join(wording.request_lines(problem.request))
    return ProblemView(problem.message, request, wording.place(problem), wording.excerpt_text(problem))
