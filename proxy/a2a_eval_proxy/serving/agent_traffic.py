"""What relays the traffic of one agent."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ..body_memory import BodyMemory
from ..capture.failures import log_failure
from ..capture.turn_book import TurnBook
from ..grpc_relay.agent import GrpcAgent, card_of
from ..grpc_relay.relayed_call import GrpcPort
from ..net.browser_guard import BrowserGuard, HostNames
from ..net.client_limits import ClientLimits
from ..net.file_watcher import FileWatch
from ..net.http2_server import StreamHandler
from ..net.served_request import Application
from ..privacy.policy import Privacy
from ..protocol.agent_card import grpc_address
from ..relay.cards import Cards
from ..relay.client_request import RelayContext
from ..relay.forwarder import Forwarder
from ..relay.negotiation import Negotiation
from ..relay.opted_in_tasks import Callers, OptedInTasks
from ..relay.upstream import Upstream
from ..relay.webhooks import Webhooks
from ..relay.wire_log import MAX_AGE_S, WireLog, WireRecord
from ..settings.settings import Agent
from ..telemetry.counters import Metrics
from .refusals import BelowPath, HttpRefusal

if TYPE_CHECKING:
    from ..telemetry.requests import RequestTelemetry


class AgentTraffic:
    """Relays the requests that a `DataPort` has for one agent."""

    application: Application
    """The ASGI application for requests over HTTP, once it is open."""
    calls: StreamHandler | None = None
    """What answers the calls of clients over gRPC, once it is open; None where the proxy takes none."""

    def __init__(
        self,
        agent: Agent,
        privacy: Privacy,
        files: FileWatch,
        metrics: Metrics,
        requests: RequestTelemetry | None,
        book: TurnBook,
        webhooks: Webhooks | None,
        bodies: BodyMemory,
        *,
        wire_bytes: int,
        callers: Callers,
    ) -> None:
        """`book` receives what is captured. `webhooks` None: they pass. `bodies` is that of all agents;
        `wire_bytes`: what is kept of exchanges, at most. Reads the files of TLS. Raises ConfigError."""
        self.agent = agent
        self.settings = settings = agent.settings
        self.book = book
        self._requests = requests
        days = settings.retain_days
        max_age_s = MAX_AGE_S if days is None else min(MAX_AGE_S, days * 86_400)
        self._wire_log = WireLog(wire_bytes, max_age_s) if privacy.covers_texts else None
        if webhooks is not None:
            webhooks.receive(book, bodies, self._wire_log)
        upstream = Upstream(settings, files)
        self._negotiation = Negotiation(
            settings.negotiate,
            card_of(settings, upstream, files),
            grpc_address=lambda card: grpc_address(card, settings.upstream, settings.grpc),
        )
        self._cards = Cards(
            upstream,
            self._negotiation,
            public_url_is_fixed=settings.public_url is not None,
            hosts=agent.hosts if agent.name else None,
        )
        self._relay = RelayContext(
            agent.name or None,
            settings,
            upstream,
            book,
            self._negotiation,
            metrics,
            cards=self._cards,
            opted_in=OptedInTasks(),
            callers=callers,
            bodies=bodies,
            wire_log=self._wire_log,
            webhooks=webhooks,
            loop=asyncio.get_running_loop(),
        )
        self._grpc_address: str | None = None
        self._grpc_agent = GrpcAgent(settings, files) if settings.grpc is not None else None

    def _application(self, names: HostNames) -> Application:
        settings = self.settings
        if settings.grpc_upstream:
            return HttpRefusal(502, "NO_HTTP_INTERFACE", self._no_http)
        data: Any = Forwarder(self._relay, self._requests)
        if urlsplit(settings.upstream).path.strip("/"):
            data = BelowPath(data)
        return BrowserGuard(data, names) if settings.adds_credentials else data

    def _no_http(self) -> str:
        return (
            f"the agent at {self.settings.upstream} has no HTTP interface; use gRPC, at {self._grpc_address} of the "
            "proxy"
        )

    def reached_at(self, url: str, grpc_address: str | None) -> None:
        """Where clients of the proxy speak HTTP, and gRPC, as HOST:PORT."""
        self._grpc_address = grpc_address
        if grpc_address is not None:
            self._cards.grpc_port = int(grpc_address.rpartition(":")[2])
            self._cards.url = url + self.agent.path

    def listed(self, public: str) -> dict[str, Any]:
        """The agent as GET /agents shows it, at the proxy with this public URL, with its card as the proxy has read it
        last."""
        url = self.settings.public_url or public + self.agent.path
        card = self._negotiation.card_for_all(asyncio.get_running_loop().time())
        return {
            "name": self.agent.name,
            "url": url,
            "card": self._cards.rewritten(card, url).card if isinstance(card, dict) else None,
        }

    def wire(self, turn_id: str, tasks: Sequence[str], began: float, ended: float | None) -> list[WireRecord]:
        """See `WireLog.of_turn`; none where rules cannot be applied to them."""
        return [] if self._wire_log is None else self._wire_log.of_turn(turn_id, tasks, began, ended)

    def open(self, stack: AsyncExitStack, names: HostNames, limits: ClientLimits) -> None:
        """Requests may come, until the stack ends. `names`: those that clients may use."""
        self.application = self._application(names)
        stack.callback(self._relay.upstream.http.close)
        stack.push_async_callback(self._negotiation.close)
        if self._grpc_agent is not None:
            self.calls = GrpcPort(self._relay, self._grpc_agent, self._requests, limits)
            stack.callback(self._grpc_agent.close)
        self._negotiation.refresh(asyncio.get_running_loop().time())

    def expire(self, now: float) -> None:
        """Close the turns, and forget the exchanges, whose time is over."""
        try:
            self.book.expire(now)
            if self._wire_log is not None:
                self._wire_log.expire(now)
        except Exception as error:  # noqa: BLE001  # capture's errors end here
            log_failure(error)
