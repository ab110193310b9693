"""Requests of a check and their answers, as values: the A2A events, and where the extension occurs in them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum, StrEnum
from functools import cached_property
from typing import Any

from a2a_tool_capture import TaskMerger, ToolCall
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
from a2a_tool_capture.wire import SETTLED_STATES, TERMINAL_STATES, normalize_event

from ...protocol.answers import state_of, task_id_of
from ...protocol.operations import Binding, Operation, decode_json


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
    """The artifact that carries it."""

    @property
    def entries(self) -> list[Any]:
        """The entries of a call list on an artifact; [] for any other occurrence."""
        return self.value if self.kind is Kind.CALLS and isinstance(self.value, list) else []

    @property
    def of_v1(self) -> bool:
        return self.name == URI or self.name.startswith(f"{URI}/")


def occurrences_in(root: Any, where: str) -> Iterator[Occurrence]:
    """Yields every occurrence in a JSON value. Never raises.

    Walks depth first, without recursion. Keys of the extension count everywhere.

    `owner` is the artifact that holds the current metadata or extensions.
    """
    stack: list[tuple[Any, str, str, Any]] = [(root, where, "", None)]
    while stack:
        value, path, role, owner = stack.pop()
        children: list[tuple[Any, str, str, Any]] = []
        if isinstance(value, dict):
            for key, item in value.items():
                shown = f"[{key!r}]" if is_capture_uri(key) else f".{key}" if path[-1:] not in ("", " ") else key
                if is_capture_uri(key):
                    yield Occurrence(_kind(key, role, owner), path + shown, key, item, owner)
                    continue
                inner = _role(key, role)
                if inner == EXTENSIONS and value.get("role") in ("user", "ROLE_USER"):
                    inner = _CONTENT  # the client's message, echoed
                children.append((item, path + shown, inner, value if role == "artifact" else None))
        elif isinstance(value, list):
            if role == EXTENSIONS:
                listed = [uri for uri in value if is_capture_uri(uri)]
                kind = Kind.LISTED_ELSEWHERE if owner is None else Kind.LISTED
                yield from (Occurrence(kind, path, uri, value, owner) for uri in listed)
            inner = "artifact" if role == "artifacts" else role
            children += [(item, f"{path}[{i}]", inner, None) for i, item in enumerate(value)]
        stack += reversed(children)


_CONTENT = "content"
"""The role of values that the protocol does not define."""


def _role(key: str, parent: str) -> str:
    if parent in (_CONTENT, METADATA, EXTENSIONS):
        return _CONTENT
    if key in (METADATA, EXTENSIONS, "artifacts", "artifact", "error"):
        return key
    if key == "data" and parent != "error":
        return _CONTENT
    return "error" if parent == "error" and key in ("data", "details") else ""


def _kind(key: str, role: str, artifact: object) -> Kind:
    if role != METADATA or artifact is None:
        return Kind.MISPLACED
    return Kind.CALLS if key == METADATA_KEY else Kind.OTHER_KEY


STREAMING = frozenset({Operation.STREAM, Operation.SUBSCRIBE})
"""Operations that are answered with server-sent events."""

UNKNOWN_URIS = (f"{BASE_URI}/v999", f"{BASE_URI}/v1999")
"""Versions that do not exist. The second begins like version 1: it finds agents that search for a substring."""


class Activation(StrEnum):
    """Which versions of the extension a request activates."""

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

    binding: Binding
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

    @property
    def grpc_service(self) -> str:
        return "a2a.v1.A2AService" if self.legacy else "lf.a2a.v1.A2AService"

    @property
    def extensions_header(self) -> str:
        return LEGACY_EXTENSIONS_HEADER if self.legacy else EXTENSIONS_HEADER

    @property
    def other_extensions_header(self) -> str:
        """The extensions header of the other protocol version."""
        return EXTENSIONS_HEADER if self.legacy else LEGACY_EXTENSIONS_HEADER


@dataclass(frozen=True, slots=True)
class NotChecked:
    """An interface of the card that the check skipped, and the reason."""

    interface: str
    reason: str


@dataclass(frozen=True, slots=True)
class ProbeRequest:
    """An HTTP request, or a gRPC call, without the headers that the user adds (they may be secret).

    Of a call, `method` is `gRPC`, `url` ends with the path, `headers` are the metadata, `body` is the message as JSON.
    """

    method: str
    url: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationRequest(ProbeRequest):
    """A request of an A2A operation over `interface`."""

    interface: Interface
    operation: Operation
    activation: Activation


@dataclass(frozen=True)  # without slots: `cached_property` needs a __dict__
class ResponseEvent:
    """One A2A object of an answer: its path, its JSON value, and its A2A 1.0 form (None if it is not A2A)."""

    where: str
    raw: Any
    normal: dict[str, Any] | None

    @cached_property
    def occurrences(self) -> tuple[Occurrence, ...]:
        """Every occurrence of the extension, in order: most rules read them."""
        return tuple(occurrences_in(self.raw, self.where))


@dataclass(frozen=True, slots=True)
class ProbeExchange:
    """One request and its answer.

    `problem` describes why the answer is unusable: no connection, a timeout, an error response or content that is not
    A2A; "" for a usable answer. `status` is 0 without a response. An aborted stream has a `problem` and the events
    before it. gRPC answers have the status 200, also with an error, and their metadata as `headers`.
    """

    request: OperationRequest
    status: int = 0
    headers: tuple[tuple[str, str], ...] = ()
    events: tuple[ResponseEvent, ...] = ()
    problem: str = ""
    grpc_status: str = ""
    """The name of the gRPC status; "" over HTTP, and without an answer."""

    @property
    def operation(self) -> Operation:
        return self.request.operation

    @property
    def activation(self) -> Activation:
        return self.request.activation

    @property
    def normal_events(self) -> Iterator[dict[str, Any]]:
        return (event.normal for event in self.events if event.normal is not None)


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

    def later_by(self, operation: Operation, activation: Activation) -> list[ProbeExchange]:
        return [each for each in self.later if (each.operation, each.activation) == (operation, activation)]


@dataclass(frozen=True, slots=True)
class ProbeConversation:
    """All turns over one interface."""

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


_MAX_AGENT_TEXT_CHARS = 300
"""Maximum number of characters of an agent's error text in a report."""


