"""The rules about the agent card and about the agent's answers over each interface, and their outcomes. Pure."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, partial
from importlib.resources import files
from itertools import chain, islice
from typing import Any

from a2a_tool_capture import URI, Severity, TaskMerger
from a2a_tool_capture.spec import NOT_RECORDED_KEY
from jsonschema import Draft202012Validator
from tool_call_evaluators.grouping import grouped

from ...protocol.operations import Operation
from .record import (
    STREAMING,
    Activation,
    CardSeen,
    Event,
    Interface,
    Kind,
    Occurrence,
    ProbeConversation,
    ProbeExchange,
    ProbeRecord,
    ProbeRequest,
    ProbeTurn,
    lost_in,
    merged,
)

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


class NoResult(Exception):  # noqa: N818  # an outcome
    """Raised by a test without a result; the message is the reason. Counts only if the test has yielded nothing."""

    status = RuleStatus.UNSEEN


class Skipped(NoResult):
    status = RuleStatus.SKIPPED


@dataclass(frozen=True, slots=True)
class Subject:
    """The input of a traffic rule: the conversation over one interface."""

    conversation: ProbeConversation
    messages_with_calls: frozenset[str]
    """The messages whose answers show tool calls, over any interface."""


Test = Callable[[Any], Iterable[Problem | None]]
"""Yields the problems of a `CardSeen` or of a `Subject`, and None for what it found right; may raise NoResult, which
counts if it yielded nothing, or Skipped."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One requirement. Only violations of severity `error` make an agent non-conforming."""

    id: str
    severity: Severity
    title: str
    test: Test
    why: str
    fix: str

    def judge(self, subject: CardSeen | Subject, interface: Interface | None = None) -> RuleResult:
        """Returns the result with the first MAX_PROBLEMS problems; passed without any."""
        found: list[Problem | None] = []
        status, reason = RuleStatus.PASSED, ""
        try:
            for each in self.test(subject):
                found.append(each)
                if len(found) - found.count(None) == MAX_PROBLEMS:
                    break
        except NoResult as error:
            status, reason = (status, reason) if found else (error.status, str(error))
        problems = tuple(each for each in found if each is not None)
        if problems:
            status = RuleStatus.FAILED if self.severity is Severity.ERROR else RuleStatus.WARNING
        return RuleResult(self, interface, status, reason, problems)


@dataclass(frozen=True, slots=True)
class RuleResult:
    rule: Rule
    interface: Interface | None
    status: RuleStatus
    reason: str = ""
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

CARD_RULES: list[Rule] = []
TRAFFIC_RULES: list[Rule] = []


def rule(
    rules: list[Rule], rule_id: str, title: str, *, why: str, fix: str, severity: Severity = Severity.ERROR
) -> Callable[[Test], Test]:
    """Adds a rule with the decorated test."""

    def added(test: Test) -> Test:
        rules.append(Rule(rule_id, severity, title, test, why, fix))
        return test

    return added


of_card = partial(rule, CARD_RULES)
of_traffic = partial(rule, TRAFFIC_RULES)


def judged(record: ProbeRecord) -> tuple[list[RuleResult], bool]:
    """The result of each rule for the card and for each interface, in the order of the tables, and whether any answer
    to a request that activates version 1 shows calls."""
    results = [] if record.card.missing else [each.judge(record.card) for each in CARD_RULES]
    turns = [turn for conversation in record.conversations for turn in conversation.turns]
    messages = frozenset(turn.message for turn in turns if _has_calls(turn))
    for each in TRAFFIC_RULES:
        results += [each.judge(Subject(item, messages), item.interface) for item in record.conversations]
    return results, bool(messages)


# ── the agent card ──────────────────────────────────────────────────────────────────────────────────────────


def _extensions(seen: CardSeen) -> Any:
    capabilities = seen.card.get("capabilities")
    return capabilities.get("extensions") if isinstance(capabilities, dict) else None


