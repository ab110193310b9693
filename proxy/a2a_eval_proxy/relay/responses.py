"""The agent's responses on their way to the client: the shell of `answer_readers`."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial

from a2a_tool_capture.spec import strip_headers

from ..body_memory import SMALL_BYTES
from ..clock import CLOCK
from ..net.http_client import HttpExchange, RawHeaders, UpstreamError
from ..protocol.error_bodies import LocalResponse
from ..protocol.headers import response_headers
from ..protocol.operations import Operation
from ..store import StoreError
from .answer_readers import (
    DESCRIBE_BODY,
    AnswerHead,
    AnswerReader,
    Rules,
    UnreadableAnswerError,
    WholeReader,
    reader_of,
)
from .client_request import BODILESS, ClientRequest, RelayContext
from .relayed_exchange import RelayedExchange
from .shell import run
from .webhook_request import HttpWebhookRequest

logger = logging.getLogger(__name__)

_LENGTH = frozenset({b"content-length"})
_AS_IT_IS = Rules(strips=False, asked=False, restores=None)

_Change = Callable[[bytes, bytes], Awaitable[LocalResponse]]
"""What the client gets for a body, as received and decoded."""


class ResponseRelay:
    """Relays one response to the client."""

    def __init__(
        self,
        context: RelayContext,
        client: ClientRequest,
        exchange: RelayedExchange,
        response: HttpExchange,
        *,
        asked: bool,
        webhooks: HttpWebhookRequest | None,
    ) -> None:
        """`asked`: the proxy asked the agent for the extension in this request. `webhooks`: those that it sets."""
        self._context = context
        self._client = client
        self._exchange = exchange
        self._response = response
        strips, push = not exchange.requested, context.push
        self._rules = Rules(strips, asked and strips, None if push is None else push.addresses.may_be_in)
        self._webhooks = webhooks

    async def relay(self) -> None:
        """Raises UpstreamError, before or after the header is sent."""
        exchange, response = self._exchange, self._response
        operation = None if exchange.request is None else exchange.request.operation
        head = AnswerHead.of(response.status, response.headers, response.fields, is_complete=response.complete)
        exchange.reports.answered(response.status, response.headers, CLOCK.now(), is_stream=head.is_stream)
        if operation is Operation.EXTENDED_CARD:
            await self._relay_changed(head, self._with_own_addresses, "the extended agent card", "lead past the proxy")
        elif operation is Operation.PUSH_CONFIG and self._webhooks is not None:
            change = partial(self._with_own_webhooks, self._webhooks)
            await self._relay_changed(head, change, "a response about webhooks", "show the proxy's address")
        else:
            await self._relay_body(self._reader(head))

    def _reader(self, head: AnswerHead) -> AnswerReader:
        exchange = self._exchange
        try:
            return reader_of(exchange, head, self._rules, is_head=self._client.method == "HEAD")
        except UpstreamError:
            self._context.negotiation.stop_asking(exchange.unreadable.message if exchange.unreadable else "")
            raise

    async def _relay_changed(self, head: AnswerHead, change: _Change, what: str, harm: str) -> None:
        """Relay a body that is no answer about tasks, changed as a whole."""
        reader = WholeReader(self._exchange, head, _AS_IT_IS, holds=True)
        await self._relay_body(reader, change)
        if reader.content is None:
            logger.warning("%s could not be read; its URLs may %s", what, harm)

    async def _relay_body(self, reader: AnswerReader, change: _Change | None = None) -> None:
        client = self._client
        show = partial(self._show, reader, change)
        try:
            if not reader.holds_head:
                await self._send_head(reader)
            while chunk := await self._response.read():
                await run(reader.feed(chunk, CLOCK.now()), client.held, show, self._restored)
            if not reader.shows_end:
                await client.finish()
                client.exchange.cancels = False  # the client may leave now
            await run(reader.end(CLOCK.now()), client.held, show, self._restored)
            if reader.shows_end and not reader.holds_head:
                self._exchange.end()
                await client.finish()
        except BaseException as error:
            if self._exchange.unreadable is None:
                self._exchange.rest = reader.rest
            is_cut = isinstance(error, UpstreamError) and not isinstance(error, UnreadableAnswerError)
            if is_cut and client.status is None:  # so that the client sees an aborted response as aborted
                await self._send_head(reader)
            raise

    async def _show(self, reader: AnswerReader, change: _Change | None, content: bytes) -> None:
        """Send the client part of the body, or, where the head waits for it, the whole body with the head."""
        client = self._client
        if client.status is None and reader.holds_head:
            if change is not None and isinstance(reader, WholeReader) and reader.content is not None:
                await client.send_whole(*await change(reader.body, reader.content))
            else:
                await client.send_whole(self._response.status, self._headers(reader.leaves_out), content)
            return
        if client.status is None:
            await self._send_head(reader)
        for at in range(0, len(content), SMALL_BYTES):
            await client.write(content[at : at + SMALL_BYTES])

    # ── bodies that the proxy changes ───────────────────────────────────────────────────────────────────

    async def _with_own_addresses(self, body: bytes, content: bytes) -> LocalResponse:
        """The agent's extended card with the proxy's URLs."""
        client, request = self._client, self._exchange.request
        received = LocalResponse(self._response.status, self._headers(), body)
        in_envelope = request is not None and request.binding.has_envelope
        return self._context.cards.extended(received, content, client.head, client.public_url, in_envelope=in_envelope)

    async def _with_own_webhooks(self, webhooks: HttpWebhookRequest, body: bytes, content: bytes) -> LocalResponse:
        """A response about configurations with the client's own URLs."""
        status = self._response.status
        shown = await webhooks.shown(self._exchange, status, content)
        if shown is content:
            return LocalResponse(status, self._headers(), body)
        return LocalResponse(status, self._headers(DESCRIBE_BODY), shown)

    async def _restored(self, content: bytes) -> bytes:
        """`content` with the clients' own URLs of webhooks, where the agent repeats an address of the proxy."""
        push = self._context.push
        if push is None:
            return content
        try:
            return await push.restored(content)
        except StoreError as error:
            logger.warning("a client sees the proxy's address in place of its webhook's: %s", error)
            return content

    # ── the head ────────────────────────────────────────────────────────────────────────────────────────

    def _send_head(self, reader: AnswerReader) -> Awaitable[None]:
        return self._client.send_head(self._response.status, self._headers(reader.leaves_out))

    def _headers(self, drop: frozenset[bytes] = frozenset()) -> RawHeaders:
        """The response's headers for the client, without those in `drop`."""
        response, context, head = self._response, self._context, self._client.head
        if not context.reachability.reachable:
            context.reachability.set_reachable()
        if response.status in BODILESS:  # such a response has no body, whatever its length says
            drop |= _LENGTH
        headers = response_headers(response.headers, drop=drop)
        if b"location" in response.fields:
            headers = context.cards.with_public_location(headers, self._client.public_url)
        activated = b"a2a-extensions" in response.fields or b"x-a2a-extensions" in response.fields
        if activated and not head.requested:
            headers = strip_headers(headers)
        return headers
