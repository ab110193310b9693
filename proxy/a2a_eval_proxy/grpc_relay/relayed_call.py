"""Passes calls to the agent and its responses to clients."""

from __future__ import annotations

import asyncio
import logging
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson
from a2a_tool_capture import Finding, Severity
from a2a_tool_capture.spec import strip_headers
from h2.errors import ErrorCodes

from ..body_memory import SMALL_BYTES, HeldBody
from ..clock import CLOCK
from ..net.client_limits import ClientLimits
from ..net.grpc_wire import (
    GrpcMessage,
    GrpcStatus,
    MessageReader,
    MessageTooLargeError,
    ending,
    offering_readable,
    only_trailers,
    status_of,
    status_of_reset,
)
from ..net.http2_server import Ends
from ..net.http2_streams import Data, Event, Fields, Headers, Http2Stream, Reset, are_valid, regular, size_of
from ..net.http_client import UpstreamError, request_head
from ..protocol.content_coding import NoRoomError
from ..protocol.headers import for_agent, read_request
from ..protocol.operations import SENDS_MESSAGE, SETS_WEBHOOKS, Operation, parsed_request
from ..protocol.webhooks import NewWebhook, deleted_by
from ..relay.answer_readers import UnreadableAnswerError
from ..relay.client_request import RelayContext
from ..relay.relayed_exchange import CLIENT_LEFT, RelayedExchange
from ..relay.webhooks import RefusedWebhookError, RequestedWebhooks, WebhookRequest
from .agent import GrpcAgent
from .answer_messages import AnswerMessages
from .error_details import shown_error
from .extended_card import with_own_addresses
from .messages import METHODS, A2AMethod, as_json, decoded
from .webhooks import refusal_of, webhooks_in, with_own_urls

if TYPE_CHECKING:
    from ..telemetry.requests import RequestTelemetry

_UNDECIDED = frozenset(
    {
        GrpcStatus.UNAVAILABLE,
        GrpcStatus.DEADLINE_EXCEEDED,
        GrpcStatus.CANCELLED,
        GrpcStatus.INTERNAL,
        GrpcStatus.UNKNOWN,
    }
)
"""Statuses after which the agent may have taken the request."""

_TRAILERS = (b"te", b"trailers")

_NO_ADDRESS = "the agent's card names no gRPC interface; point --upstream at one: grpc://HOST:PORT"
_NOT_READ = "the client did not read a message in time"
_NOT_SENT = "the client did not send its message in time (timeouts.client_body)"
_NO_ROOM = "the messages that the proxy holds take too much memory; send this one again later"

logger = logging.getLogger(__name__)


class GrpcPort:
    """What answers the calls of clients."""

    def __init__(
        self, relay: RelayContext, agent: GrpcAgent, requests: RequestTelemetry | None, limits: ClientLimits
    ) -> None:
        self._limits = limits
        self._agent = agent
        self._relay = relay
        self._telemetry = requests

    async def __call__(self, stream: Http2Stream, head: Headers, ends: Ends) -> None:
        pseudo, most = dict(head.fields), self._limits.max_header_bytes
        if not (pseudo.get(b":path") and pseudo.get(b":method")):
            stream.reset(ErrorCodes.PROTOCOL_ERROR)
        elif size_of(head.fields) > most:
            self._limits.broken("header_too_large")
            message = f"the header exceeds {most} bytes (limits.header_bytes)"
            stream.send_headers(only_trailers(ending(GrpcStatus.RESOURCE_EXHAUSTED, message)), end=True)
        else:
            client: tuple[str, int] = ends["client"] or ("", 0)
            await RelayedCall(self._relay, self._agent, stream, head, client, self._telemetry).run(head)


class RefusedCallError(Exception):
    """The proxy ends the call with these trailers."""

    def __init__(self, status: GrpcStatus, message: str) -> None:
        super().__init__(message)
        self.trailers = ending(status, message)


def _read_request(method: A2AMethod, content: bytes) -> tuple[Any, dict[str, Any], bytes]:
    """The message of a request, and as JSON, decoded and encoded. Raises ValueError."""
    message = decoded(method.request_type, content)
    fields = as_json(message)
    return message, fields, orjson.dumps(fields)


