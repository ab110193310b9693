"""Passes one call to the agent and its response to the client, message by message."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import grpc
import grpc.aio
import orjson
from a2a_tool_capture import Finding, Severity
from a2a_tool_capture.spec import strip_headers
from google.protobuf.message import Message

from ..ids import new_trace_context, new_turn_id
from ..net.http_client import RequestHead
from ..protocol.headers import negotiated
from ..protocol.operations import CARRIES_TASKS, A2ARequest, Operation
from ..protocol.sse import SseEvent
from ..relay.client_request import RelayContext
from ..relay.opted_in_tasks import Request
from ..relay.tap import Tap
from ..relay.webhook_request import RefusedWebhookError, webhooks_refused
from .call_record import CallRecord
from .client_messages import ClientMessages
from .error_details import shown_error
from .extended_card import rewrite_card
from .held_messages import ClientReadsNothingError, HeldMessages
from .message_filter import MessageFilter, replace_unreadable_calls
from .messages import METHODS, A2AMethod, as_json, decoded
from .metadata import client_of, from_headers, to_headers
from .webhooks import WebhookCall, refuse, webhooks_in, with_own_urls

_STATUS_S = 0.05
"""How long empty initial metadata waits for what follows."""

_MAX_TIMEOUT_S = 100 * 365 * 86_400
"""The library takes a deadline after the year 2262 for one in the past."""

_UNDECIDED = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.UNKNOWN,
    }
)
"""Statuses after which the agent may have taken the request."""

_NOT_READ = "the client did not read a message in time"
_NO_ROOM = "the messages that the proxy holds take too much memory; send this one again later"

logger = logging.getLogger(__name__)


class UnreadableMessageError(Exception):
    """A message of the agent names the extension, which the proxy asked for, and cannot be read."""


class RelayedCall:
    """One call of a client, of any service and cardinality: on the wire all four are streams of messages."""

    def __init__(
        self,
        relay: RelayContext,
        channel: grpc.aio.Channel,
        path: str,
        context: Any,
        record: CallRecord,
        held: HeldMessages,
    ) -> None:
        """`context` is the grpc.aio.ServicerContext of the client's call."""
        self._relay = relay
        self._channel = channel
        self._path = path
        self._context = context
        self._messages = ClientMessages(context)
        self._method: A2AMethod | None = METHODS.get(path)
        self._record = record
        self._held = held
        self._head = record.head
        self._tap: Tap | None = None
        self._asks = False
        self._webhooks: WebhookCall | None = None
        """Set where the call concerns webhooks, and these are relayed."""
        self._complete = False
        """Whether the agent has responded, and completely."""

    async def run(self) -> None:
        """Relay the call; ends with the agent's status, or is cancelled when the client cancels."""
        is_read = True
        try:
            await self._relay_messages()
        except ClientReadsNothingError:
            is_read = False
        finally:
            self._messages.close()
        if not is_read:  # the status waits until the client reads; nothing else of the call is in memory by then
            await self._context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, _NOT_READ)

    async def _relay_messages(self) -> None:
        """Raises ClientReadsNothingError."""
        method, messages = self._method, self._messages
        try:
            request = await self._request(method) if method is not None else await messages.only()
        except RefusedWebhookError as error:
            assert method is not None  # noqa: S101
            await refuse(self._context, method, error)
            return
        if request is not None and not self._held.admit(self, len(request)):
            await self._context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, _NO_ROOM)
            return
        call = self._begin(request)
        sending = asyncio.get_running_loop().create_task(self._send(call)) if request is None else None
        try:
            await self._answer(call)
        except asyncio.CancelledError:
            self._client_gone("the client left before the answer was complete")
            raise
        except ClientReadsNothingError:
            self._client_gone(_NOT_READ)
            raise
        finally:
            if sending is not None:
                sending.cancel()
            call.cancel()
            self._held.release(self)
            if self._tap is not None:
                self._tap.end()
            if self._tap is not None and self._webhooks is not None:
                self._webhooks.finish(self._tap, complete=self._complete)

    # ── to the agent ────────────────────────────────────────────────────────────────────────────────────

    def _begin(self, request: bytes | None) -> Any:
        """The call to the agent. `request` is its only message; None: `_send` sends what there is.

        A message that does not go out together with the call may meet an agent that has already responded. grpc.aio
        then forgets the agent's status and reports INTERNAL.
        """
        left_s = self._context.time_remaining()
        timeout = None if left_s is None else min(left_s, _MAX_TIMEOUT_S)
        options = {"metadata": self._agent_metadata(), "timeout": timeout}
        if request is None:
            return self._channel.stream_stream(self._path)(**options)
        return self._channel.unary_stream(self._path)(request, **options)

    async def _request(self, method: A2AMethod) -> bytes | None:
        """The request message of an A2A method, read before the call to the agent begins: it decides the metadata.

        Raises RefusedWebhookError.
        """
        data = await self._messages.next()
        if data is grpc.aio.EOF:
            return None
        tap = self._tap = self._open_tap()
        try:
            message = decoded(method.request_type, data)
            content = as_json(message)
        except ValueError as error:  # the agent responds to it
            logger.debug("%s: %s", self._path, error)
            return bytes(data)
        body = orjson.dumps(content)
        relays_webhooks = self._relay.push is not None
        request = tap.read_request(method.request(content), body, relays_webhooks=relays_webhooks)
        if request is not None and request.has_webhook:
            data = await self._with_addresses(method, message, request, data)
        tap.remember_tasks()
        self._asks = self._relay.negotiation.asks(request)
        if self._relay.wire_log is not None:
            tap.sent(self._wire_head(), b"")
        tap.request_body(request, body, True)
        if self._webhooks is not None and self._webhooks.problem:
            tap.withheld("push_not_relayed", self._webhooks.problem)
        return bytes(data)

    async def _with_addresses(self, method: A2AMethod, message: Message, request: A2ARequest, data: bytes) -> bytes:
        """The request with the proxy's addresses for the webhooks that it sets. Raises RefusedWebhookError."""
        relay, tap = self._relay, self._tap
        assert tap is not None  # noqa: S101
        if relay.push is None:
            if relay.settings.push_mode == "refuse" and webhooks_in(message):
                raise webhooks_refused()
            return data
        self._webhooks = WebhookCall(relay.push, method, self._path, message, request, self._head.forward)
        await self._webhooks.prepare(tap)
        return message.SerializeToString() if self._webhooks.changed else data

    def _open_tap(self) -> Tap:
        relay, head = self._relay, self._head
        trace_context = head.trace_context
        if trace_context is None:
            trace_context = new_trace_context()
            self._head = head = head.with_parent(f"00-{trace_context[0]}-{trace_context[1]}-01")
        return Tap(
            relay.book,
            relay.opted_in,
            relay.facts(head, trace_context),
            new_turn_id,
            relay.settings.max_body_bytes,
            caller=self._caller,
            wire_log=relay.wire_log,
        )

    def _caller(self) -> bytes | None:
        request = Request(self._head.forward, b"", client_of(self._context.peer())[0])
        return self._relay.callers.key(request, self._relay.negotiation.api_keys)

    def _agent_metadata(self) -> list[tuple[str, str | bytes]]:
        headers = negotiated(self._head) if self._asks else self._head.forward
        return from_headers(self._relay.upstream.with_configured(headers))

    def _wire_head(self) -> RequestHead:
        """The call as an HTTP request, for the wire log, without binary metadata."""
        texts = [(name, value) for name, value in to_headers(self._agent_metadata()) if not name.endswith(b"-bin")]
        return RequestHead(b"POST", self._path.encode(), [(b"content-type", b"application/grpc"), *texts])

    async def _send(self, call: Any) -> None:
        """Send the client's messages to the agent. An error of the call shows in its status."""
        try:
            while (message := await self._messages.next()) is not grpc.aio.EOF:
                await call.write(message)
            await call.done_writing()
        except (grpc.RpcError, grpc.aio.InternalError, asyncio.InvalidStateError):
            return

    # ── to the client ───────────────────────────────────────────────────────────────────────────────────

    async def _answer(self, call: Any) -> None:
        context = self._context
        try:
            received = await call.initial_metadata()
            self._record.answered()
            initial = self._for_client(received)
            if self._tap is not None and self._method is not None:
                self._tap.answered(200, to_headers(received), is_stream=self._method.streams)
            responses = self._responses()
            message = await self._first_response(call, initial)
            while message is not grpc.aio.EOF:
                shown = responses(await self._with_own_urls(message))
                if shown is not None:
                    await self._held.write(self, context, shown)
                message = await call.read()
        except grpc.aio.AioRpcError as error:
            self._record.ended(error.code())
            self._report_status(error.code(), error.details())
            self._complete = error.code() not in _UNDECIDED
            if self._webhooks is not None:
                self._webhooks.refused = self._complete
            trailing = self._error_for_client(error.trailing_metadata())
            await context.abort(error.code(), error.details() or "", trailing)
            return
        except UnreadableMessageError as error:
            await self._refuse(f"the proxy cannot read a message of the agent, which may hold tool calls: {error}")
            return
        self._record.ended(grpc.StatusCode.OK)
        self._complete = True
        context.set_trailing_metadata(self._for_client(await call.trailing_metadata()))

    async def _first_response(self, call: Any, initial: tuple[tuple[str, str | bytes], ...]) -> Any:
        """The first message, or EOF. The client gets the initial metadata before it.

        An error without any message has none. gRPC does not show that it has none until the status arrives, at once.
        The metadata never goes out together with a message: while the client reads nothing of that, gRPC would take it
        for unsent, and refuse to send a status.
        """
        reading = asyncio.ensure_future(call.read())
        try:
            if not initial:
                await asyncio.wait({reading}, timeout=_STATUS_S)
            is_sent = bool(initial) or not reading.done()
            if is_sent:
                await self._context.send_initial_metadata(initial)
            message = await reading
            if not is_sent and message is not grpc.aio.EOF:
                await self._context.send_initial_metadata(initial)
            return message
        finally:
            reading.cancel()

    async def _with_own_urls(self, data: bytes) -> bytes:
        """A response with the client's own URLs of webhooks."""
        push, method, tap = self._relay.push, self._method, self._tap
        if push is None or method is None or tap is None:
            return data
        if self._webhooks is not None and method.operation is Operation.PUSH_CONFIG:
            await self._webhooks.learn_response(tap, data)
        return await with_own_urls(push, method, data)

    def _client_gone(self, message: str) -> None:
        if self._tap is not None:
            self._tap.end(Finding("client_gone", message, Severity.WARNING))

    async def _refuse(self, message: str) -> None:
        assert self._tap is not None  # noqa: S101  # without a tap nothing is read
        self._relay.negotiation.stop_asking(message)
        self._tap.end(Finding("unreadable_answer", message, Severity.ERROR))
        await self._context.abort(grpc.StatusCode.INTERNAL, message)

    def _for_client(self, metadata: Any) -> tuple[tuple[str, str | bytes], ...]:
        """The agent's metadata for the client, without an activation of the extension that it did not ask for."""
        pairs = tuple(metadata or ())
        return pairs if self._head.requested else tuple(from_headers(strip_headers(to_headers(pairs))))

    def _error_for_client(self, metadata: Any) -> tuple[tuple[str, str | bytes], ...]:
        """As `_for_client`, of an error, whose details hold no tool calls for a client that did not ask for them."""
        pairs, tap = self._for_client(metadata), self._tap
        return pairs if tap is None or tap.requested else shown_error(pairs)

    def _responses(self) -> Any:
        """A function from a response message to what the client gets (None: nothing), which reports to capture."""
        method, tap = self._method, self._tap
        if method is not None and method.operation is Operation.EXTENDED_CARD:
            return lambda data: self._with_own_addresses(method, data)
        if method is None or tap is None or method.operation not in CARRIES_TASKS:
            return lambda data: data
        cleaner = None if tap.requested else MessageFilter(tap.keeps)
        return lambda data: self._seen(method, tap, cleaner, data)

    def _with_own_addresses(self, method: A2AMethod, data: bytes) -> bytes:
        """The agent's extended card with the proxy's addresses."""
        cards = self._relay.cards
        public = cards.public_url(self._head, self._relay.settings.public_url)
        try:
            card = decoded(method.response_type, data)
            changed = rewrite_card(card, lambda content: cards.rewritten(content, public))
        except ValueError as error:
            logger.warning("the extended agent card cannot be read; its addresses may lead past the proxy: %s", error)
            return data
        return card.SerializeToString() if changed else data

    def _seen(self, method: A2AMethod, tap: Tap, cleaner: MessageFilter | None, data: bytes) -> bytes | None:
        filters = cleaner is not None and cleaner.needs(data)
        try:
            message = decoded(method.response_type, data)
        except ValueError as error:
            if filters and self._asks:
                raise UnreadableMessageError(str(error)) from None
            _unread(tap, error)
            return data
        if tap.unreadable is None:
            _report(method, tap, message)
        return _filtered(cleaner, message) if cleaner is not None and filters else data

    def _report_status(self, code: grpc.StatusCode, details: str | None) -> None:
        if self._tap is not None:
            self._tap.refused(f"gRPC status {code.name}: {details or 'without details'}")


def _report(method: A2AMethod, tap: Tap, message: Message) -> None:
    """Report a message of the agent to capture, without the tool calls that cannot be read."""
    try:
        try:
            content = as_json(message)
        except ValueError:
            readable = type(message)()
            readable.CopyFrom(message)
            replace_unreadable_calls(readable)
            content = as_json(readable)
    except ValueError as error:
        _unread(tap, error)
        return
    body = orjson.dumps(content)
    if method.streams:
        tap.events([SseEvent(body, body)], [content])
    else:
        tap.arrived(body)
        tap.response(200, body, content)


def _unread(tap: Tap, error: ValueError) -> None:
    tap.stop_reading("unreadable_message", f"a message of the agent cannot be read: {error}")


def _filtered(cleaner: MessageFilter, message: Message) -> bytes | None:
    """What the client gets of a message; None: nothing."""
    return message.SerializeToString() if cleaner.apply(message) else None
