"""Rules about the agent's answers over each interface: what they show to whom, and in which form."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cache, partial
from importlib.resources import files
from itertools import islice
from typing import Any

from a2a_tool_capture import METADATA_KEY, URI, Severity
from a2a_tool_capture.artifact_calls import listed_uris
from a2a_tool_capture.canonical import canonical
from a2a_tool_capture.spec import NOT_RECORDED_KEY
from jsonschema import Draft202012Validator, ValidationError
from tool_call_evaluators.grouping import grouped

from ...protocol.operations import Operation
from .record import (
    Activation,
    Kind,
    Occurrence,
    ProbeExchange,
    ProbeTurn,
    calls_lost,
    calls_of,
    entries,
    entries_in,
    first_task_id,
    occurrences,
    only_message,
    settled,
    tasks_after_calls,
)
from .rules import (
    ASKING,
    NO_CALLS,
    NO_TASK,
    TOO_QUICK,
    Problem,
    Rule,
    Subject,
    Unseen,
    all_artifacts,
    artifacts_in,
    asking_occurrences,
    exchanges_asking,
    exchanges_by,
    has_calls,
    problem,
    problem_at,
    skip_unless_offered,
    task_artifacts,
    turns_by,
    whole_task,
)

# ── answers at all ──────────────────────────────────────────────────────────────────────────────────────────


def plain_messages_answered(subject: Subject) -> Iterator[Problem]:
    """Messages without an activated extension are answered, sent and streamed."""
    for turn in subject.conversation.turns:
        if turn.activation is Activation.NOTHING and turn.opening.problem:
            message = f"no usable answer to a message that activates no extension: {turn.opening.problem}"
            yield problem(turn.opening, message)


def asking_is_harmless(activations: Collection[Activation], subject: Subject) -> Iterator[Problem]:
    """Messages with these activations are answered if the same messages without an extension are."""
    answered = {
        (turn.opening.operation, turn.message)
        for turn in subject.conversation.turns
        if turn.activation is Activation.NOTHING and not turn.opening.problem
    }
    if not answered:
        raise Unseen("messages that activate no extension are not answered either")
    for turn in subject.conversation.turns:
        known = (turn.opening.operation, turn.message) in answered
        if known and turn.activation in activations and turn.opening.problem:
            message = f"the agent answers this message only without the extension: {turn.opening.problem}"
            yield problem(turn.opening, message)


# ── clients that activate version 1 get calls ───────────────────────────────────────────────────────────────


def calls_shown_in(operation: Operation, activation: Activation, subject: Subject) -> Iterator[Problem]:
    """Each message that causes calls shows them in answers of this operation with this activation."""
    skip_unless_offered(subject, operation)
    causing = subject.messages_with_calls
    if not causing:
        only_messages = any(only_message(turn.opening) for turn in subject.conversation.turns)
        hint = ". The agent answers with Messages, but only artifacts carry tool calls" if only_messages else ""
        raise Unseen(NO_CALLS + hint)
    if activation is Activation.V1_WITH_UNKNOWN:
        alone = turns_by(subject, operation, Activation.V1)
        causing = frozenset(turn.message for turn in alone if _shows_calls_in_time(turn))
        if not causing:
            raise Unseen("requests that activate version 1 alone show no tool calls either")
    answered = (turn for turn in turns_by(subject, operation, activation) if not turn.opening.problem)
    by_message = grouped((turn.message, turn) for turn in answered if turn.message in causing)
    if not by_message:
        raise Unseen("no such request was answered")
    for message, turns in by_message.items():
        if not any(map(_shows_calls_in_time, turns)):
            text = f"no tool calls, although {message!r} makes the agent call tools and the request activates version 1"
            yield problem(turns[0].opening, text, "its artifacts", all_artifacts(turns[0].opening))


def activated_by_header_only(subject: Subject) -> Iterator[Problem]:
    """The agent reads activations from the extensions header, not only from other places."""
    turns = subject.conversation.turns
    if any(has_calls(turn) for turn in turns):
        return
    header = subject.conversation.interface.extensions_header
    message = f"tool calls only for activation by message.extensions or by another header, not by {header}"
    for turn in turns:
        if turn.activation is Activation.V1_IN_WRONG_PLACE and entries(turn.opening):
            yield problem(turn.opening, message, "its artifacts", all_artifacts(turn.opening))
    raise Unseen(NO_CALLS)


def _shows_calls_in_time(turn: ProbeTurn) -> bool:
    """An agent may answer before it finishes the message; then later reads of the task count."""
    if entries(turn.opening):
        return True
    return not settled(turn.opening) and has_calls(turn)


def calls_shown_on_reread(operation: Operation, subject: Subject) -> Iterator[Problem | None]:
    """Reads of a task that activate version 1 show the calls of its opening answer."""
    skip_unless_offered(subject, operation)
    refusals = []
    for turn in turns_by(subject, Operation.SEND, Activation.V1):
        if not entries(turn.opening):
            continue
        for exchange in turn.later_by(operation, Activation.V1):
            event = whole_task(exchange, first_task_id(turn.opening))
            if exchange.problem or event is None:
                refusals.append(exchange.problem or "the answer does not contain the task")
                continue
            yield None
            if not entries_in(event):
                yield problem(exchange, "the task's tool calls are missing", event.where, task_artifacts(event))
            elif lost := calls_lost(turn.opening, event):
                message = f"{lost} of the task's tool calls are missing"
                yield problem(exchange, message, event.where, task_artifacts(event))
    raise Unseen(refusals[0] if refusals else "no task with tool calls to read")


def calls_shown_to_subscribers(subject: Subject) -> Iterator[Problem | None]:
    """Subscribers that activate version 1 get calls.

    Applies only if the subscriber received the artifacts from their start to the end of the task.
    """
    skip_unless_offered(subject, Operation.SUBSCRIBE)
    tried = False
    for turn in subject.conversation.turns:
        for exchange in turn.later_by(Operation.SUBSCRIBE, Activation.V1):
            tried = True
            if exchange.problem or not settled(exchange):
                continue
            if _artifacts_with_calls(turn.opening) & _seen_whole(exchange):
                yield None if entries(exchange) else problem(exchange, "a subscription that asks shows no tool calls")
    raise Unseen(TOO_QUICK if tried else NO_TASK)


def _artifacts_with_calls(exchange: ProbeExchange) -> set[str]:
    return {
        str(occurrence.artifact.get("artifactId") or occurrence.artifact.get("artifact_id"))
        for occurrence in occurrences(exchange)
        if occurrence.entries and occurrence.artifact is not None
    }


def _seen_whole(exchange: ProbeExchange) -> set[str]:
    """Returns the ids of the artifacts whose first chunk is in the answer."""
    return {
        str(artifact.get("artifactId"))
        for event in exchange.normal_events
        for artifact, appended in artifacts_in(event)
        if not appended
    }


# ── other clients get nothing ───────────────────────────────────────────────────────────────────────────────────


def nothing_shown_in(operation: Operation, subject: Subject) -> Iterator[Problem]:
    """Answers of this operation contain nothing of the extension unless the request activates it."""
    skip_unless_offered(subject, operation)
    exchanges = exchanges_by(subject, operation, Activation.NOTHING)
    for exchange in exchanges:
        if (occurrence := _worst(occurrences(exchange))) is not None:
            message = f"{occurrence.kind.value}, although the request activates no extension"
            yield problem_at(exchange, message, occurrence)
    if not exchanges:
        raise Unseen(NO_TASK)
    if all(exchange.problem for exchange in exchanges):
        raise Unseen(TOO_QUICK if operation is Operation.SUBSCRIBE else exchanges[0].problem)
    if not subject.messages_with_calls:
        raise Unseen(NO_CALLS)


def _worst(seen: Iterable[Occurrence]) -> Occurrence | None:
    return min(seen, key=lambda occurrence: occurrence.kind is not Kind.CALLS, default=None)


def unknown_versions_activate_nothing(subject: Subject) -> Iterator[Problem]:
    """Answers contain version 1 only if the request activates it, and never another version."""
    for exchange in exchanges_asking(subject, Activation.UNKNOWN, Activation.V1, Activation.V1_WITH_UNKNOWN):
        v1_is_right = exchange.activation is not Activation.UNKNOWN
        occurrence = _worst(seen for seen in occurrences(exchange) if not (seen.of_v1 and v1_is_right))
        if occurrence is not None:
            message = f"{occurrence.kind.value}, although the request activates only {exchange.activation.value}"
            yield problem_at(exchange, message, occurrence)
    if all(exchange.problem for exchange in exchanges_asking(subject, Activation.UNKNOWN)):
        raise Unseen("no request for an unknown version was answered")
    if not subject.messages_with_calls:
        raise Unseen(NO_CALLS)


_MAX_VIOLATIONS = 10


def where_calls_are_seen(test: Callable[[Subject], Iterator[Problem]], subject: Subject) -> Iterator[Problem]:
    """Applies the test; unseen if it finds no problem and the conversation has no calls."""
    yield from test(subject)
    if not any(asking_occurrences(subject, Kind.CALLS)):
        raise Unseen("no tool calls were seen over this interface")


def metadata_key(subject: Subject) -> Iterator[Problem]:
    for exchange, occurrence in asking_occurrences(subject, Kind.OTHER_KEY):
        if occurrence.of_v1 and METADATA_KEY not in (occurrence.artifact or {}).get("metadata", {}):
            yield problem_at(exchange, f"tool calls are under the metadata key {occurrence.name!r}", occurrence)
    for exchange, occurrence in asking_occurrences(subject, Kind.LISTED):
        metadata = (occurrence.artifact or {}).get("metadata")
        if occurrence.name != URI or not isinstance(metadata, dict) or METADATA_KEY in metadata:
            continue
        for key, value in metadata.items():
            if not key.startswith(URI) and key.replace("_", "").lower().endswith("toolcalls"):
                message = f"the artifact lists the URI, but its calls are under the metadata key {key!r}"
                yield problem(exchange, message, occurrence.where, {key: value})


def calls_on_artifacts_only(subject: Subject) -> Iterator[Problem]:
    for exchange, occurrence in asking_occurrences(subject, Kind.MISPLACED):
        if occurrence.name == NOT_RECORDED_KEY:
            continue  # no call: why there is none
        yield problem_at(exchange, "tool calls are not in an artifact's metadata", occurrence)


def uri_listed(subject: Subject) -> Iterator[Problem]:
    """Artifacts with calls list the URI.

    After the first chunk of an artifact lists it, later chunks may omit it: servers and readers keep it.
    """
    for exchange in exchanges_asking(subject, *ASKING):
        remembered: set[str] = set()
        for event in exchange.events:
            for artifact, appended in artifacts_in(event.normal or {}):
                artifact_id = str(artifact.get("artifactId"))
                if URI in listed_uris(artifact):
                    remembered.add(artifact_id)
                elif not appended:
                    remembered.discard(artifact_id)
                metadata = artifact.get("metadata")
                if isinstance(metadata, dict) and metadata.get(METADATA_KEY) and artifact_id not in remembered:
                    shown = {"artifactId": artifact.get("artifactId"), "extensions": artifact.get("extensions", [])}
                    where = f"{event.where} artifact {artifact_id!r}".strip()
                    message = f"an artifact with tool calls does not list {URI} in `extensions`"
                    yield problem(exchange, message, where, shown)


def is_list(subject: Subject) -> Iterator[Problem]:
    for exchange, occurrence in asking_occurrences(subject, Kind.CALLS):
        if not isinstance(occurrence.value, list):
            yield problem_at(exchange, "the tool calls are not a JSON array", occurrence)


def entries_match_schema(subject: Subject, *, texts: bool) -> Iterator[Problem]:
    """Entries against the schema; `texts` takes the violations that readers mend without loss, else the others."""
    for exchange, occurrence in asking_occurrences(subject, Kind.CALLS):
        for number, entry in enumerate(occurrence.entries):
            for error in islice(_validator().iter_errors(entry), _MAX_VIOLATIONS):
                field = str(error.path[0]) if error.path else ""
                if (field in ("result", "error")) is texts:
                    yield problem(exchange, _violation(field, error), f"{occurrence.where}[{number}]", entry)


def _violation(field: str, error: ValidationError) -> str:
    where = f"`{field}`" if field else "the entry"
    if error.validator == "required":
        return f"{where} has no {error.message.partition(' is ')[0]}"
    if error.validator == "type":
        expected = error.validator_value
        return (
            f"{where} has the wrong type, expected {' or '.join(expected) if isinstance(expected, list) else expected}"
        )
    return f"{where}: {error.message[:200]}"


@cache
def _validator() -> Draft202012Validator:
    text = files("a2a_tool_capture").joinpath("schema/tool-call-capture-v1.schema.json").read_text("utf-8")
    return Draft202012Validator(json.loads(text)["items"])


def ids_unique(subject: Subject) -> Iterator[Problem]:
    """Each id belongs to one call of a task, over one message or two.

    The same call may appear again: on later chunks of its artifact, perhaps with more fields, and on another artifact.
    """
    yield from _ids_used_again(subject)
    for exchange in exchanges_asking(subject, *ASKING):
        known: dict[tuple[str, str], tuple[str, str, str]] = {}
        for artifact_id, where, listed in _calls_with_ids(exchange):
            task = where.partition(".artifacts")[0] if exchange.operation is Operation.LIST else ""
            in_list: set[str] = set()
            for number, entry in listed.items():
                call_id, arguments = entry["id"], entry.get("arguments")
                known_by = "" if arguments is None else canonical(arguments)  # the first entry of a call may omit them
                now = (str(entry.get("name")), artifact_id, known_by)
                before = known.setdefault((task, call_id), now)
                differs = "" not in (before[2], now[2]) and before[2] != now[2]
                clash = before[0] != now[0] or (before[1] != now[1] and differs)
                if call_id in in_list or clash:
                    message = f"the id {call_id!r} is used for two tool calls"
                    yield problem(exchange, message, f"{where}[{number}]", entry)
                in_list.add(call_id)


def _ids_used_again(subject: Subject) -> Iterator[Problem]:
    """Yields a problem for each id of the first message's calls that the second message uses for another call.

    A repeated entry is indistinguishable from a second, identical call, except on a new artifact without new calls.
    """
    for turn in turns_by(subject, Operation.SEND, Activation.V1):
        before = [
            item for exchange in turn.exchanges for item in _calls_with_ids(exchange) if exchange.activation in ASKING
        ]
        known = {str(entry["id"]): entry for _, _, listed in before for entry in listed.values()}
        artifacts = {artifact_id for artifact_id, _, _ in before}
        for exchange in turn.resumed:
            for artifact_id, where, listed in _calls_with_ids(exchange):
                again = [entry for entry in listed.values() if entry["id"] in known]
                nothing_new = artifact_id not in artifacts and len(again) == len(listed)
                for entry in again:
                    if nothing_new or _differ(known[entry["id"]], entry):
                        message = f"the id {entry['id']!r} is used again for a call of a second message to the task"
                        yield problem(exchange, message, where, entry)


def _calls_with_ids(exchange: ProbeExchange) -> Iterator[tuple[str, str, dict[int, dict[str, Any]]]]:
    """Yields artifact id, path and the entries with ids by their index, for each list of calls in the answer."""
    for occurrence in occurrences(exchange):
        listed = {
            number: entry
            for number, entry in enumerate(occurrence.entries)
            if isinstance(entry, dict) and isinstance(entry.get("id"), str) and entry["id"]
        }
        if listed:
            yield str((occurrence.artifact or {}).get("artifactId")), occurrence.where, listed


def _differ(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two entries contradict each other; a field that only one of them has may be a later addition."""
    fields = ("name", "arguments", "result", "error")
    both = [(one[name], other[name]) for name in fields if one.get(name) is not None and other.get(name) is not None]
    ends = [{name for name in ("result", "error") if entry.get(name) is not None} for entry in (one, other)]
    return any(canonical(a) != canonical(b) for a, b in both) or (all(ends) and ends[0] != ends[1])