def _declarations(seen: CardSeen) -> list[tuple[str, dict[str, Any]]]:
    """The entries that declare version 1, with their paths. Raises Skipped without one."""
    listed = _extensions(seen)
    declarations = [
        (f"capabilities.extensions[{i}]", entry)
        for i, entry in enumerate(listed if isinstance(listed, list) else ())
        if isinstance(entry, dict) and entry.get("uri") == URI
    ]
    if not declarations:
        raise Skipped("the card does not declare the extension")
    return declarations


@of_card(
    "card-declares",
    "the card declares the extension",
    why="Clients and proxies activate the extension only if the card declares it.",
    fix="With a2a-sdk, replace DefaultRequestHandler by CapturingRequestHandler of a2a_tool_capture: it declares the "
    "extension and reports the calls. To declare it only, call declare_tool_calls(card). Without a2a-sdk, add to "
    'capabilities.extensions: {"uri": "https://arksim.arklex.ai/a2a/tool-call-capture/v1", "description": "...", '
    '"required": false}.',
)
def _declared(seen: CardSeen) -> Iterator[Problem]:
    try:
        _declarations(seen)
    except Skipped:
        near = "tool-call-capture" in json.dumps(_extensions(seen))
        message = f"the card declares the extension, but not {URI} in a list of objects with `uri`"
        shown = message if near else f"the card does not declare {URI}"
        yield problem(seen, shown, "capabilities.extensions", _extensions(seen))


def _field(name: str, message: str, is_right: Callable[[Any], bool]) -> Test:
    """A test of the value of a field in every declaration; a missing one is None."""

    def test(seen: CardSeen) -> Iterator[Problem]:
        for where, entry in _declarations(seen):
            if not is_right(entry.get(name)):
                yield problem(seen, message, where, entry)

    return test


of_card(
    "card-optional",
    "the extension is optional for clients",
    why="A required extension excludes every client that does not support it.",
    fix="Set `required` to false in the declaration.",
)(_field("required", "the card requires the extension of clients", lambda value: value in (False, None)))


@of_card(
    "card-declared-once",
    "the card declares the extension once",
    severity=Severity.WARNING,
    why="Some readers use the first declaration, others the last; both must read the same.",
    fix="Remove the other declarations. declare_tool_calls(card) never adds a second one.",
)
def _repeated(seen: CardSeen) -> Iterator[Problem]:
    for where, entry in _declarations(seen)[1:]:
        yield problem(seen, "the card declares the extension a second time", where, entry)


of_card(
    "card-without-params",
    "the declaration has no `params`",
    severity=Severity.WARNING,
    why="Version 1 defines no parameters, so clients ignore them.",
    fix="Remove `params` from the declaration.",
)(_field("params", "the declaration has `params`; version 1 defines none", lambda value: value in ({}, None)))

of_card(
    "card-described",
    "the declaration has a description",
    severity=Severity.WARNING,
    why="The description states, for people who read the card, which data the agent reports.",
    fix="Set `description` in the declaration, or use agent_extension(), which has one.",
)(
    _field(
        "description", "the declaration has no description", lambda text: isinstance(text, str) and bool(text.strip())
    )
)


# ── what tests select ───────────────────────────────────────────────────────────────────────────────────────


def _skip_unless_offered(subject: Subject, operation: Operation) -> None:
    """Raises Skipped if the interface does not have this operation."""
    if operation in STREAMING and not subject.conversation.streams:
        raise Skipped("the card does not declare streaming")
    if operation is Operation.LIST and subject.conversation.interface.legacy:
        raise Skipped("A2A 0.3 has no ListTasks")


def _turns_by(subject: Subject, operation: Operation, activation: Activation) -> list[ProbeTurn]:
    asked = (activation, operation)
    return [turn for turn in subject.conversation.turns if (turn.activation, turn.opening.operation) == asked]


def _exchanges_asking(subject: Subject, *activation: Activation) -> Iterator[ProbeExchange]:
    for turn in subject.conversation.turns:
        yield from (exchange for exchange in turn.exchanges if exchange.activation in activation)


