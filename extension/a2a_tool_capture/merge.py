"""Merges the events of one task, with snapshot authority, into its tool calls, text and state.

Chunks extend what is known; a Task object replaces it, wherever it comes from, unless it has no artifacts and is not
final: then it is a sign of life. Servers merge chunks in ways that lose calls (they overwrite metadata keys and ignore
late `extensions`), so a call that was reported but is missing from a later report is dropped, and a finding says so.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from .approvals import waiting_calls
from .artifact_calls import UNKNOWN_VERSION, SeenCalls, beside_calls, calls_anywhere, read_tool_calls
from .dialect import DialectReader
from .generations import Generations
from .models import Finding, Severity, ToolCall, WaitingCall
from .reconciliation import reconcile
from .same_call import KnownCalls, contradicts, filled, finished, is_cumulative, missing_calls, new_calls, unite
from .spec import KNOWN_VERSIONS
from .token_usage import TokenUsage
from .wire import (
    EVENT_KEYS,
    FAILED_STATES,
    INTERRUPTED_STATES,
    SETTLED_STATES,
    TERMINAL_STATES,
    UNKNOWN_EVENT,
    UNREAD_KEY,
    answer_in_history,
    generation_of,
    normalize_state,
    parts_text,
    timeline_of,
)


@dataclass(slots=True, eq=False)
class MergedArtifact(KnownCalls):
    """Calls, each once, and text of one artifact."""

    text: list[str] = field(default_factory=list)
    waiting: list[WaitingCall] = field(default_factory=list)
    begun: int = 0
    generation: int = 0
    """The generations with which it was placed, and of its latest change (A2A 1.1); 0 if the agent counts none."""
    lacks_beginning: bool = False
    """Whether it was placed by a chunk: the beginning may come late."""
    _ordered: list[int] = field(default_factory=list)
    """The generations of the pieces of `text`."""

    def takes(self, generation: int, *, append: bool) -> bool | None:
        """Whether a change that comes after later ones is part of the artifact; None if that is not known."""
        if generation < self.begun:
            return self.lacks_beginning
        return True if append else None

    def add_text(self, text: str, generation: int) -> None:
        """Add a piece of text after those of that generation and earlier ones."""
        position = bisect_right(self._ordered, generation)
        self._ordered.insert(position, generation)
        self.text.insert(position, text)


@dataclass(frozen=True, slots=True)
class TurnStart:
    """What was known when the current turn began."""

    calls: Sequence[ToolCall] = ()
    texts: Mapping[str, str] = field(default_factory=dict)
    elsewhere: Sequence[ToolCall] = ()
    """Of `calls`, those of turns that this merger was not fed with."""
    responses: Sequence[str] = ()
    """Response texts of such turns."""
    waited: frozenset[str] = frozenset()
    """Ids of calls that have waited for approval: one that then runs has the same id."""

    def following(self, calls: list[ToolCall], texts: dict[str, str], waited: frozenset[str]) -> TurnStart:
        """The start of the next turn, where the task now has these calls, artifacts with these texts, and calls that
        `waited`."""
        gone = new_calls(self.calls, calls)  # from the task as it is now, and maybe not for good
        elsewhere = new_calls(self.elsewhere, calls)
        kept = [*elsewhere, *new_calls([call for call in gone if call.id], elsewhere)]
        return TurnStart([*calls, *kept][:MAX_CALLS], texts, elsewhere, self.responses, waited)


FIRST_TURN = TurnStart()


def without_responses(texts: list[str], responses: Sequence[str]) -> list[str]:
    """`texts` of artifacts without those with which earlier responses begin: artifacts joined by newlines."""
    for response in responses:
        for start in range(len(texts)):
            end, length = start, -1
            while end < len(texts) and response.startswith(texts[end], length + 1):
                following = length + 1 + len(texts[end])
                if response[following : following + 1] not in ("", "\n"):
                    break
                end, length = end + 1, following
            if end > start:
                texts = texts[:start] + texts[end:]
                break
    return texts


MAX_CALLS = 10_000
MAX_TEXT_CHARS = 1_000_000
MAX_FINDINGS = 200
_MAX_REASON = 2_000
"""Characters of the reason of a failure that its finding repeats."""

_KNOWN_URIS = frozenset(version.uri for version in KNOWN_VERSIONS)

MISSED_EVENTS = "missed_events"
"""The finding of a turn in which the generations of the task's updates jump (A2A 1.1)."""

