"""Values of the extension: tool calls, findings and captured turns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from .wire import INTERRUPTED_STATES


class ToolCallSource(StrEnum):
    """Where a call was seen. Set by the reader, never read from the wire."""

    A2A_PROTOCOL = "a2a_protocol"
    OTEL_TRACE = "otel_trace"
    OPENAI_AGENTS = "openai_agents"
    A2E = "a2e"
    ADK = "adk"
    KAGENT = "kagent"
    TRACEABILITY = "traceability"
    CLIENT = "client"


class Severity(StrEnum):
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a tool.

    `arguments` is an object; None if they are unknown, because a trace omits them or the agent says so. `id` is "" if
    the agent assigns none. `result` and `error` are None if absent. Times are aware UTC datetimes, None if unknown.
    `metadata` is JSON data of the program that made the call, such as its latency: it is never read from the wire nor
    written to it. `default_arguments` names those of the arguments that the model need not have given: a framework may
    have filled in the tool's defaults.

    `first_seen_at` and `result_seen_at` are the times at which a `TaskMerger` saw the call and its result or error, in
    seconds since the epoch; None if unknown. The JSON form does not have them, and they are not compared.
    """

    name: str
    arguments: Mapping[str, Any] | None = field(default_factory=dict)
    id: str = ""
    result: str | None = None
    error: str | None = None
    source: ToolCallSource = ToolCallSource.CLIENT
    started_at: datetime | None = None
    ended_at: datetime | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    first_seen_at: float | None = field(default=None, compare=False)
    result_seen_at: float | None = field(default=None, compare=False)
    default_arguments: tuple[str, ...] = ()

    @property
    def arguments_given(self) -> Mapping[str, Any] | None:
        """`arguments` without `default_arguments`."""
        return self.arguments_for({})

    def arguments_for(self, expected: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        """`arguments` without those `default_arguments` that `expected` leaves out."""
        if not self.default_arguments or self.arguments is None or expected is None:
            return self.arguments
        left_out = set(self.default_arguments).difference(expected)
        return {name: value for name, value in self.arguments.items() if name not in left_out}

    def to_dict(self) -> dict[str, Any]:
        """JSON form: every field, times as RFC 3339 UTC with microseconds; absent times, metadata and default arguments
        are omitted."""
        further = {
            "started_at": self.started_at and rfc3339(self.started_at),
            "ended_at": self.ended_at and rfc3339(self.ended_at),
            "metadata": dict(self.metadata),
            "default_arguments": list(self.default_arguments),
        }
        return {
            "id": self.id,
            "name": self.name,
            "arguments": None if self.arguments is None else dict(self.arguments),
            "result": self.result,
            "error": self.error,
            "source": str(self.source),
            **{key: value for key, value in further.items() if value},
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ToolCall:
        """Inverse of `to_dict`. Unknown keys are ignored.

        Raises KeyError without a name, ValueError for an unknown source or an invalid time. To read an agent's
        metadata use `read_tool_calls`, which never raises.
        """
        return cls(
            name=data["name"],
            arguments=data.get("arguments", {}),
            id=data.get("id") or "",
            result=data.get("result"),
            error=data.get("error"),
            source=ToolCallSource(data.get("source", ToolCallSource.CLIENT)),
            started_at=_time(data.get("started_at")),
            ended_at=_time(data.get("ended_at")),
            metadata=data.get("metadata") or {},
            default_arguments=tuple(data.get("default_arguments") or ()),
        )


@dataclass(frozen=True, slots=True)
class Finding:
    """A limit of what is known about a turn: a stable `code`, a message for people, and its location."""

    code: str
    message: str
    severity: Severity = Severity.WARNING
    where: str = ""

    def to_dict(self) -> dict[str, str]:
        return {
            "code": self.code,
            "severity": self.severity.value,
            "message": self.message,
            "where": self.where,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, str]) -> Finding:
        return cls(data["code"], data["message"], Severity(data["severity"]), data.get("where", ""))


CALLS_UNKNOWN_BY: Mapping[str, str] = {
    "malformed_entry": "an entry of a list of calls was skipped",
    "calls_not_a_list": "the calls of an artifact are not a list",
    "uri_not_listed": "the artifact of the calls does not list the extension",
    "calls_not_on_artifact": "calls are where the extension does not put them",
    "malformed_event": "an event could not be read",
    "malformed_response": "a response could not be read",
    "unknown_event": "an event is of a kind that is not known",
    "unknown_version": "the calls are of a version of the extension that is not known",
    "unknown_kind": "a part, a wrapper or an entry is of a kind that is not known",
    "content_withheld": "what may have held calls was withheld, cut or dropped",
    "dropped_by_snapshot": "a call that was reported is absent from a later report",
    "too_many_calls": "there are more calls than are kept",
    "calls_not_recorded": "the agent says that it did not record all calls",
    "calls_missed": "reports of calls were missed",
    "trace_contested": "traces with calls may be of this turn or of another",
    "missed_events": "changes of the task came with no event",
    "capture_error": "capture failed, or could not read what another proxy had captured",
}
"""Which findings make the tool calls of a turn unknown: one table, for every source of calls and every reader of turns.

A reader that meets something it cannot read as calls, and cannot rule out to be one, reports a finding with one of
these codes. So does one that finds a call gone that an earlier report had. Nothing else decides;
and not one whose severity is `info`: a later report has what was not read."""


def calls_unknown_by(findings: Iterable[Finding]) -> Finding | None:
    """The first of `findings` that makes the calls unknown, in the order of the table; None without any."""
    by_code = {one.code: one for one in findings if one.severity is not Severity.INFO}
    return next((by_code[code] for code in CALLS_UNKNOWN_BY if code in by_code), None)


@dataclass(frozen=True, slots=True)
class WaitingCall:
    """A tool call that waits for the user; None for unknown arguments, "" for no id.

    `form` is a row of the table in `approvals`, `question` the id by which an answer names the question.
    """

    name: str
    arguments: Mapping[str, Any] | None = None
    id: str = ""
    form: str = ""
    question: str = ""

    def to_dict(self) -> dict[str, Any]:
        """JSON form: name, arguments and id."""
        arguments = None if self.arguments is None else dict(self.arguments)
        return {"name": self.name, "arguments": arguments, "id": self.id}


@dataclass(frozen=True, slots=True)
class CapturedTurn:
    """One user message and everything the agent did for it.

    `state` is the task's state in 1.0 names, None if the agent responded only with a Message; `task_id` and
    `context_id` are "" if the agent assigned none. `declared`: the card declares the extension. Times are aware
    UTC; `first_event_at` is None without an event.
    """

    user_text: str
    text: str
    tool_calls: tuple[ToolCall, ...]
    findings: tuple[Finding, ...]
    state: str | None
    task_id: str
    context_id: str
    declared: bool
    binding: str
    protocol_version: str
    started_at: datetime
    first_event_at: datetime | None
    ended_at: datetime
    usage: dict[str, Any] | None = None
    """The tokens that the agent states (`TaskMerger.usage`)."""
    user_parts: list[dict[str, Any]] | None = None
    """The parts of the message, unless it is one text (`approvals.kept_parts`)."""
    waiting: tuple[WaitingCall, ...] = ()
    """The calls that wait for the user's approval."""

    @property
    def interrupted(self) -> bool:
        """Whether the task waits for the user: the next message should contain `task_id`."""
        return self.state in INTERRUPTED_STATES


def rfc3339(moment: datetime | float) -> str:
    """RFC 3339 in UTC with microseconds, the format of all JSON here. Numbers are seconds since the epoch."""
    moment = moment if isinstance(moment, datetime) else datetime.fromtimestamp(moment, UTC)
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def epoch_seconds(moment: str) -> float:
    """Seconds since the epoch of an RFC 3339 time. Raises ValueError for any other text."""
    return datetime.fromisoformat(moment).timestamp()


def _time(value: str | datetime | None) -> datetime | None:
    if value is None or isinstance(value, datetime):
        return value
    return datetime.fromisoformat(value)
