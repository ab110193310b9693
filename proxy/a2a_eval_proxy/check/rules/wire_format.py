"""How calls are told: on what, under which key, in which form, and whether they last."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from a2a_tool_capture import METADATA_KEY, URI
from a2a_tool_capture.canonical import canonical
from a2a_tool_capture.payload import listed_uris

from ...protocol.operations import Operation
from ..probe.record import Asked, Exchange
from ..probe.responses import Kind, calls_lost, calls_of, first_task_id, sightings, tasks_after_calls
from .base import Outcome, Problem, Subject, found, problem
from .entry_schema import breaches, is_text_breach
from .selectors import ASKING, artifacts_in, asking_sightings, exchanges_asking, task_artifacts, turns_by, whole_task


def with_calls(test: Callable[[Subject], Iterator[Problem]]) -> Callable[[Subject], Outcome]:
    """A rule about calls that were told: it says nothing where there were none, and nothing odd either."""

    def judged(subject: Subject) -> Outcome:
        outcome = found(test(subject))
        if outcome.problems or any(True for _ in asking_sightings(subject, Kind.CALLS)):
            return outcome
        return Outcome(unseen="no tool calls were seen over this interface")

    return judged


def metadata_key(subject: Subject) -> Iterator[Problem]:
    """Artifacts with calls under another key, and not under the right one too."""
    for exchange, sighting in asking_sightings(subject, Kind.OTHER_KEY):
        if sighting.of_v1 and METADATA_KEY not in (sighting.artifact or {}).get("metadata", {}):
            yield problem(exchange, f"the metadata key is {sighting.name!r}", sighting.where, sighting.value)
    for exchange, sighting in asking_sightings(subject, Kind.LISTED):
        metadata = (sighting.artifact or {}).get("metadata")
        if sighting.name != URI or not isinstance(metadata, dict) or METADATA_KEY in metadata:
            continue
        for key, value in metadata.items():
            if not key.startswith(URI) and key.replace("_", "").lower().endswith("toolcalls"):
                message = f"the artifact lists the URI, but its metadata key is {key!r}"
                yield problem(exchange, message, sighting.where, {key: value})


def on_artifacts(subject: Subject) -> Iterator[Problem]:
    """Calls that are anywhere else."""
    for exchange, sighting in asking_sightings(subject, Kind.MISPLACED):
        yield problem(exchange, "tool calls are not in an artifact's metadata", sighting.where, sighting.value)


def uri_listed(subject: Subject) -> Iterator[Problem]:
    """Artifacts with calls that do not list the URI.

    Once an artifact has listed it, its further chunks need not: servers and readers remember it.
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


def a_list(subject: Subject) -> Iterator[Problem]:
    """Calls in anything but a JSON array."""
    for exchange, sighting in asking_sightings(subject, Kind.CALLS):
        if not isinstance(sighting.value, list):
            yield problem(exchange, "the tool calls are not a list", sighting.where, sighting.value)


def entries_follow(*, texts: bool) -> Callable[[Subject], Iterator[Problem]]:
    """Entries against the schema; `texts` takes the breaches that readers mend without loss, else the others."""

    def test(subject: Subject) -> Iterator[Problem]:
        for exchange, sighting in asking_sightings(subject, Kind.CALLS):
            for number, entry in enumerate(sighting.value if isinstance(sighting.value, list) else ()):
                for breach in breaches(entry):
                    if is_text_breach(breach) is texts:
                        yield problem(exchange, breach.message, f"{sighting.where}[{number}]", entry)

    return test


