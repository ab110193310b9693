"""The requests of a check and the agent's answers, as values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from a2a_tool_capture.spec import BASE_URI, EXTENSIONS_HEADER, LEGACY_EXTENSIONS_HEADER, URI

from ...protocol.operations import Binding, Operation
from ..signatures.result import SignatureResult

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
        """The URIs of the extensions header, in order."""
        unknown = UNKNOWN_URIS if self in (Activation.UNKNOWN, Activation.V1_WITH_UNKNOWN) else ()
        return unknown if self in (Activation.NOTHING, Activation.UNKNOWN) else (*unknown, URI)


@dataclass(frozen=True, slots=True)
class Interface:
    """One interface of the agent card. `version` is `1.0` or `0.3`."""

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
    """An HTTP request, without the headers that the user adds (they may be secret)."""

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


@dataclass(frozen=True, slots=True)
class ResponseEvent:
    """One A2A object of an answer: its path, its JSON value, and its A2A 1.0 form (None if it is not A2A)."""

    where: str
    raw: Any
    normal: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class ProbeExchange:
    """One request and its answer.

    `problem` describes why the answer is unusable: no connection, a timeout, an error response or content that is not
    A2A; "" for a usable answer. `status` is 0 without a response. An aborted stream has a `problem` and the events
    before it.
    """

    request: OperationRequest
    status: int = 0
    headers: tuple[tuple[str, str], ...] = ()
    events: tuple[ResponseEvent, ...] = ()
    problem: str = ""

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
        """Returns the reads with this operation and activation."""
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
    """The agent card as it was fetched."""

    request: ProbeRequest
    card: dict[str, Any]
    status: int = 200
    body: bytes = b""
    signatures: tuple[SignatureResult, ...] = ()


@dataclass(frozen=True, slots=True)
class ProbeRecord:
    """All requests and answers of a check: the input of the rules."""

    card: CardSeen
    conversations: tuple[ProbeConversation, ...]
    not_checked: tuple[NotChecked, ...]
