"""Rules, their outcomes and the verdict. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Generic, TypeVar

from a2a_tool_capture import Severity

from ..probe.record import Interface, ProbeConversation, ProbeExchange, ProbeRecord, ProbeRequest
from ..probe.responses import Occurrence

MAX_PROBLEMS = 20
"""Maximum number of problems kept for one rule on one interface: a fault repeats itself."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One violation of a rule with its evidence: the request, the path in the answer and the value at that path.

    `excerpt` is a JSON value; None if the problem is that something is missing.
    """

    message: str
    request: ProbeRequest
    status: int = 0
    where: str = ""
    excerpt: object = None


class RuleStatus(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    WARNING = "warning"
    UNSEEN = "unseen"
    """The agent's answers contain nothing that the rule applies to."""
    SKIPPED = "skipped"
    """The rule does not apply to this agent."""


@dataclass(frozen=True, slots=True)
class RuleOutcome:
    """The outcome of one rule: passed without problems, unless `unseen` or `skipped` has a reason."""

    problems: tuple[Problem, ...] = ()
    unseen: str = ""
    skipped: str = ""


def outcome_of(problems: Iterable[Problem]) -> RuleOutcome:
    """Returns the outcome with the first MAX_PROBLEMS problems; passed without any."""
    return RuleOutcome(tuple(islice(problems, MAX_PROBLEMS)))


def problem(exchange: ProbeExchange, message: str, where: str = "", excerpt: object = None) -> Problem:
    return Problem(message, exchange.request, exchange.status, where, excerpt)


def problem_at(exchange: ProbeExchange, message: str, occurrence: Occurrence) -> Problem:
    return problem(exchange, message, occurrence.where, occurrence.value)


@dataclass(frozen=True, slots=True)
class Subject:
    """The input of a traffic rule: the conversation over one interface, and the whole record for comparison."""

    conversation: ProbeConversation
    record: ProbeRecord


S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Rule(Generic[S]):
    """One requirement. Only violations of severity `error` make an agent non-conforming."""

    id: str
    title: str
    test: Callable[[S], RuleOutcome]
    why: str
    fix: str
    severity: Severity = Severity.ERROR


@dataclass(frozen=True, slots=True)
class RuleResult:
    """The outcome of one rule for the card (`interface` None) or for one interface."""

    rule: Rule[ProbeRecord] | Rule[Subject]
    interface: Interface | None
    outcome: RuleOutcome

    @property
    def status(self) -> RuleStatus:
        if self.outcome.problems:
            return RuleStatus.FAILED if self.rule.severity is Severity.ERROR else RuleStatus.WARNING
        if self.outcome.unseen:
            return RuleStatus.UNSEEN
        return RuleStatus.SKIPPED if self.outcome.skipped else RuleStatus.PASSED


class CheckVerdict(StrEnum):
    CONFORMING = "conforming"
    NOT_CONFORMING = "not conforming"
    INCONCLUSIVE = "inconclusive"
    """No rule failed, but no tool call was seen, so most rules had nothing to check."""
