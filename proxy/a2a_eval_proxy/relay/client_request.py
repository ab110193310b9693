"""One request of a client on the data port: its parts, the bytes held for it, and the response sent back."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..capture.exchange import ExchangeBook, RequestFacts
from ..clock import CLOCK
from ..ids import new_turn_id, trace_of
from ..net.http_client import RawHeaders
from ..net.server_exchange import CLIENT, WHOLE_RESPONSE, ClientExchange
from ..protocol import error_bodies
from ..protocol.error_bodies import A2AProblem
from ..protocol.headers import ClientRequestHeaders, public_url
from ..protocol.operations import A2ARequest, Binding, rest_request
from ..protocol.trace_state import KEY, naming_turn, turn_named
from ..push.registry import WebhookRegistry
from ..settings.settings import TrafficSettings
from ..telemetry.counters import Metrics
from .body_memory import SMALL_BYTES, BodyMemory
from .card_relay import CardRelay
from .negotiation import Negotiation
from .opted_in_tasks import Callers, OptedInTasks, Request
from .tap import Tap
from .upstream import Upstream
from .wire_log import WireLog

logger = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

BODILESS = frozenset({204, 304})

_KEPT_REQUEST = 1024 * 1024
"""Size of a request up to which it is kept as it is: its id may be needed for an error."""


class Reachability:
    """Logs when the agent becomes unreachable, and when it can be reached again."""

    def __init__(self, upstream: str) -> None:
        self._upstream = upstream
        self.reachable = True

    def set_unreachable(self, message: str) -> None:
        if self.reachable:
            logger.warning("%s", message)
        self.reachable = False

    def set_reachable(self) -> None:
        if not self.reachable:
            logger.warning("the agent at %s answers again", self._upstream)
        self.reachable = True


@dataclass(frozen=True, slots=True)
class RelayContext:
    """What all requests to one agent share."""

    agent_name: str | None
    """None where there is only one."""
    settings: TrafficSettings
    upstream: Upstream
    book: ExchangeBook
    negotiation: Negotiation
    metrics: Metrics
    cards: CardRelay
    opted_in: OptedInTasks
    callers: Callers
    bodies: BodyMemory
    reachability: Reachability
    wire_log: WireLog | None
    push: WebhookRegistry | None
    """None where webhooks are not relayed."""
    loop: asyncio.AbstractEventLoop

    def open_tap(self, head: ClientRequestHeaders, caller: Callable[[], bytes | None]) -> tuple[Tap, str, str]:
        """Report a request with this header, which begins now; also the `traceparent` that starts its trace, "" where
        the client has started one, and the `tracestate` that names its turn for the agent, if it is a message.

        A turn is named where the proxy starts the trace, where an earlier message of the trace is, where the proxy has
        several agents, or by the settings; else the `tracestate` is "". `caller`: see `Tap`.
        """
        turn_id, traceparent = new_turn_id(), ""
        trace_id, span_id = head.trace_context or trace_of(turn_id)
        if head.trace_context is None:
            traceparent = f"00-{trace_id}-{span_id}-01"
        facts = RequestFacts(
            run=head.run or self.settings.run,
            agent=self.settings.upstream,
            version=head.version,
            case_id=head.case_id,
            trace_id=trace_id,
            parent_span_id=span_id,
            declared=self.negotiation.declared,
            requested_by_header=head.requested,
            started_at=CLOCK.now(),
            agent_name=self.agent_name,
            agent_card=self.negotiation.identity,
            client_span_id=head.client_span_id,
            parent_turn_id=turn_named(head.trace_state) if head.client_span_id else "",
        )
        known = head.trace_state
        is_named = not known  # that of a trace nobody knows stays as it is
        if head.client_span_id:
            is_named = self.settings.names_turns or self.agent_name is not None or KEY in known
        tap = Tap(
            self.book,
            self.opted_in,
            facts,
            turn_id,
            self.settings.max_body_bytes,
            caller=caller,
            request_coding=head.content_encoding,
            wire_log=self.wire_log,
        )
        return tap, traceparent, naming_turn(turn_id, known) if is_named else ""

    def a2a_attributes(self, request: A2ARequest, head: ClientRequestHeaders) -> dict[str, str | list[str]]:
        """What spans say of a request, before its message is captured: its ids, and the agent by its card."""
        message, card = request.message or {}, self.negotiation.card
        references = message.get("referenceTaskIds")
        named = {
            "a2a.message.id": message.get("messageId"),
            "gen_ai.conversation.id": message.get("contextId"),
            "gen_ai.agent.name": self.agent_name or (card.get("name") if isinstance(card, dict) else None),
            "a2a.protocol.version": head.version,
            "a2a.task.id": request.named_task,
        }
        attributes: dict[str, str | list[str]] = {name: text for name, text in named.items() if isinstance(text, str)}
        if isinstance(references, list):
            attributes["a2a.message.reference_task_ids"] = [one for one in references if isinstance(one, str)]
        return attributes

    def caller(self, head: ClientRequestHeaders, query: bytes, peer: str | None) -> bytes | None:
        """The key of the caller (`Callers.key`), whose IP address is `peer`."""
        return self.callers.key(Request(head.forward, query, peer), self.negotiation.api_keys)


class ClientRequest:
    """A request, as far as it has arrived, and the side of its response that faces the client."""

    def __init__(
        self,
        context: RelayContext,
        scope: Scope,
        head: ClientRequestHeaders,
        receive: Receive,
        send: Send,
    ) -> None:
        self._context = context
        self.scope = scope
        self.head = head
        self.receive = receive
        self._send = send
        self.exchange: ClientExchange = scope["extensions"][CLIENT]
        self.method: str = scope["method"]
        self.rest = rest_request(self.method, scope["path"], scope["query_string"])
        """The request as far as an HTTP+JSON path names it."""
        self.body = b""
        """The body once it is complete, or the beginning of one too large to keep."""
        self.status: int | None = None
        """The status of the response, once its header is sent."""
        self._holds = False
        """Whether bytes are counted for it."""
        self._began = time.perf_counter()

    @cached_property
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
        if self._holds:
            self._context.bodies.drop(self)
        metrics = self._context.metrics
        metrics.responses["none" if self.status is None else self.status] += 1
        metrics.request_s.observe(time.perf_counter() - self._began)

    # ── memory ──────────────────────────────────────────────────────────────────────────────────────────

    def hold(self, more: int, size: int) -> bool:
        """Whether `more` bytes of a body, which then has `size` bytes, may be held until `close`."""
        bodies = self._context.bodies
        if not bodies.has_room(more, size):
            return False
        bodies.add(self, more)
        self._holds = True
        return True

    async def hold_response(self, size: int, *, waits: bool) -> bool:
        """Whether `size` bytes of the response may be held until `close`; with `waits`, as soon as they may."""
        bodies, held = self._context.bodies, len(self.body) + size
        self._holds = True
        more = held - bodies.of(self)
        if more <= 0 or bodies.has_room(more, size):
            bodies.put(self, held)
        elif waits:
            await bodies.wait_for_room(self, more, size)
        else:
            return False
        return True

    def hold_only_request(self) -> None:
        """Release the bytes held for anything but the request's body."""
        self._holds = True
        self._context.bodies.put(self, len(self.body))

    def sent(self) -> None:
        """The agent responds: of a large request, only what an error repeats is kept."""
        if len(self.body) > _KEPT_REQUEST:
            self.body = error_bodies.only_id(self.body, self._binding)
            self.hold_only_request()

    # ── the response ────────────────────────────────────────────────────────────────────────────────────

    def send_head(self, status: int, headers: RawHeaders) -> Awaitable[None]:
        self._begin(status)
        return self._send({"type": "http.response.start", "status": status, "headers": headers})

    def _begin(self, status: int) -> None:
        self.status = status
        self._context.metrics.first_byte_s.observe(time.perf_counter() - self._began)

    def write(self, chunk: bytes) -> Awaitable[None]:
        return self._send({"type": "http.response.body", "body": chunk, "more_body": True})

    def finish(self) -> Awaitable[None]:
        return self._send({"type": "http.response.body", "body": b""})

    def send_complete(self, status: int, headers: RawHeaders, body: bytes) -> Awaitable[None]:
        """Send a complete response, framed by `headers`; its body has at most `SMALL_BYTES`."""
        self._begin(status)
        return self._send({"type": WHOLE_RESPONSE, "status": status, "headers": headers, "body": body})

    async def send_whole(self, status: int, headers: RawHeaders, body: bytes) -> None:
        """Send a complete response, framed by its own body."""
        if status in BODILESS:
            body = b""
        if body or self.method != "HEAD":  # to HEAD the agent sends the length of a body that it omits
            headers = [item for item in headers if item[0].lower() != b"content-length"]
            if status not in BODILESS:
                headers.append((b"content-length", b"%d" % len(body)))
        if len(body) <= SMALL_BYTES:
            await self.send_complete(status, headers, body)
            return
        await self.send_head(status, headers)
        last = (len(body) - 1) // SMALL_BYTES * SMALL_BYTES
        for start in range(0, last, SMALL_BYTES):  # each waits for the client to read: until then the body is held
            await self.write(body[start : start + SMALL_BYTES])
        await self._send({"type": "http.response.body", "body": body[last:]})

    async def refuse(self, status: int, reason: str, message: str, headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
        """Send an error of the proxy, in the shape of the client's binding."""
        response = error_bodies.error(status, reason, message, self._binding, self.body)
        await self.send_whole(response.status, [*response.headers, *headers], response.body)

    async def refuse_as_agent(self, problem: A2AProblem, message: str) -> None:
        """Send an error of A2A, as the agent would."""
        await self.send_whole(*error_bodies.a2a_error(problem, message, self._binding, self.body))

    @property
    def _binding(self) -> Binding:
        return Binding.HTTP_JSON if self.rest is not None or self.method != "POST" else Binding.JSONRPC


class BodyCopy:
    """A copy of a body that passes, for capture; only its beginning once the body is too large."""

    def __init__(self, client: ClientRequest, limit: int) -> None:
        self._client = client
        self._limit = limit
        self._chunks: list[bytes] = []
        self._size = 0
        self.is_complete = True

    def add(self, chunk: bytes) -> None:
        if not self.is_complete:
            return
        self._chunks.append(chunk)
        self._size += len(chunk)
        if self._size > self._limit or not self._client.hold(len(chunk), self._size):
            self.is_complete = False
            self._chunks = [self._chunks[0][:SMALL_BYTES]]
            self._client.hold_only_request()

    def content(self) -> bytes:
        return b"".join(self._chunks)