def ids_unique(subject: Subject) -> Iterator[Problem]:
    """Ids that stand for two calls, of one message or of two to the same task.

    The same call may be told again: on later chunks of its artifact, perhaps with more in it, and on another artifact.
    """
    yield from _ids_used_again(subject)
    for exchange in exchanges_asking(subject, *ASKING):
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
                arguments = entry.get("arguments")
                known_by = "" if arguments is None else canonical(arguments)  # a call may be announced without
                now = (str(entry.get("name")), artifact_id, known_by)
                before = known.setdefault((task, call_id), now)
                told_otherwise = "" not in (before[2], now[2]) and before[2] != now[2]
                clash = before[0] != now[0] or (before[1] != now[1] and told_otherwise)
                if call_id in in_list or clash:
                    message = f"the id {call_id!r} is used for two tool calls"
                    yield problem(exchange, message, f"{sighting.where}[{number}]", entry)
                in_list.add(call_id)


def _ids_used_again(subject: Subject) -> Iterator[Problem]:
    """Ids of the first message's calls that the second message's have, too.

    Nobody can tell a call that is told again from one that is made again and gives the same, but where an artifact is
    new and has no other calls.
    """
    for turn in turns_by(subject, Operation.SEND, Asked.V1):
        before = [item for exchange in turn.exchanges for item in _told_on(exchange) if exchange.asked in ASKING]
        known = {str(entry["id"]): entry for _, _, entries in before for entry in entries}
        artifacts = {artifact_id for artifact_id, _, _ in before}
        for exchange in turn.resumed:
            for artifact_id, where, entries in _told_on(exchange):
                again = [entry for entry in entries if entry["id"] in known]
                nothing_new = artifact_id not in artifacts and len(again) == len(entries)
                for entry in again:
                    if nothing_new or _differ(known[entry["id"]], entry):
                        message = f"the id {entry['id']!r} is used again for a call of a second message to the task"
                        yield problem(exchange, message, where, entry)


def _told_on(exchange: Exchange) -> Iterator[tuple[str, str, list[dict[str, Any]]]]:
    """Artifact id, place and entries with ids, for each list of calls in the answer."""
    for sighting in sightings(exchange):
        if sighting.kind is Kind.CALLS and isinstance(sighting.value, list):
            entries = [
                entry
                for entry in sighting.value
                if isinstance(entry, dict) and isinstance(entry.get("id"), str) and entry["id"]
            ]
            if entries:
                yield str((sighting.artifact or {}).get("artifactId")), sighting.where, entries


def _differ(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two entries contradict each other; what only one of them has may have come later."""
    fields = ("name", "arguments", "result", "error")
    both = [(one[name], other[name]) for name in fields if one.get(name) is not None and other.get(name) is not None]
    ends = [{name for name in ("result", "error") if entry.get(name) is not None} for entry in (one, other)]
    return any(canonical(a) != canonical(b) for a, b in both) or (all(ends) and ends[0] != ends[1])


def snapshot_complete(subject: Subject) -> Outcome:
    """Whether a Task in the stream, and GetTask, show every call that the stream showed before."""
    if not subject.conversation.streams:
        return Outcome(skipped="the card says that the agent does not stream")
    judged = 0
    problems = []
    for turn in turns_by(subject, Operation.STREAM, Asked.V1):
        for shown, calls, lost in tasks_after_calls(turn.opening):
            judged += 1
            if lost:
                message = f"{lost} of {calls} streamed tool calls are not on the Task later in the stream"
                problems.append(problem(turn.opening, message, shown.where, task_artifacts(shown)))
        streamed = calls_of(turn.opening)
        task_id = first_task_id(turn.opening)
        for exchange in turn.later:
            event = whole_task(exchange, task_id) if exchange.operation is Operation.GET else None
            if event is None or exchange.asked is not Asked.V1 or not streamed:
                continue
            judged += 1
            if lost := calls_lost(turn.opening, event):
                names = ", ".join(call.name for call in calls_of(exchange)) or "none"
                message = f"{lost} of {len(streamed)} streamed tool calls are not on the task (it has: {names})"
                problems.append(problem(exchange, message, event.where, task_artifacts(event)))
    return found(problems) if judged else Outcome(unseen="no stream with tool calls had a task to compare with")
