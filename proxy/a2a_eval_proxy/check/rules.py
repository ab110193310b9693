"""Rules, their outcomes and the verdict; and what the rules select from a record. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from a2a_tool_capture import Severity

from ..protocol.operations import Operation
from .record import (
    Activation,
    CardSeen,
    Interface,
    Kind,
    Occurrence,
    ProbeConversation,
    ProbeExchange,
    ProbeRecord,
    ProbeRequest,
    ProbeTurn,
    ResponseEvent,
)
from .requests import STREAMING
from .responses import entries, occurrences, task_id_of

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
    grpc_status: str = ""
    """The name of the status, of an answer over gRPC."""


def problem(seen: ProbeExchange | CardSeen, message: str, where: str = "", excerpt: object = None) -> Problem:
    grpc_status = seen.grpc_status if isinstance(seen, ProbeExchange) else ""
    return Problem(message, seen.request, seen.status, where, excerpt, grpc_status)


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


class NoResult(Exception):  # noqa: N818  # an outcome
    """Raised by a test without a result; the message is the reason. Counts only if the test has yielded nothing."""

    status: RuleStatus


class Unseen(NoResult):
    status = RuleStatus.UNSEEN


class Skipped(NoResult):
    status = RuleStatus.SKIPPED


@dataclass(frozen=True, slots=True)
class Subject:
    """The input of a traffic rule: the conversation over one interface."""

    conversation: ProbeConversation
    messages_with_calls: frozenset[str]
    """The messages whose answers show tool calls, over any interface."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One requirement. Only violations of severity `error` make an agent non-conforming."""

    id: str
    severity: Severity
    title: str
    test: Callable[[Any], Iterable[Problem | None]]
    """Yields the problems of a `CardSeen` or of a `Subject`, and None for what it found right; may raise Unseen, which
    counts if it yielded nothing, or Skipped."""
    why: str
    fix: str

    def judge(self, subject: CardSeen | Subject, interface: Interface | None = None) -> RuleResult:
        """Returns the result with the first MAX_PROBLEMS problems; passed without any."""
        problems: list[Problem] = []
        status, reason, judged = RuleStatus.PASSED, "", False
        try:
            for found in self.test(subject):
                judged = True
                problems += [found] if found is not None else []
                if len(problems) == MAX_PROBLEMS:
                    break
        except NoResult as error:
            status, reason = (RuleStatus.PASSED, "") if judged else (error.status, str(error))
        if problems:
            status, reason = RuleStatus.FAILED if self.severity is Severity.ERROR else RuleStatus.WARNING, ""
        return RuleResult(self, interface, status, reason, tuple(problems))


@dataclass(frozen=True, slots=True)
class RuleResult:
    """The result of one rule for the card (`interface` None) or for one interface."""

    rule: Rule
    interface: Interface | None
    status: RuleStatus
    reason: str = ""
    """Why it is unseen or skipped."""
    problems: tuple[Problem, ...] = ()

    @property
    def place(self) -> str:
        return str(self.interface) if self.interface else "agent card"


class CheckVerdict(StrEnum):
    CONFORMING = "conforming"
    NOT_CONFORMING = "not conforming"
    INCONCLUSIVE = "inconclusive"
    """No rule failed, but no tool call was seen, so most rules had nothing to check."""


NO_CALLS = "no tool call was seen: send a message that makes your agent call a tool (--message)"
TOO_QUICK = "the task ended before a subscription could begin: send a message that takes longer (--message)"
NO_TASK = "no answer contained a task"
ASKING = (Activation.V1, Activation.V1_WITH_UNKNOWN)


def subjects_of(record: ProbeRecord) -> list[Subject]:
    """Returns the input of the traffic rules for each interface."""
    turns = [turn for conversation in record.conversations for turn in conversation.turns]
    messages = frozenset(turn.message for turn in turns if has_calls(turn))
    return [Subject(conversation, messages) for conversation in record.conversations]


def skip_unless_offered(subject: Subject, operation: Operation) -> None:
    """Raises Skipped if the interface does not have this operation."""
    if operation in STREAMING and not subject.conversation.streams:
        raise Skipped("the card does not declare streaming")
    if operation is Operation.LIST and subject.conversation.interface.legacy:
        raise Skipped("A2A 0.3 has no ListTasks")


def turns_by(subject: Subject, operation: Operation, activation: Activation) -> list[ProbeTurn]:
    return [
        turn
        for turn in subject.conversation.turns
        if turn.activation is activation and turn.opening.operation is operation
    ]


def exchanges_asking(subject: Subject, *activation: Activation) -> Iterator[ProbeExchange]:
    for turn in subject.conversation.turns:
        yield from (exchange for exchange in turn.exchanges if exchange.activation in activation)


def exchanges_by(subject: Subject, operation: Operation, activation: Activation) -> list[ProbeExchange]:
    return [exchange for exchange in exchanges_asking(subject, activation) if exchange.operation is operation]


def asking_occurrences(subject: Subject, kind: Kind) -> Iterator[tuple[ProbeExchange, Occurrence]]:
    """Occurrences of this kind in answers to requests that activate version 1."""
    for exchange in exchanges_asking(subject, *ASKING):
        yield from ((exchange, occurrence) for occurrence in occurrences(exchange) if occurrence.kind is kind)


def has_calls(turn: ProbeTurn) -> bool:
    return any(entries(exchange) for exchange in turn.exchanges if exchange.activation in ASKING)


def whole_task(exchange: ProbeExchange, task_id: str) -> ResponseEvent | None:
    shown = (event for event in exchange.events if event.normal is not None and "task" in event.normal)
    return next((event for event in shown if task_id_of(event.normal or {}) == task_id), None)


def task_artifacts(event: ResponseEvent) -> object:
    return {"artifacts": (event.normal or {})["task"].get("artifacts", [])}


def all_artifacts(exchange: ProbeExchange) -> list[dict[str, Any]]:
    return [artifact for event in exchange.normal_events for artifact, _ in artifacts_in(event)]


def artifacts_in(event: dict[str, Any]) -> Iterator[tuple[dict[str, Any], bool]]:
    """Yields the artifacts of an event, each with whether it appends to an earlier one."""
    task, update = event.get("task"), event.get("artifactUpdate")
    if isinstance(task, dict) and isinstance(task.get("artifacts"), list):
        yield from ((artifact, False) for artifact in task["artifacts"] if isinstance(artifact, dict))
    if isinstance(update, dict) and isinstance(update.get("artifact"), dict):
        yield update["artifact"], update.get("append") is True