def snapshot_complete(subject: Subject) -> Iterator[Problem | None]:
    """A Task later in the stream, and GetTask, show every call that the stream showed before."""
    skip_unless_offered(subject, Operation.STREAM)
    for turn in turns_by(subject, Operation.STREAM, Activation.V1):
        for shown, calls, lost in tasks_after_calls(turn.opening):
            yield None
            if lost:
                message = f"{lost} of {calls} streamed tool calls are missing on the Task later in the stream"
                yield problem(turn.opening, message, shown.where, task_artifacts(shown))
        streamed = calls_of(turn.opening)
        for exchange in turn.later_by(Operation.GET, Activation.V1):
            event = whole_task(exchange, first_task_id(turn.opening))
            if event is None or not streamed:
                continue
            yield None
            if lost := calls_lost(turn.opening, event):
                names = ", ".join(call.name for call in calls_of(exchange)) or "none"
                message = f"{lost} of {len(streamed)} streamed tool calls are missing on the task (it has: {names})"
                yield problem(exchange, message, event.where, task_artifacts(event))
    raise Unseen("no stream with tool calls has a task to compare with")


_of_calls = partial(partial, where_calls_are_seen)

_SHOW_CALLS = (
    "If the request activates https://arksim.arklex.ai/a2a/tool-call-capture/v1, put the calls on an artifact of "
    "the answer. If only streams show calls, the server loses them when it merges chunks: put the URI and all calls "
    "so far on every chunk, starting with the first. With a2a-sdk, CapturingRequestHandler of a2a_tool_capture does "
    "this."
)
_STORE_ARTIFACTS = (
    "Store artifacts with their metadata and extensions, and return both to requests that activate the extension."
)
_CONFIDENTIAL = "Arguments and results may be confidential: other clients must not see them."
_OMIT = (
    "For every request, check whether it activates the URI (context.requested_extensions in a2a-sdk). If it does "
    "not, omit the metadata key and the URI from the answer. With a2a-sdk, CapturingRequestHandler of "
    "a2a_tool_capture does this."
)
_STORED = (
    "Arguments and results may be confidential. The extension's page lets an agent store calls with the task, and "
    "its server shows them to whoever reads it later; showing them only to those who ask is safer."
)
_OMIT_LATER = (
    "An activation applies to one request, not to a task: remove the calls of stored tasks from answers to requests "
    "that do not activate the URI. With a2a-sdk, CapturingRequestHandler of a2a_tool_capture does this."
)

