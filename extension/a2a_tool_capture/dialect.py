"""Reads tool calls of agents without the extension from what their framework sends instead, in formats that each have a
module in the folder `dialects`. Sans-io.

Calls are in messages and artifacts. Messages travel in status updates and, once the next one has arrived, in the
history of the task, which holds nearly all of them in the response to a request that does not stream.

Nothing here negotiates or filters: clients see these parts whether or not the proxy reads them.
"""

from __future__ import annotations

import pkgutil
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

from .models import Finding, Severity, ToolCall, ToolCallSource
from .reconciliation import reconcile
from .same_call import finished, same_call
from .wire import timeline_of

MAX_CALL_PARTS = 20_000
"""Maximum number of calls and responses kept per task."""

DIALECT_NOT_READ = "dialect_not_read"
"""The finding of a turn without calls whose answer has parts of a dialect that is not read."""

WHOLE = -1
"""The place of what is in a message or an artifact as a whole, and in none of its parts."""


class CallPart(NamedTuple):
    """What one place says of a call: that it starts or, if `ends`, its outcome."""

    name: str
    id: str
    ends: bool
    arguments: Mapping[str, Any] | None = None
    result: str | None = None
    error: str | None = None
    source: ToolCallSource = ToolCallSource.CLIENT
    seen_at: float | None = None
    streams: bool = False
    """Whether it is no more than the beginning of the arguments."""


class MalformedPartError(Exception):
    """What may be a call and is none that can be read; `code` is that of its finding."""

    def __init__(self, message: str, code: str = "malformed_entry") -> None:
        super().__init__(message)
        self.code = code


Placed: TypeAlias = tuple[int, CallPart | MalformedPartError | None]
"""What was read, and the number of its part or `WHOLE`; None for what is known to be no call."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """A format of tool calls. `key` marks what it has: a name in metadata. `read` takes a message or an artifact (JSON
    object of A2A 1.0) and never raises on JSON-like input."""

    name: str
    source: ToolCallSource
    key: str
    read: Callable[[Mapping[str, Any]], Iterable[Placed]]

    @property
    def mark(self) -> bytes:
        """What occurs in the bytes of an answer in the dialect: the key, as JSON."""
        return f'"{self.key}"'.encode()

    @property
    def not_read(self) -> Finding:
        """The finding of an answer that has the mark, if this dialect is not read."""
        what = f"parts of the answer are marked {self.key!r}, as those of tool calls are"
        return Finding(DIALECT_NOT_READ, f"{what}; --dialects {self.name} reads them", Severity.INFO, "response")


@cache
def known_dialects() -> Mapping[str, Dialect]:
    """Those of the folder `dialects`, by name."""
    folders = [f"{folder}/dialects" for folder in import_module(__name__.rpartition(".")[0]).__path__]
    names = sorted(module.name for module in pkgutil.iter_modules(folders))
    found: list[Dialect] = [import_module(f"..dialects.{name}", __name__).DIALECT for name in names]
    return {one.name: one for one in found}


class DialectReader:
    """Collects the calls of one task from its events. Never raises on JSON-like input; memory is bounded.

    Repeated calls count once: the same id is one call, a repeated message or artifact replaces the earlier one, and
    calls in both messages and artifacts are matched by id, then by name and arguments. Task objects do not remove
    calls, because servers truncate histories. A response without a call is a call with unknown arguments.

    Raises KeyError for a name that `known_dialects` does not have.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._dialects = [known_dialects()[name] for name in names]
        self._messages: dict[str, list[CallPart]] = {}
        self._artifacts: dict[str, list[CallPart]] = {}
        self._count = 0
        self._now: float | None = None
        self._findings: list[Finding] = []
        self._unfinished: dict[str, None] = {}
        self.before: list[ToolCall] = []
        """The calls before the latest event, if that does not repeat all that it replaces."""

    @property
    def tool_calls(self) -> list[ToolCall]:
        """Every call so far in the order of first appearance; calls found only in artifacts come last."""
        return reconcile(_calls(self._messages.values()), _calls(self._artifacts.values())).tool_calls

    @property
    def unfinished(self) -> list[str]:
        """Names of calls whose arguments began to stream since `begin_turn`, and of which no whole report came."""
        return list(self._unfinished)

    def begin_turn(self) -> None:
        """What is unfinished belongs to earlier turns."""
        self._unfinished.clear()

    def feed(self, event: Mapping[str, Any], now: float | None = None) -> list[Finding]:
        """Read one v1.0 StreamResponse (`TaskMerger.feed`); returns findings about it."""
        self._now, self.before, self._findings = now, [], []
        task, update = _object(event.get("task")), _object(event.get("artifactUpdate"))
        for message in _list(task.get("history")):
            self._message(message)
        for entry in timeline_of(task):
            self._message(entry.get("message"))
            self._message(_said(entry))
        for artifact in _list(task.get("artifacts")):
            self._artifact(artifact, append=False)
        for message in (_said(task), _said(event.get("statusUpdate")), event.get("message")):
            self._message(message)
        self._artifact(update.get("artifact"), append=update.get("append") is True)
        return self._findings

    def _message(self, message: Any) -> None:
        if isinstance(message, dict) and message.get("role") not in ("ROLE_USER", "user"):
            message_id = message.get("messageId")
            key = message_id if isinstance(message_id, str) and message_id else f"#{len(self._messages)}"
            self._keep(self._messages, key, self._read(message, f"message {key!r}"))

    def _artifact(self, artifact: Any, *, append: bool) -> None:
        if isinstance(artifact, dict):
            key = str(artifact.get("artifactId", ""))
            parts = self._read(artifact, f"artifact {key!r}")
            self._keep(self._artifacts, key, (self._artifacts.get(key, []) if append else []) + parts)

    def _keep(self, kept: dict[str, list[CallPart]], key: str, parts: list[CallPart]) -> None:
        replaced = kept.get(key, [])
        earlier = len(replaced)
        if not self.before and not {one[:3] for one in replaced} <= {one[:3] for one in parts}:
            self.before = self.tool_calls
        parts[:earlier] = [
            new._replace(seen_at=old.seen_at) if new[:3] == old[:3] else new
            for new, old in zip(parts, replaced, strict=False)
        ]
        room = MAX_CALL_PARTS - self._count + earlier
        if len(parts) > room:
            message = f"more than {MAX_CALL_PARTS} calls and responses; further ones are dropped"
            self._findings.append(Finding("too_many_calls", message))
            parts = parts[:room]
        if parts:
            kept[key] = parts
        else:
            kept.pop(key, None)
        self._count += len(parts) - earlier

    def _read(self, holder: Mapping[str, Any], where: str) -> list[CallPart]:
        """What is in a message or an artifact. A part counts in the first dialect that has it."""
        read: list[Placed] = []
        for dialect in self._dialects:
            taken = {place for place, _ in read}
            for place, one in dialect.read(holder):
                if isinstance(one, CallPart):
                    one = one._replace(source=dialect.source, seen_at=self._now)
                if place not in taken:
                    read.append((place, one))
        parts = []
        for place, one in sorted(read, key=itemgetter(0)):
            if isinstance(one, MalformedPartError):
                at = where if place == WHOLE else f"{where}, part {place}"
                self._findings.append(Finding(one.code, str(one), Severity.WARNING, at))
            elif one is not None and one.streams:
                self._unfinished[one.name] = None
            elif one is not None:
                self._unfinished.pop(one.name, None)
                parts.append(one)
        return parts


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def _said(holder: Any) -> Any:
    """The message of a status, in what has one."""
    return _object(_object(holder).get("status")).get("message")