_TASK_IDS = (("artifactUpdate", "taskId"), ("statusUpdate", "taskId"), ("task", "id"))
"""The members of an event that may be about another task, and where each names it."""

_UNREAD_EVENTS = frozenset({"malformed_event", "malformed_response", UNKNOWN_EVENT, MISSED_EVENTS})

_HISTORY = frozenset({"history", "timeline"})
"""Members of a Task with its messages."""


class TaskMerger:
    """Merges the ordered A2A events of one task. Sans-io, never raises on JSON-shaped input.

    Feed it v1.0 `StreamResponse` objects (ProtoJSON dicts), as `wire.received_event` makes them from what was received.
    Memory is bounded: at most `MAX_CALLS` calls, `MAX_TEXT_CHARS` of text and `MAX_FINDINGS` findings are kept.

    `dialects` names formats of frameworks (`dialect.known_dialects`) in which calls are read too; a call that is also
    in the extension counts as the extension's. Raises KeyError for an unknown dialect.
    """

    def __init__(self, *, require_artifact_uri: bool = True, dialects: Collection[str] = ()) -> None:
        self.task_id = ""
        self.context_id = ""
        self._named = False
        """Whether an event of this turn has named its task."""
        self.state: str | None = None
        """Task state in 1.0 names (`TASK_STATE_COMPLETED`); None until one was seen."""
        self.turn_state: str | None = None
        """The same; None until one was seen since `begin_turn`."""
        self.snapshot_seen = False
        """Whether a Task that shows artifacts came, or a final one after artifacts were streamed."""
        self.turn_snapshot_seen = False
        """The same since `begin_turn`."""
        self._require_artifact_uri = require_artifact_uri
        self._dialects = DialectReader(dialects) if dialects else None
        self._now: float | None = None
        self._seen_before: SeenCalls | None = None
        self._artifacts: dict[str, MergedArtifact] = {}
        self._listed: dict[str, frozenset[str]] = {}
        self._findings: dict[Finding, None] = {}
        self._status_text = ""
        self._end_text = ""
        """Of the message of the status that interrupts or ends the task."""
        self._message_text = ""
        self._waiting: list[WaitingCall] = []
        """Calls for which the message of the latest status asks, if that interrupts the task."""
        self._text_chars = 0
        self._call_count = 0
        self._turn = FIRST_TURN
        self._generations = Generations()
        self.tokens: TokenUsage | None = None
        """Those that the agent states, once something is to be known of them; `usage` has them for the turn."""
        self._shown: list[ToolCall] = []
        """Every call that was there before a report that lacked one."""

    def feed(self, event: Mapping[str, Any], now: float | None = None) -> None:
        """Take one v1.0 StreamResponse: `{"task" | "message" | "artifactUpdate" | "statusUpdate": {...}}`.

        `now`, seconds since the epoch, becomes the time at which its new calls and results were seen.
        """
        self._now, self._seen_before = now, None
        if not isinstance(event, dict):
            self._malformed(f"event is a {type(event).__name__}, expected an object", event)
            return
        if self._named and self.concerns_other(event):
            self._report_other(event)
            return
        if self._dialects is not None:
            for finding in self._dialects.feed(event, now):
                self._keep(finding)
            self._note_dropped(self._dialects.before)
        findings, states_tokens = beside_calls(event)
        for finding in findings:
            self._keep(finding)
        if states_tokens:
            self._stated().feed(event)
        for key in EVENT_KEYS:
            if (payload := event.get(key)) is None:
                continue
            if not isinstance(payload, dict):
                self._malformed(f"'{key}' is a {type(payload).__name__}, expected an object", payload)
            elif key == "artifactUpdate":
                self._artifact_update(payload)
            elif key == "statusUpdate":
                self._status_update(payload)
            elif key == "task":
                self._snapshot(payload)
            else:
                self._message(payload)
            return
        if isinstance(unread := event.get(UNREAD_KEY), dict):
            is_named = self._note_unread(unread.get("payload"))
            finding = self._finding(str(unread.get("code")), str(unread.get("message")))
            if finding.code == UNKNOWN_EVENT and not is_named and self._dialects is None:
                finding = replace(finding, severity=Severity.INFO)
            self._keep(finding)
            if unread.get("generation", 0) > self._generations.latest:
                self._generations.saw_update(unread["generation"])
        else:
            self._malformed(f"event has none of {', '.join(EVENT_KEYS)}", event)

    def concerns_other(self, event: Mapping[str, Any]) -> bool:
        """Whether an event is about another task than the one that the first event of the turn named."""
        for key, name in _TASK_IDS:
            if isinstance(holder := event.get(key), dict):
                task_id = holder.get(name)
                return self._named and task_id != self.task_id and isinstance(task_id, str) and task_id != ""
        return False

    def _report_other(self, event: Mapping[str, Any]) -> None:
        """No call of another task is one of this turn; those that it shows may have been meant for this one."""
        calls, findings, _ = calls_anywhere(event)
        other = next(event[key][name] for key, name in _TASK_IDS if isinstance(event.get(key), dict))
        message = f"an event of task {other!r:.80} came in the answer of task {self.task_id!r:.80} and was ignored"
        if calls or findings or self._dialects is not None:
            self._report(
                "calls_not_on_artifact", f"{message}; it may have tool calls: send them in events of their task"
            )
        else:
            self._keep(replace(self._finding("other_task", message), severity=Severity.INFO))

    def begin_turn(self) -> None:
        """The task continues with a new user message: what is known now belongs to earlier turns."""
        texts = {artifact_id: "".join(artifact.text) for artifact_id, artifact in self._artifacts.items()}
        waited = self._turn.waited.union(call.id for call in self.waiting_calls)
        self._turn = self._turn.following(self.tool_calls, texts, waited)
        self._waiting = []
        self._status_text = self._end_text = self._message_text = ""
        self.turn_state = None
        self._named = False
        self.turn_snapshot_seen = False
        self._findings.clear()
        self._shown.clear()
        self._generations.begin_turn()
        if self._dialects is not None:
            self._dialects.begin_turn()
        if self.tokens is not None:
            self.tokens.begin_turn()

    # ── out ─────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def tool_calls(self) -> list[ToolCall]:
        """Every call of the task once (`same_call.same_call`), artifacts in order of appearance."""
        artifacts, before = self._artifacts, self._turn.texts
        if len(artifacts) == 1 and not before:  # its calls are united as they come
            (artifact,) = artifacts.values()
            calls = list(artifact.calls)
        else:
            new = [artifact.calls for artifact_id, artifact in artifacts.items() if artifact_id not in before]
            old = [artifact.calls for artifact_id, artifact in artifacts.items() if artifact_id in before]
            calls = self._with_new(unite(chain.from_iterable(old)), unite(chain.from_iterable(new)))
        return calls if self._dialects is None else reconcile(calls, self._dialects.tool_calls).tool_calls

    def _with_new(self, calls: list[ToolCall], reported: list[ToolCall]) -> list[ToolCall]:
        """The `calls` of artifacts of earlier turns, and those `reported` in artifacts that are new in this turn.

        Ids may start again in each turn: what a new artifact reports is a call of this turn, though one of an earlier
        turn is the same, unless it is the end of that one. A call that an old artifact got in this turn counts once.
        """
        if not calls or not reported:
            return calls or reported
        known = list(calls)
        index = KnownCalls(known)
        of_turn = set(map(id, new_calls(known, self._turn.calls)))
        for call in reported:
            place = index.find(call)
            if place is not None and (id(known[place]) in of_turn or (finished(call) and not finished(known[place]))):
                calls[place] = filled(call, known[place])
            else:
                calls.append(call)
        return calls

    @property
    def turn_tool_calls(self) -> list[ToolCall]:
        """The calls that first appeared since `begin_turn` (all of them, if it was never called)."""
        return new_calls(self.tool_calls, self._turn.calls) if self._turn.calls else self.tool_calls

    @property
    def response_text(self) -> str:
        """Text of the artifacts, and then that of the status message that interrupted or ended the task. Without either
        that of the last status message, else the agent's last message in the history, else the Message; "" for none.

        Text parts of an artifact are concatenated (a chunk may end inside a word), artifacts joined by newlines.
        Artifacts unchanged since `begin_turn` do not count, and a status message that repeats them counts once.
        """
        texts = []
        for artifact_id, artifact in self._artifacts.items():
            text = "".join(artifact.text)
            if text and text != self._turn.texts.get(artifact_id):
                texts.append(text)
        if self._turn.responses:
            texts = without_responses(texts, self._turn.responses)
        answer = "\n".join(texts)
        if not answer:
            return self._status_text or self._message_text
        return f"{answer}\n{self._end_text}" if self._end_text and self._end_text not in (answer, *texts) else answer

    @property
    def waiting_calls(self) -> list[WaitingCall]:
        """The calls that wait for the user's approval, as the answer of this turn asks for it."""
        new = (one for artifact_id, one in self._artifacts.items() if artifact_id not in self._turn.texts)
        return [*self._waiting, *chain.from_iterable(one.waiting for one in new)]

    @property
    def usage(self) -> dict[str, Any] | None:
        """The tokens that the agent states for the turn (`token_usage`); None if it states none."""
        return None if self.tokens is None else self.tokens.of_turn(called_tools=bool(self.turn_tool_calls))

    def _stated(self) -> TokenUsage:
        self.tokens = self.tokens or TokenUsage()
        return self.tokens

    @property
    def findings(self) -> list[Finding]:
        """Problems found since `begin_turn`, in order, each once."""
        return self.findings_with(self.turn_tool_calls)

    def findings_with(self, turn_tool_calls: Sequence[ToolCall]) -> list[Finding]:
        """`findings`, given the value of `turn_tool_calls`, which takes time to compute."""
        findings = dict(self._findings)
        if findings and turn_tool_calls:
            for finding in self._findings:
                if finding.code == UNKNOWN_VERSION:
                    del findings[finding]
        known = [*self._turn.calls, *turn_tool_calls]
        for call in new_calls(self._shown, known)[: MAX_FINDINGS - len(findings)] if self._shown else ():
            message = (
                f"tool call {call.name!r}{f' ({call.id})' if call.id else ''} was reported, but a later report (a Task "
                "or a chunk without 'append') does not have it; it was dropped. Emit cumulative lists on every chunk"
            )
            findings[self._finding("dropped_by_snapshot", message)] = None
        for name in self._dialects.unfinished if self._dialects is not None else ():
            message = f"the arguments of a call of {name!r:.80} began to stream, and no whole report of it came"
            findings[self._finding("calls_missed", message)] = None
        if self._generations.missing or self._generations.shown:
            findings[self._missed_events()] = None
        if self._end_text and self.turn_state in FAILED_STATES:
            reason = self._end_text[:_MAX_REASON]
            code = self.turn_state.removeprefix("TASK_STATE_").lower()
            findings[replace(self._finding(f"task_{code}", reason), severity=Severity.INFO)] = None
        seen = {(call.id, call.name) for call in self._turn.calls if call.id}
        for call in turn_tool_calls:
            again = call.id and (call.id, call.name) in seen and call.id not in self._turn.waited
            if again and len(findings) < MAX_FINDINGS:
                message = (
                    f"id {call.id!r} is used for more than one call of {call.name!r} in this task; each is kept. "
                    "Give every call of a task its own id"
                )
                findings[self._finding("id_reused", message)] = None
            seen.add((call.id, call.name))
        return list(findings)

    def _missed_events(self) -> Finding:
        missing, shown = self._generations.missing, self._generations.shown
        first, last = (missing or shown)[0]
        number = sum(end - begin + 1 for begin, end in missing or shown)
        message = (
            f"the updates of the task jump from generation {first - 1} to {last + 1}; in this turn, {number} change(s) "
            f"came with no event. {'They may have been tool calls' if missing else 'A later Task shows them'}"
        )
        finding = self._finding(MISSED_EVENTS, message)
        return finding if missing else _superseded(finding)

    # ── events ──────────────────────────────────────────────────────────────────────────────────────────

    def _artifact_update(self, update: Mapping[str, Any]) -> None:
        self._identify(update.get("taskId"), update.get("contextId"))
        artifact = update.get("artifact")
        if not isinstance(artifact, dict):
            self._malformed("'artifactUpdate' without an 'artifact' object", artifact)
            return
        raw_id = artifact.get("artifactId")
        artifact_id = raw_id if isinstance(raw_id, str) else ""
        known = self._artifacts.get(artifact_id)
        generation, append = generation_of(update), update.get("append") is True
        if known is not None and known.generation > generation and self._generations.awaits(generation):
            takes = known.takes(generation, append=append)
            if takes is None:
                return  # the change stays missing
            self._generations.saw_update(generation)
            if takes:
                self._extend(artifact_id, known, artifact, generation)
                if not append:
                    known.begun, known.lacks_beginning = generation, False
            return
        self._generations.saw_update(generation)
        if append and known is not None:
            self._extend(artifact_id, known, artifact, generation)
            return
        if append:
            message = "a chunk with 'append' for an artifact never seen; taken as a new artifact"
            self._report("append_to_unknown_artifact", message, where=f"artifact {artifact_id!r}")
        self._place(artifact_id, artifact, generation)
        self._artifacts[artifact_id].lacks_beginning = append

    def _status_update(self, update: Mapping[str, Any]) -> None:
        self._identify(update.get("taskId"), update.get("contextId"))
        status, generation = update.get("status"), generation_of(update)
        if not isinstance(status, dict):
            return
        late = self._generations.awaits(generation)
        self._generations.saw_update(generation)
        if not late:  # else a later status is known
            self._status(status)

    def _message(self, message: Mapping[str, Any]) -> None:
        self._identify(message.get("taskId"), message.get("contextId"))
        self._message_text = parts_text(message)[:MAX_TEXT_CHARS]

    def _snapshot(self, task: Mapping[str, Any]) -> None:
        self._identify(task.get("id"), task.get("contextId"))
        generation = generation_of(task) if "generation" in task else 0
        self._status(task.get("status"), task)
        artifacts = task.get("artifacts")
        if not artifacts and self.state not in TERMINAL_STATES:
            if self._artifacts:  # it shows none of the changes before it
                if generation > self._generations.latest:
                    self._generations.saw_update(generation)
            elif generation or self._generations.latest:
                self._generations.saw_task(generation)
            return
        if generation or self._generations.latest:
            self._generations.saw_task(generation)
        before = self.tool_calls if self._artifacts else []
        streamed = bool(self._artifacts)
        self._artifacts.clear()
        self._text_chars = self._call_count = 0
        self._seen_before = SeenCalls(self._now, before)
        self._findings = dict.fromkeys(map(_superseded, self._findings))
        if artifacts is not None and not isinstance(artifacts, list):
            self._malformed(f"'artifacts' is a {type(artifacts).__name__}, expected a list", artifacts)
            artifacts = None
        for artifact in artifacts or ():
            if not isinstance(artifact, dict):
                self._malformed("an entry of 'artifacts' is not an object", artifact)
                continue
            raw_id = artifact.get("artifactId")
            artifact_id = raw_id if isinstance(raw_id, str) else ""
            known = self._artifacts.get(artifact_id)
            if known is None:
                self._place(artifact_id, artifact, generation)
            else:  # two artifacts of a snapshot share an id: both are there, so both count
                self._extend(artifact_id, known, artifact, generation)
        if streamed or artifacts:
            self.snapshot_seen = self.turn_snapshot_seen = True
        if before:
            self._note_dropped(before)

    def _malformed(self, message: str, content: Any) -> None:
        self._report("malformed_event", message)
        self._note_unread(content)

    def _note_unread(self, content: Any) -> bool:
        """Remember the calls in what could not be read: a later report has to have them. Returns whether the extension
        is named there."""
        calls, _, is_named = calls_anywhere(content)
        self._shown = [*self._shown, *new_calls(calls, self._shown)][:MAX_CALLS]
        return is_named

    def _note_dropped(self, before: list[ToolCall]) -> None:
        """Remember the calls that were there `before` a report, if it lacks one."""
        if before and (self._shown or missing_calls(before, self.tool_calls)):
            self._shown = [*before, *new_calls(self._shown, before)][:MAX_CALLS]

    def _identify(self, task_id: Any, context_id: Any) -> None:
        if isinstance(task_id, str) and task_id:
            self.task_id, self._named = task_id, True
        if context_id != self.context_id and isinstance(context_id, str) and context_id:
            self.context_id = context_id

    def _status(self, status: Any, task: Mapping[str, Any] | None = None) -> None:
        if not isinstance(status, dict):
            return
        state = normalize_state(status.get("state"))
        if state is not None:
            if state != self.turn_state:
                self._end_text = ""
            self.state = self.turn_state = state
            self._waiting = waiting_calls(status.get("message"), interrupts=True) if state in INTERRUPTED_STATES else []
        said = parts_text(message) if (message := status.get("message")) else ""
        if text := said or (answer_in_history(task) if task is not None and not _HISTORY.isdisjoint(task) else ""):
            self._status_text = text = text[:MAX_TEXT_CHARS]
            in_timeline = self.state != "TASK_STATE_COMPLETED" and task is not None and timeline_of(task)
            if self.state in SETTLED_STATES and (said or in_timeline):
                self._end_text = text

    def _place(self, artifact_id: str, artifact: Mapping[str, Any], generation: int) -> None:
        replaced = self._artifacts.get(artifact_id)
        before = self.tool_calls if replaced is not None and replaced.calls else []
        if replaced is not None:
            self._seen_before = SeenCalls(self._now, replaced.calls)
            self._text_chars -= sum(map(len, replaced.text))
            self._call_count -= len(replaced.calls)
        placed = MergedArtifact(begun=generation)
        for call in self._read(artifact_id, artifact):
            self._add(placed, call, artifact_id)
        self._add_text(placed, artifact, generation)
        self._artifacts[artifact_id] = placed
        if replaced is not None and missing_calls(replaced.calls, placed.calls):
            self._note_dropped(before)

    def _extend(self, artifact_id: str, known: MergedArtifact, artifact: Mapping[str, Any], generation: int) -> None:
        self._add_text(known, artifact, generation)
        if "metadata" not in artifact and "extensions" not in artifact:  # the usual chunk: text only
            return
        calls = unite(self._read(artifact_id, artifact))
        if is_cumulative(known.calls, calls):
            for position in range(len(known.calls)):
                self._replace(known, position, calls[position], artifact_id)
            calls = calls[len(known.calls) :]
        for call in calls:
            self._add(known, call, artifact_id)

    def _add(self, known: MergedArtifact, call: ToolCall, artifact_id: str) -> None:
        """Append `call`, or let it replace the one that it reports again."""
        position = known.find(call)
        if position is not None:
            self._replace(known, position, call, artifact_id)
            return
        if (other := known.other_name(call)) is not None:
            message = f"id {call.id!r} is used for {other!r} and {call.name!r}; both calls are kept"
            self._report("id_conflict", message, where=f"artifact {artifact_id!r}")
        if self._call_count >= MAX_CALLS:
            self._report("too_many_calls", f"more than {MAX_CALLS} calls; the rest is not kept")
            return
        known.calls.append(call)
        self._call_count += 1

    def _replace(self, known: MergedArtifact, position: int, call: ToolCall, artifact_id: str) -> None:
        earlier = known.replace(position, call)
        if contradicts(earlier, call):
            message = f"call {call.id!r} of {call.name!r} was announced with other arguments than it ended with"
            self._report("id_conflict", message, where=f"artifact {artifact_id!r}")

    def _read(self, artifact_id: str, artifact: Mapping[str, Any]) -> list[ToolCall]:
        listed, extensions = self._listed.get(artifact_id, frozenset()), artifact.get("extensions")
        if isinstance(extensions, list):
            self._listed[artifact_id] = listed = listed.union(filter(extensions.__contains__, _KNOWN_URIS))
        if "metadata" not in artifact:
            return []
        seen = self._seen_before or SeenCalls(self._now)
        calls, findings = read_tool_calls(
            artifact, already_listed=listed, require_artifact_uri=self._require_artifact_uri, seen=seen
        )
        for finding in findings:
            self._keep(finding)
        return calls

    def _add_text(self, known: MergedArtifact, artifact: Mapping[str, Any], generation: int) -> None:
        known.generation = max(known.generation, generation)
        known.waiting += waiting_calls(artifact, interrupts=False)
        text = parts_text(artifact)
        if not text:
            return
        room = MAX_TEXT_CHARS - self._text_chars
        if len(text) > room:
            self._report("text_truncated", f"more than {MAX_TEXT_CHARS} characters of text; the rest is not kept")
            text = text[:room]
        if text:
            self._text_chars += len(text)
            known.add_text(text, generation or known.generation)

    def _report(self, code: str, message: str, *, where: str = "") -> None:
        self._keep(self._finding(code, message, where))

    def _finding(self, code: str, message: str, where: str = "") -> Finding:
        return Finding(code, message, Severity.WARNING, where or f"task {self.task_id!r}")

    def _keep(self, finding: Finding) -> None:
        known = self._findings
        if finding in known:
            return
        if len(known) < MAX_FINDINGS or all(finding.code != other.code for other in known):  # each code is kept once
            self._findings[finding] = None


