"""Rules, their outcomes and the verdict; what rules select from a record; and the rules about the agent card. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from a2a_tool_capture import URI, Severity

from ...protocol.answers import task_id_of
from ...protocol.operations import Operation
from .record import (
    STREAMING,
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
    entries,
    occurrences,
)
from .requests import declared_extensions, offered_interfaces

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


def _declarations(card: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Returns the entries that declare version 1, with their paths."""
    extensions = declared_extensions(card)
    return [
        (f"capabilities.extensions[{i}]", entry)
        for i, entry in enumerate(extensions if isinstance(extensions, list) else ())
        if isinstance(entry, dict) and entry.get("uri") == URI
    ]


def _declared(seen: CardSeen) -> Iterator[Problem]:
    if _declarations(seen.card):
        return
    extensions = declared_extensions(seen.card)
    if extensions is not None and not isinstance(extensions, list):
        yield problem(seen, "capabilities.extensions is not a list", "capabilities.extensions", extensions)
    elif near := [entry for entry in extensions or () if "tool-call-capture" in str(entry)]:
        message = f"the card declares the extension, but not with the URI {URI}"
        yield from (problem(seen, message, "capabilities.extensions", entry) for entry in near)
    else:
        yield problem(seen, f"the card does not declare {URI}", "capabilities.extensions", extensions)


def _field(name: str, message: str, is_right: Callable[[Any], bool]) -> Callable[[CardSeen], Iterator[Problem]]:
    """Returns a rule over the value of a field in every declaration; a missing one is None."""

    def test(seen: CardSeen) -> Iterator[Problem]:
        for where, entry in _each_declaration(seen):
            if not is_right(entry.get(name)):
                found = (f"{where}.{name}", entry[name]) if name in entry else (where, entry)
                yield problem(seen, message, *found)

    return test


def _each_declaration(seen: CardSeen) -> list[tuple[str, dict[str, Any]]]:
    declarations = _declarations(seen.card)
    if not declarations:
        raise Skipped("the card does not declare the extension")
    return declarations


def _repeated(seen: CardSeen) -> Iterator[Problem]:
    for where, entry in _each_declaration(seen)[1:]:
        yield problem(seen, "the card declares the extension a second time", where, entry)


def _interfaces_usable(seen: CardSeen) -> Iterator[Problem]:
    checked, left = offered_interfaces(seen.card)
    for item in left:
        if item.reason.startswith("its URL"):
            yield problem(seen, f"{item.interface}: {item.reason}", "supportedInterfaces")
    if not checked and not left:
        yield problem(seen, "the card offers no interface", "supportedInterfaces")
    if not checked:
        raise Unseen("the card offers no interface that can be checked")


CARD_RULES = (
    Rule(
        "card-declares",
        Severity.ERROR,
        "the card declares the extension",
        _declared,
        why="Clients and proxies activate the extension only if the card declares it.",
        fix=(
            "With a2a-sdk, replace DefaultRequestHandler by CapturingRequestHandler of a2a_tool_capture: it "
            "declares the extension and reports the calls. To declare it only, call declare_tool_calls(card). "
            'Without a2a-sdk, add to capabilities.extensions: {"uri": '
            '"https://arksim.arklex.ai/a2a/tool-call-capture/v1", "description": "...", "required": false}.'
        ),
    ),
    Rule(
        "card-optional",
        Severity.ERROR,
        "the extension is optional for clients",
        _field("required", "the card requires the extension of clients", lambda value: value in (False, None)),
        why="A required extension excludes every client that does not support it.",
        fix="Set `required` to false in the declaration.",
    ),
    Rule(
        "card-declared-once",
        Severity.WARNING,
        "the card declares the extension once",
        _repeated,
        why="Some readers use the first declaration, others the last; both must read the same.",
        fix="Remove the other declarations. declare_tool_calls(card) never adds a second one.",
    ),
    Rule(
        "card-without-params",
        Severity.WARNING,
        "the declaration has no `params`",
        _field("params", "the declaration has `params`; version 1 defines none", lambda value: value in ({}, None)),
        why="Version 1 defines no parameters, so clients ignore them.",
        fix="Remove `params` from the declaration.",
    ),
    Rule(
        "card-described",
        Severity.WARNING,
        "the declaration has a description",
        _field(
            "description",
            "the declaration has no description",
            lambda text: isinstance(text, str) and bool(text.strip()),
        ),
        why="The description states, for people who read the card, which data the agent reports.",
        fix="Set `description` in the declaration, or use agent_extension(), which has one.",
    ),
    Rule(
        "card-interfaces",
        Severity.ERROR,
        "all interfaces have absolute URLs",
        _interfaces_usable,
        why="Clients know an interface only from the card; they cannot reach one without an absolute URL.",
        fix="Give every interface an absolute http or https URL; gRPC interfaces HOST:PORT.",
    ),
)
