"""What a check asked and was answered, as values, and where the extension occurs in it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum, StrEnum
from functools import cached_property
from typing import Any

from a2a_tool_capture import TaskMerger
from a2a_tool_capture.errors import AgentUnreachableError, CaptureError
from a2a_tool_capture.extension_filter import EXTENSIONS, METADATA
from a2a_tool_capture.spec import (
    BASE_URI,
    EXTENSIONS_HEADER,
    LEGACY_EXTENSIONS_HEADER,
    METADATA_KEY,
    URI,
    is_capture_uri,
    requested_uris,
)
from a2a_tool_capture.wire import SETTLED_STATES, is_from_user

from ...protocol.answers import state_of, task_id_of
from ...protocol.operations import Operation

STREAMING = frozenset({Operation.STREAM, Operation.SUBSCRIBE})
"""Operations that are answered with a stream of events."""

UNKNOWN_URIS = (f"{BASE_URI}/v999", f"{BASE_URI}/v1999")
"""Versions that do not exist. The second begins like version 1: it finds agents that search for a substring."""

Event = dict[str, Any]
"""A StreamResponse of A2A 1.0 as JSON."""


class Kind(Enum):
    CALLS = "tool calls of version 1 on an artifact"
    LISTED = "a URI of the extension in an artifact's `extensions`"
    OTHER_KEY = "another metadata key of the extension on an artifact"
    LISTED_ELSEWHERE = "a URI of the extension in `extensions` of an object that is not an artifact"
    MISPLACED = "a metadata key of the extension outside an artifact's metadata"
    HEADER = "a URI of the extension in a response header"


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One occurrence of the extension. `name` is the URI or metadata key, `value` the value that holds it."""

    kind: Kind
    where: str
    name: str
    value: Any
    artifact: dict[str, Any] | None = None

    @property
    def entries(self) -> list[Any]:
        """The entries of a call list on an artifact; [] for any other occurrence."""
        return self.value if self.kind is Kind.CALLS and isinstance(self.value, list) else []

    @property
    def of_v1(self) -> bool:
        return self.name == URI or self.name.startswith(f"{URI}/")


_CONTENT = "content"
"""The role of values that the protocol does not define."""


def occurrences_in(
    value: Any, where: str, role: str = "", artifact: dict[str, Any] | None = None
) -> Iterator[Occurrence]:
    """Yields every occurrence in a JSON value, depth first. Keys of the extension count everywhere.

    `artifact` is the one that holds `value`, its metadata or its extensions, which `role` tells.
    """
    if isinstance(value, list):
        if role == EXTENSIONS:
            kind = Kind.LISTED_ELSEWHERE if artifact is None else Kind.LISTED
            yield from (Occurrence(kind, where, uri, value, artifact) for uri in value if is_capture_uri(uri))
        for index, item in enumerate(value):
            yield from occurrences_in(item, f"{where}[{index}]", "artifact" if role == "artifacts" else role)
    if not isinstance(value, dict):
        return
    for key, item in value.items():
        if is_capture_uri(key):
            kind = Kind.MISPLACED
            if role == METADATA and artifact is not None:
                kind = Kind.CALLS if key == METADATA_KEY else Kind.OTHER_KEY
            yield Occurrence(kind, f"{where}[{key!r}]", key, item, artifact)
            continue
        inner = key if key in (METADATA, EXTENSIONS, "artifacts", "artifact") else ""
        if role in (_CONTENT, METADATA) or key == "data" or (key == EXTENSIONS and is_from_user(value)):
            inner = _CONTENT  # the client's message, echoed, has extensions, too
        place = f"{where}.{key}" if where[-1:] not in ("", " ") else where + key
        yield from occurrences_in(item, place, inner, value if role == "artifact" else None)


class Activation(StrEnum):
    NOTHING = "nothing"
    V1 = "version 1"
    UNKNOWN = "unknown versions"
    V1_WITH_UNKNOWN = "version 1 and unknown versions"
    V1_IN_WRONG_PLACE = "version 1, in every place but the right header"
    """Distinguishes an agent that reads the wrong place from one that called no tool."""

    @property
    def uris(self) -> tuple[str, ...]:
        unknown = UNKNOWN_URIS if self in (Activation.UNKNOWN, Activation.V1_WITH_UNKNOWN) else ()
        return unknown if self in (Activation.NOTHING, Activation.UNKNOWN) else (*unknown, URI)


@dataclass(frozen=True, slots=True)
class Interface:
    """One interface of the agent card. `version` is `1.0` or `0.3`; a `url` of gRPC is HOST:PORT or has a scheme."""

    binding: str
    version: str
    url: str
    tenant: str = ""
    required: tuple[str, ...] = ()
    """Other extensions that the card requires of clients: every request activates them."""

    def __str__(self) -> str:
        return f"{self.binding} {self.version}"

    @property
    def legacy(self) -> bool:
        return self.version == "0.3"

    def headers(self, activation: Activation) -> dict[str, str]:
        """Those that activate extensions."""
        names = (EXTENSIONS_HEADER, LEGACY_EXTENSIONS_HEADER)
        right, other = reversed(names) if self.legacy else names
        if activation is Activation.V1_IN_WRONG_PLACE:  # where the right one is missing in 0.3, a2a-sdk adds it
            return {right: ", ".join(self.required), other: ", ".join(activation.uris)}
        uris = ", ".join((*self.required, *activation.uris))
        return {right: uris} if uris else {}