TRAFFIC_RULES = (
    Rule(
        "answers",
        Severity.ERROR,
        "messages without extensions work",
        plain_messages_answered,
        why="The card offers this interface, so clients use it.",
        fix=(
            "Serve the interface at the URL of the card, or remove it from the card. If the agent requires "
            "credentials, pass them with --header."
        ),
    ),
    Rule(
        "asking-harmless",
        Severity.ERROR,
        "activating breaks nothing",
        partial(asking_is_harmless, [Activation.V1]),
        why="An evaluation must see the same behavior as the agent's users.",
        fix="Answer requests that activate the extension like all other requests.",
    ),
    Rule(
        "header-activates",
        Severity.ERROR,
        "the header activates",
        activated_by_header_only,
        why=(
            "The header A2A-Extensions activates extensions (A2A 1.0, section 3.2.6); in A2A 0.3 it is "
            "X-A2A-Extensions."
        ),
        fix=(
            "Read the URI from that header (context.requested_extensions in a2a-sdk). With a2a-sdk, "
            "CapturingRequestHandler of a2a_tool_capture does this."
        ),
    ),
    Rule(
        "send-asked",
        Severity.ERROR,
        "send: calls if activated",
        partial(calls_shown_in, Operation.SEND, Activation.V1),
        why="The client requests the calls.",
        fix=_SHOW_CALLS,
    ),
    Rule(
        "stream-asked",
        Severity.ERROR,
        "stream: calls if activated",
        partial(calls_shown_in, Operation.STREAM, Activation.V1),
        why="Most clients stream if the card declares streaming.",
        fix=_SHOW_CALLS,
    ),
    *(
        Rule(
            f"{operation}-asked",
            Severity.ERROR,
            f"{operation}: calls if activated",
            partial(calls_shown_on_reread, operation),
            why=f"Clients that lost a stream, or did not wait for the answer, get the calls from {name}.",
            fix=_STORE_ARTIFACTS,
        )
        for operation, name in ((Operation.GET, "GetTask"), (Operation.LIST, "ListTasks"))
    ),
    Rule(
        "subscribe-asked",
        Severity.ERROR,
        "subscribe: calls if activated",
        calls_shown_to_subscribers,
        why="Clients that lost a stream, or did not wait for the answer, get the calls from SubscribeToTask.",
        fix=_STORE_ARTIFACTS,
    ),
    *(
        Rule(
            f"{operation}-silent",
            Severity.ERROR if operation in (Operation.SEND, Operation.STREAM) else Severity.WARNING,
            f"{operation}: nothing unless activated",
            partial(nothing_shown_in, operation),
            why=_CONFIDENTIAL if operation in (Operation.SEND, Operation.STREAM) else _STORED,
            fix=_OMIT if operation in (Operation.SEND, Operation.STREAM) else _OMIT_LATER,
        )
        for operation in (Operation.SEND, Operation.STREAM, Operation.GET, Operation.LIST, Operation.SUBSCRIBE)
    ),
    Rule(
        "unknown-version-harmless",
        Severity.ERROR,
        "unknown versions break nothing",
        partial(asking_is_harmless, [Activation.UNKNOWN, Activation.V1_WITH_UNKNOWN]),
        why="Agents ignore unknown extensions (A2A 1.0, section 3.2.6), so that clients can be newer than agents.",
        fix="Ignore unknown URIs in the extensions header.",
    ),
    Rule(
        "unknown-version-silent",
        Severity.ERROR,
        "unknown versions activate nothing",
        unknown_versions_activate_nothing,
        why="Another version is another extension; its clients would misread the data of version 1.",
        fix="Compare the whole URI, not a prefix or a substring. Do not echo URIs that the agent did not activate.",
    ),
    Rule(
        "unknown-version-beside",
        Severity.ERROR,
        "version 1 with unknown versions",
        partial(calls_shown_in, Operation.SEND, Activation.V1_WITH_UNKNOWN),
        why=(
            "Clients list every version that they support; the header is a comma-separated list with optional spaces."
        ),
        fix="Split the extensions header at commas, strip spaces, and search the whole list for the URI.",
    ),
    Rule(
        "calls-on-artifacts",
        Severity.ERROR,
        "only artifacts carry calls",
        _of_calls(calls_on_artifacts_only),
        why="Readers look for calls only in Artifact.metadata: Messages may be lost (A2A 1.0, section 3.7).",
        fix=(
            "Move the calls to `metadata` of an artifact. With a2a-sdk, CapturingRequestHandler of a2a_tool_capture "
            "does this."
        ),
    ),
    Rule(
        "metadata-key",
        Severity.ERROR,
        "calls have the right metadata key",
        _of_calls(metadata_key),
        why="Readers look for this key only.",
        fix="Use METADATA_KEY of a2a_tool_capture: 'https://arksim.arklex.ai/a2a/tool-call-capture/v1/tool_calls'.",
    ),
    Rule(
        "artifact-lists-uri",
        Severity.ERROR,
        "artifacts with calls list the URI",
        _of_calls(uri_listed),
        why="Readers ignore calls on artifacts that do not list the URI (A2A 1.0: an artifact lists its extensions).",
        fix=(
            "Add the URI to `extensions` of every chunk of the artifact; the first is required, since servers "
            "ignore it on later ones."
        ),
    ),
    Rule(
        "calls-a-list",
        Severity.ERROR,
        "calls are a JSON array",
        _of_calls(is_list),
        why="Readers ignore anything else.",
        fix="Write a JSON array of call objects; [] if there are no calls.",
    ),
    Rule(
        "entry-schema",
        Severity.ERROR,
        "calls match the schema",
        _of_calls(partial(entries_match_schema, texts=False)),
        why="Readers skip or guess invalid entries; some lose the whole conversation.",
        fix=(
            "Follow schema/tool-call-capture-v1.schema.json in a2a_tool_capture: `name` is a string, `arguments` an "
            "object, `id` a string."
        ),
    ),
    Rule(
        "entry-texts",
        Severity.WARNING,
        "results and errors are strings",
        _of_calls(partial(entries_match_schema, texts=True)),
        why="Readers convert other values to JSON, each with its own spacing and number format.",
        fix="Encode structured results in the agent: json.dumps(result).",
    ),
    Rule(
        "ids-unique",
        Severity.ERROR,
        "ids are unique within a task",
        _of_calls(ids_unique),
        why="Readers take a repeated id for the same call, so one of two calls is lost.",
        fix="Give every call its own id: the model's call id, or a UUID.",
    ),
    Rule(
        "snapshot-complete",
        Severity.ERROR,
        "the task keeps streamed calls",
        snapshot_complete,
        why="Servers merge chunks by overwriting metadata keys: the task keeps only the last part of a split list.",
        fix=(
            "Put all calls so far on every chunk of an artifact. With a2a-sdk, CapturingRequestHandler of "
            "a2a_tool_capture does this."
        ),
    ),
)
