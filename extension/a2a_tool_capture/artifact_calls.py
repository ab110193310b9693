"""Reads tool calls from artifact metadata: forgiving, and every repair or skip is a finding."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeAlias

from .canonical import with_whole_numbers
from .extension_filter import METADATA
from .json_limits import READ, too_deep
from .json_values import read_exact_json, read_json
from .models import Finding, Severity, ToolCall, ToolCallSource
from .spec import (
    ARGUMENTS_JSON,
    ARGUMENTS_UNKNOWN,
    BASE_URI,
    DEFAULT_ARGUMENTS,
    ENDED_AT,
    KNOWN_VERSIONS,
    METADATA_KEY,
    NOT_RECORDED_KEY,
    STARTED_AT,
    ExtensionVersion,
    is_capture_uri,
    looks_alike,
)
from .token_usage import STATEMENTS
from .wire import is_from_user

_FURTHER = frozenset({ARGUMENTS_JSON, DEFAULT_ARGUMENTS, STARTED_AT})
UNKNOWN_VERSION = "unknown_version"
"""The finding of calls of another version of the extension. An agent in migration has the same under a known one."""
_OTHER_VERSION = re.compile(re.escape(BASE_URI) + r"/v[0-9]+/tool_calls")

_Place: TypeAlias = tuple[str | int, ...]
"""Names and numbers that lead to a value."""

_HOLDS = frozenset({dict, list})
_SHORTEST = len("toolcallcapture")
"""Characters that a name of the extension has at least."""

_OF_PAST = frozenset({"history", "timeline"})
"""Members with messages of both sides."""

_MAX_REASONS, _MAX_REASON = 5, 300
"""Maximum number and length of the reasons that a finding repeats."""

_encode = json.JSONEncoder(ensure_ascii=False).encode


class ToolCallReading(NamedTuple):
    """The calls of one artifact, in order, and the problems found in them."""

    tool_calls: list[ToolCall]
    findings: list[Finding]


class SeenCalls:
    """When calls were seen: at `now`, unless one of the calls `earlier` is the same by id and name, in order."""

    def __init__(self, now: float | None, earlier: Iterable[ToolCall] = ()) -> None:
        self.now = now
        self.earlier: dict[tuple[str, str], deque[ToolCall]] = {}
        for call in earlier:
            self.earlier.setdefault((call.id, call.name), deque()).append(call)

    def times(self, call_id: str, name: str, ended: bool) -> tuple[float | None, float | None]:
        """When a call was first seen, and when its result was."""
        same = self.earlier.get((call_id, name))
        if not same:
            return self.now, self.now if ended else None
        earlier = same.popleft()
        return earlier.first_seen_at, (earlier.result_seen_at or self.now) if ended else None

    def marked(self, call: ToolCall) -> ToolCall:
        """The call with its times; those it has if it was not seen earlier."""
        first, result = self.times(call.id, call.name, call.result is not None or call.error is not None)
        return replace(call, first_seen_at=first or call.first_seen_at, result_seen_at=result or call.result_seen_at)


_NEVER = SeenCalls(None)


def listed_uris(artifact: Mapping[str, Any]) -> frozenset[str]:
    """URIs in `Artifact.extensions`; empty for anything that is not a list of strings."""
    extensions = artifact.get("extensions")
    if not isinstance(extensions, list):
        return frozenset()
    return frozenset([uri for uri in extensions if isinstance(uri, str)])  # a list comprehension is one call


def read_tool_calls(
    artifact: Mapping[str, Any],
    *,
    already_listed: Collection[str] = (),
    require_artifact_uri: bool = True,
    versions: Sequence[ExtensionVersion] = KNOWN_VERSIONS,
    seen: SeenCalls = _NEVER,
) -> ToolCallReading:
    """Read the calls from a v1.0 Artifact (ProtoJSON object). Never raises on JSON-shaped input.

    `already_listed` names URIs that this artifact id has listed before: servers drop `extensions` when they
    merge chunks. Calls whose URI was never listed are ignored with the finding `uri_not_listed`, unless
    `require_artifact_uri` is false. `versions` are tried in the given order, highest first; the first one
    whose list counts is the only one counted (an agent in migration emits the same calls twice). `seen` has the times
    at which calls were seen.
    """
    findings: list[Finding] = []
    metadata = artifact.get("metadata")
    artifact_id = artifact.get("artifactId")
    where = f"artifact {artifact_id!r}" if isinstance(artifact_id, str) else "artifact"
    calls: list[ToolCall] = []
    listed = already_listed
    if len(already_listed) < len(versions):
        listed = listed_uris(artifact).union(already_listed)
    if not isinstance(metadata, dict):
        if metadata and any(map(looks_alike, listed)):
            findings.append(_unknown(f"'metadata' is {_kind(metadata)}", where))
        return ToolCallReading([], findings)
    if NOT_RECORDED_KEY in metadata:
        findings.append(not_recorded(metadata, where))
    for version in versions:
        if version.metadata_key not in metadata:
            continue
        entries = metadata[version.metadata_key]
        if not isinstance(entries, list):
            message = f"tool calls are {_kind(entries)}, expected a list; they were ignored"
            findings.append(Finding("calls_not_a_list", message, where=where))
            continue
        if entries and require_artifact_uri and version.uri not in listed:
            message = (
                f"{len(entries)} tool call(s) ignored: the artifact does not list {version.uri} in "
                "'extensions'; list it there on every chunk"
            )
            findings.append(Finding("uri_not_listed", message, where=where))
            continue
        for number, entry in enumerate(entries):
            call = _read_entry(entry, where, number, findings, seen)
            if call is not None:
                calls.append(call)
        break
    if not calls or len(metadata) > 1:
        known = {version.metadata_key: version.uri for version in versions}
        lists = any(map(looks_alike, listed))
        for key, value in metadata.items():
            if value and key not in known and (code := _unread(key, lists=lists)):
                findings.append(_unknown(f"metadata has {key!r}", where, code))
    return ToolCallReading(calls, findings)


def _unread(key: str, *, lists: bool) -> str:
    """The code of the finding about what has this name, if it may be tool calls; "" if not. In an artifact that `lists`
    the extension, they may be under a name that only looks like its name."""
    if looks_alike(key):
        return UNKNOWN_VERSION if _OTHER_VERSION.fullmatch(key) else "" if key == NOT_RECORDED_KEY else "unknown_kind"
    return "unknown_kind" if lists and _is_alike(key) else ""


def _is_alike(key: str) -> bool:
    return re.sub(r"[^a-z]", "", key.rpartition("/")[2].lower()) == "toolcalls"


def _unknown(what: str, where: str, code: str = "unknown_kind") -> Finding:
    message = f"tool calls may be where none are read: {what}; put them as a list under {METADATA_KEY!r} of 'metadata'"
    return Finding(code, message, where=where)


def not_recorded(metadata: Mapping[str, Any], where: str) -> Finding:
    """What an agent says in `NOT_RECORDED_KEY` of calls that it could not record."""
    reasons = metadata[NOT_RECORDED_KEY]
    listed = [str(reason)[:_MAX_REASON] for reason in reasons[:_MAX_REASONS]] if isinstance(reasons, list) else []
    message = f"the agent may have made calls that it did not record: {'; '.join(listed) or 'it does not say why'}"
    return Finding("calls_not_recorded", message, where=where)


def beside_calls(event: Mapping[str, Any]) -> tuple[list[Finding], bool]:
    """What an event (v1.0 StreamResponse) says of calls outside of the metadata of an artifact, as findings: there they
    do not count (A2A 1.0, section 3.7); and whether it may state tokens. The user's messages in a history are not the
    agent's."""
    findings: list[Finding] = []
    states_tokens = False
    pending: list[tuple[Any, _Place, bool]] = [(event, (), False)]
    for holder, place, lists in pending:  # which grows
        if type(holder) is list:
            for number, entry in enumerate(holder):
                if type(entry) in _HOLDS:
                    pending.append((entry, (*place, number), lists))
        elif "role" not in holder or _OF_PAST.isdisjoint(place) or not is_from_user(holder):
            lists = lists or ("extensions" in holder and _is_artifact(place) and _lists_in_vain(holder))
            for key, value in holder.items():
                if (len(key) >= _SHORTEST and looks_alike(key)) or (lists and _is_alike(key)):
                    if value and not (place[-1:] == (METADATA,) and _is_artifact(place[:-1])):
                        findings.append(_misplaced(holder, key, place))
                elif value and type(value) in _HOLDS:
                    states_tokens = states_tokens or key in STATEMENTS
                    pending.append((value, (*place, key), lists))
    return findings, states_tokens


