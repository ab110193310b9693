"""What is done about the webhooks that clients register, asked of a feature. Without one, webhooks pass the proxy."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..body_memory import BodyMemory
from ..capture.turn_book import TurnBook
from ..net.http_client import RawHeaders
from ..net.http_server import HttpServer
from ..protocol.operations import A2ARequest
from ..protocol.webhooks import NewWebhook
from ..settings.settings import Agent
from ..store import Store
from .wire_log import WireLog

if TYPE_CHECKING:
    from .relayed_exchange import RelayedExchange


class RefusedWebhookError(Exception):
    """The request does not reach the agent; the client gets the error InvalidParams with this message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedWebhooks:
    """What a request says of webhooks."""

    request: A2ARequest | None = None
    """None where it is none that the proxy can read."""
    headers: RawHeaders = ()  # type: ignore[assignment]  # nobody changes it
    wanted: Sequence[NewWebhook] = ()
    """Those that it sets."""
    deleted: str | None = None
    """The id of the configuration that it deletes."""
    unclear: str = ""
    """Why it cannot be told which webhooks it sets; "" where it can."""
    unchangeable: str = ""
    """Why it has to pass as it is; "" where it may be changed."""


class WebhookRequest(ABC):
    """A request about webhooks that are relayed, and its response."""

    addresses: Sequence[str] = ()
    """What the agent is given in place of each webhook that the request sets; none where it passes as it is."""
    problem = ""
    """Why the webhooks of the request are not relayed; "" if they are."""
    refused = False
    """Whether the agent's response is an error."""

    @abstractmethod
    async def answered(self, response: bytes) -> bytes:
        """Take over what a response about configurations shows, as JSON; returns it as the client may see it."""

    @abstractmethod
    def finish(self, *, complete: bool) -> None:
        """The exchange is over. `complete`: the whole response has arrived."""


class Webhooks(ABC):
    """What is done about the webhooks of one agent's clients."""

    @abstractmethod
    async def begin(self, exchange: RelayedExchange, asked: RequestedWebhooks) -> WebhookRequest | None:
        """A request is about to go to the agent; None where nothing is to be done about it.

        Raises RefusedWebhookError.
        """

    @abstractmethod
    def may_show(self, data: bytes) -> bool:
        """Whether JSON or a protobuf message may hold an address of the proxy; a cheap test, never wrongly False."""

    @abstractmethod
    async def restored(self, body: bytes) -> bytes:
        """JSON with the clients' own URLs in place of addresses of the proxy."""

    @abstractmethod
    async def restoring(self, body: bytes) -> Callable[[str], str] | None:
        """What does so in each text of a message, which is `body` as JSON; None where no text changes."""

    @abstractmethod
    async def keeps_open(self, stored_task_id: str) -> bool:
        """Whether notifications of a task, whose id is as in the store, may still arrive. Raises StoreError."""

    @abstractmethod
    def receive(self, book: TurnBook, bodies: BodyMemory, wire_log: WireLog | None) -> None:
        """Report notifications to `book`, and keep them in `wire_log`."""

    @abstractmethod
    def start(self, stack: AsyncExitStack) -> None:
        """Requests may come, until `stack` ends."""


class WebhookPort(ABC):
    """Where notifications for the webhooks of all agents arrive. It reads the files of TLS, as it is made."""

    @abstractmethod
    def of(self, agent: Agent, store: Store, identifier: Callable[[str], str]) -> Webhooks | None:
        """Those of an agent; None: they pass. `identifier` turns the id of a task into that which the store shows."""

    @abstractmethod
    async def open(self, stack: AsyncExitStack, server: Callable[..., HttpServer]) -> None:
        """Listen, if need be, until the stack ends. `server` makes a server as the other ports of traffic have it.
        Raises ListenError."""
