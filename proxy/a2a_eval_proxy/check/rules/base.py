"""What a rule is, what it can say, and what all rules together come to. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from a2a_tool_capture import Severity

from ..probe.record import Conversation, Exchange, Interface, Record, Request

MAX_PROBLEMS = 20
"""Problems of one rule on one interface that are kept; a fault repeats itself."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One breach of a rule with its evidence: what was asked, where in the answer it is, and what stands there.

    `excerpt` is a JSON value, or text; None where the fault is that something is missing.
    """

    message: str
    request: Request
    status: int = 0
    where: str = ""
    excerpt: object = None


class Status(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    WARNING = "warning"
    UNSEEN = "unseen"
    """Nothing came by that the rule could judge, although it might have."""
    SKIPPED = "skipped"
    """The rule is not about this agent."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a rule found. Without problems it passed, unless `unseen` or `skipped` say why it could not tell."""

    problems: tuple[Problem, ...] = ()
    unseen: str = ""
    skipped: str = ""


def found(problems: Iterable[Problem]) -> Outcome:
    """Passed if there are none."""
    kept = []
    for problem in problems:
        kept.append(problem)
        if len(kept) == MAX_PROBLEMS:
            break
    return Outcome(tuple(kept))


def problem(exchange: Exchange, message: str, where: str = "", excerpt: object = None) -> Problem:
    return Problem(message, exchange.request, exchange.status, where, excerpt)


@dataclass(frozen=True, slots=True)
class Subject:
    """What a rule about traffic judges: what was said over one interface, and the rest for comparison."""

    conversation: Conversation
    record: Record


S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Rule(Generic[S]):
    """One thing an agent has to do. Only breaches of the severity `error` make it fail to conform."""

    id: str
    title: str
    test: Callable[[S], Outcome]
    why: str
    fix: str
    severity: Severity = Severity.ERROR


@dataclass(frozen=True, slots=True)
class Result:
    """What one rule said, about the card (`interface` None) or about one interface."""

    rule: Rule[Record] | Rule[Subject]
    interface: Interface | None
    outcome: Outcome

    @property
    def status(self) -> Status:
        if self.outcome.problems:
            return Status.FAILED if self.rule.severity is Severity.ERROR else Status.WARNING
        if self.outcome.unseen:
            return Status.UNSEEN
        return Status.SKIPPED if self.outcome.skipped else Status.PASSED


class Verdict(StrEnum):
    CONFORMING = "conforming"
    NOT_CONFORMING = "not conforming"
    INCONCLUSIVE = "inconclusive"
    """No rule was broken, but no tool call was ever seen, so that little was tested."""