class ContinuedMerger(TaskMerger):
    """A merger of one of several views of a task, and of a task whose earlier turns are known from elsewhere."""

    @property
    def generation(self) -> int:
        """The generation of the latest change of the task that was seen (A2A 1.1); 0 if the agent counts none."""
        return self._generations.latest

    def has_seen(self, event: Mapping[str, Any]) -> bool:
        """Whether the change that an update shows was seen before; False where that is not known."""
        update = event.get("artifactUpdate") or event.get("statusUpdate")
        return isinstance(update, dict) and self._generations.has(generation_of(update))

    def skip(self, event: Mapping[str, Any]) -> None:
        """Note that an event came which is not to be merged, since it shows the past: it is not missing."""
        update = event.get("artifactUpdate") or event.get("statusUpdate")
        if isinstance(update, dict) and self.generation and not self.has_seen(event):
            self._generations.saw_update(generation_of(update))

    def know_earlier(self, calls: Sequence[ToolCall], texts: Sequence[str]) -> None:
        """Add calls and response texts of earlier turns of the task whose events this merger did not receive.

        Arguments of None mean unknown arguments: such a call is identified by its id, or by its name alone.
        """
        start = self._turn
        self._turn = replace(
            start,
            calls=[*start.calls, *calls][:MAX_CALLS],
            elsewhere=[*start.elsewhere, *calls][:MAX_CALLS],
            responses=[*start.responses, *filter(None, texts)],
        )
        if calls or texts:
            self._stated().know_earlier()

    def continue_turn_of(self, other: TaskMerger) -> None:
        """Replace `other` in the middle of a turn: what is earlier there is earlier here."""
        self._turn = other._turn
        if self.tokens is not None or other.tokens is not None:
            self._stated().continue_turn_of(other.tokens or TokenUsage())
        seen = SeenCalls(None, other.tool_calls)
        for artifact in self._artifacts.values():
            artifact.calls[:] = map(seen.marked, artifact.calls)


def _superseded(finding: Finding) -> Finding:
    """A finding of an event that was not read, now that a Task has what it may have had; others as they are."""
    return replace(finding, severity=Severity.INFO) if finding.code in _UNREAD_EVENTS else finding
