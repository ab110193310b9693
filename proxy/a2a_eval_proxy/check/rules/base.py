"""Rules, their outcomes and the verdict. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Any, Generic, TypeVar

from a2a_tool_capture import Severity

from ..probe.record import CardSeen, Interface, ProbeConversation, ProbeExchange, ProbeRequest
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


def problem(seen: ProbeExchange | CardSeen, message: str, where: str = "", excerpt: object = None) -> Problem:
    return Problem(message, seen.request, seen.status, where, excerpt)


def problem_at(exchange: ProbeExchange, message: str, occurrence: Occurrence) -> Problem:
    return problem(exchange, message, occurrence.where, occurrence.value)


class RuleStatus(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    WARNING = "warning"
    UNSEEN = "unseen"
    """The agent's answers contain nothing that the rule applies to."""
    SKIPPED = "skipped"
    """The rule does not apply to this agent."""


class Unseen(Exception):  # noqa: N818  # an outcome
    """Raised by a test that found nothing to check; the message is the reason. Does not count after a problem."""


class Skipped(Exception):  # noqa: N818  # an outcome
    """Raised by a test that does not apply to this agent; the message is the reason."""


@dataclass(frozen=True, slots=True)
class RuleOutcome:
    """The outcome of one rule: passed without problems, unless `unseen` or `skipped` has a reason."""

    problems: tuple[Problem, ...] = ()
    unseen: str = ""
    skipped: str = ""


@dataclass(frozen=True, slots=True)
class Subject:
    """The input of a traffic rule: the conversation over one interface."""

    conversation: ProbeConversation
    messages_with_calls: frozenset[str]
    """The messages whose answers show tool calls, over any interface."""


S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Rule(Generic[S]):
    """One requirement. Only violations of severity `error` make an agent non-conforming."""

    id: str
    title: str
    test: Callable[[S], Iterable[Problem]]
    """Yields the problems; may raise Unseen or Skipped."""
    why: str
    fix: str
    severity: Severity = Severity.ERROR

    def outcome(self, subject: S) -> RuleOutcome:
        """Returns the outcome with the first MAX_PROBLEMS problems."""
        problems: list[Problem] = []
        try:
            for found in islice(self.test(subject), MAX_PROBLEMS):
                problems.append(found)  # noqa: PERF402  # keeps those before an exception
        except Unseen as reason:
            return RuleOutcome(tuple(problems), unseen="" if problems else str(reason))
        except Skipped as reason:
            return RuleOutcome(skipped=str(reason))
        return RuleOutcome(tuple(problems))


@dataclass(frozen=True, slots=True)
class RuleResult:
    """The outcome of one rule for the card (`interface` None) or for one interface."""

    rule: Rule[Any]
    interface: Interface | None
    outcome: RuleOutcome

    @property
    def place(self) -> str:
        return str(self.interface) if self.interface else "agent card"

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
