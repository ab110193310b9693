"""Passes one call to the agent and its response to the client."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

import orjson
from a2a_tool_capture import Finding, Severity
from a2a_tool_capture.spec import strip_headers
from h2.errors import ErrorCodes

from ..body_memory import SMALL_BYTES, HeldBody
from ..clock import CLOCK
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
from ..net.http2_streams import Data, Event, Fields, Headers, Http2Stream, Reset, are_valid, regular
from ..net.http_client import RequestHead, UpstreamError
from ..protocol.content_coding import NoRoomError
from ..protocol.headers import for_agent
from ..protocol.operations import SENDS_MESSAGE, Operation
from ..relay.answer_readers import Rules, UnreadableAnswerError
from ..relay.client_request import RelayContext
from ..relay.relayed_exchange import CLIENT_LEFT, RelayedExchange, parsed_request
from ..relay.webhook_request import RefusedWebhookError, sets_webhooks, unclear_webhook, webhooks_refused
from .agent import GrpcAgent
from .answer_messages import AnswerMessages
from .call_record import CallRecord
from .error_details import shown_error
from .extended_card import rewrite_card
from .messages import METHODS, A2AMethod, as_json, decoded
from .webhooks import WebhookCall, refusal_of, webhooks_in, with_own_urls

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


def _always(_: bytes) -> bool:
    """Each of these messages is changed, or read: see `Rules.restores`."""
    return True


class RefusedCallError(Exception):
    """The proxy ends the call with these trailers."""

    def __init__(self, trailers: Fields) -> None:
        super().__init__(trailers)
        self.trailers = trailers


def _read_request(method: A2AMethod, content: bytes) -> tuple[Any, dict[str, Any], bytes]:
    """The message of a request, and as JSON, decoded and encoded. Raises ValueError."""
    message = decoded(method.request_type, content)
    fields = as_json(message)
    return message, fields, orjson.dumps(fields)


class RelayedCall:
    """One call of a client, of any service and cardinality: on the wire all four are streams of messages.

    The proxy reads the messages of A2A; those of other services pass as the bytes that they are.
    """

    def __init__(
        self,
        relay: RelayContext,
        agent: GrpcAgent,
        client: Http2Stream,
        path: bytes,
        peer: str,
        record: CallRecord,
    ) -> None:
        """`client`: the stream of the client, whose IP address is `peer`."""
        self._relay = relay
        self._agent = agent
        self._client = client
        self._path = path
        self._peer = peer
        self._method: A2AMethod | None = METHODS.get(path.decode("latin-1"))
        self._record = record
        self._head = record.head
        self._exchange: RelayedExchange | None = None
        self._request_bytes = HeldBody(relay.bodies)
        self._answer_bytes = HeldBody(relay.bodies)
        """Of the message that its client has yet to take."""
        self._metadata: Fields | None = None
        """That for the agent, once it is known."""
        self._webhooks: WebhookCall | None = None
        """Set where the call concerns webhooks, and these are relayed."""
        self._complete = False
        """Whether the agent has responded, and completely."""
        self._status: GrpcStatus | None = None
        """What the client gets at the end."""
        self._gone_for = CLIENT_LEFT
        """Why the client gets nothing more, where it does not."""
        self._untaken = 0
        """Bytes of the request that the agent has not taken."""

    async def run(self, head: Headers) -> None:
        """Relay the call, whose request begins with `head`; cancelled when the client leaves."""
        self._client.on_unread = partial(self._give_up, GrpcStatus.RESOURCE_EXHAUSTED, _NOT_READ)
        agent: Http2Stream | None = None
        sending: asyncio.Task[None] | None = None
        try:
            address = await self._agent.address(self._relay.negotiation)
            if address is None:
                raise RefusedCallError(ending(GrpcStatus.UNAVAILABLE, _NO_ADDRESS))
            self._record.sent_to(address)
            data, ended = (b"", True) if head.ended else await self._request()
            trailers = [_TRAILERS] if _TRAILERS in head.fields else []
            metadata = self._agent_metadata() if self._metadata is None else self._metadata
            fields = [(b":method", dict(head.fields)[b":method"]), (b":path", self._path), *trailers, *metadata]
            agent = await self._agent.begin(address, fields)
            agent.send_data(data, end=ended)
            del data
            if agent.unsent or not ended:
                sending = asyncio.get_running_loop().create_task(self._send(agent, ended=ended))
            await self._answer(agent)
        except RefusedCallError as error:
            self._end(error.trailers)
        except RefusedWebhookError as error:
            assert self._method is not None  # noqa: S101
            self._end(refusal_of(self._method, error))
        except UnreadableAnswerError as error:
            self._unreadable(error)
        except UpstreamError as error:
            self._agent_failed(f"the agent cannot be reached: {error}")
        except MessageTooLargeError:
            limit = self._relay.settings.limits.body_bytes
            self._end(ending(GrpcStatus.RESOURCE_EXHAUSTED, f"a message exceeds {limit} bytes (limits.body_bytes)"))
        except asyncio.CancelledError:
            if self._exchange is not None:
                self._exchange.client_gone(self._gone_for)
            if not self._client.is_over and self._status is None:
                self._end(ending(GrpcStatus.UNAVAILABLE, "the proxy stops"))
            raise
        finally:
            if sending is not None:
                sending.cancel()
            if agent is not None:
                agent.reset(ErrorCodes.CANCEL)
            self._client.on_unread = self._client.on_silent = None
            self._request_bytes.drop()
            self._answer_bytes.drop()
            if self._exchange is not None:
                self._exchange.end()
            if self._exchange is not None and self._webhooks is not None:
                self._webhooks.finish(self._exchange, complete=self._complete)
            self._record.close(self._status)

    # ── to the agent ────────────────────────────────────────────────────────────────────────────────────

    async def _request(self) -> tuple[bytes, bool]:
        """What goes to the agent with the head of the call, and whether nothing follows.

        The message of an A2A method is read before the call begins: it decides the metadata. Raises RefusedCallError,
        RefusedWebhookError, or MessageTooLargeError.
        """
        if self._method is None:
            return b"", False
        reader = MessageReader(self._relay.settings.limits.body_bytes)
        self._client.on_silent = partial(self._give_up, GrpcStatus.DEADLINE_EXCEEDED, _NOT_SENT)
        while True:
            event = await self._client.next()
            if not isinstance(event, Data):
                return reader.rest(), isinstance(event, Headers)  # without a message
            self._client.taken(event.size)
            for message in reader.feed(event.content):
                self._client.on_silent = None
                data = await self._read(self._method, message)
                return data + reader.rest(), event.ended
            if event.ended:
                return reader.rest(), True
            if reader.expected > SMALL_BYTES and not self._request_bytes.take(
                reader.expected - self._request_bytes.size
            ):
                raise RefusedCallError(ending(GrpcStatus.RESOURCE_EXHAUSTED, _NO_ROOM))

    async def _read(self, method: A2AMethod, message: GrpcMessage) -> bytes:
        """The frame for the agent. Raises RefusedWebhookError, or MessageTooLargeError."""
        relay, head = self._relay, self._head
        # The function does not refer to this call: a cycle would wait for the garbage collector.
        self._exchange = exchange = relay.begin(head, partial(relay.caller, head, b"", self._peer))
        try:
            steps = message.decoding(head.forward, relay.settings.limits.body_bytes)
            content = await self._request_bytes.decoded(steps)
            read = partial(_read_request, method, content)
            request_message, fields, body = await self._request_bytes.parse(read, len(content))
        except NoRoomError:
            raise RefusedCallError(ending(GrpcStatus.RESOURCE_EXHAUSTED, _NO_ROOM)) from None
        except ValueError as error:
            logger.debug("%r: %s", self._path, error)
            if relay.settings.push_mode != "pass" and sets_webhooks(method.request({})):
                why = f"its message cannot be read: {error}"
                raise (webhooks_refused if relay.settings.push_mode == "refuse" else unclear_webhook)(why) from None
            return message.frame  # the agent responds to it
        configs = webhooks_in(request_message)
        if configs and relay.settings.push_mode == "refuse":
            raise webhooks_refused()
        exchange.take_request(parsed_request(method.request(fields), body, fields), sets_webhook=bool(configs))
        request = exchange.request
        if relay.push is not None and (configs or (request is not None and request.has_webhook)):
            if request is None:
                raise unclear_webhook("its message is too large to be read")
            path = self._path.decode()
            self._webhooks = WebhookCall(relay.push, method, path, request_message, request, head.forward)
            await self._webhooks.prepare(exchange)
            if self._webhooks.changed:
                message = GrpcMessage(request_message.SerializeToString())
        exchange.asked = relay.negotiation.asks(request)
        self._metadata = self._agent_metadata()
        texts = [(name, value) for name, value in self._metadata if not name.endswith(b"-bin")]
        exchange.report_request(request, RequestHead(b"POST", self._path, texts), body, CLOCK.now())
        if self._webhooks is not None and self._webhooks.problem:
            exchange.finding("push_not_relayed", self._webhooks.problem)
        return message.frame

    def _agent_metadata(self) -> Fields:
        headers, exchange = self._head.forward, self._exchange
        if exchange is not None:
            sends_message = exchange.request is None or exchange.request.operation in SENDS_MESSAGE
            state = exchange.trace_state if sends_message else ""
            headers = for_agent(self._head, exchange.traceparent, state, asks=exchange.asked)
            headers = offering_readable(headers)
        fields = self._relay.upstream.with_configured(headers)
        return [(name, value.strip(b" \t")) for name, value in fields]  # agents may refuse white space around it

    async def _send(self, agent: Http2Stream, *, ended: bool) -> None:
        """Send the agent the rest of the request, as it comes and at the agent's pace."""
        while not ended:
            await self._drained(agent)
            ended = self._pass_on(await self._client.next(), agent)
        await self._drained(agent)

    async def _drained(self, agent: Http2Stream) -> None:
        await agent.drained()
        self._request_bytes.drop()
        self._client.taken(self._untaken)
        self._untaken = 0

    def _pass_on(self, event: Event, agent: Http2Stream) -> bool:
        """Send the agent a part of the request; whether it was the last one."""
        if isinstance(event, Data):
            agent.send_data(event.content, end=event.ended)
            if agent.unsent:
                self._untaken += event.size
            else:
                self._client.taken(event.size)
        elif isinstance(event, Headers):
            agent.send_headers(regular(event.fields) if are_valid(event.fields) else [], end=True)
        return isinstance(event, Reset) or event.ended

    # ── to the client ───────────────────────────────────────────────────────────────────────────────────

    async def _answer(self, agent: Http2Stream) -> None:
        """Raises RefusedCallError, or MessageTooLargeError."""
        event: Event = await agent.next()
        if isinstance(event, Headers):
            self._record.answered()
            if self._exchange is not None and self._method is not None:
                self._exchange.answered(200, regular(event.fields), is_stream=self._method.streams)
        messages = self._reader(event)
        reader = None if messages is None else MessageReader(self._relay.settings.limits.body_bytes)
        while not isinstance(event, Reset):
            if isinstance(event, Headers):
                self._pass_fields(event)
            elif reader is None or messages is None:
                await self._show(event.content, end=event.ended)
            else:
                for message in reader.feed(event.content):
                    await self._show_message(await messages.shown(message, CLOCK.now()))
                    self._answer_bytes.drop()
                    del message
                if event.ended:
                    await self._show(reader.rest(), end=True)
                elif reader.expected > SMALL_BYTES:
                    await self._answer_bytes.wait(reader.expected - self._answer_bytes.size)
            if event.ended:
                return
            if isinstance(event, Data):
                agent.taken(event.size)
            event = await agent.next()
        self._agent_reset(event)

    async def _show(self, content: bytes, *, end: bool = False) -> None:
        """Send the client part of the response, and wait until it has taken all."""
        self._client.send_data(content, end=end)
        if self._client.unsent:
            await self._client.drained()

    async def _show_message(self, message: GrpcMessage | None) -> None:
        if message is None:
            return
        if len(message.payload) > SMALL_BYTES:
            self._client.send_data(message.prefix)
            await self._show(message.payload)  # without a copy
        else:
            await self._show(message.frame)

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
            if self._exchange is not None and not self._exchange.requested:
                fields = shown_error(fields)
        self._client.send_headers(fields, end=event.ended)

    def _note_status(self, status: GrpcStatus, message: str) -> None:
        """The agent has ended the call."""
        self._status = status
        self._record.ended(status)
        self._complete = status not in _UNDECIDED
        if status is GrpcStatus.OK:
            return
        if self._exchange is not None:
            what = f"gRPC status {status.name}: {message or 'without details'}"
            self._exchange.refused(what, CLOCK.now(), mismatch=status is GrpcStatus.ABORTED)
        if self._webhooks is not None:
            self._webhooks.refused = self._complete

    def _agent_reset(self, event: Reset) -> None:
        """The agent has ended the call without a status, or its connection has ended."""
        if event.reason:
            self._agent_failed(event.reason)
            return
        status = status_of_reset(event.code)
        self._note_status(status, f"the agent reset the stream with code {event.code}")
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

    def _reader(self, head: Event) -> AnswerMessages | None:
        """What reads the messages of the answer; None where they pass unread."""
        method, exchange, push = self._method, self._exchange, self._relay.push
        if method is None or exchange is None or not isinstance(head, Headers):
            return None
        restores: Callable[[bytes], bool] | None = None
        if method.operation is Operation.EXTENDED_CARD or (push and method.operation is Operation.PUSH_CONFIG):
            restores = _always
        elif push is not None:
            restores = push.addresses.may_be_in
        elif not exchange.shows_tasks:
            return None
        strips = not exchange.requested
        rules = Rules(strips, exchange.asked and strips, restores)
        return AnswerMessages(exchange, method, head.fields, rules, self._answer_bytes, self._changed)

    async def _changed(self, content: bytes) -> bytes:
        """A message with the addresses of the proxy in place of the agent's, or with the client's own webhooks."""
        method, exchange, push = self._method, self._exchange, self._relay.push
        if method is None or exchange is None:
            return content
        if method.operation is Operation.EXTENDED_CARD:
            return self._with_own_addresses(method, content)
        if push is None:
            return content
        if self._webhooks is not None and method.operation is Operation.PUSH_CONFIG:
            await self._webhooks.learn_response(exchange, content)
        return await with_own_urls(push, method, content)

    def _with_own_addresses(self, method: A2AMethod, data: bytes) -> bytes:
        """The agent's extended card with the proxy's addresses."""
        cards = self._relay.cards
        public = cards.public_url(self._head, self._relay.settings.public_url)
        try:
            card: Any = decoded(method.response_type, data)
            changed = rewrite_card(card, lambda content: cards.rewritten(content, public))
        except ValueError as error:
            logger.warning("the extended agent card cannot be read; its addresses may lead past the proxy: %s", error)
            return data
        return bytes(card.SerializeToString()) if changed else data

    def _unreadable(self, error: UnreadableAnswerError) -> None:
        """A message names the extension, which the proxy asked for, and cannot be read."""
        message = f"the proxy cannot read a message of the agent, which may hold tool calls: {error}"
        if self._exchange is not None:
            self._exchange.end(Finding("unreadable_answer", message, Severity.ERROR))
        self._end(ending(GrpcStatus.INTERNAL, message))
