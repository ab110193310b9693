"""A turn: one user message and all the agent did for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from enum import StrEnum
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from a2a_tool_capture import Finding, ToolCall
from a2a_tool_capture.models import epoch_seconds, rfc3339

if TYPE_CHECKING:
    from tool_call_evaluators.visibility import Visibility


@dataclass(slots=True)
class CaptureFacts:
    """How the proxy learned of the turn's calls."""

    declared: bool = False
    requested_by_client: bool = False
    snapshot_seen: bool = False
    matched_by_id: int = 0
    matched_by_signature: int = 0
    protocol_only: int = 0
    trace_only: int = 0

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> CaptureFacts:
        return cls(**{spec.name: data[spec.name] for spec in fields(cls)})

    def to_dict(self, calls: list[ToolCall]) -> dict[str, Any]:
        return {
            "declared": self.declared,
            "requested_by_client": self.requested_by_client,
            "snapshot_seen": self.snapshot_seen,
            "sources": dict(Counter(str(call.source) for call in calls)),
            "matched_by_id": self.matched_by_id,
            "matched_by_signature": self.matched_by_signature,
            "protocol_only": self.protocol_only,
            "trace_only": self.trace_only,
        }


class NamedIn(StrEnum):
    """What an id that an agent names is, as seen from the turn in which it is named."""

    PARENT_TASK = "parent_task"
    PARENT_CONVERSATION = "parent_conversation"
    CHILD_TASK = "child_task"
    CHILD_CONVERSATION = "child_conversation"


MOST_NAMES = 20
"""Maximum number of ids that are kept as names of a turn."""


class TurnLinks(NamedTuple):
    """What a turn shows of the turn that caused it, and of those that it caused: from this `graph` makes edges."""

    client_span_id: str = ""
    """Span of the client that the request's trace context names; "" where the trace began with this turn."""
    parent_turn_id: str = ""
    """Turn that the request's trace context names, see `protocol.trace_state`; "" for none."""
    names: tuple[tuple[NamedIn, str], ...] = ()
    """Ids that message and answer name."""

    def with_children(self, conversations: Iterable[str]) -> TurnLinks:
        """These links, and the conversations of agents that were asked, as far as there is room."""
        names = dict.fromkeys([*self.names, *((NamedIn.CHILD_CONVERSATION, one) for one in conversations)])
        return self._replace(names=tuple(names)[:MOST_NAMES])

    def to_dict(self) -> dict[str, Any]:
        """As JSON data, for the store and for other processes."""
        return self._asdict()

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> TurnLinks:
        """Inverse of `to_dict`. Raises KeyError or ValueError for data that is something else."""
        names = tuple((NamedIn(kind), identifier) for kind, identifier in data["names"])
        return cls(data["client_span_id"], data["parent_turn_id"], names)


STARTS_TRACE = TurnLinks()
"""The links of a turn of which nothing is known but that its trace began with it."""

_IN_MEMORY = ("parent_span_id", "shown_by", "links")
"""Fields of a turn that are not in its JSON."""
_OPTIONAL = (
    *("agent_name", "agent_card", "attempt", "given", "simulated_user", "usage", "spans", "world"),
    *("user_parts", "approvals"),
)
"""Fields that are in the JSON if they are not None."""