def _occurrences(subject: Subject, kind: Kind) -> Iterator[tuple[ProbeExchange, Occurrence]]:
    for exchange in _exchanges_asking(subject, *ASKING):
        yield from ((exchange, occurrence) for occurrence in exchange.occurrences if occurrence.kind is kind)


def _has_calls(turn: ProbeTurn) -> bool:
    return any(exchange.entries for exchange in turn.exchanges if exchange.activation in ASKING)


def _artifacts(event: Event) -> list[dict[str, Any]]:
    update: dict[str, Any] = event.get("artifactUpdate", {})
    artifacts: list[dict[str, Any]] = event.get("task", {}).get("artifacts", [])
    return [update["artifact"]] if "artifact" in update else artifacts


def _all_artifacts(exchange: ProbeExchange) -> list[dict[str, Any]]:
    return [artifact for event in exchange.events for artifact in _artifacts(event)]


# ── answers at all ──────────────────────────────────────────────────────────────────────────────────────────


@of_traffic(
    "answers",
    "messages without extensions work",
    why="The card offers this interface, so clients use it.",
    fix="Serve the interface at the URL of the card, or remove it from the card. If the agent requires credentials, "
    "pass them with --header.",
)
def _plain_messages_answered(subject: Subject) -> Iterator[Problem]:
    for turn in subject.conversation.turns:
        if turn.activation is Activation.NOTHING and turn.opening.problem:
            message = f"no usable answer to a message that activates no extension: {turn.opening.problem}"
            yield problem(turn.opening, message)


def _asking_is_harmless(activations: Collection[Activation], subject: Subject) -> Iterator[Problem]:
    """Messages with these activations are answered if the same messages without an extension are."""
    answered = {
        (turn.opening.operation, turn.message)
        for turn in subject.conversation.turns
        if turn.activation is Activation.NOTHING and not turn.opening.problem
    }
    if not answered:
        raise NoResult("messages that activate no extension are not answered either")
    for turn in subject.conversation.turns:
        known = (turn.opening.operation, turn.message) in answered
        if known and turn.activation in activations and turn.opening.problem:
            message = f"the agent answers this message only without the extension: {turn.opening.problem}"
            yield problem(turn.opening, message)


of_traffic(
    "asking-harmless",
    "activating breaks nothing",
    why="An evaluation must see the same behavior as the agent's users.",
    fix="Answer requests that activate the extension like all other requests.",
)(partial(_asking_is_harmless, [Activation.V1]))


# ── clients that activate version 1 get calls ───────────────────────────────────────────────────────────────


@of_traffic(
    "header-activates",
    "the header activates",
    why="The header A2A-Extensions activates extensions (A2A 1.0, section 3.2.6); in A2A 0.3 it is X-A2A-Extensions.",
    fix="Read the URI from that header (context.requested_extensions in a2a-sdk). With a2a-sdk, "
    "CapturingRequestHandler of a2a_tool_capture does this.",
)
def _activated_by_header_only(subject: Subject) -> Iterator[Problem]:
    """The agent reads activations from the extensions header, not only from other places."""
    turns = subject.conversation.turns
    if any(map(_has_calls, turns)):
        return
    message = "tool calls only for activation by message.extensions or by the header of the other version of A2A"
    for turn in turns:
        if turn.activation is Activation.V1_IN_WRONG_PLACE and turn.opening.entries:
            yield problem(turn.opening, message, "its artifacts", _all_artifacts(turn.opening))
    raise NoResult(NO_CALLS)