def _lists_in_vain(artifact: Mapping[str, Any]) -> bool:
    """Whether an artifact lists the extension, and has nothing where calls are read."""
    metadata = artifact.get(METADATA)
    has_calls = isinstance(metadata, dict) and METADATA_KEY in metadata
    return not has_calls and any(map(looks_alike, listed_uris(artifact)))


def _is_artifact(place: _Place) -> bool:
    return place == ("artifactUpdate", "artifact") or (len(place) == 3 and place[:2] == ("task", "artifacts"))


def calls_anywhere(value: Any) -> tuple[list[ToolCall], list[Finding], bool]:
    """The calls in JSON that is no event that can be read, what the extension has there besides, and whether any text
    names it."""
    calls: list[ToolCall] = []
    findings: list[Finding] = []
    is_named, pending = False, [value]
    while pending:
        value = pending.pop()
        if isinstance(value, list):
            pending += value
        elif isinstance(value, dict):
            pending += [*value, *value.values()]
            if any(map(is_capture_uri, value)):
                found = read_tool_calls({"metadata": value}, require_artifact_uri=False)
                calls += found.tool_calls
                findings += found.findings
        elif isinstance(value, str):
            is_named = is_named or BASE_URI in value
    return calls, findings, is_named


def _misplaced(holder: Mapping[str, Any], key: str, place: _Place) -> Finding:
    place = place[:-1] if place[-1:] == (METADATA,) else place
    where = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place).lstrip(".")
    if key == NOT_RECORDED_KEY:
        return not_recorded(holder, where)
    value = holder[key]
    message = (
        f"{len(value) if isinstance(value, list) else 1} tool call(s) in {where or 'an event'} were ignored; put "
        f"them into the metadata of an artifact that lists the extension, under {METADATA_KEY!r}"
    )
    return Finding("calls_not_on_artifact", message, where=where)


