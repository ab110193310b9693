"""The events of one task, merged with snapshot authority into its tool calls, text and state.

Chunks extend what is known; a Task object replaces it, wherever it comes from. Servers merge chunks in ways that
lose calls (metadata keys are overwritten, late `extensions` ignored), so a call that was streamed and is absent
from a later snapshot is dropped, as the snapshot says, and reported.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from sys import getsizeof
from typing import Any

from .dedupe import reconcile
from .dialects import DialectReader
from .footprint import calls_bytes
from .models import Finding, Severity, ToolCall
from .payload import listed_uris, read_tool_calls
from .sameness import CallPlaces, contradicts, filled, is_cumulative, new_calls, unite
from .spec import KNOWN_VERSIONS
from .wire import EVENT_KEYS, normalize_state, parts_text

MAX_CALLS = 10_000
MAX_TEXT_CHARS = 1_000_000
MAX_FINDINGS = 200

_ARTIFACT_BYTES, _FINDING_BYTES, _URI_BYTES = 800, 400, 300
"""Of the objects without their texts: about what CPython takes."""

_KNOWN_URIS = frozenset(version.uri for version in KNOWN_VERSIONS)

_RESTORED = "\x00restored"
"""Stands for the artifacts of a turn of which only the calls and the text are known."""


@dataclass(slots=True)
class _Artifact:
    calls: list[ToolCall] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    places: CallPlaces = field(default_factory=CallPlaces)
    size: int = 0
    """Bytes of memory, about."""


@dataclass(slots=True)
class _TurnStart:
    """What was known when the current turn began."""

    calls: Sequence[ToolCall] = ()
    texts: dict[str, str] = field(default_factory=dict)
    elsewhere: Sequence[ToolCall] = ()
    """Of `calls`, those of turns that this merger was not fed with."""
    said: Sequence[str] = ()
    """Response texts of such turns."""

    @property
    def size(self) -> int:
        """Bytes of memory, about. Calls that the task still has count twice."""
        return calls_bytes(self.calls) + sum(map(getsizeof, (*self.texts.values(), *self.said)))


class TaskMerger:
    """Merges the ordered A2A events of one task. Sans-io, never raises on JSON-shaped input.

    Feed it v1.0 `StreamResponse` objects (ProtoJSON dicts); `wire.normalize_event` makes them from v0.3.
    Memory is bounded: at most `MAX_CALLS` calls, `MAX_TEXT_CHARS` of text and `MAX_FINDINGS` findings are kept.

    `dialects` names ways of other frameworks (`dialects.DIALECTS`) in which calls are read too; a call that the
    extension tells of as well is the extension's. Raises KeyError for an unknown one.
    """

    def __init__(self, *, require_artifact_uri: bool = True, dialects: Collection[str] = ()) -> None:
        self.task_id = ""
        self.context_id = ""
        self.state: str | None = None
        """Task state in 1.0 names (`TASK_STATE_COMPLETED`); None until one was seen."""
        self.snapshot_seen = False
        """Whether a Task with artifacts came after anything was streamed, or a Task was all there was."""
        self._require_artifact_uri = require_artifact_uri
        self._dialects = DialectReader(dialects) if dialects else None
        self._artifacts: dict[str, _Artifact] = {}
        self._listed: dict[str, frozenset[str]] = {}
        self._findings: dict[Finding, None] = {}
        self._status_text = ""
        self._message_text = ""
        self._text_chars = 0
        self._call_count = 0
        self._turn = _TurnStart()
        self._artifact_bytes = self._other_bytes = self._earlier_bytes = 0

    # ── in ──────────────────────────────────────────────────────────────────────────────────────────────

    def feed(self, event: Mapping[str, Any]) -> None:
        """Take one v1.0 StreamResponse: `{"task" | "message" | "artifactUpdate" | "statusUpdate": {...}}`."""
        if not isinstance(event, dict):
            self._report("malformed_event", f"event is a {type(event).__name__}, expected an object")
            return
        if self._dialects is not None:
            for finding in self._dialects.feed(event):
                self._keep(finding)
        for key in EVENT_KEYS:
            payload = event.get(key)
            if payload is None:
                continue
            if not isinstance(payload, dict):
                self._report("malformed_event", f"'{key}' is a {type(payload).__name__}, expected an object")
            elif key == "artifactUpdate":
                self._artifact_update(payload)
            elif key == "statusUpdate":
                self._status_update(payload)
            elif key == "task":
                self._snapshot(payload)
            else:
                self._message(payload)
            return
        self._report("malformed_event", f"event has none of {', '.join(EVENT_KEYS)}")

    def begin_turn(self) -> None:
        """The task goes on with a new user message: what is known now belongs to earlier turns."""
        calls = self.tool_calls
        gone = new_calls(self._turn.calls, calls)  # from the task as it is now, and maybe not for good
        elsewhere = new_calls(self._turn.elsewhere, calls)
        kept = [*elsewhere, *new_calls([call for call in gone if call.id], elsewhere)]
        self._turn = _TurnStart(
            calls=[*calls, *kept][:MAX_CALLS],
            elsewhere=elsewhere,
            said=self._turn.said,
            texts={artifact_id: "".join(artifact.text) for artifact_id, artifact in self._artifacts.items()},
        )
        self._earlier_bytes = self._turn.size
        self._set_status_text("")
        self._set_message_text("")
        self._other_bytes -= sum(map(_finding_bytes, self._findings))
        self._findings.clear()

    def know_earlier(self, calls: Sequence[ToolCall], texts: Sequence[str]) -> None:
        """Earlier turns of the task, which this merger was not fed with, had these calls and response texts.

        Arguments that are None are unknown: such a call is known by its id, or by its name alone.
        """
        self._turn.calls = [*self._turn.calls, *calls][:MAX_CALLS]
        self._turn.elsewhere = [*self._turn.elsewhere, *calls][:MAX_CALLS]
        self._turn.said = [*self._turn.said, *(text for text in texts if text)]
        self._earlier_bytes = self._turn.size

    def restore(self, calls: Sequence[ToolCall], text: str) -> None:
        """The current turn has had these calls and this text so far. They stand until a Task object comes."""
        if calls or text:
            self._artifacts[_RESTORED] = restored = _Artifact(list(calls), [text] if text else [])
            self._grow(restored, calls_bytes(calls) + getsizeof(text))

    def continue_turn_of(self, other: TaskMerger) -> None:
        """This view of the task replaces `other` in mid-turn: what was earlier for that is earlier for this."""
        self._turn, self._earlier_bytes = other._turn, other._earlier_bytes

    # ── out ─────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def size(self) -> int:
        """Bytes of memory that this task takes, about. Kept up to date with every event: asking is cheap."""
        own = self._artifact_bytes + self._other_bytes + self._earlier_bytes
        return own if self._dialects is None else own + self._dialects.size

    @property
    def tool_calls(self) -> list[ToolCall]:
        """Every call of the task once (`sameness.same_call`), artifacts in order of appearance."""
        artifacts = list(self._artifacts.values())
        if len(artifacts) == 1:  # whose calls are united as they come
            calls = list(artifacts[0].calls)
        else:
            calls = unite(call for artifact in artifacts for call in artifact.calls)
        return calls if self._dialects is None else reconcile(calls, self._dialects.tool_calls).tool_calls

    @property
    def turn_tool_calls(self) -> list[ToolCall]:
        """The calls that first appeared since `begin_turn` (all of them, if it was never called)."""
        return new_calls(self.tool_calls, self._turn.calls) if self._turn.calls else self.tool_calls

    @property
    def response_text(self) -> str:
        """Text of the artifacts, else of the last status message, else of the Message; "" for none.

        Text parts of an artifact are concatenated (a chunk may end inside a word), artifacts joined by newlines.
        Artifacts unchanged since `begin_turn` do not count.
        """
        texts = [
            text
            for artifact_id, artifact in self._artifacts.items()
            if (text := "".join(artifact.text)) and text != self._turn.texts.get(artifact_id)
        ]
        return "\n".join(_unsaid(texts, self._turn.said)) or self._status_text or self._message_text

    @property
    def findings(self) -> list[Finding]:
        """What was odd since `begin_turn`, in order, each once."""
        findings = dict(self._findings)
        seen = {(call.id, call.name) for call in self._turn.calls if call.id}
        for call in self.turn_tool_calls:
            if call.id and (call.id, call.name) in seen and len(findings) < MAX_FINDINGS:
                message = (
                    f"id {call.id!r} is used for more than one call of {call.name!r} in this task; each is kept. "
                    "Give every call of a task an id of its own"
                )
                findings[self._finding("id_reused", message)] = None
            seen.add((call.id, call.name))
        return list(findings)

    # ── events ──────────────────────────────────────────────────────────────────────────────────────────

    def _artifact_update(self, update: Mapping[str, Any]) -> None:
        self._identify(update.get("taskId"), update.get("contextId"))
        artifact = update.get("artifact")
        if not isinstance(artifact, dict):
            self._report("malformed_event", "'artifactUpdate' without an 'artifact' object")
            return
        raw_id = artifact.get("artifactId")
        artifact_id = raw_id if isinstance(raw_id, str) else ""
        known = self._artifacts.get(artifact_id)
        if update.get("append") is True:
            if known is not None:
                self._extend(artifact_id, known, artifact)
                return
            message = "a chunk with 'append' for an artifact never seen; taken as a new artifact"
            self._report("append_to_unknown_artifact", message, where=f"artifact {artifact_id!r}")
        self._place(artifact_id, artifact)

    def _status_update(self, update: Mapping[str, Any]) -> None:
        self._look_for_misplaced(update, "a status update")
        self._identify(update.get("taskId"), update.get("contextId"))
        self._status(update.get("status"))

    def _message(self, message: Mapping[str, Any]) -> None:
        self._look_for_misplaced(message, "a message")
        self._identify(message.get("taskId"), message.get("contextId"))
        self._set_message_text(parts_text(message)[:MAX_TEXT_CHARS])

    def _snapshot(self, task: Mapping[str, Any]) -> None:
        self._look_for_misplaced(task, "a task")
        self._identify(task.get("id"), task.get("contextId"))
        self._status(task.get("status"))
        before = self.tool_calls if self._artifacts else []
        streamed = bool(self._artifacts)
        self._artifacts.clear()
        self._artifact_bytes = 0
        self._text_chars = 0
        self._call_count = 0
        artifacts = task.get("artifacts")
        if artifacts is not None and not isinstance(artifacts, list):
            self._report("malformed_event", f"'artifacts' is a {type(artifacts).__name__}, expected a list")
            artifacts = None
        for artifact in artifacts or ():
            if not isinstance(artifact, dict):
                self._report("malformed_event", "an entry of 'artifacts' is not an object")
                continue
            raw_id = artifact.get("artifactId")
            artifact_id = raw_id if isinstance(raw_id, str) else ""
            known = self._artifacts.get(artifact_id)
            if known is None:
                self._place(artifact_id, artifact)
            else:  # two artifacts of a snapshot share an id: both are there, so both count
                self._extend(artifact_id, known, artifact)
        self.snapshot_seen = self.snapshot_seen or streamed or bool(artifacts)
        if before:
            self._report_dropped(before)

    def _report_dropped(self, before: list[ToolCall]) -> None:
        for call in new_calls(before, self.tool_calls):
            message = (
                f"tool call {call.name!r}{f' ({call.id})' if call.id else ''} was streamed, but a later Task "
                "snapshot does not have it; it was dropped. Emit cumulative lists on every chunk"
            )
            self._report("dropped_by_snapshot", message, where=f"task {self.task_id!r}")

    # ── parts of events ─────────────────────────────────────────────────────────────────────────────────

    def _identify(self, task_id: Any, context_id: Any) -> None:
        if isinstance(task_id, str) and task_id and task_id != self.task_id:
            self._other_bytes += getsizeof(task_id) - getsizeof(self.task_id)
            self.task_id = task_id
        if isinstance(context_id, str) and context_id and context_id != self.context_id:
            self._other_bytes += getsizeof(context_id) - getsizeof(self.context_id)
            self.context_id = context_id

    def _status(self, status: Any) -> None:
        if not isinstance(status, dict):
            return
        state = normalize_state(status.get("state"))
        if state is not None:
            self.state = state
        message = status.get("message")
        if isinstance(message, dict):
            self._look_for_misplaced(message, "a message")
        text = parts_text(message)
        if text:
            self._set_status_text(text[:MAX_TEXT_CHARS])

    def _look_for_misplaced(self, holder: Mapping[str, Any], what: str) -> None:
        """Calls count on artifacts only (A2A 1.0, section 3.7)."""
        metadata = holder.get("metadata")
        if not metadata or not isinstance(metadata, dict):
            return
        for version in KNOWN_VERSIONS:
            entries = metadata.get(version.metadata_key)
            if isinstance(entries, list) and entries:
                message = (
                    f"{len(entries)} tool call(s) in the metadata of {what} were ignored; put them into the metadata "
                    "of an artifact that lists the extension"
                )
                self._report("calls_not_on_artifact", message)

    def _place(self, artifact_id: str, artifact: Mapping[str, Any]) -> None:
        replaced = self._artifacts.get(artifact_id)
        if replaced is not None:
            self._text_chars -= sum(map(len, replaced.text))
            self._call_count -= len(replaced.calls)
            self._artifact_bytes -= replaced.size
        placed = _Artifact()
        self._grow(placed, _ARTIFACT_BYTES + getsizeof(artifact_id))
        for call in self._read(artifact_id, artifact):
            self._add(placed, call, artifact_id)
        self._add_text(placed, artifact)
        self._artifacts[artifact_id] = placed

    def _extend(self, artifact_id: str, known: _Artifact, artifact: Mapping[str, Any]) -> None:
        self._add_text(known, artifact)
        if "metadata" not in artifact:  # the usual chunk: text only
            if "extensions" in artifact:
                self._remember_listed(artifact_id, artifact)
            return
        calls = unite(self._read(artifact_id, artifact))
        if is_cumulative(known.calls, calls):
            for position in range(len(known.calls)):
                self._replace(known, position, calls[position], artifact_id)
            calls = calls[len(known.calls) :]
        for call in calls:
            self._add(known, call, artifact_id)

    def _add(self, known: _Artifact, call: ToolCall, artifact_id: str) -> None:
        """Append `call`, or let it replace the one that it reports again."""
        position = known.places.find(call, known.calls)
        if position is not None:
            self._replace(known, position, call, artifact_id)
            return
        if (other := known.places.other_name(call)) is not None:
            message = f"id {call.id!r} is used for {other!r} and {call.name!r}; both calls are kept"
            self._report("id_conflict", message, where=f"artifact {artifact_id!r}")
        if self._call_count >= MAX_CALLS:
            self._report("too_many_calls", f"more than {MAX_CALLS} calls; the rest is not kept")
            return
        known.places.put(call, len(known.calls), known.calls)
        known.calls.append(call)
        self._call_count += 1
        self._grow(known, calls_bytes((call,)))

    def _replace(self, known: _Artifact, position: int, call: ToolCall, artifact_id: str) -> None:
        earlier = known.calls[position]
        known.calls[position] = later = filled(call, earlier)
        if later != earlier:
            self._grow(known, calls_bytes((later,)) - calls_bytes((earlier,)))
        known.places.put(known.calls[position], position, known.calls)
        if contradicts(earlier, call):
            message = f"call {call.id!r} of {call.name!r} was announced with other arguments than it ended with"
            self._report("id_conflict", message, where=f"artifact {artifact_id!r}")

    def _read(self, artifact_id: str, artifact: Mapping[str, Any]) -> list[ToolCall]:
        listed = self._remember_listed(artifact_id, artifact)
        calls, findings = read_tool_calls(
            artifact, already_listed=listed, require_artifact_uri=self._require_artifact_uri
        )
        for finding in findings:
            self._keep(finding)
        return calls

    def _remember_listed(self, artifact_id: str, artifact: Mapping[str, Any]) -> frozenset[str]:
        listed = self._listed.get(artifact_id, frozenset())
        if artifact.get("extensions"):
            if artifact_id not in self._listed:
                self._other_bytes += _URI_BYTES + getsizeof(artifact_id)
            listed |= listed_uris(artifact) & _KNOWN_URIS
            self._listed[artifact_id] = listed
        return listed

    def _add_text(self, known: _Artifact, artifact: Mapping[str, Any]) -> None:
        text = parts_text(artifact)
        if not text:
            return
        room = MAX_TEXT_CHARS - self._text_chars
        if len(text) > room:
            self._report("text_truncated", f"more than {MAX_TEXT_CHARS} characters of text; the rest is not kept")
            text = text[:room]
        if text:
            self._text_chars += len(text)
            known.text.append(text)
            self._grow(known, getsizeof(text))

    def _set_status_text(self, text: str) -> None:
        self._other_bytes += getsizeof(text) - getsizeof(self._status_text)
        self._status_text = text

    def _set_message_text(self, text: str) -> None:
        self._other_bytes += getsizeof(text) - getsizeof(self._message_text)
        self._message_text = text

    def _grow(self, known: _Artifact, size: int) -> None:
        known.size += size
        self._artifact_bytes += size

    def _report(self, code: str, message: str, *, where: str = "") -> None:
        self._keep(self._finding(code, message, where))

    def _finding(self, code: str, message: str, where: str = "") -> Finding:
        return Finding(code, message, Severity.WARNING, where or f"task {self.task_id!r}")

    def _keep(self, finding: Finding) -> None:
        if len(self._findings) < MAX_FINDINGS and finding not in self._findings:
            self._findings[finding] = None
            self._other_bytes += _finding_bytes(finding)


def _finding_bytes(finding: Finding) -> int:
    return _FINDING_BYTES + getsizeof(finding.message) + getsizeof(finding.where)


def _unsaid(texts: list[str], said: Sequence[str]) -> list[str]:
    """`texts` of artifacts without those of which earlier turns consist: artifacts joined by newlines."""
    for whole in said:
        for start in range(len(texts)):
            end, length = start, -1
            while end < len(texts) and length < len(whole):
                length += len(texts[end]) + 1
                end += 1
            if length == len(whole) and "\n".join(texts[start:end]) == whole:
                texts = texts[:start] + texts[end:]
                break
    return texts