def _calls_shown_in(operation: Operation, activation: Activation, subject: Subject) -> Iterator[Problem]:
    """Each message that causes calls shows them in answers of this operation with this activation."""
    _skip_unless_offered(subject, operation)
    causing = subject.messages_with_calls
    if not causing:
        only_message = any("message" in event for turn in subject.conversation.turns for event in turn.opening.events)
        hint = ". The agent answers with Messages, but only artifacts carry tool calls" if only_message else ""
        raise NoResult(NO_CALLS + hint)
    if activation is Activation.V1_WITH_UNKNOWN:
        alone = _turns_by(subject, operation, Activation.V1)
        causing = frozenset(turn.message for turn in alone if _shows_calls_in_time(turn))
        if not causing:
            raise NoResult("requests that activate version 1 alone show no tool calls either")
    answered = (turn for turn in _turns_by(subject, operation, activation) if not turn.opening.problem)
    by_message = grouped((turn.message, turn) for turn in answered if turn.message in causing)
    if not by_message:
        raise NoResult("no such request was answered")
    for message, turns in by_message.items():
        if not any(map(_shows_calls_in_time, turns)):
            text = f"no tool calls, although {message!r} makes the agent call tools and the request activates version 1"
            yield problem(turns[0].opening, text, "its artifacts", _all_artifacts(turns[0].opening))


def _shows_calls_in_time(turn: ProbeTurn) -> bool:
    """An agent may answer before it finishes the message; then later reads of the task count."""
    return bool(turn.opening.entries) or (not turn.opening.settled and _has_calls(turn))


for _operation, _why in (
    (Operation.SEND, "The client requests the calls."),
    (Operation.STREAM, "Most clients stream if the card declares streaming."),
):
    of_traffic(
        f"{_operation}-asked",
        f"{_operation}: calls if activated",
        why=_why,
        fix="If the request activates https://arksim.arklex.ai/a2a/tool-call-capture/v1, put the calls on an artifact "
        "of the answer. If only streams show calls, the server loses them when it merges chunks: put the URI and all "
        "calls so far on every chunk, starting with the first. With a2a-sdk, CapturingRequestHandler of "
        "a2a_tool_capture does this.",
    )(partial(_calls_shown_in, _operation, Activation.V1))


def _calls_shown_on_reread(operation: Operation, subject: Subject) -> Iterator[Problem | None]:
    """Reads of a task that activate version 1 show the calls of its opening answer."""
    _skip_unless_offered(subject, operation)
    refusals = []
    for turn in _turns_by(subject, Operation.SEND, Activation.V1):
        for exchange in turn.later_by(operation, Activation.V1) if turn.opening.entries else ():
            event = exchange.whole(turn.opening.task_id)
            if exchange.problem or event is None:
                refusals.append(exchange.problem or "the answer does not contain the task")
                continue
            yield None
            if lost := lost_in([*turn.opening.events, event]):
                message = f"{lost} of the task's tool calls are missing"
                yield problem(exchange, message, "its artifacts", _artifacts(event))
    raise NoResult(refusals[0] if refusals else "no task with tool calls to read")


def _calls_shown_to_subscribers(operation: Operation, subject: Subject) -> Iterator[Problem | None]:
    """Subscribers that activate version 1 get calls.

    Applies only if the subscriber received the artifacts from their start to the end of the task.
    """
    _skip_unless_offered(subject, operation)
    tried = False
    for turn in subject.conversation.turns:
        for exchange in turn.later_by(operation, Activation.V1):
            tried = True
            carrying = [each.artifact or {} for each in turn.opening.occurrences if each.entries]
            begun = {
                artifact.get("artifactId")
                for event in exchange.events
                if not event.get("artifactUpdate", {}).get("append")
                for artifact in _artifacts(event)
            }
            seen_whole = any(artifact.get("artifactId") in begun for artifact in carrying)
            if exchange.settled and not exchange.problem and seen_whole:
                shows = bool(exchange.entries)
                yield None if shows else problem(exchange, "a subscription that asks shows no tool calls")
    raise NoResult(TOO_QUICK if tried else NO_TASK)