def _read_entry(entry: Any, where: str, number: int, findings: list[Finding], seen: SeenCalls) -> ToolCall | None:
    def found(code: str, message: str, severity: Severity) -> None:
        findings.append(Finding(code, message, severity, f"{where}, tool call {number}"))

    if not isinstance(entry, dict):
        found("malformed_entry", f"skipped: the entry is {_kind(entry)}, expected an object", Severity.WARNING)
        return None
    get: Callable[[str], Any] = entry.get
    name, call_id, arguments, result, error = get("name"), get("id"), get("arguments"), get("result"), get("error")
    written = arguments if isinstance(arguments, str) else None
    if written is not None:
        arguments = _object_in(written)
    values = {"arguments": arguments, "id": call_id, "result": result, "error": error}
    problem = None
    if not isinstance(name, str) or not name:
        problem = f"'name' is {_kind(name)}, expected a non-empty string"
    elif written is not None and arguments is None:
        problem = "'arguments' is a string that holds no JSON object, expected an object"
    elif arguments is not None and not isinstance(arguments, dict):
        problem = f"'arguments' is {_kind(arguments)}, expected an object"
    elif too_deep(values, READ + 1):
        problem = f"'{next(key for key, value in values.items() if too_deep(value))}' nests too deeply"
    if problem is not None:
        found("malformed_entry", f"skipped: {problem}", Severity.WARNING)
        return None
    if written is not None:
        found("repaired_entry", "'arguments' was a string holding a JSON object", Severity.INFO)
    if call_id is not None and not isinstance(call_id, str):
        # structured results and errors are usual, a structured id is not
        found("repaired_entry", f"'id' was {_kind(call_id)}, taken as its JSON text", Severity.INFO)
        call_id = _encode(with_whole_numbers(call_id))
    unknown = arguments is None and get(ARGUMENTS_UNKNOWN) is True
    first, ended = seen.times(call_id or "", name, result is not None or error is not None)
    call = ToolCall(
        name,
        None if unknown else with_whole_numbers(arguments or {}),
        call_id or "",
        result if result is None or isinstance(result, str) else _encode(result),
        error if error is None or isinstance(error, str) else _encode(error),
        ToolCallSource.A2A_PROTOCOL,
        first_seen_at=first,
        result_seen_at=ended,
    )
    return call if _FURTHER.isdisjoint(entry) else _with_further(call, entry)


def _with_further(call: ToolCall, entry: Mapping[str, Any]) -> ToolCall:
    """The call with what an entry may say besides; what cannot be read of that is ignored, as unknown fields are."""
    exact, defaults = entry.get(ARGUMENTS_JSON), entry.get(DEFAULT_ARGUMENTS)
    if call.arguments is not None and isinstance(exact, str):
        read = _object_in(exact, read_exact_json)
        if read is not None and not too_deep(read):
            call = replace(call, arguments=with_whole_numbers(read))
    if isinstance(defaults, list):
        named = [name for name in call.arguments or () if name in defaults]
        call = replace(call, default_arguments=tuple(named))
    started, ended = _moment(entry.get(STARTED_AT)), _moment(entry.get(ENDED_AT))
    return call if started is None else replace(call, started_at=started, ended_at=ended)


def _moment(value: Any) -> datetime | None:
    """An RFC 3339 time; None for anything else."""
    try:
        moment = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return None
    return moment.astimezone(UTC) if moment.tzinfo is not None and 1970 <= moment.year < 9999 else None


def _object_in(text: str, read: Callable[[str], Any] = read_json) -> dict[str, Any] | None:
    try:
        value = read(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


_KINDS = {
    type(None): "null or missing",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    str: "a string",
    list: "a list",
}


def _kind(value: Any) -> str:
    """The JSON name of the type of `value`, with its article."""
    return "an empty string" if value == "" else _KINDS.get(type(value), "an object")
