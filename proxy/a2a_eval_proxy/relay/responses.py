"""The agent's responses on their way to the client."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import cached_property
from typing import Any

from a2a_tool_capture.spec import strip_headers

from ..net.http_client import HttpExchange, RawHeaders, UpstreamError
from ..protocol import extension_filter
from ..protocol.error_bodies import LocalResponse
from ..protocol.headers import DIGESTS, response_headers
from ..protocol.json_stream import JsonPart
from ..protocol.long_texts import LARGE_BYTES, LongTexts
from ..protocol.operations import CARRIES_TASKS, A2ARequest, Operation
from ..protocol.sse import SseEvent, comment_lines, with_data, without_lines
from ..store import StoreError
from .body_memory import SMALL_BYTES
from .client_request import BODILESS, BodyCopy, ClientRequest, RelayContext
from .tap import Tap
from .webhook_request import HttpWebhookRequest

logger = logging.getLogger(__name__)

_READ = CARRIES_TASKS | {Operation.BATCH}
"""Operations whose responses are read, whatever media type they have."""
PART_BYTES = 4 * 1024
"""Of a stream of events, read in one part: about a millisecond."""
_TOKEN = secrets.token_hex(16).encode()
_LENGTH = frozenset({b"content-length"})
_DESCRIBE_BODY = frozenset({b"content-length", b"content-encoding", *DIGESTS})
"""Header fields that are wrong once the body is changed."""
_BLANKS = b" \t\r\n\x1e\xef\xbb\xbf"
"""What may stand around a JSON document: blanks, the separator of RFC 7464, a byte-order mark."""
_TOO_LARGE = (
    "the response exceeds the limit for capture, alone or with others read at the time; it was passed on unread"
)


class UnreadableResponseError(UpstreamError):
    """The proxy asked for the extension, and cannot read the response to remove the extension again."""


class _JsonParts:
    """What capture reads of a body of JSON that is passed on in parts: its only object, else its beginning."""

    def __init__(self) -> None:
        self._only: tuple[bytes, Any, int | None] | None = None
        self._is_single = True
        self._beginning = b""

    def add(self, raw: bytes, payload: Any = None, size: int | None = None, *, is_object: bool) -> None:
        """Add an object, with its decoded content and the memory that it takes, where the caller has them, or bytes
        between objects."""
        if len(self._beginning) < SMALL_BYTES:
            self._beginning += raw[: SMALL_BYTES - len(self._beginning)]
        if is_object and self._only is None and self._is_single:
            self._only = raw, payload, size
        elif is_object or raw.strip(_BLANKS):
            self._only, self._is_single = None, False

    @property
    def size(self) -> int:
        """Bytes held."""
        return len(self._only[0]) if self._only is not None else len(self._beginning)

    @property
    def answer(self) -> tuple[bytes, Any, int | None]:
        """The body as far as it is known, and with it what `add` got."""
        return self._only or (self._beginning, None, None)


class ResponseRelay:
    """Relays one response to the client, and reports it to capture.

    Each body is *passed* unread, *observed* (unchanged, with a copy for capture) or *filtered* (without the
    extension); a stream of events is handled event by event, any other body as a whole.
    """

    def __init__(
        self,
        context: RelayContext,
        client: ClientRequest,
        tap: Tap,
        response: HttpExchange,
        *,
        asked: bool,
        webhooks: HttpWebhookRequest | None,
    ) -> None:
        """`asked`: the proxy asked the agent for the extension in this request. `webhooks`: those that it sets."""
        self._webhooks = webhooks
        self._context = context
        self._client = client
        self._tap = tap
        self._response = response
        self._strips = not tap.requested
        """Whether the client may not see the extension."""
        self._asked = asked and self._strips
        self._withheld: set[str] = set()
        """See `extension_filter.strip_event`."""
        self._is_stream = False
        """Whether the body is a stream of events."""
        self._held_rest = 0
        """Bytes of the unfinished part that are counted."""

    @cached_property
    def _check(self) -> extension_filter.UnreadBodyFilter:
        """Of what passes unread."""
        return extension_filter.UnreadBodyFilter()

    @cached_property
    def _parts(self) -> _JsonParts:
        return _JsonParts()

    async def relay(self) -> None:
        """Raises UpstreamError, before or after the header is sent."""
        tap, response = self._tap, self._response
        request = tap.request
        media_type = response.fields.get(b"content-type", b"").lower()
        self._is_stream = is_stream = media_type.startswith(b"text/event-stream")
        tap.answered(response.status, response.headers, is_stream=is_stream)
        if request is not None and request.operation is Operation.EXTENDED_CARD:
            await self._relay_extended_card(request)
        elif request is not None and request.operation is Operation.PUSH_CONFIG and self._webhooks is not None:
            await self._relay_push_config(self._webhooks)
        elif not ((request is not None and request.operation in _READ) or self._may_be_a2a(media_type, is_stream)):
            await self._relay_body()
        elif b"content-encoding" in response.fields and not tap.decodes(_content_encoding(response)):
            if self._asked:
                self._context.negotiation.stop_asking(tap.unreadable.message if tap.unreadable else "")
                raise UnreadableResponseError("its content coding cannot be decoded")
            await self._relay_body()
        elif not self._strips and self._context.push is None:
            await self._relay_body(observed=True)
        elif is_stream:
            await self._filter_stream(self._send_events_of)
        elif b"content-length" in response.fields or self._is_framed_as_whole(media_type) or response.complete:
            await self._filter_whole()
        else:
            await self._filter_stream(self._send_json_of)

    def _may_be_a2a(self, media_type: bytes, is_stream: bool) -> bool:
        """Whether to read the response to a request whose operation is unknown, or that could not be read.

        The agent may support methods that the proxy does not know.
        """
        return self._client.method != "HEAD" and (is_stream or b"json" in media_type)

    def _is_framed_as_whole(self, media_type: bytes) -> bool:
        """Whether the header describes the body as a whole, so that it is sent when the body is known.

        Many servers compress single documents; to read them in parts would change their coding without need.
        """
        fields = self._response.fields
        compressed = b"content-encoding" in fields and media_type.partition(b";")[0].strip() == b"application/json"
        return compressed or b"content-length" in fields or not DIGESTS.isdisjoint(fields)

    # ── pass and observe ────────────────────────────────────────────────────────────────────────────────

    async def _relay_body(self, beginning: list[bytes] | None = None, *, observed: bool = False) -> None:
        """Send the body as it arrives; `beginning` has arrived already, and is emptied. `observed`: report what was
        sent to capture.

        Raises UnreadableResponseError where a body that the proxy asked for names the extension.
        """
        beginning = beginning or []
        if not (beginning or self._asked) and (body := self._small_whole()) is not None:
            self._tap.arrived(body)
            await self._client.send_complete(self._response.status, self._headers(), body)
            if observed:
                self._observe_whole(body)
                self._tap.end()
            return
        reads_events = observed and self._is_stream
        copy = BodyCopy(self._client, self._context.settings.max_body_bytes) if observed and not reads_events else None
        for number, chunk in enumerate(beginning):  # before the head: the client may get an error instead
            beginning[number] = self._checked(chunk)
        await self._send_head()
        for chunk in beginning:
            await self._client.write(chunk)
        if beginning:
            beginning.clear()
            self._client.hold_only_request()
        while chunk := await self._response.read():
            self._tap.arrived(chunk)
            await self._pass(chunk, copy, reads_events=reads_events)
        if held := self._check.rest():
            await self._client.write(held)
        if reads_events:
            self._tap.end()
        await self._client.finish()
        if copy is not None:
            self._client.exchange.cancels = False  # the client may leave now
            await self._observe_copy(copy)
            self._tap.end()

    async def _pass(self, chunk: bytes, copy: BodyCopy | None, *, reads_events: bool) -> None:
        """Send a chunk in parts, each of which capture observes. Raises UnreadableResponseError."""
        part_bytes = PART_BYTES if reads_events else SMALL_BYTES
        for at in range(0, len(chunk), part_bytes):
            if len(chunk) > part_bytes:
                await asyncio.sleep(0)
            part = chunk[at : at + part_bytes]
            await self._client.write(self._checked(part))
            if copy is not None:
                copy.add(part)
            elif reads_events:
                await self._observe_events(part)

    def _small_whole(self) -> bytes | None:
        """The body, if it has arrived completely, is small, and has its length in the header."""
        length = self._response.fields.get(b"content-length", b"")
        return self._response.whole() if length.isdigit() and int(length) <= SMALL_BYTES else None

    def _observe_whole(self, body: bytes) -> None:
        if self._is_stream:
            self._tap.events(self._tap.split(self._tap.decoded(body)))
        elif len(body) > self._context.settings.max_body_bytes:
            self._tap.stop_reading("body_too_large", _TOO_LARGE)
        else:
            self._tap.response(self._response.status, self._tap.decoded(body))

    async def _observe_events(self, chunk: bytes) -> None:
        tap = self._tap
        if tap.unreadable is not None:
            return
        for events in self._split(tap.decoded(chunk)):
            large = events[0] if len(events) == 1 and len(events[0].data) > LARGE_BYTES else None
            document = None if large is None else (await self._without_long_texts(_parts_of(large.data))).finish()
            if large is None or document is None:
                tap.events(events)
            else:
                tap.events([SseEvent(large.raw, document.data)], [document.payload], [document.size])

    def _split(self, chunk: bytes) -> list[list[SseEvent]]:
        """The events that a chunk completes: together, or one by one where any may be large."""
        may_be_large = self._tap.rest_size + len(chunk) > LARGE_BYTES
        events = self._tap.split(chunk)
        return [[event] for event in events] if may_be_large else [events]

    async def _observe_copy(self, copy: BodyCopy) -> None:
        tap, status = self._tap, self._response.status
        if not copy.is_complete:
            tap.stop_reading("body_too_large", _TOO_LARGE)
            return
        body = copy.content()
        if len(body) > LARGE_BYTES and b"content-encoding" not in self._response.fields:
            document = (await self._without_long_texts(_parts_of(body))).finish()
            if document is not None:
                tap.response(status, document.data, document.payload, document.size)
                return
        tap.response(status, tap.decoded(body))

    # ── filter ──────────────────────────────────────────────────────────────────────────────────────────

    async def _filter_stream(self, send_parts: Callable[[bytes], Awaitable[None]]) -> None:
        """Send events or JSON objects without the extension, each as soon as it is complete, and report them.

        `send_parts` gets each chunk of the body, then b"".
        """
        tap, client, read = self._tap, self._client, self._response.read
        encoded = b"content-encoding" in self._response.fields
        # The length of the filtered body is not known in advance.
        await self._send_head(_DESCRIBE_BODY if encoded else _LENGTH)
        while chunk := await read():
            tap.arrived(chunk)
            if tap.unreadable is None:
                chunk = tap.decoded(chunk)
                unread = tap.rest if tap.unreadable is not None else await self._filter(chunk, send_parts)
                if unread is None:
                    continue
                chunk = unread
            if encoded:  # what cannot be decoded cannot be sent as plain text
                raise UpstreamError("its compressed stream could not be decoded")
            await client.write(self._checked(chunk))
        if tap.unreadable is None:
            await send_parts(b"")
        if held := self._check.rest():
            await client.write(held)
        tap.end()
        await client.finish()

    async def _filter(self, chunk: bytes, send_parts: Callable[[bytes], Awaitable[None]]) -> bytes | None:
        """Send what a chunk completes, in parts. Where the body cannot be read any more, the bytes that are left."""
        tap, size = self._tap, len(chunk)
        if size <= PART_BYTES:
            await send_parts(chunk)
            at = size
        else:
            at = 0
            while at < size and tap.unreadable is None:
                await asyncio.sleep(0)
                part = chunk[at : at + (PART_BYTES if tap.rest_size <= PART_BYTES else SMALL_BYTES)]
                at += len(part)
                await send_parts(part)
        if tap.unreadable is None and (tap.rest_size == self._held_rest or await self._hold_rest()):
            return None
        return tap.rest + chunk[at:]

    async def _hold_rest(self) -> bool:
        """Hold what waits for its end. Without room for it, waits if the proxy asked; else returns False."""
        self._held_rest = size = self._tap.rest_size
        if await self._client.hold_response(size + self._parts.size, waits=self._asked):
            return True
        self._tap.stop_reading("body_too_large", _TOO_LARGE)
        return False

    async def _send_json_of(self, chunk: bytes) -> None:
        """Send the objects that `chunk` completes as the client may see them, and what stands between them."""
        tap, parts = self._tap, self._parts
        shown: list[bytes] = []
        for raw, is_object in tap.split_json(chunk) if chunk else [JsonPart(tap.rest, is_object=True)]:
            if not is_object:
                shown.append(self._checked(raw))
                parts.add(raw, is_object=False)
            elif len(raw) > LARGE_BYTES and self._context.push is None:
                await self._send_large_object(raw, b"".join(shown) + self._check.rest())
                shown.clear()
            elif raw:
                content = await self._restored(raw)
                payload = extension_filter.decoded_once(content)
                shown += (self._check.rest(), self._stripped(content, payload))
                parts.add(content, payload, is_object=True)
        if content := b"".join(shown):
            await self._client.write(content)
        if not chunk:
            self._tap.response(self._response.status, *parts.answer)

    async def _send_large_object(self, raw: bytes, before: bytes) -> None:
        """Send an object after `before`, and keep what capture reads."""
        texts = await self._without_long_texts(_parts_of(raw))
        document = texts.finish()
        if document is None:
            payload = extension_filter.decoded_once(raw)
            self._parts.add(raw, payload, is_object=True)
            await self._client.write(before + self._stripped(raw, payload))
            return
        self._parts.add(*document, is_object=True)
        shown = self._stripped(document.data, document.payload)
        if before:
            await self._client.write(before)
        await self._send_in_parts(texts.pieces(shown))

    async def _send_in_parts(self, parts: Iterable[bytes]) -> None:
        for part in parts:
            await self._client.write(part)

    def _stripped(self, content: bytes, payload: Any) -> bytes:
        """JSON as the client may see it. Raises UnreadableResponseError."""
        try:
            return extension_filter.strip(content, self._tap.keeps, payload) if self._strips else content
        except extension_filter.UnreadableError as error:
            if self._asked:
                raise UnreadableResponseError(str(error)) from None
            return content

    def _checked(self, chunk: bytes) -> bytes:
        """The part of unread bytes that may pass. Raises UnreadableResponseError."""
        try:
            return self._check.feed(chunk) if self._asked else chunk
        except extension_filter.UnreadableError as error:
            raise UnreadableResponseError(str(error)) from None

    async def _send_events_of(self, chunk: bytes) -> None:
        """Send the events that `chunk` completes, and comment lines."""
        tap = self._tap
        if not chunk:
            if tap.rest:
                await self._send_events([SseEvent(tap.rest, tap.data_of_rest())])
            return
        for events in self._split(chunk):
            is_large = len(events) == 1 and len(events[0].data) > LARGE_BYTES
            if not (is_large and await self._send_large_event(events[0])):
                await self._send_events(events)
        comments = tap.comments() if tap.rest_size else b""
        if comments and self._strips:
            comments = self._filtered(SseEvent(comments, b""), None)
        if comments:
            await self._client.write(comments)

    async def _send_events(self, events: list[SseEvent]) -> None:
        """Send what the client may see of the events, then report them."""
        if events:
            payloads, shown = [], []
            events = [await self._with_own_urls(event) for event in events]
            for event in events:
                payload, raw = None, event.raw
                if self._strips and (self._withheld or extension_filter.may_hold_extension(event.raw)):
                    payload = extension_filter.decoded_once(event.data)
                    raw = self._filtered(event, payload)
                payloads.append(payload)
                shown.append(raw)
            if content := b"".join(shown):
                await self._client.write(content)
            self._tap.events(events, payloads)

    async def _send_large_event(self, event: SseEvent) -> bool:
        """Send an event, then report it, each in parts; False where it has to be handled as a whole."""
        texts = await self._without_long_texts(_parts_of(event.data))
        document = texts.finish()
        if document is None or self._context.push is not None:
            return False
        short = SseEvent(with_data(event.raw, document.data), document.data)
        shown = self._filtered(short, document.payload) if self._strips else short.raw
        await self._send_in_parts(_parts_of(event.raw) if shown is short.raw else texts.pieces(shown))
        self._tap.events([SseEvent(event.raw, document.data)], [document.payload], [document.size])
        return True

    async def _without_long_texts(self, parts: Iterable[bytes]) -> LongTexts:
        """Read JSON in parts, as far as it can be read so: see `LongTexts.finish`."""
        texts = LongTexts(_TOKEN)
        for part in parts:
            await asyncio.sleep(0)
            texts.feed(part)
        return texts

    def _filtered(self, event: SseEvent, payload: Any) -> bytes:
        """The bytes of an event for its client; b"" for an event that the client does not get."""
        shown = without_lines(event.raw, extension_filter.names_extension)
        if len(shown) < len(event.raw):
            self._tap.withheld("unreadable_event", "an event names the extension outside of its data")
            event = SseEvent(shown, event.data)
        try:
            clean = extension_filter.strip_event(event.data, self._tap.keeps, self._withheld, payload)
        except extension_filter.UnreadableError as error:
            if not self._asked:
                return event.raw
            self._tap.withheld("unreadable_event", f"an event was not passed on: {error}")
            return b""
        if clean is None:
            return comment_lines(event.raw)
        return event.raw if clean is event.data else with_data(event.raw, clean)

    async def _filter_whole(self) -> None:
        """Send a whole body without the extension, and report it; pass a body that is too large."""
        tap = self._tap
        try:
            chunks, complete = await self._read_up_to_limit()
        except UpstreamError:
            await self._send_head()  # so that the client sees an aborted response as aborted
            raise
        if not complete:
            tap.stop_reading("body_too_large", _TOO_LARGE)
            if self._asked and b"content-encoding" in self._response.fields:
                raise UnreadableResponseError(f"it exceeds {sum(map(len, chunks))} bytes, compressed")
            await self._relay_body(chunks)
            return
        is_large = len(chunks) > 1
        if is_large and sum(map(len, chunks)) > LARGE_BYTES and not self._is_changed_otherwise():
            texts = await self._without_long_texts(_taken(chunks))
            if await self._send_without_long_texts(texts):
                return
            chunks = list(texts.rest())
        body = b"".join(chunks)
        del chunks
        received = tap.decoded(body)
        clean = decoded = received if self._context.push is None else await self._restored(received)
        payload = extension_filter.decoded_once(decoded)
        if tap.unreadable is None:
            clean = self._stripped(decoded, payload)
        elif self._asked:
            raise UnreadableResponseError(tap.unreadable.message)
        if clean is received:
            await self._send_whole(body)
        else:
            await self._send_whole(clean, _DESCRIBE_BODY)
        tap.response(self._response.status, decoded, payload)

    def _is_changed_otherwise(self) -> bool:
        """Whether more than the extension may have to be changed in the body."""
        return b"content-encoding" in self._response.fields or self._context.push is not None

    async def _send_without_long_texts(self, texts: LongTexts) -> bool:
        """Send a whole body, then report it, each in parts; False where it has to be handled as a whole."""
        client, document = self._client, texts.finish()
        if document is None:
            return False
        shown = self._stripped(document.data, document.payload)
        headers = self._headers(_LENGTH if shown is document.data else _DESCRIBE_BODY)
        status, size = self._response.status, texts.size_of(shown)
        await client.send_head(status, [*headers, (b"content-length", b"%d" % size)])
        await self._send_in_parts(texts.pieces(shown))
        await client.finish()
        client.exchange.cancels = False  # the client may leave now
        self._tap.response(status, document.data, document.payload, document.size)
        return True

    async def _read_up_to_limit(self) -> tuple[list[bytes], bool]:
        """The body up to the limit, in the pieces in which it came, and whether it is complete."""
        response, client = self._response, self._client
        limit = self._context.settings.max_body_bytes
        body = response.whole()
        if body is not None:
            self._tap.arrived(body)
            return [body], len(body) <= limit
        chunks: list[bytes] = []
        size = 0
        while size <= limit:
            chunk = await response.read()
            if not chunk:
                return chunks, True
            self._tap.arrived(chunk)
            chunks.append(chunk)
            size += len(chunk)
            if not await client.hold_response(size, waits=self._asked):
                break
        return chunks, False

    async def _readable_body(self, problem: str) -> tuple[bytes, bytes] | None:
        """The whole body, as received and decoded. Where it cannot be read: logs `problem`, relays it, returns None."""
        tap = self._tap
        readable = tap.decodes(_content_encoding(self._response))
        chunks, complete = await self._read_up_to_limit()
        body = b"".join(chunks) if complete else b""
        decoded = tap.decoded(body) if readable and complete else body
        if tap.unreadable is None and complete:
            return body, decoded
        logger.warning("%s", problem)
        await self._relay_body(chunks)
        return None

    # ── the extended card ───────────────────────────────────────────────────────────────────────────────

    async def _relay_extended_card(self, request: A2ARequest) -> None:
        """Send the agent's extended card with the proxy's URLs."""
        client, response = self._client, self._response
        bodies = await self._readable_body(
            "the extended agent card could not be read; its URLs may lead past the proxy"
        )
        if bodies is None:
            return
        body, decoded = bodies
        received = LocalResponse(response.status, self._headers(), body)
        in_envelope = request.binding.has_envelope
        card = self._context.cards.extended(received, decoded, client.head, client.public_url, in_envelope=in_envelope)
        await client.send_whole(card.status, card.headers, card.body)

    # ── webhooks ────────────────────────────────────────────────────────────────────────────────────────

    async def _relay_push_config(self, webhooks: HttpWebhookRequest) -> None:
        """Send a response about configurations with the client's own URLs."""
        bodies = await self._readable_body(
            "a response about webhooks could not be read; it may show the proxy's address"
        )
        if bodies is None:
            return
        body, decoded = bodies
        shown = await webhooks.shown(self._tap, self._response.status, decoded)
        if shown is decoded:
            await self._send_whole(body)
        else:
            await self._send_whole(shown, _DESCRIBE_BODY)

    async def _with_own_urls(self, event: SseEvent) -> SseEvent:
        data = await self._restored(event.data)
        return event if data is event.data else SseEvent(with_data(event.raw, data), data)

    async def _restored(self, content: bytes) -> bytes:
        """`content` with the clients' own URLs of webhooks, where the agent repeats an address of the proxy."""
        push = self._context.push
        if push is None or not push.addresses.may_be_in(content):
            return content
        try:
            return await push.restored(content)
        except StoreError as error:
            logger.warning("a client sees the proxy's address in place of its webhook's: %s", error)
            return content

    # ── to the client ───────────────────────────────────────────────────────────────────────────────────

    def _send_head(self, drop: frozenset[bytes] = frozenset()) -> Awaitable[None]:
        return self._client.send_head(self._response.status, self._headers(drop))

    def _send_whole(self, body: bytes, drop: frozenset[bytes] = frozenset()) -> Awaitable[None]:
        return self._client.send_whole(self._response.status, self._headers(drop), body)

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


def _content_encoding(response: HttpExchange) -> str:
    if b"content-encoding" not in response.fields:
        return ""
    values = [value for name, value in response.headers if name.lower() == b"content-encoding"]
    return b",".join(values).decode("latin-1")


def _parts_of(data: bytes) -> Iterator[bytes]:
    for at in range(0, len(data), SMALL_BYTES):
        yield data[at : at + SMALL_BYTES]


def _taken(chunks: list[bytes]) -> Iterator[bytes]:
    """The chunks in parts; each is released then."""
    chunks.reverse()
    while chunks:
        yield from _parts_of(chunks.pop())