for _operation, _name, _test in (
    (Operation.GET, "GetTask", _calls_shown_on_reread),
    (Operation.LIST, "ListTasks", _calls_shown_on_reread),
    (Operation.SUBSCRIBE, "SubscribeToTask", _calls_shown_to_subscribers),
):
    of_traffic(
        f"{_operation}-asked",
        f"{_operation}: calls if activated",
        why=f"Clients that lost a stream, or did not wait for the answer, get the calls from {_name}.",
        fix="Store artifacts with their metadata and extensions, and return both to requests that activate the "
        "extension.",
    )(partial(_test, _operation))


# ── other clients get nothing ───────────────────────────────────────────────────────────────────────────────


def _nothing_shown_in(operation: Operation, subject: Subject) -> Iterator[Problem]:
    """Answers of this operation contain nothing of the extension unless the request activates it."""
    _skip_unless_offered(subject, operation)
    exchanges = [each for each in _exchanges_asking(subject, Activation.NOTHING) if each.operation is operation]
    for exchange in exchanges:
        if (occurrence := _worst(exchange.occurrences)) is not None:
            message = f"{occurrence.kind.value}, although the request activates no extension"
            yield problem_at(exchange, message, occurrence)
    if not exchanges:
        raise NoResult(NO_TASK)
    if all(exchange.problem for exchange in exchanges):
        raise NoResult(TOO_QUICK if operation is Operation.SUBSCRIBE else exchanges[0].problem)
    if not subject.messages_with_calls:
        raise NoResult(NO_CALLS)


def _worst(seen: Iterable[Occurrence]) -> Occurrence | None:
    return min(seen, key=lambda occurrence: occurrence.kind is not Kind.CALLS, default=None)


for _operation in (Operation.SEND, Operation.STREAM):
    of_traffic(
        f"{_operation}-silent",
        f"{_operation}: nothing unless activated",
        why="Arguments and results may be confidential: other clients must not see them.",
        fix="For every request, check whether it activates the URI (context.requested_extensions in a2a-sdk). If it "
        "does not, omit the metadata key and the URI from the answer. With a2a-sdk, CapturingRequestHandler of "
        "a2a_tool_capture does this.",
    )(partial(_nothing_shown_in, _operation))

for _operation in (Operation.GET, Operation.LIST, Operation.SUBSCRIBE):
    of_traffic(
        f"{_operation}-silent",
        f"{_operation}: nothing unless activated",
        severity=Severity.WARNING,
        why="Arguments and results may be confidential. The extension's page lets an agent store calls with the task, "
        "and its server shows them to whoever reads it later; showing them only to those who ask is safer.",
        fix="An activation applies to one request, not to a task: remove the calls of stored tasks from answers to "
        "requests that do not activate the URI. With a2a-sdk, CapturingRequestHandler of a2a_tool_capture does this.",
    )(partial(_nothing_shown_in, _operation))


# ── other versions ──────────────────────────────────────────────────────────────────────────────────────────

of_traffic(
    "unknown-version-harmless",
    "unknown versions break nothing",
    why="Agents ignore unknown extensions (A2A 1.0, section 3.2.6), so that clients can be newer than agents.",
    fix="Ignore unknown URIs in the extensions header.",
)(partial(_asking_is_harmless, [Activation.UNKNOWN, Activation.V1_WITH_UNKNOWN]))


@of_traffic(
    "unknown-version-silent",
    "unknown versions activate nothing",
    why="Another version is another extension; its clients would misread the data of version 1.",
    fix="Compare the whole URI, not a prefix or a substring. Do not echo URIs that the agent did not activate.",
)
def _unknown_versions_activate_nothing(subject: Subject) -> Iterator[Problem]:
    """Answers contain version 1 only if the request activates it, and never another version."""
    for exchange in _exchanges_asking(subject, Activation.UNKNOWN, *ASKING):
        v1_is_right = exchange.activation is not Activation.UNKNOWN
        occurrence = _worst(seen for seen in exchange.occurrences if not (seen.of_v1 and v1_is_right))
        if occurrence is not None:
            message = f"{occurrence.kind.value}, although the request activates only {exchange.activation.value}"
            yield problem_at(exchange, message, occurrence)
    if all(exchange.problem for exchange in _exchanges_asking(subject, Activation.UNKNOWN)):
        raise NoResult("no request for an unknown version was answered")
    if not subject.messages_with_calls:
        raise NoResult(NO_CALLS)