def _calls(groups: Iterable[Sequence[CallPart]]) -> list[ToolCall]:
    """Calls with their responses, matched by id or, without one, to the first unanswered call of that name."""
    calls: list[ToolCall] = []
    places: dict[str, int] = {}
    unanswered: dict[str, deque[int]] = defaultdict(deque)
    for one in (one for parts in groups for one in parts):
        place = places.get(one.id) if one.id else None
        if not one.id and one.ends and unanswered[one.name]:
            place = unanswered[one.name].popleft()
        if place is not None and one.name in ("", calls[place].name) and not _is_another(calls[place], one):
            calls[place] = _updated(calls[place], one)
        elif one.name:
            if one.id:
                if place is None or one.name == calls[place].name:
                    places[one.id] = len(calls)
            elif not one.ends:
                unanswered[one.name].append(len(calls))
            call = ToolCall(one.name, one.arguments, one.id, one.result, one.error, one.source)
            calls.append(replace(call, first_seen_at=one.seen_at, result_seen_at=one.seen_at if one.ends else None))
    return calls


def _is_another(call: ToolCall, one: CallPart) -> bool:
    """Whether a call reuses the id of a finished call with other arguments."""
    again = replace(call, arguments=one.arguments, result=None, error=None)
    return not one.ends and finished(call) and not same_call(call, again)


def _updated(call: ToolCall, one: CallPart) -> ToolCall:
    if one.ends:  # the last response is used: a tool may report progress, or run after a confirmation
        return replace(call, result=one.result, error=one.error, result_seen_at=one.seen_at)
    return replace(call, arguments=one.arguments)
