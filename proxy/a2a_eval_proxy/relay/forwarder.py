"""The byte path: an ASGI application that passes requests to the agent and responses back, unchanged.

It waits for the two peers only. Pure modules (`headers`, `agent_card`, `extension_filter`) decide what it changes. It
reports to a `Tap`, whose errors cannot reach the byte path.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable
from typing import TYPE_CHECKING

from a2a_tool_capture import Finding, Severity

from ..net.http_client import RawHeaders, RequestHead, UpstreamError, UpstreamTimeoutError, UpstreamUnreachableError
from ..protocol.headers import TRACE_CONTEXT, negotiated, read_request
from ..protocol.operations import CARRIES_TASKS, RPC_METHODS, SENDS_MESSAGE, Operation
from ..protocol.webhooks import UnclearWebhookError, may_set_webhook
from .card_relay import CONDITIONS
from .client_request import BodyCopy, ClientRequest, Message, Receive, RelayContext, Scope, Send
from .responses import ResponseRelay, UnreadableResponseError
from .tap import CLIENT_LEFT, Tap
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
        self._described: str | None = None
        """The operation of A2A by which its spans are named."""
        self._trace_state = ""
        """The `tracestate` that names the turn, where the request is a message."""

    def handle(self) -> Awaitable[None]:
        """Respond to the request, with the agent's response where there is one."""
        settings, client = self._context.settings, self._client
        if client.head.size > settings.max_header_bytes:
            message = f"the request's headers exceed {settings.max_header_bytes} bytes"
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
        """Relay the request, then its response; report both to capture."""
        client, context = self._client, self._context
        await context.negotiation.prepare(time.monotonic())
        tap, self._traceparent, self._trace_state = context.open_tap(client.head, lambda: client.caller)
        message = await client.receive()
        if message.get("more_body") and self._may_be_read(message["body"]):
            message = await self._collect_body(message)
        if message["type"] == "http.disconnect":
            return
        client.exchange.watch()
        complete = False
        try:
            await self._exchange(message, tap)
            complete = True
        except asyncio.CancelledError:
            self._client_gone = self._client_gone or client.exchange.gone
            if not self._client_gone:
                raise
        except UpstreamError as error:
            if not self._client_gone:
                client.body = client.body or message.get("body", b"")  # all that has come, if its end is to come yet
                await self._report_failure(error, tap)
        except RefusedWebhookError as error:
            await client.refuse_as_agent(error.problem, str(error))
        finally:
            client.exchange.cancels = False
            if self._client_gone:
                tap.client_gone(CLIENT_LEFT)
            tap.end()
            if self._spans is not None and self._described is not None:
                self._spans.describe(self._described, tap.answer_attributes)
            if self._webhooks is not None:  # the client may leave now
                self._webhooks.finish(tap, complete=complete)

    async def _exchange(self, message: Message, tap: Tap) -> None:
        """Send the request, whose body begins with `message`, to the agent, and its response to the client."""
        client, upstream = self._client, self._context.upstream
        whole = not message.get("more_body")
        if whole:
            client.body = message.pop("body")
            await self._read_webhooks(tap)
            negotiation = self._context.negotiation
            # A range may be part of the tool calls, without the key that names them.
            if negotiation.wants_extension and not client.head.has_range:
                self._asks = negotiation.asks(tap.read_request(client.rest, client.body))
            if self._spans is not None and self._context.settings.a2a_spans:
                self._describe(tap)
            # Read while the agent works: the callback runs as soon as the request is on its way.
            self._context.loop.call_soon(tap.request_body, client.rest, client.body, True)
        elif self._context.settings.push_mode != "pass" and self._may_be_read(message["body"]):
            await self._refuse_unread(len(message["body"]))
            return
        is_message = tap.request is not None and tap.request.operation in SENDS_MESSAGE
        if self._trace_state and not is_message and not self._may_send_message(tap, whole=whole):
            self._trace_state = ""
        target = upstream.target(client.scope["raw_path"], client.scope["query_string"])
        head = RequestHead(client.method.encode(), target, self._upstream_headers())
        tap.sent(head)
        response = await upstream.http.send(
            head,
            self._upload(message, tap) if not whole else self._webhooks.body if self._webhooks else client.body,
            length=client.head.length,
            waits=whole and self._context.settings.response_timeout is not None and self._is_long_poll(tap),
        )
        try:
            if self._spans is not None:
                self._spans.answered(response.status)
            if not tap.request_reported:
                tap.request_body(client.rest, client.body, True)
            if self._webhooks is None:
                client.sent()
            elif self._webhooks.problem:
                tap.withheld("push_not_relayed", self._webhooks.problem)
            relay = ResponseRelay(self._context, client, tap, response, asked=self._asks, webhooks=self._webhooks)
            await relay.relay()
        finally:
            response.close()

    def _describe(self, tap: Tap) -> None:
        """Have the spans say which operation of A2A the request is, whose body is whole."""
        request = tap.read_request(self._client.rest, self._client.body)
        if self._spans is not None and request is not None and request.operation in CARRIES_TASKS:
            self._described = RPC_METHODS[request.operation][0]
            self._spans.describe(self._described, self._context.a2a_attributes(request, self._client.head))

    async def _read_webhooks(self, tap: Tap) -> None:
        """Relay the webhooks of the request, whose body is whole, or refuse them. Raises RefusedWebhookError."""
        client, push, settings = self._client, self._context.push, self._context.settings
        places, unclear = [], ""
        try:
            places = webhooks_of(client, settings.max_body_bytes)
        except UnclearWebhookError as error:
            unclear = str(error)
        if settings.push_mode == "refuse" and (places or unclear):
            raise webhooks_refused(unclear)
        if push is None:
            if places or unclear:
                tap.read_request(client.rest, client.body, sets_webhook=True)
            return
        if unclear:
            raise unclear_webhook(unclear)
        request = tap.read_request(client.rest, client.body, sets_webhook=bool(places), relays_webhooks=True)
        if places and not sets_webhooks(request):
            raise unclear_webhook("it is no request of A2A that the proxy knows")
        if request is not None and request.has_webhook:
            self._webhooks = HttpWebhookRequest(push, client, request, places)
            await self._webhooks.prepare(tap)
        tap.remember_tasks()

    async def _refuse_unread(self, size: int) -> None:
        """Refuse a request that may set a webhook, and of which only `size` bytes could be kept."""
        limit = self._context.settings.max_body_bytes
        if size > limit:
            message = f"the request may set a webhook, and exceeds {limit} bytes (max_body_bytes)"
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
        """The body as one message, up to `max_body_bytes`: the proxy can ask only in a request that it has read."""
        client = self._client
        limit = self._context.settings.max_body_bytes
        chunks: list[bytes] = [message["body"]]
        size = len(chunks[0])
        held = client.hold(size, size)
        while message.get("more_body") and size <= limit and held:
            message = await client.receive()
            if message["type"] == "http.disconnect":
                return message
            chunks.append(message["body"])
            size += len(chunks[-1])
            held = client.hold(len(chunks[-1]), size)
        if message.get("more_body"):
            client.hold_only_request()  # `_upload` continues with it
        return {"type": "http.request", "body": b"".join(chunks), "more_body": message.get("more_body", False)}

    def _may_send_message(self, tap: Tap, *, whole: bool) -> bool:
        """Whether the request is a message, or cannot be known to be something else. What follows from a message that
        does not name its turn would name the one before it."""
        client = self._client
        if whole and client.head.client_span_id:
            tap.read_request(client.rest, client.body)
        request = tap.request or client.rest
        return client.method == "POST" if request is None else request.operation in SENDS_MESSAGE

    def _is_long_poll(self, tap: Tap) -> bool:
        """Whether the request, whose body is whole, is one that `response_timeout` is not meant for."""
        request = tap.read_request(self._client.rest, self._client.body)
        return request is not None and request.is_long_poll

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

    async def _upload(self, message: Message, tap: Tap) -> AsyncIterator[bytes]:
        """The chunks of the request's body as they arrive; a copy is kept for capture."""
        client = self._client
        copy = BodyCopy(client, self._context.settings.max_body_bytes)
        while True:
            if message["type"] == "http.disconnect":
                self._client_gone = True
                raise ConnectionResetError("the client left while sending its request")
            copy.add(message["body"])
            if message["body"]:
                yield message["body"]
            if not message.get("more_body"):
                break
            message = await client.receive()
        client.body = copy.content()
        try:
            sets_webhook = bool(webhooks_of(client, self._context.settings.max_body_bytes))
        except UnclearWebhookError:
            sets_webhook = True
        tap.request_body(client.rest, client.body, copy.is_complete, sets_webhook=sets_webhook)

    async def _report_failure(self, error: UpstreamError, tap: Tap) -> None:
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
            if isinstance(error, UnreadableResponseError):
                code, what = "unreadable_answer", "the rest of the response was not passed on"
            tap.end(Finding(code, f"{what}: {error}", Severity.ERROR))
            return
        tap.request_body(client.rest, client.body, True)
        tap.end(Finding(reason.lower(), message, Severity.ERROR), lost=True)
        await client.refuse(status, reason, message)


def _failure(error: UpstreamError, upstream: str) -> tuple[int, str, str]:
    """Status, machine-readable reason and sentence for an error on the way to the agent."""
    match error:
        case UpstreamTimeoutError():
            return 504, "UPSTREAM_TIMEOUT", f"the agent at {upstream} did not answer in time: {error}"
        case UpstreamUnreachableError():
            return 502, "UPSTREAM_UNREACHABLE", f"the agent at {upstream} cannot be reached: {error}"
        case UnreadableResponseError():
            message = f"the proxy cannot read the answer of the agent at {upstream}, which may hold tool calls: {error}"
            return 502, "UNREADABLE_ANSWER", message
        case _:
            return 502, "UPSTREAM_FAILED", f"the agent at {upstream} gave no HTTP answer: {error}"
