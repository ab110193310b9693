"""Rules about what the agent says over each of its interfaces."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from a2a_tool_capture import METADATA_KEY, URI, Severity, TaskMerger
from a2a_tool_capture.canonical import canonical
from a2a_tool_capture.payload import listed_uris

from ..capture.bindings import Operation
from .entries import breaches, is_text_breach
from .model import Asked, Event, Exchange, Turn
from .reading import (
    Kind,
    Sighting,
    calls_of,
    entries,
    entries_in,
    first_task_id,
    only_message,
    settled,
    sightings,
    task_id_of,
)
from .verdict import Outcome, Problem, Rule, Subject, found, problem

_NO_CALLS = "no tool call was ever seen: send a message that makes your agent call a tool (--message)"
_TOO_QUICK = "the task was over before a subscription could begin: try a message that takes longer (--message)"
_NO_TASK = "there was no task to ask about"
_ASKING = (Asked.V1, Asked.BESIDE)


def _turns(subject: Subject, operation: Operation, *asked: Asked) -> list[Turn]:
    return [turn for turn in subject.conversation.turns if turn.asked in asked and turn.opening.operation is operation]


def _exchanges(subject: Subject, *asked: Asked) -> Iterator[Exchange]:
    for turn in subject.conversation.turns:
        yield from (exchange for exchange in turn.exchanges if exchange.asked in asked)


def _exchanges_with(subject: Subject, operation: Operation, asked: Asked) -> list[Exchange]:
    return [exchange for exchange in _exchanges(subject, asked) if exchange.operation is operation]


def _asking_sightings(subject: Subject, *kinds: Kind) -> Iterator[tuple[Exchange, Sighting]]:
    """What was seen in answers that were asked for version 1."""
    for exchange in _exchanges(subject, *_ASKING):
        yield from ((exchange, sighting) for sighting in sightings(exchange) if sighting.kind in kinds)


def _has_calls(turn: Turn) -> bool:
    return any(entries(exchange) for exchange in turn.exchanges if exchange.asked in _ASKING)


def messages_with_calls(subject: Subject) -> set[str]:
    """The messages that made the agent report tool calls, over any interface."""
    conversations = subject.record.conversations
    return {turn.message for item in conversations for turn in item.turns if _has_calls(turn)}


# ── answers at all ──────────────────────────────────────────────────────────────────────────────────────────


def _answers(subject: Subject) -> Outcome:
    """A stream may refuse what a send does not, so each is looked at for itself."""
    return found(
        problem(turn.opening, f"a plain message got no answer: {turn.opening.problem}")
        for turn in subject.conversation.turns
        if turn.asked is Asked.NOTHING and turn.opening.problem
    )


def _harmless(*asked: Asked) -> Callable[[Subject], Outcome]:
    """Whether messages that ask so are answered where plain ones are."""

    def test(subject: Subject) -> Outcome:
        answered = {
            (turn.opening.operation, turn.message)
            for turn in subject.conversation.turns
            if turn.asked is Asked.NOTHING and not turn.opening.problem
        }
        if not answered:
            return Outcome(unseen="plain messages were not answered either")
        return found(
            problem(turn.opening, f"a plain message is answered, this one was not: {turn.opening.problem}")
            for turn in subject.conversation.turns
            if turn.asked in asked and turn.opening.problem and (turn.opening.operation, turn.message) in answered
        )

    return test


# ── who asks is told ────────────────────────────────────────────────────────────────────────────────────────


def _told_in(operation: Operation, asked: Asked) -> Callable[[Subject], Outcome]:
    """Whether each message that is known to cause calls shows them in a send, or a stream, that asks so."""

    def test(subject: Subject) -> Outcome:
        if operation is Operation.STREAM and not subject.conversation.streams:
            return Outcome(skipped="the card says that the agent does not stream")
        causing = messages_with_calls(subject)
        if not causing:
            only = [turn for turn in subject.conversation.turns if only_message(turn.opening)]
            hint = ". It answers with Messages; calls travel on artifacts" if only else ""
            return Outcome(unseen=_NO_CALLS + hint)
        if asked is Asked.BESIDE:
            causing = {turn.message for turn in _turns(subject, operation, Asked.V1) if _told(turn)}
            if not causing:
                return Outcome(unseen="who asked for version 1 alone was told no tool calls either")
        by_message: dict[str, list[Turn]] = {}
        for turn in _turns(subject, operation, asked):
            if not turn.opening.problem and turn.message in causing:
                by_message.setdefault(turn.message, []).append(turn)
        if not by_message:
            return Outcome(unseen="no such request was answered")
        problems = []
        for message, turns in by_message.items():
            if any(_told(turn) for turn in turns):
                continue
            text = f"no tool calls, although {message!r} makes the agent call tools, and version 1 was asked for"
            problems.append(problem(turns[0].opening, text, "its artifacts", _all_artifacts(turns[0].opening)))
        return found(problems)

    return test


def _by_header(subject: Subject) -> Outcome:
    turns = subject.conversation.turns
    if any(_has_calls(turn) for turn in turns):
        return Outcome()
    header = subject.conversation.interface.extensions_header
    message = f"tool calls for a request that asks in message.extensions or another header, none for one with {header}"
    problems = [
        problem(turn.opening, message, "its artifacts", _all_artifacts(turn.opening))
        for turn in turns
        if turn.asked is Asked.ASIDE and entries(turn.opening)
    ]
    return found(problems) if problems else Outcome(unseen=_NO_CALLS)


def _told(turn: Turn) -> bool:
    """An agent may answer before it is done; then what the task shows later counts."""
    if entries(turn.opening):
        return True
    return not settled(turn.opening) and _has_calls(turn)


def _told_later(operation: Operation) -> Callable[[Subject], Outcome]:
    """Whether reading a task anew shows the calls that its opening showed, to who asks again."""

    def test(subject: Subject) -> Outcome:
        if operation is Operation.LIST and subject.conversation.interface.legacy:
            return Outcome(skipped="A2A 0.3 does not list tasks")
        judged = 0
        refusals = []
        problems = []
        for turn in _turns(subject, Operation.SEND, Asked.V1):
            if not entries(turn.opening):
                continue
            for exchange in turn.later:
                if exchange.operation is not operation or exchange.asked is not Asked.V1:
                    continue
                if exchange.problem:
                    refusals.append(exchange.problem)
                    continue
                event = _about(exchange, first_task_id(turn.opening))
                if event is None:
                    refusals.append("the task was not in the answer")
                    continue
                judged += 1
                if not entries_in(event):
                    problems.append(
                        problem(exchange, "the task's tool calls are missing", event.where, _artifacts(event))
                    )
        if not judged:
            return Outcome(unseen=refusals[0] if refusals else "no task with tool calls was there to be read")
        return found(problems)

    return test


def _about(exchange: Exchange, task_id: str) -> Event | None:
    """The event that shows the whole task, if there is one."""
    shown = (event for event in exchange.events if event.normal is not None and "task" in event.normal)
    return next((event for event in shown if task_id_of(event.normal or {}) == task_id), None)


def _artifacts(event: Event) -> object:
    return {"artifacts": (event.normal or {})["task"].get("artifacts", [])}


def _told_subscribers(subject: Subject) -> Outcome:
    """Judged only where the subscriber saw the artifacts from their beginning to the end of the task."""
    if not subject.conversation.streams:
        return Outcome(skipped="the card says that the agent does not stream")
    judged = tried = 0
    problems = []
    for turn in subject.conversation.turns:
        for exchange in turn.later:
            if exchange.operation is not Operation.SUBSCRIBE or exchange.asked is not Asked.V1:
                continue
            tried += 1
            if exchange.problem:
                continue
            if settled(exchange) and _artifacts_with_calls(turn.opening) & _seen_whole(exchange):
                judged += 1
                if not entries(exchange):
                    problems.append(problem(exchange, "the subscriber asked, and got none of the tool calls"))
    return found(problems) if judged else Outcome(unseen=_TOO_QUICK if tried else _NO_TASK)


def _artifacts_with_calls(exchange: Exchange) -> set[str]:
    return {
        str(sighting.artifact.get("artifactId") or sighting.artifact.get("artifact_id"))
        for sighting in sightings(exchange)
        if sighting.kind is Kind.CALLS
        and sighting.artifact is not None
        and isinstance(sighting.value, list)
        and sighting.value
    }


def _seen_whole(exchange: Exchange) -> set[str]:
    """Ids of the artifacts whose beginning the answer has."""
    return {
        str(artifact.get("artifactId"))
        for event in exchange.normal_events
        for artifact, appended in _artifacts_in(event)
        if not appended
    }


def _all_artifacts(exchange: Exchange) -> list[dict[str, Any]]:
    return [artifact for event in exchange.normal_events for artifact, _ in _artifacts_in(event)]


def _artifacts_in(event: dict[str, Any]) -> Iterator[tuple[dict[str, Any], bool]]:
    """The artifacts of an event, and whether each only adds to an earlier one."""
    task, update = event.get("task"), event.get("artifactUpdate")
    if isinstance(task, dict) and isinstance(task.get("artifacts"), list):
        yield from ((artifact, False) for artifact in task["artifacts"] if isinstance(artifact, dict))
    if isinstance(update, dict) and isinstance(update.get("artifact"), dict):
        yield update["artifact"], update.get("append") is True


# ── who does not ask is not told ────────────────────────────────────────────────────────────────────────────


def _silent_in(operation: Operation) -> Callable[[Subject], Outcome]:
    def test(subject: Subject) -> Outcome:
        if operation in (Operation.STREAM, Operation.SUBSCRIBE) and not subject.conversation.streams:
            return Outcome(skipped="the card says that the agent does not stream")
        if operation is Operation.LIST and subject.conversation.interface.legacy:
            return Outcome(skipped="A2A 0.3 does not list tasks")
        exchanges = _exchanges_with(subject, operation, Asked.NOTHING)
        problems = [
            problem(exchange, f"{sighting.kind.value}, although nothing was asked for", sighting.where, sighting.value)
            for exchange in exchanges
            if (sighting := _worst(exchange)) is not None
        ]
        if problems:
            return found(problems)
        answered = [exchange for exchange in exchanges if not exchange.problem]
        if not answered and exchanges and operation is Operation.SUBSCRIBE:
            return Outcome(unseen=_TOO_QUICK)
        if not answered:
            return Outcome(unseen=exchanges[0].problem if exchanges else _NO_TASK)
        return Outcome() if messages_with_calls(subject) else Outcome(unseen=_NO_CALLS)

    return test


def _worst(exchange: Exchange) -> Sighting | None:
    """The most telling of what an answer has of the extension; None where it has nothing."""
    return min(sightings(exchange), key=lambda sighting: sighting.kind is not Kind.CALLS, default=None)


def _unknown_silent(subject: Subject) -> Outcome:
    problems = []
    for exchange in _exchanges(subject, Asked.UNKNOWN, Asked.V1, Asked.BESIDE):
        for sighting in sightings(exchange):
            if sighting.of_v1 and exchange.asked is not Asked.UNKNOWN:
                continue
            message = f"{sighting.kind.value}, although the request activates {exchange.asked.value} only"
            problems.append(problem(exchange, message, sighting.where, sighting.value))
    if problems:
        return found(problems)
    if not any(not exchange.problem for exchange in _exchanges(subject, Asked.UNKNOWN)):
        return Outcome(unseen="no request for an unknown version was answered")
    return Outcome() if messages_with_calls(subject) else Outcome(unseen=_NO_CALLS)


# ── how calls are told ──────────────────────────────────────────────────────────────────────────────────────


def _with_calls(test: Callable[[Subject], Iterator[Problem]]) -> Callable[[Subject], Outcome]:
    """A rule about calls that were told: it says nothing where there were none, and nothing odd either."""

    def judged(subject: Subject) -> Outcome:
        outcome = found(test(subject))
        if outcome.problems or any(True for _ in _asking_sightings(subject, Kind.CALLS)):
            return outcome
        return Outcome(unseen="no tool calls were seen over this interface")

    return judged


def _metadata_key(subject: Subject) -> Iterator[Problem]:
    for exchange, sighting in _asking_sightings(subject, Kind.OTHER_KEY):
        if sighting.of_v1:
            yield problem(exchange, f"the metadata key is {sighting.name!r}", sighting.where, sighting.value)
    for exchange, sighting in _asking_sightings(subject, Kind.LISTED):
        metadata = (sighting.artifact or {}).get("metadata")
        if sighting.name != URI or not isinstance(metadata, dict) or METADATA_KEY in metadata:
            continue
        for key, value in metadata.items():
            if not key.startswith(URI) and key.replace("_", "").lower().endswith("toolcalls"):
                message = f"the artifact lists the URI, but its metadata key is {key!r}"
                yield problem(exchange, message, sighting.where, {key: value})


def _on_artifacts(subject: Subject) -> Iterator[Problem]:
    for exchange, sighting in _asking_sightings(subject, Kind.MISPLACED):
        yield problem(exchange, "tool calls are not in an artifact's metadata", sighting.where, sighting.value)


def _uri_listed(subject: Subject) -> Iterator[Problem]:
    """Once an artifact has listed the URI, its further chunks need not: servers and readers remember it."""
    for exchange in _exchanges(subject, *_ASKING):
        remembered: set[str] = set()
        for event in exchange.events:
            for artifact, appended in _artifacts_in(event.normal or {}):
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


def _a_list(subject: Subject) -> Iterator[Problem]:
    for exchange, sighting in _asking_sightings(subject, Kind.CALLS):
        if not isinstance(sighting.value, list):
            yield problem(exchange, "the tool calls are not a list", sighting.where, sighting.value)


def _entries(*, texts: bool) -> Callable[[Subject], Iterator[Problem]]:
    """Entries against the schema; `texts` takes the breaches that readers mend without loss, else the others."""

    def test(subject: Subject) -> Iterator[Problem]:
        for exchange, sighting in _asking_sightings(subject, Kind.CALLS):
            for number, entry in enumerate(sighting.value if isinstance(sighting.value, list) else ()):
                for breach in breaches(entry):
                    if is_text_breach(breach) is texts:
                        yield problem(exchange, breach.message, f"{sighting.where}[{number}]", entry)

    return test


def _ids_unique(subject: Subject) -> Iterator[Problem]:
    for exchange in _exchanges(subject, *_ASKING):
        known: dict[tuple[str, str], tuple[str, str, str]] = {}
        task = ""
        for sighting in sightings(exchange):
            if sighting.kind is not Kind.CALLS or not isinstance(sighting.value, list):
                continue
            if exchange.operation is Operation.LIST:  # each task has ids of its own
                task = sighting.where.partition(".artifacts")[0]
            artifact_id = str((sighting.artifact or {}).get("artifactId"))
            in_list: set[str] = set()
            for number, entry in enumerate(sighting.value):
                call_id = entry.get("id") if isinstance(entry, dict) else None
                if not isinstance(call_id, str) or not call_id:
                    continue
                now = (str(entry.get("name")), artifact_id, canonical(entry.get("arguments")))
                before = known.setdefault((task, call_id), now)
                clash = before[0] != now[0] or (before[1] != now[1] and before[2] != now[2])
                if call_id in in_list or clash:
                    message = f"the id {call_id!r} is used for two tool calls"
                    yield problem(exchange, message, f"{sighting.where}[{number}]", entry)
                in_list.add(call_id)


def _snapshot_complete(subject: Subject) -> Outcome:
    if not subject.conversation.streams:
        return Outcome(skipped="the card says that the agent does not stream")
    judged = 0
    problems = []
    for turn in _turns(subject, Operation.STREAM, Asked.V1):
        streamed = calls_of(turn.opening)
        task_id = first_task_id(turn.opening)
        for exchange in turn.later:
            event = _about(exchange, task_id) if exchange.operation is Operation.GET else None
            if event is None or exchange.asked is not Asked.V1 or not streamed:
                continue
            judged += 1
            merger = TaskMerger(require_artifact_uri=False)
            for streamed_event in (*turn.opening.normal_events, event.normal or {}):
                merger.feed(streamed_event)
            dropped = [finding for finding in merger.findings if finding.code == "dropped_by_snapshot"]
            if dropped:
                names = ", ".join(call.name for call in calls_of(exchange)) or "none"
                message = f"{len(dropped)} of {len(streamed)} streamed tool calls are not on the task (it has: {names})"
                problems.append(problem(exchange, message, event.where, _artifacts(event)))
    return found(problems) if judged else Outcome(unseen="no stream with tool calls had a task to compare with")


_WRAP = "CapturingRequestHandler of a2a_tool_capture does this for agents on a2a-sdk."
_GATE = (
    "Look for the URI among the extensions the request activates (context.requested_extensions in a2a-sdk), in every "
    f"request anew, and leave the key and the URI out where it is not there. {_WRAP}"
)
_GATE_READS = (
    "Activation holds for one request, not for a task: take the calls off stored tasks where a read does not ask. "
    + _WRAP
)
_EMIT = (
    f"Where the request activates {URI}, put the calls on an artifact of the answer. If only streams show them, the "
    f"server lost them in merging chunks: put the URI and all calls so far on every chunk, from the first on. {_WRAP}"
)
_STORE = "Store artifacts with their metadata and extensions, and show both to requests that activate the extension."

_READS = {
    Operation.GET: "GetTask",
    Operation.LIST: "ListTasks",
    Operation.SUBSCRIBE: "SubscribeToTask",
}

TRAFFIC_RULES: tuple[Rule[Subject], ...] = (
    Rule(
        "answers",
        "plain messages are answered",
        _answers,
        "The card offers this interface, so clients will use it.",
        "Serve the interface at the URL in the card, or take it out of the card. If it wants credentials: --header.",
    ),
    Rule(
        "asking-harmless",
        "asking breaks nothing",
        _harmless(Asked.V1),
        "An evaluation has to see the agent as its users do.",
        "Answer requests that activate the extension as you answer others.",
    ),
    Rule(
        "header-activates",
        "the header asks for calls",
        _by_header,
        "A request activates extensions by A2A-Extensions (A2A 1.0, section 3.2.6), in A2A 0.3 by X-A2A-Extensions.",
        f"Look for the URI in that header (context.requested_extensions in a2a-sdk). {_WRAP}",
    ),
    Rule("send-asked", "send: calls, if asked", _told_in(Operation.SEND, Asked.V1), "It is what was asked for.", _EMIT),
    Rule(
        "stream-asked",
        "stream: calls, if asked",
        _told_in(Operation.STREAM, Asked.V1),
        "Most clients stream where the card says that they can.",
        _EMIT,
    ),
    *(
        Rule(
            f"{operation}-asked",
            f"{operation}: calls, if asked",
            _told_subscribers if operation is Operation.SUBSCRIBE else _told_later(operation),
            f"Clients that lost a stream, or did not wait for an answer, learn of the calls by {name}.",
            _STORE,
        )
        for operation, name in _READS.items()
    ),
    *(
        Rule(
            f"{operation}-silent",
            f"{operation}: nothing, if not asked",
            _silent_in(operation),
            "Who did not ask must not learn of arguments and results: they may be confidential.",
            _GATE_READS if operation in _READS else _GATE,
        )
        for operation in (Operation.SEND, Operation.STREAM, *_READS)
    ),
    Rule(
        "unknown-version-harmless",
        "unknown versions break nothing",
        _harmless(Asked.UNKNOWN, Asked.BESIDE),
        "Agents ignore extensions they do not know (A2A 1.0, section 3.2.6), so that clients can be newer.",
        "Ignore URIs that you do not know.",
    ),
    Rule(
        "unknown-version-silent",
        "unknown versions activate nothing",
        _unknown_silent,
        "Another version is another extension; its clients would misread what version 1 says.",
        "Compare URIs whole: neither their beginning nor a part. Never echo activations that you do not honour.",
    ),
    Rule(
        "unknown-version-beside",
        "version 1 beside unknown versions",
        _told_in(Operation.SEND, Asked.BESIDE),
        "Clients list every version they read; the header is a comma-separated list, with blanks.",
        "Split the extensions header at commas, and look for the URI among all that it lists.",
    ),
    Rule(
        "calls-on-artifacts",
        "calls are on artifacts only",
        _with_calls(_on_artifacts),
        "Version 1 is read from Artifact.metadata and nowhere else: Messages may be lost (A2A 1.0, section 3.7).",
        f"Move them to `metadata` of an artifact. {_WRAP}",
    ),
    Rule(
        "metadata-key",
        "calls are under the right key",
        _with_calls(_metadata_key),
        "Readers look for this key and no other.",
        f"Use METADATA_KEY of a2a_tool_capture, {METADATA_KEY!r}.",
    ),
    Rule(
        "artifact-lists-uri",
        "their artifact lists the URI",
        _with_calls(_uri_listed),
        "Readers ignore calls on artifacts that do not list the URI (A2A 1.0: an artifact names its extensions).",
        "Put the URI into `extensions` of the artifact's first chunk: servers ignore it on later ones. Best on all.",
    ),
    Rule(
        "calls-a-list",
        "calls are a list",
        _with_calls(_a_list),
        "Readers ignore anything else.",
        "Write a JSON array of call objects, [] for none.",
    ),
    Rule(
        "entry-schema",
        "calls follow the schema",
        _with_calls(_entries(texts=False)),
        "Readers skip or guess what they cannot read, some lose the whole conversation.",
        "See schema/tool-call-capture-v1.schema.json in a2a_tool_capture: `name` a text, `arguments` an object, "
        "`id` a text.",
    ),
    Rule(
        "entry-texts",
        "results and errors are texts",
        _with_calls(_entries(texts=True)),
        "Readers take the JSON text of anything else, each with its own spacing and numbers.",
        "Encode structured results yourself: json.dumps(result).",
        Severity.WARNING,
    ),
    Rule(
        "ids-unique",
        "ids are unique in a task",
        _with_calls(_ids_unique),
        "The same id again is read as the same call told again, so that one of two is lost.",
        "Give every call an id of its own: the model's, or a uuid.",
    ),
    Rule(
        "snapshot-complete",
        "streamed calls stay on the task",
        _snapshot_complete,
        "Servers merge chunks by overwriting metadata keys: lists split over chunks survive in the stream only.",
        f"Put the whole list so far on every chunk of an artifact. {_WRAP}",
    ),
)