of_traffic(
    "unknown-version-beside",
    "version 1 with unknown versions",
    why="Clients list every version that they support; the header is a comma-separated list with optional spaces.",
    fix="Split the extensions header at commas, strip spaces, and search the whole list for the URI.",
)(partial(_calls_shown_in, Operation.SEND, Activation.V1_WITH_UNKNOWN))


# ── the form of calls ───────────────────────────────────────────────────────────────────────────────────────


def of_calls(*named: str, **texts: Any) -> Callable[[Test], Test]:
    """`of_traffic` for a test that says nothing if it finds no problem and the conversation has no calls."""

    def added(test: Test) -> Test:
        def seen(subject: Subject) -> Iterator[Problem | None]:
            yield from test(subject)
            if not any(_occurrences(subject, Kind.CALLS)):
                raise NoResult("no tool calls were seen over this interface")

        of_traffic(*named, **texts)(seen)
        return test

    return added


@of_calls(
    "calls-on-artifacts",
    "only artifacts carry calls",
    why="Readers look for calls only in Artifact.metadata: Messages may be lost (A2A 1.0, section 3.7).",
    fix="Move the calls to `metadata` of an artifact. With a2a-sdk, CapturingRequestHandler of a2a_tool_capture does "
    "this.",
)
def _calls_on_artifacts_only(subject: Subject) -> Iterator[Problem]:
    for exchange, occurrence in _occurrences(subject, Kind.MISPLACED):
        if occurrence.name != NOT_RECORDED_KEY:  # no call: why there is none
            yield problem_at(exchange, "tool calls are not in an artifact's metadata", occurrence)


def _found_by_readers(code: str, subject: Subject) -> Iterator[Problem]:
    """What the library's reader finds in answers that may show calls."""
    for exchange in _exchanges_asking(subject, *ASKING):
        for merger in exchange.read():
            found = (finding for finding in merger.findings if finding.code == code)
            yield from (problem(exchange, each.message, each.where, _all_artifacts(exchange)) for each in found)


of_calls(
    "metadata-key",
    "calls have the right metadata key",
    why="Readers look for this key only.",
    fix="Use METADATA_KEY of a2a_tool_capture: 'https://arksim.arklex.ai/a2a/tool-call-capture/v1/tool_calls'.",
)(partial(_found_by_readers, "unknown_kind"))

of_calls(
    "artifact-lists-uri",
    "artifacts with calls list the URI",
    why="Readers ignore calls on artifacts that do not list the URI (A2A 1.0: an artifact lists its extensions).",
    fix="Add the URI to `extensions` of every chunk of the artifact; the first is required, since servers ignore it on "
    "later ones.",
)(partial(_found_by_readers, "uri_not_listed"))


_MAX_VIOLATIONS = 10


def _match_schema(subject: Subject, *, texts: bool) -> Iterator[Problem]:
    """Calls against the schema; `texts` takes the violations that readers mend without loss, else the others."""
    for exchange, occurrence in _occurrences(subject, Kind.CALLS):
        for error in islice(_validator().iter_errors(occurrence.value), _MAX_VIOLATIONS):
            if (list(error.path)[1:2] in (["result"], ["error"])) is texts:
                shown = occurrence.value[error.path[0]] if error.path else occurrence.value
                message = f"tool_calls{error.json_path[1:]} violates `{error.validator}: {error.validator_value}`"
                yield problem(exchange, message, occurrence.where, shown)


@cache
def _validator() -> Draft202012Validator:
    text = files("a2a_tool_capture").joinpath("schema/tool-call-capture-v1.schema.json").read_text("utf-8")
    return Draft202012Validator(json.loads(text))