def read_response(
    request: OperationRequest,
    status: int,
    headers: Iterable[tuple[str, str]],
    documents: Iterable[bytes],
    problem: str = "",
    grpc_status: str = "",
) -> ProbeExchange:
    """Returns the exchange read from its bytes. `documents` are the body, or the data of each event of a stream.

    `problem` describes how the exchange failed; "" if it completed. Never raises.
    """
    events: list[ResponseEvent] = []
    for number, document in enumerate(documents):
        where = f"event {number + 1}: " if request.operation in STREAMING else ""
        found, error = _read(request, document, where)
        events += found
        if error:
            problem = problem or error
            break
    if status >= 400 and not problem:
        problem = "an error"
    if status >= 300:
        problem = f"HTTP {status}: {problem}" if problem else f"HTTP {status}"
    if not problem and request.operation is not Operation.LIST and not events:
        problem = "an empty answer"
    return ProbeExchange(request, status, tuple(headers), tuple(events), problem, grpc_status)


def _read(request: OperationRequest, document: bytes, where: str) -> tuple[list[ResponseEvent], str]:
    try:
        payload = decode_json(document)
    except ValueError:
        return [], f"not JSON: {document[:_MAX_AGENT_TEXT_CHARS].decode(errors='replace')!r}"
    if isinstance(payload, dict) and payload.get("error") is not None:
        error = payload["error"]
        message = error.get("message") if isinstance(error, dict) else error
        code = error.get("code") if isinstance(error, dict) else ""
        return [ResponseEvent(where, payload, None)], f"error {code}: {str(message)[:_MAX_AGENT_TEXT_CHARS]}"
    if request.interface.binding is Binding.JSONRPC:
        payload = payload.get("result") if isinstance(payload, dict) else None
        where += "result"
    if request.operation is Operation.LIST:
        tasks = payload.get("tasks") if isinstance(payload, dict) else None
        if not isinstance(tasks, list):
            return [], "neither a list of tasks nor an error"
        prefix = f"{where}." if where and not where.endswith(" ") else where
        return [ResponseEvent(f"{prefix}tasks[{i}]", task, normalize_event(task)) for i, task in enumerate(tasks)], ""
    normal = normalize_event(payload)
    if request.operation is Operation.EXTENDED_CARD and isinstance(payload, dict):
        return [ResponseEvent(where, payload, None)], ""
    if normal is None:
        return [], "JSON, but neither a task, a message nor an update"
    return [ResponseEvent(where, payload, normal)], ""