class RelayedCall:
    """One call of a client, of any service and cardinality: on the wire all four are streams of messages.

    The proxy reads the messages of A2A; those of other services pass as the bytes that they are.
    """

    _exchange: RelayedExchange

    def __init__(
        self,
        relay: RelayContext,
        agent: GrpcAgent,
        client: Http2Stream,
        head: Headers,
        peer: tuple[str, int],
        telemetry: RequestTelemetry | None,
    ) -> None:
        """`client`: the stream of the client, whose request begins with `head`. `peer`: its IP address and port."""
        self._relay = relay
        self._agent = agent
        self._client = client
        self._peer = peer[0]
        self._began = time.perf_counter()
        self._path = dict(head.fields)[b":path"]
        path = self._path.decode("latin-1")
        self._method: A2AMethod | None = METHODS.get(path)
        self._head = read_request(regular(head.fields))
        self._spans = None
        if telemetry is not None:
            self._spans = telemetry.begin_call(path, self._head, peer, known=self._method is not None)
        if self._spans is not None and self._spans.traceparent:
            self._head = self._head.with_parent(self._spans.traceparent)
        self._request_bytes = HeldBody(relay.bodies)
        self._answer_bytes = HeldBody(relay.bodies)
        """Of the message that its client has yet to take."""
        self._metadata: Fields = []
        """That for the agent, once a message has decided it."""
        self._webhooks: WebhookRequest | None = None
        """Set where the call concerns webhooks, and these are relayed."""
        self._agent_status: GrpcStatus | None = None
        """With which the agent has ended the call, or that which stands for its failure."""
        self._status: GrpcStatus | None = None
        """What the client gets at the end; None where it leaves before."""
        self._gone_for = CLIENT_LEFT
        """Why the client gets nothing more, where it does not."""

    async def run(self, head: Headers) -> None:
        """Relay the call, whose request begins with `head`; cancelled when the client leaves."""
        relay, client, metrics = self._relay, self._client, self._relay.metrics
        metrics.requests += 1
        client.on_unread = partial(self._give_up, GrpcStatus.RESOURCE_EXHAUSTED, _NOT_READ)
        try:
            address = await self._agent.address(relay.negotiation)
            # The function does not refer to this call: a cycle would wait for the garbage collector.
            self._exchange = relay.begin(self._head, partial(relay.caller, self._head, b"", self._peer))
            await self._run(head, address)
        except asyncio.CancelledError:
            if not client.is_over and self._status is None:
                self._end(ending(GrpcStatus.UNAVAILABLE, "the proxy stops"))
            raise
        finally:
            client.on_unread = client.on_silent = None
            self._request_bytes.drop()
            self._answer_bytes.drop()
            status = None if self._status is None else self._status.name
            metrics.responses["none" if status is None else status] += 1
            metrics.request_s.observe(time.perf_counter() - self._began)
            if self._spans is not None:
                self._spans.end(status, None if self._agent_status is None else self._agent_status.name)

    async def _run(self, head: Headers, address: str | None) -> None:
        """Relay the call to the agent at HOST:PORT; capture is told of it."""
        exchange = self._exchange
        agent: Http2Stream | None = None
        sending: asyncio.Task[None] | None = None
        try:
            if address is None:
                raise RefusedCallError(GrpcStatus.UNAVAILABLE, _NO_ADDRESS)
            if self._spans is not None:
                self._spans.sent_to(address)
            data, ended = (b"", True) if head.ended else await self._request()
            trailers = [_TRAILERS] if _TRAILERS in head.fields else []
            call = [(b":method", dict(head.fields)[b":method"]), (b":path", self._path), *trailers]
            agent = await self._agent.begin(address, [*call, *(self._metadata or self._agent_metadata())])
            agent.send_data(data, end=ended)
            del data
            if agent.unsent or not ended:
                sending = asyncio.get_running_loop().create_task(self._send(agent, ended=ended))
            await self._answer(agent)
        except RefusedCallError as error:
            self._end(error.trailers)
        except RefusedWebhookError as error:
            self._end(refusal_of(error, legacy=self._method is not None and self._method.legacy))
        except UnreadableAnswerError as error:
            message = f"the proxy cannot read a message of the agent, which may hold tool calls: {error}"
            exchange.end(Finding("unreadable_answer", message, Severity.ERROR))
            self._end(ending(GrpcStatus.INTERNAL, message))
        except UpstreamError as error:
            self._agent_failed(f"the agent cannot be reached: {error}")
        except MessageTooLargeError:
            message = f"a message exceeds {exchange.max_bytes} bytes (limits.body_bytes)"
            self._end(ending(GrpcStatus.RESOURCE_EXHAUSTED, message))
        except asyncio.CancelledError:
            exchange.client_gone(self._gone_for)
            raise
        finally:
            if sending is not None:
                sending.cancel()
            if agent is not None:
                agent.reset(ErrorCodes.CANCEL)
            exchange.end()
            if self._webhooks is not None:
                self._webhooks.finish(complete=self._is_complete)

    # ── to the agent ────────────────────────────────────────────────────────────────────────────────────

    async def _request(self) -> tuple[bytes, bool]:
        """What goes to the agent with the head of the call, and whether nothing follows.

        The message of an A2A method is read before the call begins: it decides the metadata. Raises RefusedCallError,
        RefusedWebhookError, or MessageTooLargeError.
        """
        client, held = self._client, self._request_bytes
        if self._method is None:
            return b"", False
        reader = MessageReader(self._exchange.max_bytes)
        client.on_silent = partial(self._give_up, GrpcStatus.DEADLINE_EXCEEDED, _NOT_SENT)
        while isinstance(event := await client.next(), Data):
            client.taken(event.size)
            for message in reader.feed(event.content):
                client.on_silent = None
                return await self._read(self._method, message) + reader.rest(), event.ended
            if event.ended:
                break
            if reader.expected > SMALL_BYTES and not held.take(reader.expected - held.size):
                raise RefusedCallError(GrpcStatus.RESOURCE_EXHAUSTED, _NO_ROOM)
        return reader.rest(), event.ended  # without a message

    async def _read(self, method: A2AMethod, message: GrpcMessage) -> bytes:
        """The frame for the agent. Raises RefusedWebhookError, or MessageTooLargeError."""
        relay, head, exchange, held = self._relay, self._head, self._exchange, self._request_bytes
        try:
            content = await held.decoded(message.decoding(head.forward, exchange.max_bytes))
            request_message, fields, body = await held.parse(len(content), _read_request, method, content)
        except NoRoomError:
            raise RefusedCallError(GrpcStatus.RESOURCE_EXHAUSTED, _NO_ROOM) from None
        except ValueError as error:
            logger.debug("%r: %s", self._path, error)
            if relay.webhooks is not None and method.operation in SETS_WEBHOOKS:
                await relay.webhooks.begin(exchange, RequestedWebhooks(unclear=f"its message cannot be read: {error}"))
            return message.frame  # the agent responds to it
        configs = webhooks_in(request_message)
        exchange.take_request(parsed_request(method.request(fields), body, fields), sets_webhook=bool(configs))
        request = exchange.request
        if relay.webhooks is not None:
            asked = RequestedWebhooks(
                request=request,
                headers=head.forward,
                wanted=[NewWebhook(config.url, config.id) for config in configs],
                deleted=deleted_by(self._path.decode(), fields),
                unclear="its message is too large to be read" if configs and request is None else "",
            )
            self._webhooks = await relay.webhooks.begin(exchange, asked)
            if self._webhooks is not None and self._webhooks.addresses:
                for config, address in zip(configs, self._webhooks.addresses, strict=True):
                    config.url = address
                message = GrpcMessage(request_message.SerializeToString())
        exchange.asked = relay.negotiation.asks(request)
        self._metadata = self._agent_metadata()
        texts = [(name, value) for name, value in self._metadata if not name.endswith(b"-bin")]
        exchange.report_request(request, request_head(b"POST", self._path, texts), body, CLOCK.now())
        if self._webhooks is not None and self._webhooks.problem:
            exchange.finding("push_not_relayed", self._webhooks.problem)
        return message.frame

    def _agent_metadata(self) -> Fields:
        headers, exchange = self._head.forward, self._exchange
        if self._method is not None:
            sends_message = exchange.request is None or exchange.request.operation in SENDS_MESSAGE
            state = exchange.trace_state if sends_message else ""
            headers = offering_readable(for_agent(self._head, exchange.traceparent, state, asks=exchange.asked))
        fields = self._relay.upstream.headers(headers, has_host=False)
        return [(name, value.strip(b" \t")) for name, value in fields]  # agents may refuse white space around it

    async def _send(self, agent: Http2Stream, *, ended: bool) -> None:
        """Send the agent the rest of the request, as it comes and at the agent's pace."""
        await agent.drained()
        self._request_bytes.drop()
        while not ended:
            event = await self._client.next()
            if isinstance(event, Data):
                agent.send_data(event.content, end=event.ended)
                await agent.drained()
                self._client.taken(event.size)
            elif isinstance(event, Headers):
                agent.send_headers(regular(event.fields) if are_valid(event.fields) else [], end=True)
            ended = event.ended

    # ── to the client ───────────────────────────────────────────────────────────────────────────────────

    async def _answer(self, agent: Http2Stream) -> None:
        """Raises UnreadableAnswerError, or MessageTooLargeError."""
        event: Event = await agent.next()
        messages = self._answer_begins(event) if isinstance(event, Headers) else None
        while not isinstance(event, Reset):
            if isinstance(event, Headers):
                self._pass_fields(event)
            elif messages is None:
                await self._show(event.content)
            else:
                await messages.feed(event.content)
            if event.ended:
                self._client.send_data(b"", end=True)  # nothing, where trailers have ended it
                return
            if isinstance(event, Data):
                agent.taken(event.size)
            event = await agent.next()
        self._agent_reset(event)

    def _answer_begins(self, head: Headers) -> AnswerMessages | None:
        """What reads the messages of the answer; None where they pass unread."""
        method, exchange, webhooks = self._method, self._exchange, self._relay.webhooks
        self._relay.metrics.first_byte_s.observe(time.perf_counter() - self._began)
        if method is None:
            return None
        exchange.answer_begins(200, regular(head.fields), is_stream=method.streams)
        changes = webhooks is not None or method.operation is Operation.EXTENDED_CARD
        if not (changes or exchange.shows_tasks):
            return None
        return AnswerMessages(
            exchange, method, head.fields, self._answer_bytes, self._show, partial(self._changed, method)
        )

    async def _show(self, content: bytes) -> None:
        """Send the client part of the response, and wait until it has taken all."""
        for at in range(0, len(content), SMALL_BYTES):
            self._client.send_data(content[at : at + SMALL_BYTES])
            if self._client.unsent:
                await self._client.drained()

    def _pass_fields(self, event: Headers) -> None:
        """Send the client a header section of the agent."""
        fields = event.fields
        if not are_valid(fields):
            self._agent_reset(Reset(ErrorCodes.PROTOCOL_ERROR))
            return
        if not self._head.requested:
            fields = strip_headers(fields)
        if event.ended:
            self._note_status(*status_of(fields))
            if not self._exchange.requested:
                fields = shown_error(fields)
        self._client.send_headers(fields, end=event.ended)

    @property
    def _is_complete(self) -> bool:
        """Whether the agent has responded, and completely."""
        return self._agent_status is not None and self._agent_status not in _UNDECIDED

    def _note_status(self, status: GrpcStatus, message: str) -> None:
        """The agent has ended the call."""
        self._status = self._agent_status = status
        self._relay.metrics.upstream_errors += status is GrpcStatus.UNAVAILABLE
        if status is GrpcStatus.OK:
            return
        what = f"gRPC status {status.name}: {message or 'without details'}"
        self._exchange.refused(what, CLOCK.now(), mismatch=status is GrpcStatus.ABORTED)
        if self._webhooks is not None:
            self._webhooks.refused = self._is_complete

    def _agent_reset(self, event: Reset) -> None:
        """The agent has ended the call without a status, or its connection has ended."""
        if event.reason:
            self._agent_failed(event.reason)
            return
        self._note_status(status_of_reset(event.code), f"the agent reset the stream with code {event.code}")
        self._client.reset(event.code)

    def _agent_failed(self, reason: str) -> None:
        self._note_status(GrpcStatus.UNAVAILABLE, reason)
        self._end(ending(GrpcStatus.UNAVAILABLE, reason))

    def _end(self, trailers: Fields) -> None:
        """End the call with trailers of the proxy."""
        self._status = status_of(trailers)[0]
        self._client.send_headers(trailers if self._client.has_begun else only_trailers(trailers), end=True)

    def _give_up(self, status: GrpcStatus, reason: str) -> None:
        """The client reads nothing, or sends nothing: the call ends."""
        self._gone_for = reason
        self._client.drop_unsent()
        self._end(ending(status, reason))
        if self._client.on_reset is not None:
            self._client.on_reset()

    async def _changed(self, method: A2AMethod, content: bytes) -> bytes:
        """A message with the addresses of the proxy in place of the agent's, or with the client's own webhooks."""
        relay = self._relay
        if method.operation is Operation.EXTENDED_CARD:
            public = relay.cards.public_url(self._head, relay.settings.public_url)
            return with_own_addresses(method, content, partial(relay.cards.rewritten, public=public))
        if relay.webhooks is None:
            return content
        configs = self._webhooks if method.operation is Operation.PUSH_CONFIG else None
        return await with_own_urls(relay.webhooks, configs, method, content)