@dataclass(slots=True)
class Turn:
    """One turn while it is captured. Times are seconds since the epoch, on the clock of the caller.

    `status` goes open, pending (closed, waiting to be scored), done. `state` is the task's, in 1.0 names; None
    where the agent answered with a Message or not at all.
    """

    turn_id: str
    run: str
    agent: str
    binding: str
    protocol_version: str
    started_at: float
    case_id: str | None = None
    conversation_id: str = ""
    task_id: str = ""
    trace_id: str = ""
    parent_span_id: str = ""
    """Span that the request's trace context names as parent. Not in JSON."""
    state: str | None = None
    status: str = "open"
    user_text: str = ""
    response_text: str = ""
    first_event_at: float | None = None
    ended_at: float | None = None
    tool_calls: list[ToolCall] = field(default_factory=list)
    capture: CaptureFacts = field(default_factory=CaptureFacts)
    findings: list[Finding] = field(default_factory=list)
    agent_name: str | None = None
    """Which of several agents behind the proxy; None where there is only one: not in JSON."""
    agent_card: dict[str, str] | None = None
    """`name` and `version` of the agent's card, or the version that a user gave. None: not known, not in JSON."""
    attempt: dict[str, Any] | None = None
    """In turns of `run`: the `number` of the attempt at the case, from 1, of how many `planned`; after how many passes
    they end (`enough`, None: none is left out); and its `seed`, if the run has one. None: not in JSON."""
    given: bool | None = None
    """True: it is of the history that a case gives, and is not scored. None: it is not; not in JSON."""
    simulated_user: dict[str, Any] | None = None
    """In turns of a simulated user: `{"conversation": number}`, in the last one its `UserRecord`. None: not in JSON."""
    shown_by: str = ""
    """The evidence that calls would have been captured; "" without any. In JSON it is in `calls_evidence`."""
    usage: dict[str, Any] | None = None
    """Of the agent's models, as far as its traces, else its answers state them: `input_tokens`, `output_tokens`,
    `total_tokens`, `cost`, `models` (tokens by name), `source` of the tokens, `at_least` (true: a part of them)."""
    spans: list[dict[str, Any]] | None = None
    """What its traces show of the agent's work, by start: see `traces.merge.spans_of`. None: no spans, not in JSON."""
    world: dict[str, Any] | None = None
    """What probes saw after this `turn`, and in the last one of a `case` after that: of each, `{"seen": value}`, or why
    it failed, `{"error": reason}`. None: nothing was probed, not in JSON."""
    user_parts: list[dict[str, Any]] | None = None
    """Of the message, as JSON of A2A 1.0; []: not kept. None: it is one text, not in JSON."""
    approvals: list[dict[str, Any]] | None = None
    """Calls that wait for the user's approval: `name`, `arguments`, `id`. None: none is named, not in JSON."""
    links: TurnLinks | None = None
    """None: only the store has them. Not in JSON."""

    @property
    def visibility(self) -> Visibility:
        """Whether its tool calls are known."""
        of = _visibility().visibility_of
        visibility: Visibility = of(self.state, len(self.tool_calls), self.findings, self.shown_by)
        return visibility

    @property
    def agent_of_conversation(self) -> str | None:
        """See `tool_call_evaluators.outcomes.conversations.agent_of_conversation`."""
        return None if self.attempt else self.agent_name

    @property
    def agent_key(self) -> str:
        """What a store calls its agent."""
        return self.agent_name or self.agent

    def to_dict(self) -> dict[str, Any]:
        """The turn as in every JSON output, without evaluations, which are separate."""
        whole = {
            "turn_id": self.turn_id,
            "run": self.run,
            "case_id": self.case_id,
            "conversation_id": self.conversation_id,
            "task_id": self.task_id,
            "agent": self.agent,
            "binding": self.binding,
            "protocol_version": self.protocol_version,
            "state": self.state,
            "status": self.status,
            "user_text": self.user_text,
            "response_text": self.response_text,
            "started_at": rfc3339_at(self.started_at),
            "first_event_at": rfc3339_at(self.first_event_at),
            "ended_at": rfc3339_at(self.ended_at),
            "trace_id": self.trace_id,
            "tool_calls": list(map(ToolCall.to_dict, self.tool_calls)),
            "call_times": list(map(call_times, self.tool_calls)),
            **self.visibility.to_dict(),
            "capture": self.capture.to_dict(self.tool_calls),
            "findings": list(map(Finding.to_dict, self.findings)),
        }
        for name in _OPTIONAL:
            if (value := getattr(self, name)) is not None:
                whole[name] = value
        return whole

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Turn:
        """Inverse of `to_dict`; other keys are ignored. Raises KeyError or ValueError for data that is not a turn."""
        always = (spec.name for spec in fields(cls) if spec.name not in (*_IN_MEMORY, *_OPTIONAL))
        values = {name: data[name] for name in always} | {name: data.get(name) for name in _OPTIONAL}
        values["capture"] = CaptureFacts.from_dict(data["capture"])
        values["tool_calls"] = _visibility().calls_in(data)
        values["findings"] = [Finding.from_dict(finding) for finding in data["findings"]]
        values["shown_by"] = _visibility().stated_evidence(data)
        for name in ("started_at", "first_event_at", "ended_at"):
            if data[name] is not None:
                values[name] = epoch_seconds(data[name])
        return cls(**values)


@cache
def _visibility() -> ModuleType:
    """Imported when it is first needed: that takes a quarter of a second, and `--help` does without."""
    from tool_call_evaluators import visibility

    return visibility


def call_times(call: ToolCall) -> dict[str, Any] | None:
    """When a call ran, by its span or the agent's report; else when the proxy saw it; None if neither is known."""
    if call.started_at is not None:
        ended_at = None if call.ended_at is None else rfc3339(call.ended_at)
        return {"source": "trace", "started_at": rfc3339(call.started_at), "ended_at": ended_at}
    if call.first_seen_at is not None:
        seen = {"first_seen_at": rfc3339_at(call.first_seen_at), "result_seen_at": rfc3339_at(call.result_seen_at)}
        return {"source": "protocol", **seen}
    return None


def rfc3339_at(moment: float | None) -> str | None:
    """Seconds since the epoch as RFC 3339; None for None."""
    return None if moment is None else rfc3339(moment)
