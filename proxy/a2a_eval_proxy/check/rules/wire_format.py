"""Rules about the form of calls: their place, key and schema, and whether a task keeps them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import islice
from typing import Any

from a2a_tool_capture import METADATA_KEY, URI
from a2a_tool_capture.artifact_calls import listed_uris
from a2a_tool_capture.canonical import canonical
from a2a_tool_capture.spec import NOT_RECORDED_KEY
from jsonschema import Draft202012Validator

from ...protocol.operations import Operation
from ..probe.occurrences import Kind
from ..probe.record import Activation, ProbeExchange
from ..probe.responses import calls_lost, calls_of, first_task_id, occurrences, tasks_after_calls
from .base import Problem, Subject, Unseen, problem, problem_at
from .selectors import (
    ASKING,
    artifacts_in,
    asking_occurrences,
    exchanges_asking,
    skip_unless_offered,
    task_artifacts,
    turns_by,
    whole_task,
)

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
            for violation in violations(entry):
                if violation.of_text is texts:
                    yield problem(exchange, violation.message, f"{occurrence.where}[{number}]", entry)


@dataclass(frozen=True, slots=True)
class SchemaViolation:
    """One violation of the extension's JSON Schema; `field` is "" for the entry as a whole."""

    field: str
    message: str

    @property
    def of_text(self) -> bool:
        """Whether readers convert the value without loss: a result or an error that is not a string."""
        return self.field in ("result", "error")


def violations(entry: Any) -> Iterator[SchemaViolation]:
    """Yields the first _MAX_VIOLATIONS violations of the schema in `entry`."""
    for error in islice(_validator().iter_errors(entry), _MAX_VIOLATIONS):
        field = str(error.path[0]) if error.path else ""
        where = f"`{field}`" if field else "the entry"
        if error.validator == "required":
            yield SchemaViolation("", f"{where} has no {error.message.partition(' is ')[0]}")
        elif error.validator == "type":
            expected = error.validator_value
            wanted = " or ".join(expected) if isinstance(expected, list) else expected
            yield SchemaViolation(field, f"{where} has the wrong type, expected {wanted}")
        else:
            yield SchemaViolation(field, f"{where}: {error.message[:200]}")


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
        for artifact_id, where, entries in _calls_with_ids(exchange):
            task = where.partition(".artifacts")[0] if exchange.operation is Operation.LIST else ""
            in_list: set[str] = set()
            for number, entry in entries.items():
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
        known = {str(entry["id"]): entry for _, _, entries in before for entry in entries.values()}
        artifacts = {artifact_id for artifact_id, _, _ in before}
        for exchange in turn.resumed:
            for artifact_id, where, entries in _calls_with_ids(exchange):
                again = [entry for entry in entries.values() if entry["id"] in known]
                nothing_new = artifact_id not in artifacts and len(again) == len(entries)
                for entry in again:
                    if nothing_new or _differ(known[entry["id"]], entry):
                        message = f"the id {entry['id']!r} is used again for a call of a second message to the task"
                        yield problem(exchange, message, where, entry)


def _calls_with_ids(exchange: ProbeExchange) -> Iterator[tuple[str, str, dict[int, dict[str, Any]]]]:
    """Yields artifact id, path and the entries with ids by their index, for each list of calls in the answer."""
    for occurrence in occurrences(exchange):
        entries = {
            number: entry
            for number, entry in enumerate(occurrence.entries)
            if isinstance(entry, dict) and isinstance(entry.get("id"), str) and entry["id"]
        }
        if entries:
            yield str((occurrence.artifact or {}).get("artifactId")), occurrence.where, entries


def _differ(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two entries contradict each other; a field that only one of them has may be a later addition."""
    fields = ("name", "arguments", "result", "error")
    both = [(one[name], other[name]) for name in fields if one.get(name) is not None and other.get(name) is not None]
    ends = [{name for name in ("result", "error") if entry.get(name) is not None} for entry in (one, other)]
    return any(canonical(a) != canonical(b) for a, b in both) or (all(ends) and ends[0] != ends[1])


def snapshot_complete(subject: Subject) -> Iterator[Problem]:
    """A Task later in the stream, and GetTask, show every call that the stream showed before."""
    skip_unless_offered(subject, Operation.STREAM)
    judged = False
    for turn in turns_by(subject, Operation.STREAM, Activation.V1):
        for shown, calls, lost in tasks_after_calls(turn.opening):
            judged = True
            if lost:
                message = f"{lost} of {calls} streamed tool calls are missing on the Task later in the stream"
                yield problem(turn.opening, message, shown.where, task_artifacts(shown))
        streamed = calls_of(turn.opening)
        for exchange in turn.later_by(Operation.GET, Activation.V1):
            event = whole_task(exchange, first_task_id(turn.opening))
            if event is None or not streamed:
                continue
            judged = True
            if lost := calls_lost(turn.opening, event):
                names = ", ".join(call.name for call in calls_of(exchange)) or "none"
                message = f"{lost} of {len(streamed)} streamed tool calls are missing on the task (it has: {names})"
                yield problem(exchange, message, event.where, task_artifacts(event))
    if not judged:
        raise Unseen("no stream with tool calls has a task to compare with")
