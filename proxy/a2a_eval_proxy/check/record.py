"""The requests of a check and the agent's answers, as values, with every occurrence of the extension in them. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, StrEnum
from functools import cached_property
from typing import Any

from a2a_tool_capture.extension_filter import EXTENSIONS, METADATA
from a2a_tool_capture.spec import (
    BASE_URI,
    EXTENSIONS_HEADER,
    LEGACY_EXTENSIONS_HEADER,
    METADATA_KEY,
    URI,
    is_capture_uri,
)

from ..protocol.operations import Binding, Operation


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
