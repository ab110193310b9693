"""What was said to an agent and what it answered, as values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from a2a_tool_capture.spec import BASE_URI, EXTENSIONS_HEADER, LEGACY_EXTENSIONS_HEADER, URI

from ...protocol.operations import Binding, Operation

UNKNOWN_URIS = (f"{BASE_URI}/v999", f"{BASE_URI}/v1999")
"""Versions nobody implements. The second begins as version 1 does, which finds agents that look for a substring."""


class Asked(StrEnum):
    """Which versions of the extension a request activates."""

    NOTHING = "nothing"
    V1 = "version 1"
    UNKNOWN = "unknown versions"
    BESIDE = "version 1 beside unknown versions"
    ASIDE = "version 1, in every place but the right header"
    """To tell an agent that looks in the wrong place from one that called no tool."""

    @property
    def uris(self) -> tuple[str, ...]:
        """What the extensions header lists, in this order."""
        unknown = UNKNOWN_URIS if self in (Asked.UNKNOWN, Asked.BESIDE) else ()
        return unknown if self in (Asked.NOTHING, Asked.UNKNOWN) else (*unknown, URI)


@dataclass(frozen=True, slots=True)
class Interface:
    """One way to talk to the agent that its card offers. `version` is `1.0` or `0.3`."""

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
        """The one of the other protocol version."""
        return EXTENSIONS_HEADER if self.legacy else LEGACY_EXTENSIONS_HEADER


@dataclass(frozen=True, slots=True)
class NotChecked:
    """An interface of the card that was left alone, and why."""

    interface: str
    reason: str


@dataclass(frozen=True, slots=True)
class Request:
    """An HTTP request, without the headers that the user adds (they may be secret)."""

    method: str
    url: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Event:
    """One A2A object of an answer: as it came, where it was in the answer, and in 1.0 shape (None: no A2A)."""

    where: str
    raw: Any
    normal: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and what came back.

    `problem` says why it holds nothing that can be judged: no connection, no answer in time, an error of the
    agent's, something that is not A2A; "" where it can be. `status` is 0 where no response came. A stream that
    broke has the events before the break and a `problem`.
    """

    operation: Operation
    asked: Asked
    request: Request
    status: int = 0
    headers: tuple[tuple[str, str], ...] = ()
    events: tuple[Event, ...] = ()
    problem: str = ""

    @property
    def normal_events(self) -> Iterator[dict[str, Any]]:
        return (event.normal for event in self.events if event.normal is not None)


@dataclass(frozen=True, slots=True)
class Turn:
    """One user message over one interface. `later` are the reads of its task that followed, or ran beside.

    `resumed` is what came of the same message again, to a task that waited for input: the answer, and the task then.
    """

    message: str
    opening: Exchange
    later: tuple[Exchange, ...] = ()
    resumed: tuple[Exchange, ...] = ()

    @property
    def asked(self) -> Asked:
        return self.opening.asked

    @property
    def exchanges(self) -> tuple[Exchange, ...]:
        return (self.opening, *self.later)


@dataclass(frozen=True, slots=True)
class Conversation:
    """All that was said over one interface."""

    interface: Interface
    turns: tuple[Turn, ...]
    streams: bool
    """Whether the card says that the agent streams."""


@dataclass(frozen=True, slots=True)
class CardSeen:
    """The agent card as it was fetched."""

    request: Request
    card: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Record:
    """Everything a check learnt about an agent: what the rules judge."""

    card: CardSeen
    conversations: tuple[Conversation, ...]
    not_checked: tuple[NotChecked, ...]