of_calls(
    "entry-schema",
    "calls match the schema",
    why="Readers skip or guess invalid entries; some lose the whole conversation.",
    fix="Follow schema/tool-call-capture-v1.schema.json in a2a_tool_capture: an array of objects, whose `name` is a "
    "string, `arguments` an object, `id` a string; [] if there are no calls.",
)(partial(_match_schema, texts=False))

of_calls(
    "entry-texts",
    "results and errors are strings",
    severity=Severity.WARNING,
    why="Readers convert other values to JSON, each with its own spacing and number format.",
    fix="Encode structured results in the agent: json.dumps(result).",
)(partial(_match_schema, texts=True))


@of_calls(
    "ids-unique",
    "ids are unique within a task",
    why="Readers take a repeated id for the same call, so one of two calls is lost.",
    fix="Give every call its own id: the model's call id, or a UUID.",
)
def _ids_unique(subject: Subject) -> Iterator[Problem]:
    """Each id belongs to one call of a task, over one message or two.

    The same call may appear again: on later chunks of its artifact, perhaps with more fields, and on another artifact.
    In the answer to a second message, it is indistinguishable from a second, identical call, except on a new artifact
    without new calls.
    """
    for exchange in _exchanges_asking(subject, *ASKING):
        for message in chain.from_iterable(map(_shared_ids, exchange.read())):
            yield problem(exchange, message, "its artifacts", _all_artifacts(exchange))
    for turn in _turns_by(subject, Operation.SEND, Activation.V1):
        before = [event for each in turn.exchanges if each.activation in ASKING for event in each.events]
        ids = {call.id for call in merged(before).tool_calls if call.id}
        known = {artifact.get("artifactId") for event in before for artifact in _artifacts(event)}
        for exchange in turn.resumed:
            for each in exchange.occurrences:
                again = {entry.get("id") for entry in each.entries if isinstance(entry, dict)}
                if again and again <= ids and each.artifact and each.artifact.get("artifactId") not in known:
                    yield problem_at(exchange, "ids are used again for calls of a second message to the task", each)
            for message in _shared_ids(merged([*before, *exchange.events])):
                yield problem(exchange, message, "its artifacts", _all_artifacts(exchange))


def _shared_ids(merger: TaskMerger) -> list[str]:
    """What is said of ids that belong to two calls of a task."""
    counts = Counter(call.id for call in merger.tool_calls if call.id)
    shared = [f"the id {call_id!r} is used for {count} tool calls" for call_id, count in counts.items() if count > 1]
    return [finding.message for finding in merger.findings if finding.code == "id_conflict"] or shared


@of_traffic(
    "snapshot-complete",
    "the task keeps streamed calls",
    why="Servers merge chunks by overwriting metadata keys: the task keeps only the last part of a split list.",
    fix="Put all calls so far on every chunk of an artifact. With a2a-sdk, CapturingRequestHandler of a2a_tool_capture "
    "does this.",
)
def _snapshot_complete(subject: Subject) -> Iterator[Problem | None]:
    """A Task later in the stream, and GetTask, show every call that the stream showed before."""
    _skip_unless_offered(subject, Operation.STREAM)
    for turn in _turns_by(subject, Operation.STREAM, Activation.V1):
        opening, gets = turn.opening, turn.later_by(Operation.GET, Activation.V1)
        shown = [(opening, opening.events[:index], event) for index, event in enumerate(opening.events)]
        shown += [(exchange, opening.events, event) for exchange in gets for event in exchange.events]
        for exchange, streamed, event in shown:
            if "task" in event and (calls := merged(streamed).tool_calls):
                yield None
                if lost := lost_in([*streamed, event]) - lost_in(streamed):
                    names = ", ".join(call.name for call in merged([event]).tool_calls) or "none"
                    message = f"{lost} of {len(calls)} streamed tool calls are missing on the task (it has: {names})"
                    yield problem(exchange, message, "its artifacts", _artifacts(event))
    raise NoResult("no stream with tool calls has a task to compare with")