@dataclass(frozen=True, slots=True)
class NotChecked:
    interface: str
    reason: str


@dataclass(frozen=True, slots=True)
class ProbeRequest:
    """A request as it was sent, without the headers that the user adds (they may be secret).

    Of a gRPC call, `method` is `gRPC`, `headers` are the metadata, `body` is the message as JSON.
    """

    method: str
    url: str
    headers: tuple[tuple[str, str], ...] = ()
    body: str = ""


@dataclass(frozen=True)  # without slots: `cached_property` needs a __dict__
class ProbeExchange:
    """One request and its answer, as a2a-sdk reads it. An aborted stream has an `error` and the events before it."""

    operation: Operation
    activation: Activation
    request: ProbeRequest
    status: int = 0
    """Of HTTP; 0 over gRPC, and without a response."""
    headers: tuple[tuple[str, str], ...] = ()
    events: tuple[Event, ...] = ()
    error: CaptureError | None = None
    """Why the answer is unusable: no connection, a timeout, an error response or content that is not A2A."""

    @property
    def problem(self) -> str:
        """The same in words; "" for a usable answer."""
        return "" if self.error is None else str(self.error)

    @property
    def unreachable(self) -> bool:
        return isinstance(self.error, AgentUnreachableError)

    def where(self, index: int) -> str:
        """The path of an event in the answer."""
        return f"event {index + 1}: " if self.operation in STREAMING else ""

    @cached_property
    def occurrences(self) -> tuple[Occurrence, ...]:
        """Every occurrence of the extension in the answer, in order: most rules read them."""
        found = [
            Occurrence(Kind.HEADER, f"response header {name}", uri, value)
            for name, value in self.headers
            if name.lower() in (EXTENSIONS_HEADER.lower(), LEGACY_EXTENSIONS_HEADER.lower())
            for uri in requested_uris([value])
            if is_capture_uri(uri)
        ]
        for index, event in enumerate(self.events):
            found += occurrences_in(event, self.where(index))
        return tuple(found)

    @property
    def entries(self) -> list[Any]:
        return [entry for occurrence in self.occurrences for entry in occurrence.entries]

    def read(self) -> list[TaskMerger]:
        """The answer as a reader takes it: a listed task is read by itself."""
        tasks = [[event] for event in self.events] if self.operation is Operation.LIST else [self.events]
        return [merged(events, lenient=False) for events in tasks]

    @property
    def states(self) -> list[str]:
        return [state for state in map(state_of, self.events) if state]

    @property
    def settled(self) -> bool:
        """Whether the answer shows that the agent finished the message."""
        return any(map(is_settled, self.events))

    @property
    def task_id(self) -> str:
        """The task that the answer shows; "" for a Message."""
        return next(filter(None, (task_id_of(event) for event in self.events if "message" not in event)), "")

    def whole(self, task_id: str) -> Event | None:
        return next((event for event in self.events if "task" in event and task_id_of(event) == task_id), None)


@dataclass(frozen=True, slots=True)
class ProbeTurn:
    """One user message over one interface. `later` are the reads of its task, during the stream or after it.

    `resumed` has the answer to the same message sent again to a task in input-required, and the task after it.
    """

    message: str
    opening: ProbeExchange
    later: tuple[ProbeExchange, ...] = ()
    resumed: tuple[ProbeExchange, ...] = ()

    @property
    def activation(self) -> Activation:
        return self.opening.activation

    @property
    def exchanges(self) -> tuple[ProbeExchange, ...]:
        return (self.opening, *self.later)

    @property
    def shows_calls(self) -> bool:
        return any(exchange.entries for exchange in self.exchanges)

    def later_by(self, operation: Operation, activation: Activation) -> list[ProbeExchange]:
        return [each for each in self.later if (each.operation, each.activation) == (operation, activation)]


@dataclass(frozen=True, slots=True)
class ProbeConversation:
    interface: Interface
    turns: tuple[ProbeTurn, ...]
    streams: bool
    """Whether the card declares streaming."""


@dataclass(frozen=True, slots=True)
class CardSeen:
    """The agent card as it was fetched. `missing`: an agent that has only gRPC offers none."""

    request: ProbeRequest
    card: dict[str, Any]
    status: int = 200
    missing: bool = False


@dataclass(frozen=True, slots=True)
class ProbeRecord:
    """All requests and answers of a check: the input of the rules."""

    card: CardSeen
    conversations: tuple[ProbeConversation, ...]
    not_checked: tuple[NotChecked, ...]


def is_settled(event: Event) -> bool:
    """Whether the agent finished this message: the event is a Message, or its task is terminal or waits for input."""
    return "message" in event or state_of(event) in SETTLED_STATES


def merged(events: Iterable[Event], *, lenient: bool = True) -> TaskMerger:
    """The events as a reader takes them; `lenient`: whether artifacts list the URI or not."""
    merger = TaskMerger(require_artifact_uri=not lenient)
    for event in events:
        merger.feed(event)
    return merger


def lost_in(events: Iterable[Event]) -> int:
    """The number of calls that later events do not show any more."""
    return sum(finding.code == "dropped_by_snapshot" for finding in merged(events).findings)
