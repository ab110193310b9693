"""The byte path: an ASGI application that passes requests to the agent and responses back, unchanged.

It moves bytes between the peers. What is sans-io decides: `RelayedExchange` about the request, `answer_readers` about
the answer.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable
from functools import partial
from typing import TYPE_CHECKING

from a2a_tool_capture import Finding, Severity

from ..body_memory import SMALL_BYTES
from ..clock import CLOCK
from ..net.http_client import RawHeaders, RequestHead, UpstreamError, UpstreamTimeoutError, UpstreamUnreachableError
from ..protocol.headers import TRACE_CONTEXT, negotiated, read_request
from ..protocol.operations import SENDS_MESSAGE, Operation
from ..protocol.webhooks import UnclearWebhookError, WebhookPlace, may_set_webhook
from .answer_readers import UnreadableAnswerError
from .card_relay import CONDITIONS
from .client_request import ClientRequest, Message, Receive, RelayContext, Scope, Send
from .relayed_exchange import CLIENT_LEFT, ParsedRequest, RelayedExchange, parsed_request
from .responses import ResponseRelay
from .shell import run
from .webhook_request import (
    HttpWebhookRequest,
    RefusedWebhookError,
    sets_webhooks,
    unclear_webhook,
    webhooks_of,
    webhooks_refused,
)

if TYPE_CHECKING:
    from ..telemetry.requests import RequestSpans, RequestTelemetry

_ALLOW = ((b"allow", b"GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"),)


class Forwarder:
    """The ASGI application of the data port."""

    def __init__(self, context: RelayContext, telemetry: RequestTelemetry | None) -> None:
        self._context = context
        self._telemetry = telemetry

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"unexpected ASGI scope {scope['type']!r}")
        head = read_request(scope["headers"])
        spans = self._telemetry.begin(scope, head) if self._telemetry is not None else None
        if spans is not None:
            send = spans.watching(send)
            if spans.traceparent:
                head = head.with_parent(spans.traceparent)
        client = ClientRequest(self._context, scope, head, receive, send)
        relay = _RequestRelay(self._context, client, spans)
        try:
            if spans is None:
                await relay.handle()
            else:
                with spans:
                    await relay.handle()
        finally:
            client.close()


class _RequestRelay:
    """Relays one request to the agent."""

    def __init__(self, context: RelayContext, client: ClientRequest, spans: RequestSpans | None) -> None:
        self._context = context
        self._client = client
        self._spans = spans
        self._client_gone = False
        self._asks = False
        """Whether the proxy asks the agent for the extension in this request."""
        self._webhooks: HttpWebhookRequest | None = None
        """Set where the request concerns webhooks, and these are relayed."""
        self._traceparent = ""
        """Starts a trace, where the client has none."""
        self._trace_state = ""
        """The `tracestate` that names the turn, where the request is a message."""
        self._sent: tuple[RequestHead | None, float] = None, 0.0
        """The head for the agent, and when it was sent, once it is."""

    def handle(self) -> Awaitable[None]:
        """Respond to the request, with the agent's response where there is one."""
        settings, client = self._context.settings, self._client
        if client.head.size > settings.limits.header_bytes:
            message = f"the request's headers exceed {settings.limits.header_bytes} bytes"
            return client.refuse(431, "HEADERS_TOO_LARGE", message)
        if client.method == "TRACE":  # the response would show the client the headers that are added for the agent
            return client.refuse(405, "METHOD_NOT_ALLOWED", "TRACE is not passed on to the agent", _ALLOW)
        self._context.metrics.requests += 1
        if client.method in ("GET", "HEAD") and settings.is_card_path(client.scope["path"]):
            return self._relay_card()
        return self._relay()

    async def _relay_card(self) -> None:
        """Send the agent's card, its interfaces rewritten to the proxy."""
        context, client = self._context, self._client
        client.exchange.watch()
        try:
            card = await context.cards.respond(client.scope, client.head, client.public_url)
        except asyncio.CancelledError:
            if not client.exchange.gone:
                raise
            return
        except UpstreamError as error:
            status, reason, message = _failure(error, context.settings.upstream)
            if self._spans is not None:
                self._spans.failed(reason.lower())
            await client.refuse(status, reason, message)
            return
        finally:
            client.exchange.cancels = False
        if self._spans is not None:
            self._spans.answered(card.status)
        await client.send_whole(card.status, card.headers, card.body)

    async def _relay(self) -> None:
        """Relay the request, then its response; capture is told of both."""
        client, context = self._client, self._context
        await context.negotiation.prepare(time.monotonic())
        exchange, self._traceparent, self._trace_state = context.begin(client.head, lambda: client.caller)
        message = await client.receive()
        if message.get("more_body") and self._may_be_read(message["body"]):
            message = await self._collect_body(message)
        if message["type"] == "http.disconnect":
            return
        client.exchange.watch()
        complete = False
        try:
            await self._exchange(message, exchange)
            complete = True
        except asyncio.CancelledError:
            self._client_gone = self._client_gone or client.exchange.gone
            if not self._client_gone:
                raise
        except UpstreamError as error:
            if not self._client_gone:
                client.body = client.body or message.get("body", b"")  # all that has come, if its end is to come yet
                await self._report_failure(error, exchange)
        except RefusedWebhookError as error:
            await client.refuse_as_agent(error.problem, str(error))
        finally:
            client.exchange.cancels = False
            if self._client_gone:
                exchange.client_gone(CLIENT_LEFT)
            exchange.end()
            if self._webhooks is not None:  # the client may leave now
                self._webhooks.finish(exchange, complete=complete)

    async def _exchange(self, message: Message, exchange: RelayedExchange) -> None:
        """Send the request, whose body begins with `message`, to the agent, and its response to the client."""
        client, upstream = self._client, self._context.upstream
        body: bytes | AsyncIterator[bytes]
        if message.get("more_body"):
            if self._context.settings.push_mode != "pass" and self._may_be_read(message["body"]):
                await self._refuse_unread(len(message["body"]))
                return
            exchange.take_request(ParsedRequest(client.rest, asks=False))  # as far as it is known by its path
            body = self._upload(message, exchange)
        else:
            client.body = message.pop("body")
            await self._read_request(exchange)
            body = self._webhooks.body if self._webhooks is not None else client.body
        if self._trace_state and not self._may_send_message(exchange):
            self._trace_state = ""
        target = upstream.target(client.scope["raw_path"], client.scope["query_string"])
        head = RequestHead(client.method.encode(), target, self._upstream_headers())
        self._sent = head, CLOCK.now()
        if isinstance(body, bytes):  # while the agent works: the callback runs as soon as the request is on its way
            self._context.loop.call_soon(self._report_request, exchange)
        request = exchange.request
        response = await upstream.http.send(
            head,
            body,
            length=client.head.length,
            waits=request is not None and request.is_long_poll,
        )
        try:
            if self._spans is not None:
                self._spans.answered(response.status)
            self._report_request(exchange)
            if self._webhooks is None:
                client.sent()
            elif self._webhooks.problem:
                exchange.reports.finding("push_not_relayed", self._webhooks.problem)
            relay = ResponseRelay(self._context, client, exchange, response, asked=self._asks, webhooks=self._webhooks)
            await relay.relay()
        finally:
            response.close()

    def _report_request(self, exchange: RelayedExchange, *, complete: bool = True) -> None:
        """Report the request, once, which is sent, or would have been."""
        head, sent_at = self._sent
        client = self._client
        exchange.report_request(client.rest, head, client.body, sent_at, complete=complete)

    async def _read_request(self, exchange: RelayedExchange) -> None:
        """Read the request, whose body is whole, decide whether the proxy asks for the extension in it, and relay its
        webhooks, or refuse them. Raises RefusedWebhookError."""
        client, context = self._client, self._context
        client.held.add(len(client.body) - client.held.size)
        places, unclear = await self._take_request(exchange)
        if context.settings.push_mode == "refuse" and (places or unclear):
            raise webhooks_refused(unclear)
        request, push = exchange.request, context.push
        if push is not None:
            if unclear:
                raise unclear_webhook(unclear)
            if places and not sets_webhooks(request):
                raise unclear_webhook("it is no request of A2A that the proxy knows")
            if request is not None and request.has_webhook:
                self._webhooks = HttpWebhookRequest(push, client, request, places)
                await self._webhooks.prepare(exchange)
        # A range may be part of the tool calls, without the key that names them.
        self._asks = not client.head.has_range and context.negotiation.asks(request)

    async def _take_request(self, exchange: RelayedExchange) -> tuple[list[WebhookPlace], str]:
        """Read the body; returns where it sets webhooks, and why that is unclear."""
        client = self._client
        content: bytes | None = client.body
        if client.head.content_encoding:
            content = await run(exchange.decoded(client.body, client.head.content_encoding), client.held)
        read = partial(self._read, content, exchange.undecoded)
        found, places, unclear = await client.held.parse(read, len(content or b""))
        exchange.take_request(found, sets_webhook=bool(places or unclear))
        return places, unclear

    def _read(self, content: bytes | None, undecoded: str) -> tuple[ParsedRequest, list[WebhookPlace], str]:
        """What the body holds, where it sets webhooks, and why that is unclear."""
        places, unclear = [], ""
        try:
            places = webhooks_of(self._client, content, undecoded)
        except UnclearWebhookError as error:
            unclear = str(error)
        return parsed_request(self._client.rest, content), places, unclear

    async def _refuse_unread(self, size: int) -> None:
        """Refuse a request that may set a webhook, and of which only `size` bytes could be kept."""
        limit = self._context.settings.limits.body_bytes
        if size > limit:
            message = f"the request may set a webhook, and exceeds {limit} bytes (limits.body_bytes)"
            await self._client.refuse(413, "REQUEST_TOO_LARGE", message)
        else:
            message = "the request may set a webhook, and there is no memory to read it; try again later"
            await self._client.refuse(503, "NO_MEMORY", message)

    def _may_be_read(self, beginning: bytes) -> bool:
        """Whether a body with this beginning has to be read: it may be an A2A request, JSON or compressed."""
        client, context = self._client, self._context
        if context.settings.push_mode != "pass":
            return may_set_webhook(beginning) or bool(client.head.content_encoding)
        if not context.negotiation.wants_extension:
            return False
        return client.method == "POST" and (beginning.lstrip()[:1] == b"{" or bool(client.head.content_encoding))

    async def _collect_body(self, message: Message) -> Message:
        """The body as one message, up to `limits.body_bytes`: the proxy can ask only in a request that it has read."""
        client = self._client
        limit = self._context.settings.limits.body_bytes
        chunks: list[bytes] = [message["body"]]
        held = client.held.take(len(chunks[0]))
        while message.get("more_body") and client.held.size <= limit and held:
            message = await client.receive()
            if message["type"] == "http.disconnect":
                return message
            chunks.append(message["body"])
            held = client.held.take(len(chunks[-1]))
        if message.get("more_body"):
            client.held.drop()  # `_upload` continues with it
        return {"type": "http.request", "body": b"".join(chunks), "more_body": message.get("more_body", False)}

    def _may_send_message(self, exchange: RelayedExchange) -> bool:
        """Whether the request is a message, or cannot be known to be something else. What follows from a message that
        does not name its turn would name the one before it."""
        request = exchange.request or self._client.rest
        return self._client.method == "POST" if request is None else request.operation in SENDS_MESSAGE

    def _upstream_headers(self) -> RawHeaders:
        client = self._client
        headers = negotiated(client.head) if self._asks else client.head.forward
        if self._traceparent:
            if client.head.traceparent:  # not valid (W3C Trace Context, section 4.3)
                headers = [item for item in headers if item[0] not in TRACE_CONTEXT]
            headers = [*headers, (b"traceparent", self._traceparent.encode())]
        if self._trace_state:
            others = [item for item in headers if item[0] != b"tracestate"]
            headers = [*others, (b"tracestate", self._trace_state.encode("latin-1"))]
        if client.rest is not None and client.rest.operation is Operation.EXTENDED_CARD:
            headers = [item for item in headers if item[0] not in CONDITIONS]
        return self._context.upstream.headers(headers)

    async def _upload(self, message: Message, exchange: RelayedExchange) -> AsyncIterator[bytes]:
        """The chunks of the request's body as they arrive; a copy is kept for capture, or its beginning where it is too
        large."""
        client, limit = self._client, self._context.settings.limits.body_bytes
        kept: list[bytes] = []
        complete = True
        while True:
            if message["type"] == "http.disconnect":
                self._client_gone = True
                raise ConnectionResetError("the client left while sending its request")
            chunk = message["body"]
            if complete:
                kept.append(chunk)
                if not client.held.take(len(chunk)) or client.held.size > limit:
                    complete, kept = False, [kept[0][:SMALL_BYTES]]
                    client.held.drop()
            if not message.get("more_body"):
                break
            if chunk:
                yield chunk
            message = await client.receive()
        client.body = b"".join(kept)
        if complete:  # before its end is sent: the agent's answer is read by what the request is
            await self._take_request(exchange)
        self._report_request(exchange, complete=complete)
        if chunk:
            yield chunk

    async def _report_failure(self, error: UpstreamError, exchange: RelayedExchange) -> None:
        """Report that the agent did not respond, or not completely, to the client and to capture."""
        context, client = self._context, self._client
        status, reason, message = _failure(error, context.settings.upstream)
        context.metrics.upstream_errors += 1
        if isinstance(error, UpstreamUnreachableError):
            context.reachability.set_unreachable(message)
        if self._spans is not None:
            self._spans.failed(reason.lower())
        if client.status is not None:
            # Without an end of the response the server closes the connection: the client sees it aborted, too.
            code, what = "upstream_cut", "the agent broke off its response"
            if isinstance(error, UnreadableAnswerError):
                code, what = "unreadable_answer", "the rest of the response was not passed on"
            exchange.end(Finding(code, f"{what}: {error}", Severity.ERROR))
            return
        self._report_request(exchange)
        exchange.end(Finding(reason.lower(), message, Severity.ERROR), lost=True)
        await client.refuse(status, reason, message)


def _failure(error: UpstreamError, upstream: str) -> tuple[int, str, str]:
    """Status, machine-readable reason and sentence for an error on the way to the agent."""
    match error:
        case UpstreamTimeoutError():
            return 504, "UPSTREAM_TIMEOUT", f"the agent at {upstream} did not answer in time: {error}"
        case UpstreamUnreachableError():
            return 502, "UPSTREAM_UNREACHABLE", f"the agent at {upstream} cannot be reached: {error}"
        case UnreadableAnswerError():
            message = f"the proxy cannot read the answer of the agent at {upstream}, which may hold tool calls: {error}"
            return 502, "UNREADABLE_ANSWER", message
        case _:
            return 502, "UPSTREAM_FAILED", f"the agent at {upstream} gave no HTTP answer: {error}"
