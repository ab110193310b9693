"""One request of a client on the data port: its parts, the bytes held for it, and the response sent back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, MutableMapping
from dataclasses import dataclass
from typing import Any

from ..body_memory import SMALL_BYTES, BodyMemory, HeldBody
from ..capture.captured_exchange import major_minor
from ..capture.turn_book import TurnBook
from ..clock import CLOCK
from ..ids import new_turn_id, trace_of
from ..net.http1_messages import BODILESS
from ..net.http_client import RawHeaders
from ..net.served_request import CLIENT, ServedRequest
from ..protocol import error_bodies
from ..protocol.headers import ClientRequestHeaders, public_url
from ..protocol.operations import Binding, rest_request
from ..protocol.trace_state import KEY, naming_turn, turn_named
from ..settings.parts import TrafficSettings
from ..telemetry.counters import Metrics
from ..turn import CaptureFacts, Turn, TurnLinks
from .cards import Cards
from .negotiation import Negotiation
from .opted_in_tasks import Callers, OptedInTasks
from .relayed_exchange import RelayedExchange
from .upstream import Upstream
from .webhooks import Webhooks
from .wire_log import WireLog

Scope = MutableMapping[str, Any]

KEPT_REQUEST = 1024 * 1024
"""Size of a request up to which it is kept as it is: its id may be needed for an error."""


@dataclass(frozen=True, slots=True)
class RelayContext:
    """What all requests to one agent share."""

    agent_name: str | None
    """None where there is only one."""
    settings: TrafficSettings
    upstream: Upstream
    book: TurnBook
    negotiation: Negotiation
    metrics: Metrics
    cards: Cards
    opted_in: OptedInTasks
    callers: Callers
    bodies: BodyMemory
    wire_log: WireLog | None
    webhooks: Webhooks | None
    """None where webhooks pass."""
    loop: asyncio.AbstractEventLoop

    def begin(self, head: ClientRequestHeaders, caller: Callable[[], bytes | None]) -> RelayedExchange:
        """An exchange whose request has this header, and which begins now. `caller`: see `RelayedExchange`.

        Its turn is named for the agent where the proxy starts the trace, where an earlier message of the trace is,
        where the proxy has several agents, or by the settings.
        """
        turn_id = new_turn_id()
        trace_id, span_id = head.trace_context or trace_of(turn_id)
        turn = Turn(
            turn_id=turn_id,
            run=head.run or self.settings.run,
            agent=self.settings.upstream,
            binding="",
            protocol_version=major_minor(head.version) if head.version else "0.3",
            started_at=CLOCK.now(),
            case_id=head.case_id,
            trace_id=trace_id,
            parent_span_id=span_id,
            capture=CaptureFacts(declared=self.negotiation.declared),
            agent_name=self.agent_name,
            agent_card=self.negotiation.identity,
        )
        if head.client_span_id:
            turn.links = TurnLinks(head.client_span_id, turn_named(head.trace_state))
        exchange = RelayedExchange(
            turn, head.requested, self.book, self.wire_log, self.opted_in, caller, self.settings.limits.body_bytes
        )
        if head.trace_context is None:
            exchange.traceparent = f"00-{trace_id}-{span_id}-01"
        known = head.trace_state
        is_named = not known  # that of a trace nobody knows stays as it is
        if head.client_span_id:
            is_named = self.settings.names_turns or self.agent_name is not None or KEY in known
        if is_named:
            exchange.trace_state = naming_turn(turn_id, known)
        return exchange

    def caller(self, head: ClientRequestHeaders, query: bytes, peer: str | None) -> bytes | None:
        """The key of the caller (`Callers.key`), whose IP address is `peer`."""
        return self.callers.key(head.forward, query, peer, self.negotiation.api_keys)


class ClientRequest:
    """A request, as far as it has arrived, and the side of its response that faces the client."""

    def __init__(self, context: RelayContext, scope: Scope, head: ClientRequestHeaders) -> None:
        self._context = context
        self.scope = scope
        self.head = head
        self.exchange: ServedRequest = scope["extensions"][CLIENT]
        self.method: str = scope["method"]
        self.rest = rest_request(self.method, scope["path"], scope["query_string"])
        """The request as far as an HTTP+JSON path names it."""
        self.body = b""
        """The body once it is complete, or the beginning of one too large to keep."""
        self.status: int | None = None
        """The status of the response, once its header is sent."""
        self.held = HeldBody(context.bodies)
        """The bytes held for the exchange."""
        self._began = time.perf_counter()

    def caller(self) -> bytes | None:
        """See `RelayContext.caller`."""
        client = self.scope.get("client")
        return self._context.caller(self.head, self.scope["query_string"], client[0] if client else None)

    @property
    def public_url(self) -> str:
        configured = self._context.settings.public_url
        url = public_url(self.head, self.scope["scheme"], configured)
        return url if configured else url + self.scope["root_path"]

    def close(self) -> None:
        """Count the response by its status ("none" where the client left before it) and time; release its bytes."""
        self.held.drop()
        metrics = self._context.metrics
        metrics.responses["none" if self.status is None else self.status] += 1
        metrics.request_s.observe(time.perf_counter() - self._began)

    def forget_body(self) -> None:
        """Of a large request, only what an error repeats is kept."""
        self.body = error_bodies.only_id(self.body, self._binding)
        self.held.drop()

    # ── the response ────────────────────────────────────────────────────────────────────────────────────

    def begin(self, status: int, headers: RawHeaders) -> None:
        """Begin the response, whose body is written to `exchange`."""
        self.status = status
        self._context.metrics.first_byte_s.observe(time.perf_counter() - self._began)
        self.exchange.begin(status, headers)

    async def send_whole(self, status: int, headers: RawHeaders, body: bytes) -> None:
        """Send a complete response, framed by its own body."""
        if status in BODILESS:
            body = b""
        if body or self.method != "HEAD":  # to HEAD the agent sends the length of a body that it omits
            headers = [item for item in headers if item[0].lower() != b"content-length"]
            if status not in BODILESS:
                headers.append((b"content-length", b"%d" % len(body)))
        self.begin(status, headers)
        size = len(body)
        for at in range(0, size or 1, SMALL_BYTES):  # each waits for the client to read: until then the body is held
            await self.exchange.write(body[at : at + SMALL_BYTES], more=at + SMALL_BYTES < size)

    async def refuse(self, status: int, reason: str, message: str, headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
        """Send an error of the proxy, in the shape of the client's binding."""
        response = error_bodies.error(status, reason, message, self._binding, self.body)
        await self.send_whole(response.status, [*response.headers, *headers], response.body)

    async def refuse_as_agent(self, message: str) -> None:
        """Send the error InvalidParams of A2A, as the agent would."""
        await self.send_whole(*error_bodies.invalid_params(message, self._binding, self.body))

    @property
    def _binding(self) -> Binding:
        return Binding.HTTP_JSON if self.rest is not None or self.method != "POST" else Binding.JSONRPC