# ── the extension in an answer ──────────────────────────────────────────────────────────────────────────────


def occurrences(exchange: ProbeExchange) -> Iterator[Occurrence]:
    """Yields every occurrence of the extension in the answer, in order. Never raises, whatever the nesting."""
    for name, value in exchange.headers:
        if name.lower() in (EXTENSIONS_HEADER.lower(), LEGACY_EXTENSIONS_HEADER.lower()):
            yield from (
                Occurrence(Kind.HEADER, f"response header {name}", uri, value)
                for uri in requested_uris([value])
                if is_capture_uri(uri)
            )
    for event in exchange.events:
        yield from event.occurrences


# ── tasks and their calls ───────────────────────────────────────────────────────────────────────────────────


def states(*exchanges: ProbeExchange) -> list[str]:
    found = (state_of(event) for exchange in exchanges for event in exchange.normal_events)
    return [state for state in found if state]


def shows_end(*exchanges: ProbeExchange) -> bool:
    """Whether an answer shows a task in a terminal state."""
    return not TERMINAL_STATES.isdisjoint(states(*exchanges))


def is_settled(event: dict[str, Any]) -> bool:
    """Whether the agent finished this message: the event is a Message, or its task is terminal or waits for input."""
    return "message" in event or state_of(event) in SETTLED_STATES


def first_task_id(exchange: ProbeExchange) -> str:
    """The task that the answer shows; "" for a Message."""
    shown = (task_id_of(event) for event in exchange.normal_events if "message" not in event)
    return next(filter(None, shown), "")


def settled(exchange: ProbeExchange) -> bool:
    """Whether the answer shows that the agent finished the message."""
    return any(is_settled(event) for event in exchange.normal_events)


def only_message(exchange: ProbeExchange) -> bool:
    """Whether the answer is a Message, which has no artifact to carry calls."""
    events = list(exchange.normal_events)
    return bool(events) and all("message" in event for event in events)


def entries(exchange: ProbeExchange) -> list[Any]:
    """Returns the entries of all call lists on artifacts, valid or not."""
    return [entry for event in exchange.events for entry in entries_in(event)]


def entries_in(event: ResponseEvent) -> list[Any]:
    return [entry for occurrence in event.occurrences for entry in occurrence.entries]


def calls_lost(exchange: ProbeExchange, later: ResponseEvent) -> int:
    """Returns the number of calls in `exchange` that are missing in the whole task of `later`."""
    return _lost(_merged(*exchange.normal_events, later.normal or {}))


def calls_of(exchange: ProbeExchange) -> list[ToolCall]:
    """Returns the merged calls, whether artifacts list the URI or not (another rule checks that)."""
    return _merged(*exchange.normal_events).tool_calls


def _merged(*events: dict[str, Any]) -> TaskMerger:
    merger = TaskMerger(require_artifact_uri=False)
    for event in events:
        merger.feed(event)
    return merger


def _lost(merger: TaskMerger) -> int:
    return sum(finding.code == "dropped_by_snapshot" for finding in merger.findings)


def tasks_after_calls(exchange: ProbeExchange) -> Iterator[tuple[ResponseEvent, int, int]]:
    """Yields each Task in a stream after calls, the number of calls before it, and the number that it lacks."""
    merger = _merged()
    lost_before = 0
    for event in exchange.events:
        if event.normal is None:
            continue
        calls = len(merger.tool_calls)
        merger.feed(event.normal)
        if "task" in event.normal and calls:
            lost = _lost(merger)
            yield event, calls, lost - lost_before
            lost_before = lost
