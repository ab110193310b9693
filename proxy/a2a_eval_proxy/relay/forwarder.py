"""The byte path over HTTP: passes requests to the agent and responses back, unchanged.

It moves bytes between the peers. `RelayedExchange` decides about the request, `answer_readers` about the answer.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable
from functools import partial
from typing import TYPE_CHECKING

from a2a_tool_capture import Finding, Severity
from a2a_tool_capture.spec import strip_headers

from ..body_memory import SMALL_BYTES
from ..clock import CLOCK
from ..net.http1_messages import BODILESS
from ..net.http_client import (
    RawHeaders,
    SentRequest,
    UpstreamError,
    UpstreamTimeoutError,
    UpstreamUnreachableError,
    request_head,
)
from ..net.served_request import ClientLeftError
from ..protocol.error_bodies import LocalResponse
from ..protocol.headers import for_agent, read_request, response_headers
from ..protocol.operations import SENDS_MESSAGE, Binding, Operation, ParsedRequest, parsed_request
from ..protocol.webhooks import UnclearWebhookError, WebhookPlace, deleted_config, may_be_json, replaced, webhooks_in
from .answer_readers import (
    DESCRIBE_BODY,
    LENGTH,
    AnswerHead,
    AnswerReader,
    Change,
    Rules,
    UnreadableAnswerError,
    WholeReader,
    reader_of,
)
from .cards import CONDITIONS
from .client_request import KEPT_REQUEST, ClientRequest, RelayContext, Scope
from .relayed_exchange import CLIENT_LEFT, RelayedExchange
from .webhooks import RefusedWebhookError, RequestedWebhooks, WebhookRequest

if TYPE_CHECKING:
    from ..telemetry.requests import RequestSpans, RequestTelemetry

logger = logging.getLogger(__name__)

_ALLOW = ((b"allow", b"GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"),)
_AS_IT_IS = Rules(strips=False, asked=False, webhooks=None)


class Forwarder:
    """The ASGI application of the data port."""

    def __init__(self, context: RelayContext, telemetry: RequestTelemetry | None) -> None:
        self._context = context
        self._telemetry = telemetry

    def __call__(self, scope: Scope, receive: object, send: object) -> Awaitable[None]:
        head = read_request(scope["headers"])
        spans = self._telemetry.begin(scope, head) if self._telemetry is not None else None
        if spans is not None and spans.traceparent:
            head = head.with_parent(spans.traceparent)
        return HttpRelay(self._context, ClientRequest(self._context, scope, head), spans).run()


class _UnreadRequestError(Exception):
    """The request may set a webhook, and cannot be read: it does not reach the agent."""


class HttpRelay:
    """Relays one request to the agent, and its response to the client."""

    _exchange: RelayedExchange
    _response: SentRequest
    """The agent's, once its header has arrived."""

    def __init__(self, context: RelayContext, client: ClientRequest, spans: RequestSpans | None) -> None:
        self._context = context
        self._client = client
        self._spans = spans
        self.held = client.held
        self._agent_status: int | None = None
        """Of its response; None as long as there is none."""
        self._problem = ""
        """Why the agent did not answer, or broke off, in a word."""
        self._client_gone = False
        self._webhooks: WebhookRequest | None = None
        """Set where the request concerns webhooks, and these are relayed."""
        self._head: bytes | None = None
        """That for the agent, once the request is sent."""
        self._is_cut = False
        """Whether the body passes unread, and the client's request has only its beginning."""

    async def run(self) -> None:
        """Respond to the request, with the agent's response where there is one."""
        context, client = self._context, self._client
        limit = context.settings.limits.header_bytes
        try:
            if client.head.size > limit:
                await client.refuse(431, "HEADERS_TOO_LARGE", f"the request's headers exceed {limit} bytes")
                return
            if client.method == "TRACE":  # the response would show the client the headers that are added for the agent
                await client.refuse(405, "METHOD_NOT_ALLOWED", "TRACE is not passed on to the agent", _ALLOW)
                return
            context.metrics.requests += 1
            if client.method in ("GET", "HEAD") and context.settings.is_card_path(client.scope["path"]):
                await self._relay_card()
                return
            await context.negotiation.prepare(time.monotonic())
            self._exchange = context.begin(client.head, client.caller)
            body = await client.exchange.read()
            # What may be an A2A request is read before it goes to the agent.
            is_read = client.exchange.ended or may_be_json(body) or bool(client.head.content_encoding)
            if is_read and not client.exchange.ended:
                body = await self._collect_body(body)
            await self._relay(body, is_read=is_read)
        except ClientLeftError:
            pass
        except BaseException as error:
            self._problem = self._problem or type(error).__qualname__
            raise
        finally:
            client.close()
            if self._spans is not None:
                gone = "" if client.exchange.complete else "client_gone"
                self._spans.end(client.status, self._agent_status, self._problem or gone)

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
            self._problem = reason.lower()
            await client.refuse(status, reason, message)
            return
        finally:
            client.exchange.cancels = False
        self._agent_status = card.status
        await client.send_whole(card.status, card.headers, card.body)

    async def _relay(self, beginning: bytes, *, is_read: bool) -> None:
        """Relay the request, whose body begins so, and its response; capture is told of both."""
        client, exchange, upstream = self._client, self._exchange, self._context.upstream
        client.exchange.watch()
        complete = False
        try:
            body: bytes | AsyncIterator[bytes]
            if client.exchange.ended:
                body = await self._read_request(beginning)
            elif is_read and self._context.webhooks is not None:
                raise self._unread(is_too_large=len(beginning) > exchange.max_bytes)
            else:
                body = self._unread_request(beginning, is_read=is_read)
            self._head = head = request_head(
                client.method.encode(),
                upstream.target(client.scope["raw_path"], client.scope["query_string"]),
                self._upstream_headers(),
            )
            # While the agent works: the callback runs as soon as the request is on its way.
            self._context.loop.call_soon(self._report_request)
            waits = exchange.request is not None and exchange.request.is_long_poll
            self._response = response = await upstream.http.send(head, body, length=client.head.length, waits=waits)
            try:
                await self._answer()
            finally:
                response.close()
            complete = True
        except asyncio.CancelledError:
            self._client_gone = self._client_gone or client.exchange.gone
            if not self._client_gone:
                raise
        except UpstreamError as error:
            if not self._client_gone:
                await self._report_failure(error)
        except RefusedWebhookError as error:
            await client.refuse_as_agent(str(error))
        except _UnreadRequestError as error:
            await client.refuse(*error.args)
        finally:
            client.exchange.cancels = False
            if self._client_gone:
                exchange.client_gone(CLIENT_LEFT)
            exchange.end()
            if self._webhooks is not None:  # the client may leave now
                self._webhooks.finish(complete=complete)

    # ── the request ─────────────────────────────────────────────────────────────────────────────────────

    async def _collect_body(self, beginning: bytes) -> bytes:
        """The body, or what comes up to `limits.body_bytes`: the proxy can ask only in a request that it has read."""
        client = self._client
        limit = self._context.settings.limits.body_bytes
        chunks = [beginning]
        held = client.held.take(len(beginning))
        while held and client.held.size <= limit and not client.exchange.ended:
            chunks.append(await client.exchange.read())
            held = client.held.take(len(chunks[-1]))
        return b"".join(chunks)

    async def _read_request(self, body: bytes) -> bytes:
        """Read the request, whose whole body this is, decide whether the proxy asks for the extension in it, and relay
        its webhooks, or refuse them. Returns the body for the agent. Raises RefusedWebhookError, or
        _UnreadRequestError."""
        client, context, exchange = self._client, self._context, self._exchange
        client.body = body
        client.held.add(len(body) - client.held.size)
        content: bytes | None = body
        if client.head.content_encoding:
            content = await exchange.decoded(body, client.head.content_encoding, client.held)
            if content is None and context.webhooks is not None:
                raise self._unread(is_too_large=not exchange.lacks_memory)
        found, places, unclear = await client.held.parse(len(content or b""), self._read, content)
        if client.held.size > len(body):
            client.held.give_back(client.held.size - len(body))
        exchange.take_request(found, sets_webhook=bool(places or unclear))
        request = exchange.request
        if context.webhooks is not None:
            is_config = request is not None and request.operation is Operation.PUSH_CONFIG
            asked = RequestedWebhooks(
                request=request,
                headers=client.head.forward,
                wanted=[place.webhook for place in places],
                deleted=deleted_config(client.method, client.scope["path"], content) if is_config else None,
                unclear=unclear,
                unchangeable="the request is compressed" if client.head.content_encoding else "",
            )
            self._webhooks = await context.webhooks.begin(exchange, asked)
            if self._webhooks is not None and self._webhooks.addresses:
                body = replaced(body.decode(), places, self._webhooks.addresses).encode()
        # A range may be part of the tool calls, without the key that names them.
        exchange.asked = not client.head.has_range and context.negotiation.asks(request)
        return body

    def _unread_request(self, beginning: bytes, *, is_read: bool) -> AsyncIterator[bytes]:
        """The body of a request that passes unread. `is_read`: it would be read, were it not too large."""
        client = self._client
        client.held.drop()
        client.body, self._is_cut = beginning[:SMALL_BYTES], True
        too_large = ParsedRequest(None, is_too_large=True)
        self._exchange.take_request(too_large if is_read else parsed_request(client.rest, b""))
        return self._upload(beginning)

    def _read(self, content: bytes | None) -> tuple[ParsedRequest, list[WebhookPlace], str]:
        """What the body holds, which is `content` without its coding, where it sets webhooks, and why that is
        unclear."""
        client, places, unclear = self._client, [], ""
        if content is None or self._exchange.undecoded:
            unclear = f"its content cannot be decoded: {self._exchange.undecoded}"
        else:
            is_config = "pushnotificationconfig" in client.scope["path"].lower()  # some servers ignore case and slashes
            try:
                places = webhooks_in(content, is_config=is_config, content_type=client.head.content_type)
            except UnclearWebhookError as error:
                unclear = str(error)
        return parsed_request(client.rest, content), places, unclear

    def _unread(self, *, is_too_large: bool) -> _UnreadRequestError:
        """With what the request is refused: it is too large to be read, or else for the memory that is left."""
        what = "the request may set a webhook, and"
        if is_too_large:
            return _UnreadRequestError(
                413, "REQUEST_TOO_LARGE", f"{what} exceeds {self._exchange.max_bytes} bytes (limits.body_bytes)"
            )
        return _UnreadRequestError(503, "NO_MEMORY", f"{what} there is no memory to read it; try again later")

    def _upstream_headers(self) -> RawHeaders:
        client, exchange = self._client, self._exchange
        request = exchange.request or client.rest
        sends_message = client.method == "POST" if request is None else request.operation in SENDS_MESSAGE
        # What follows from a message that does not name its turn would name the one before it.
        state = exchange.trace_state if sends_message else ""
        headers = for_agent(client.head, exchange.traceparent, state, asks=exchange.asked)
        if client.rest is not None and client.rest.operation is Operation.EXTENDED_CARD:
            headers = [item for item in headers if item[0] not in CONDITIONS]
        return self._context.upstream.headers(headers)

    async def _upload(self, chunk: bytes) -> AsyncIterator[bytes]:
        """The chunks of a body that passes unread, as they arrive, after this one."""
        client = self._client.exchange
        yield chunk
        while not client.ended:
            try:
                chunk = await client.read()
            except ClientLeftError:
                self._client_gone = True
                raise
            yield chunk

    def _report_request(self) -> None:
        """Report the request, which is sent, or would have been."""
        if not self._exchange.is_reported:
            client = self._client
            self._exchange.report_request(client.rest, self._head, client.body, CLOCK.now(), is_cut=self._is_cut)

    async def _report_failure(self, error: UpstreamError) -> None:
        """Report that the agent did not respond, or not completely, to the client and to capture."""
        context, client, exchange = self._context, self._client, self._exchange
        status, reason, message = _failure(error, context.settings.upstream)
        context.metrics.upstream_errors += 1
        if isinstance(error, UpstreamUnreachableError):
            context.upstream.reached(message)
        self._problem = reason.lower()
        if client.status is not None:
            # Without an end of the response the server closes the connection: the client sees it aborted, too.
            code, what = "upstream_cut", "the agent broke off its response"
            if isinstance(error, UnreadableAnswerError):
                code, what = "unreadable_answer", "the rest of the response was not passed on"
            exchange.end(Finding(code, f"{what}: {error}", Severity.ERROR))
            return
        self._report_request()
        exchange.end(Finding(reason.lower(), message, Severity.ERROR), lost=True)
        await client.refuse(status, reason, message)

    # ── the response ────────────────────────────────────────────────────────────────────────────────────

    async def _answer(self) -> None:
        """Relay the response. Raises UpstreamError, before or after its header is sent."""
        client, exchange, response, webhooks = self._client, self._exchange, self._response, self._context.webhooks
        self._agent_status = response.status
        if not exchange.is_reported:
            self._report_request()
        if self._webhooks is None and len(client.body) > KEPT_REQUEST:
            client.forget_body()
        elif self._webhooks is not None and self._webhooks.problem:
            exchange.finding("push_not_relayed", self._webhooks.problem)
        operation = None if exchange.request is None else exchange.request.operation
        head = AnswerHead(response.status, response.headers, response.fields, is_complete=response.complete)
        exchange.answer_begins(response.status, response.headers, is_stream=head.is_stream)
        if operation is Operation.EXTENDED_CARD:
            await self._relay_changed(head, self._with_own_addresses, "the extended agent card", "lead past the proxy")
        elif operation is Operation.PUSH_CONFIG and self._webhooks is not None:
            change = partial(self._with_own_webhooks, self._webhooks)
            await self._relay_changed(head, change, "a response about webhooks", "show the proxy's address")
        else:
            strips = not exchange.requested
            rules = Rules(strips, exchange.asked and strips, webhooks)
            try:
                reader = reader_of(exchange, head, rules, self, is_head=client.method == "HEAD")
            except UpstreamError:
                self._context.negotiation.stop_asking(exchange.unreadable.message if exchange.unreadable else "")
                raise
            await self._relay_body(reader)

    async def _relay_changed(self, head: AnswerHead, change: Change, what: str, harm: str) -> None:
        """Relay a body that is no answer about tasks, changed as a whole."""
        reader = WholeReader(self._exchange, head, _AS_IT_IS, self, holds=True, change=change)
        await self._relay_body(reader)
        if reader.content is None:
            logger.warning("%s could not be read; its URLs may %s", what, harm)

    async def _relay_body(self, reader: AnswerReader) -> None:
        client = self._client
        try:
            if not reader.holds_head:
                self._send_head(reader)
            while chunk := await self._response.read():
                await reader.feed(chunk, CLOCK.now())
            if not reader.shows_end:
                await client.exchange.write(b"", more=False)
                client.exchange.cancels = False  # the client may leave now
            await reader.end(CLOCK.now())
            if reader.shows_end and not reader.holds_head:
                self._exchange.end()
                await client.exchange.write(b"", more=False)
        except BaseException as error:
            if self._exchange.unreadable is None:
                self._exchange.rest = reader.rest
            is_cut = isinstance(error, UpstreamError) and not isinstance(error, UnreadableAnswerError)
            if is_cut and client.status is None:  # so that the client sees an aborted response as aborted
                self._send_head(reader)
            raise

    async def show(self, reader: AnswerReader, content: bytes) -> None:
        """Send the client part of the body, or, where the head waits for it, the whole body with the head."""
        client = self._client
        if client.status is None and reader.holds_head:
            if isinstance(reader, WholeReader) and reader.change is not None and reader.content is not None:
                await client.send_whole(*await reader.change(reader.body, reader.content))
            else:
                await client.send_whole(self._response.status, self._headers(reader.leaves_out), content)
            return
        if client.status is None:
            self._send_head(reader)
        for at in range(0, len(content), SMALL_BYTES):
            await client.exchange.write(content[at : at + SMALL_BYTES])

    async def _with_own_addresses(self, body: bytes, content: bytes) -> LocalResponse:
        """The agent's extended card with the proxy's URLs."""
        client, request = self._client, self._exchange.request
        received = LocalResponse(self._response.status, self._headers(), body)
        in_envelope = request is not None and request.binding is Binding.JSONRPC
        return self._context.cards.extended(received, content, client.head, client.public_url, in_envelope=in_envelope)

    async def _with_own_webhooks(self, webhooks: WebhookRequest, body: bytes, content: bytes) -> LocalResponse:
        """A response about configurations with the client's own URLs."""
        status = self._response.status
        webhooks.refused = status >= 400
        shown = await webhooks.answered(content)
        if shown is content:
            return LocalResponse(status, self._headers(), body)
        return LocalResponse(status, self._headers(DESCRIBE_BODY), shown)

    def _send_head(self, reader: AnswerReader) -> None:
        self._client.begin(self._response.status, self._headers(reader.leaves_out))

    def _headers(self, drop: frozenset[bytes] = frozenset()) -> RawHeaders:
        """The response's headers for the client, without those in `drop`."""
        response, context, head = self._response, self._context, self._client.head
        if not context.upstream.is_reachable:
            context.upstream.reached()
        if response.status in BODILESS:  # such a response has no body, whatever its length says
            drop |= LENGTH
        headers = response_headers(response.headers, drop=drop)
        if b"location" in response.fields:
            headers = context.cards.with_public_location(headers, self._client.public_url)
        activated = b"a2a-extensions" in response.fields or b"x-a2a-extensions" in response.fields
        if activated and not head.requested:
            headers = strip_headers(headers)
        return headers


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
