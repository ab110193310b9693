"""The byte path: a raw ASGI application that passes requests to the agent and responses back, unchanged.

It waits for nothing but the two peers. What it does change is decided by pure modules (`headers`, `agent_card`,
`extension_filter`); what it reports goes to a `Tap`, whose errors cannot come back here.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, MutableMapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from a2a_tool_capture import Finding, Severity

from ..capture.exchange import RequestFacts
from ..capture.held_bytes import HeldBytes
from ..capture.turn_book import TurnBook
from ..clock import CLOCK
from ..ids import new_trace_context, new_turn_id
from ..net.client_watch import ClientWatch
from ..net.http_client import RawHeaders, Response, UpstreamError, UpstreamTimeoutError, UpstreamUnreachableError
from ..protocol import error_bodies, extension_filter
from ..protocol.error_bodies import Answer
from ..protocol.headers import DIGESTS, ClientRequestHeaders, negotiated, public_url, read_request, response_headers
from ..protocol.operations import CARRIES_TASKS, A2ARequest, Binding, Operation, rest_request
from ..protocol.sse import SseEvent, with_data
from ..settings import Settings
from ..telemetry.counters import Metrics
from .card_relay import CONDITIONS, CardRelay
from .negotiation import Negotiation
from .opted_in_tasks import AskedTasks, Callers, Request
from .tap import Tap
from .upstream import Upstream

if TYPE_CHECKING:
    from ..telemetry.requests import RequestSpans, RequestTelemetry

logger = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_GUARDED = CARRIES_TASKS | {Operation.BATCH}
_LENGTH = frozenset({b"content-length"})
_BODILESS = frozenset({204, 304})
_ALLOW = ((b"allow", b"GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"),)
_TRACE_CONTEXT = frozenset({b"traceparent", b"tracestate"})
_MAX_HELD_BYTES = 64 * 1024 * 1024
"""Of all bodies that are held to be read, unless two of the largest take more. Beyond that, bodies pass unread."""

_SMALL_BYTES = 64 * 1024
"""For bodies up to this size a quarter of that is kept free: a few large ones do not blind the proxy."""

_TOO_LARGE = (
    "the response exceeds the limit for capture, alone or with others read at the time; it was passed on unread"
)
_OF_OTHER_BYTES = frozenset({b"content-length", b"content-encoding", *DIGESTS})
"""Header fields that are wrong once the body is another."""


class UnreadableAnswerError(UpstreamError):
    """The agent was asked for the extension, and its answer is not one from which it could be taken out again."""


class Forwarder:
    """The ASGI application of the data port."""

    def __init__(
        self,
        settings: Settings,
        upstream: Upstream,
        book: TurnBook,
        negotiation: Negotiation,
        metrics: Metrics,
        telemetry: RequestTelemetry | None = None,
    ) -> None:
        self._settings = settings
        self._upstream = upstream
        self._book = book
        self._negotiation = negotiation
        self._metrics = metrics
        self._telemetry = telemetry
        self._asked = AskedTasks()
        self._callers = Callers()
        self._cards = CardRelay(upstream, negotiation, public_url_is_fixed=settings.public_url is not None)
        self._reachable = True
        self._bodies = HeldBytes(max(_MAX_HELD_BYTES, 2 * settings.max_body_bytes))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"unexpected ASGI scope {scope['type']!r}")
        head = read_request(scope["headers"])
        spans = self._telemetry.begin(scope, head) if self._telemetry is not None else None
        request = _Request(self, scope, head, receive, send if spans is None else spans.watching(send), spans)
        try:
            if spans is None:
                await request.handle()
            else:
                with spans:
                    await request.handle()
        finally:
            request.ended()

    def _heard(self, message: str | None) -> None:
        """Log that the agent cannot be reached (`message`), or can again, once each time that changes."""
        if self._reachable and message is not None:
            logger.warning("%s", message)
        elif not self._reachable and message is None:
            logger.warning("the agent at %s answers again", self._settings.upstream)
        self._reachable = message is None


class _Request:
    """One request on its way: client to agent, and the response back."""

    def __init__(
        self,
        owner: Forwarder,
        scope: Scope,
        head: ClientRequestHeaders,
        receive: Receive,
        send: Send,
        spans: RequestSpans | None,
    ) -> None:
        self._owner = owner
        self._scope = scope
        self._head = head
        self._receive = receive
        self._send = send
        self._spans = spans
        self._method: str = scope["method"]
        self._rest = rest_request(self._method, scope["path"], scope["query_string"])
        self._body = b""
        self._status: int | None = None
        """Of the answer, once its header is sent."""
        self._began = time.perf_counter()
        self._client_gone = False
        self._asks = False
        """Whether the proxy asks the agent for the extension in this request."""

    @cached_property
    def _caller(self) -> bytes | None:
        owner, client = self._owner, self._scope.get("client")
        shown = Request(self._head.forward, self._scope["query_string"], client[0] if client else None)
        return owner._callers.key(shown, owner._negotiation.api_keys)

    @property
    def _public_url(self) -> str:
        return public_url(self._head, self._scope["scheme"], self._owner._settings.public_url)

    def handle(self) -> Awaitable[None]:
        """Answer the request, with the agent's answer where there is one."""
        settings = self._owner._settings
        if self._head.size > settings.max_header_bytes:
            message = f"the request's headers exceed {settings.max_header_bytes} bytes"
            return self.refuse(431, "HEADERS_TOO_LARGE", message)
        if self._method == "TRACE":  # the answer would show the client the headers that are added for the agent
            return self.refuse(405, "METHOD_NOT_ALLOWED", "TRACE is not passed on to the agent", _ALLOW)
        if self._method in ("GET", "HEAD") and settings.is_card_path(self._scope["path"]):
            return self.relay_card()
        return self.relay()

    def ended(self) -> None:
        """Count the answer by its status ("none" where the client left before), and its time; give back its bytes."""
        self._owner._bodies.drop(self)
        metrics = self._owner._metrics
        metrics.responses["none" if self._status is None else self._status] += 1
        metrics.request_s.add(time.perf_counter() - self._began)

    # ── to the agent ────────────────────────────────────────────────────────────────────────────────────

    async def relay(self) -> None:
        """Forward the request, then its response; report both to capture."""
        owner = self._owner
        upstream = owner._upstream
        owner._metrics.requests += 1
        now = time.monotonic()
        negotiation = owner._negotiation
        if negotiation.undecided(now):
            await negotiation.wait_first(now)
        elif negotiation.stale(now):
            negotiation.refresh(now)
        tap = self._tap()
        message = await self._receive()
        if message.get("more_body") and negotiation.wants_extension() and self._may_be_read(message["body"]):
            message = await self._gathered(message)
        if message["type"] == "http.disconnect":
            return
        whole = not message.get("more_body")
        if whole:
            self._body = message["body"]
            self._asks = self._is_asked(tap)
            # Read while the agent works: the callback runs as soon as the request is on its way.
            asyncio.get_running_loop().call_soon(tap.request_body, self._rest, self._body, True)
        watch = ClientWatch(self._scope)
        try:
            response = await upstream.http.request(
                self._method.encode(),
                upstream.target(self._scope.get("raw_path") or b"/", self._scope["query_string"]),
                self._upstream_headers(),
                self._body if whole else self._upload(message, tap),
                length=self._head.length,
            )
            try:
                if self._spans is not None:
                    self._spans.answered(response.status)
                tap.request_body(self._rest, self._body, True)
                await self._respond(response, tap)
            finally:
                response.close()
        except asyncio.CancelledError:
            self._client_gone = self._client_gone or watch.gone
            if not self._client_gone:
                raise
        except UpstreamError as error:
            if not self._client_gone:
                await self._failed(error, tap)
        finally:
            watch.stop()
            if self._client_gone:
                tap.end(Finding("client_gone", "the client left before the answer was complete", Severity.WARNING))
            tap.end()

    def _tap(self) -> Tap:
        owner, head = self._owner, self._head
        context = head.trace_context
        if context is None:
            context = new_trace_context()
            if head.traceparent:  # not valid: the trace starts here (W3C Trace Context, section 4.3)
                head.forward = [item for item in head.forward if item[0] not in _TRACE_CONTEXT]
            head.forward.append((b"traceparent", b"00-%b-%b-01" % (context[0].encode(), context[1].encode())))
        facts = RequestFacts(
            run=head.run or owner._settings.run,
            agent=owner._settings.upstream,
            version=head.version,
            case_id=head.case_id,
            trace_id=context[0],
            parent_span_id=context[1],
            declared=owner._negotiation.declared,
            requested_by_header=head.requested,
            started_at=CLOCK.now(),
        )
        limit = owner._settings.max_body_bytes
        coding = head.content_encoding
        return Tap(
            owner._book, owner._asked, facts, new_turn_id, limit, caller=lambda: self._caller, request_coding=coding
        )

    def _may_be_read(self, beginning: bytes) -> bool:
        """Whether a body that begins so may be an A2A request: a JSON object, or compressed."""
        return self._method == "POST" and (beginning.lstrip()[:1] == b"{" or bool(self._head.content_encoding))

    async def _gathered(self, message: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        """The body as one message, as far as `max_body_bytes` go: only a request that was read can be asked in."""
        limit = self._owner._settings.max_body_bytes
        chunks: list[bytes] = [message["body"]]
        size = len(chunks[0])
        held = self._hold(size, size)
        while message.get("more_body") and size <= limit and held:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                return message
            chunks.append(message["body"])
            size += len(chunks[-1])
            held = self._hold(len(chunks[-1]), size)
        if message.get("more_body"):
            self._owner._bodies.drop(self)  # `_upload` goes on with it
        return {"type": "http.request", "body": b"".join(chunks), "more_body": message.get("more_body", False)}

    def _is_asked(self, tap: Tap) -> bool:
        """Whether the agent is asked for the extension. `_body` is whole.

        A request for a range is not: the piece may be one of the tool calls, without the key that names them.
        """
        negotiation = self._owner._negotiation
        if self._head.has_range or not negotiation.wants_extension():
            return False
        return negotiation.asks(tap.read_request(self._rest, self._body))

    def _upstream_headers(self) -> RawHeaders:
        headers = negotiated(self._head) if self._asks else self._head.forward
        if self._rest is not None and self._rest.operation is Operation.EXTENDED_CARD:
            headers = [item for item in headers if item[0] not in CONDITIONS]
        return self._owner._upstream.headers(headers)

    async def _upload(self, message: MutableMapping[str, Any], tap: Tap) -> AsyncIterator[bytes]:
        """The request body as it comes in; a copy is kept for capture while it is not too large."""
        copy: list[bytes] = []
        size = 0
        whole = True
        while True:
            if message["type"] == "http.disconnect":
                self._client_gone = True
                raise ConnectionResetError("the client left while sending its request")
            chunk: bytes = message["body"]
            size += len(chunk)
            if whole:
                copy.append(chunk)
                whole = self._keeps(copy, size)
            if chunk:
                yield chunk
            if not message.get("more_body"):
                break
            message = await self._receive()
        self._body = b"".join(copy)
        tap.request_body(self._rest, self._body, whole)

    def _hold(self, more: int, size: int) -> bool:
        """Whether `more` bytes of a body may be held, which has `size` then. They are given back with the exchange."""
        bodies = self._owner._bodies
        if size > _SMALL_BYTES and bodies.total + more > bodies.limit * 3 // 4:
            return False
        return bodies.take(self, more)

    def _keeps(self, copy: list[bytes], size: int) -> bool:
        """Whether the copy of a body of which `size` bytes came so far is kept; else only its beginning stays."""
        if size <= self._owner._settings.max_body_bytes and self._hold(len(copy[-1]), size):
            return True
        copy[:] = [copy[0][:_SMALL_BYTES]]
        self._owner._bodies.put(self, len(self._body))
        return False

    # ── from the agent ──────────────────────────────────────────────────────────────────────────────────

    async def _respond(self, response: Response, tap: Tap) -> None:
        request = tap.request
        if request is not None and request.operation is Operation.EXTENDED_CARD:
            await self._extended_card(response, request, tap)
            return
        if not self._may_carry_tasks(request, response):
            await self._pass(response)
            return
        readable = tap.decodes(_encoding(response))
        if not readable:
            if self._asks and not tap.requested:
                self._owner._negotiation.give_up(tap.blind.message if tap.blind else "")
                raise UnreadableAnswerError("its content coding cannot be decoded")
            await self._pass(response)
        elif _media_type(response).startswith(b"text/event-stream"):
            await (self._watch_stream(response, tap) if tap.requested else self._guard_stream(response, tap))
        elif tap.requested:
            await self._watch_answer(response, tap)
        else:
            await self._guard_answer(response, tap)

    def _may_carry_tasks(self, request: A2ARequest | None, response: Response) -> bool:
        """Whether the response is one to look into.

        The agent may know methods that we do not, or read requests that we cannot; then its answer tells.
        """
        if request is not None and request.operation in _GUARDED:
            return True
        media_type = _media_type(response)
        return self._method != "HEAD" and (b"json" in media_type or media_type.startswith(b"text/event-stream"))

    async def _watch_stream(self, response: Response, tap: Tap) -> None:
        """Bytes to the client as they come, then to capture."""
        await self._start(response)
        read = response.read
        while chunk := await read():
            await self._write(chunk)
            if tap.blind is None:
                tap.events(tap.split(tap.decoded(chunk)))
        tap.end()
        await self._finish()

    async def _guard_stream(self, response: Response, tap: Tap) -> None:
        """Whole events to the client, without the extension, then to capture."""
        encoded = b"content-encoding" in response.fields
        # Something may be taken out: its length is not known before.
        await self._start(response, drop=_OF_OTHER_BYTES if encoded else _LENGTH)
        read = response.read
        withheld: set[str] = set()
        scanner = extension_filter.UnreadBodyFilter() if self._asks else None
        while chunk := await read():
            if tap.blind is None:
                chunk = tap.decoded(chunk)
                events = tap.split(chunk) if tap.blind is None else []
                if events:
                    if shown := b"".join([self._without_extension(event, tap, withheld) for event in events]):
                        await self._write(shown)
                    tap.events(events)
                if tap.blind is not None:
                    chunk = tap.rest
                else:
                    continue
            if encoded:  # what cannot be decoded cannot be passed on as plain text
                raise UpstreamError("its compressed stream could not be decoded")
            await self._write(self._scanned(scanner, chunk))
        if tap.blind is None and tap.rest:
            event = SseEvent(tap.rest, tap.data_of_rest())
            if shown := self._without_extension(event, tap, withheld):
                await self._write(shown)
            tap.events([event])
        elif scanner is not None and scanner.held:
            await self._write(scanner.held)
        tap.end()
        await self._finish()

    def _scanned(self, scanner: extension_filter.UnreadBodyFilter | None, chunk: bytes) -> bytes:
        """What of a piece of an unread answer may pass. Raises UnreadableAnswerError."""
        try:
            return chunk if scanner is None else scanner.feed(chunk)
        except extension_filter.UnreadableError as error:
            raise UnreadableAnswerError(str(error)) from None

    async def _watch_answer(self, response: Response, tap: Tap) -> None:
        await self._start(response)
        chunks: list[bytes] = []
        size = 0
        whole = True
        while chunk := await response.read():
            size += len(chunk)
            if whole:
                chunks.append(chunk)
                whole = self._keeps(chunks, size)
            await self._write(chunk)
        self._report_answer(response, b"".join(chunks), whole, tap)
        tap.end()
        await self._finish()

    async def _guard_answer(self, response: Response, tap: Tap) -> None:
        try:
            body, complete = await self._read(response)
        except UpstreamError:
            await self._start(response)  # so that the client sees a cut as a cut
            raise
        if not complete:
            await self._pass_scanned(response, body, tap)
            return
        decoded = tap.decoded(body)
        if tap.blind is not None and self._asks:
            raise UnreadableAnswerError(tap.blind.message)
        try:
            clean = extension_filter.strip(decoded, tap.keeps) if tap.blind is None else decoded
        except extension_filter.UnreadableError as error:
            if self._asks:
                raise UnreadableAnswerError(str(error)) from None
            clean = decoded
        changed = clean is not decoded
        await self._answer(response, clean if changed else body, drop=_OF_OTHER_BYTES if changed else frozenset())
        if tap.blind is None:
            tap.answer(response.status, decoded)

    async def _pass_scanned(self, response: Response, beginning: bytes, tap: Tap) -> None:
        """Pass an answer on that is too large to be read, and begins so.

        Where the agent was asked, only until it names the extension: then UnreadableAnswerError is raised.
        """
        tap.go_blind("body_too_large", _TOO_LARGE)
        if not self._asks:
            await self._pass(response, beginning)
            return
        if b"content-encoding" in response.fields:
            raise UnreadableAnswerError(f"it exceeds {len(beginning)} bytes, compressed")
        scanner = extension_filter.UnreadBodyFilter()
        chunk = self._scanned(scanner, beginning)
        await self._start(response)
        await self._write(chunk)
        while chunk := await response.read():
            await self._write(self._scanned(scanner, chunk))
        await self._write(scanner.held)
        await self._finish()

    def _report_answer(self, response: Response, body: bytes, complete: bool, tap: Tap) -> None:
        if not complete:
            tap.go_blind("body_too_large", _TOO_LARGE)
            return
        decoded = tap.decoded(body)
        if tap.blind is None:
            tap.answer(response.status, decoded)

    def _without_extension(self, event: SseEvent, tap: Tap, withheld: set[str]) -> bytes:
        """The bytes of an event for its client; b"" for one that it does not see."""
        try:
            clean = extension_filter.strip_event(event.data, tap.keeps, withheld)
        except extension_filter.UnreadableError as error:
            if not self._asks:
                return event.raw
            tap.withheld("unreadable_event", f"an event was not passed on: {error}")
            return b""
        if clean is None:
            return b""
        return event.raw if clean is event.data else with_data(event.raw, clean)

    async def _extended_card(self, response: Response, request: A2ARequest, tap: Tap) -> None:
        readable = tap.decodes(_encoding(response))
        body, complete = await self._read(response)
        decoded = tap.decoded(body) if readable and complete else body
        if tap.blind is not None or not complete:
            logger.warning("the extended agent card could not be read; its URLs may lead past the proxy")
            await self._pass(response, body)
            return
        received = Answer(response.status, self._response_headers(response, frozenset()), body)
        in_envelope = request.binding is Binding.JSONRPC
        answer = self._owner._cards.extended(received, decoded, self._head, self._public_url, in_envelope=in_envelope)
        await self._put(answer.status, answer.headers, answer.body)

    async def relay_card(self) -> None:
        """The agent's card, interfaces rewritten to the proxy."""
        self._owner._metrics.requests += 1
        watch = ClientWatch(self._scope)
        try:
            answer = await self._owner._cards.answer(self._scope, self._head, self._public_url)
        except asyncio.CancelledError:
            if not watch.gone:
                raise
            return
        except UpstreamError as error:
            status, reason, message = _failure(error, self._owner._settings.upstream)
            if self._spans is not None:
                self._spans.failed(reason.lower())
            await self.refuse(status, reason, message)
            return
        finally:
            watch.stop()
        if self._spans is not None:
            self._spans.answered(answer.status)
        await self._put(answer.status, answer.headers, answer.body)

    # ── to the client ───────────────────────────────────────────────────────────────────────────────────

    async def _read(self, response: Response) -> tuple[bytes, bool]:
        """The body up to the limit; and whether that was all of it."""
        limit = self._owner._settings.max_body_bytes
        body = response.whole()
        if body is not None:
            return body, len(body) <= limit
        chunks: list[bytes] = []
        size = 0
        while size <= limit:
            chunk = await response.read()
            if not chunk:
                return b"".join(chunks), True
            chunks.append(chunk)
            size += len(chunk)
            if not self._hold(len(chunk), size):
                break
        self._owner._bodies.put(self, len(self._body))  # it goes on to the client now
        return b"".join(chunks), False

    async def _pass(self, response: Response, beginning: bytes = b"") -> None:
        await self._start(response)
        if beginning:
            await self._write(beginning)
        while chunk := await response.read():
            await self._write(chunk)
        await self._finish()

    def _answer(self, response: Response, body: bytes, *, drop: frozenset[bytes] = frozenset()) -> Awaitable[None]:
        return self._put(response.status, self._response_headers(response, drop), body)

    async def _put(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        """Send a response at once, framed by the body it has."""
        if status in _BODILESS:
            body = b""
        if body or self._method != "HEAD":  # to HEAD the agent tells the length of what it does not send
            headers = [item for item in headers if item[0].lower() != b"content-length"]
            if status not in _BODILESS:
                headers.append((b"content-length", b"%d" % len(body)))
        await self._send_header(status, headers)
        last = max(len(body) - 1, 0) // _SMALL_BYTES * _SMALL_BYTES
        for start in range(0, last, _SMALL_BYTES):  # each waits for the client to read: until then the body is held
            await self._write(body[start : start + _SMALL_BYTES])
        await self._send({"type": "http.response.body", "body": body[last:] if last else body})

    def _start(self, response: Response, *, drop: frozenset[bytes] = frozenset()) -> Awaitable[None]:
        return self._send_header(response.status, self._response_headers(response, drop))

    def _send_header(self, status: int, headers: list[tuple[bytes, bytes]]) -> Awaitable[None]:
        self._status = status
        self._owner._metrics.first_byte_s.add(time.perf_counter() - self._began)
        return self._send({"type": "http.response.start", "status": status, "headers": headers})

    def _write(self, chunk: bytes) -> Awaitable[None]:
        return self._send({"type": "http.response.body", "body": chunk, "more_body": True})

    def _finish(self) -> Awaitable[None]:
        return self._send({"type": "http.response.body", "body": b""})

    def _response_headers(self, response: Response, drop: frozenset[bytes]) -> list[tuple[bytes, bytes]]:
        if not self._owner._reachable:
            self._owner._heard(None)
        if response.status in _BODILESS:  # a length is that of a body it does not have; uvicorn would wait for it
            drop |= _LENGTH
        headers = response_headers(response.headers, drop=drop)
        if b"location" in response.fields:
            headers = self._owner._cards.with_public_location(headers, self._public_url)
        activated = b"a2a-extensions" in response.fields or b"x-a2a-extensions" in response.fields
        if activated and not self._head.requested:
            headers = extension_filter.strip_headers(headers)
        return headers

    # ── when the agent cannot ───────────────────────────────────────────────────────────────────────────

    async def _failed(self, error: UpstreamError, tap: Tap) -> None:
        status, reason, message = _failure(error, self._owner._settings.upstream)
        self._owner._metrics.upstream_errors += 1
        if isinstance(error, UpstreamUnreachableError):
            self._owner._heard(message)
        if self._spans is not None:
            self._spans.failed(reason.lower())
        if self._status is not None:
            # Returning without an end makes the server close the connection: the cut is passed on as a cut.
            code, what = "upstream_cut", "the agent broke off its response"
            if isinstance(error, UnreadableAnswerError):
                code, what = "unreadable_answer", "the rest of the response was not passed on"
            tap.end(Finding(code, f"{what}: {error}", Severity.ERROR))
            return
        tap.request_body(self._rest, self._body, True)
        tap.end(Finding(reason.lower(), message, Severity.ERROR), lost=True)
        await self.refuse(status, reason, message)

    async def refuse(self, status: int, reason: str, message: str, headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
        """Answer in the agent's place, in the shape of the client's binding."""
        rest = self._rest is not None or self._method != "POST"
        binding = Binding.HTTP_JSON if rest else Binding.JSONRPC
        answer = error_bodies.error(status, reason, message, binding, self._body)
        await self._put(answer.status, [*answer.headers, *headers], answer.body)


def _media_type(response: Response) -> bytes:
    return response.fields.get(b"content-type", b"").lower()


def _encoding(response: Response) -> str:
    if b"content-encoding" not in response.fields:
        return ""
    values = [value for name, value in response.headers if name.lower() == b"content-encoding"]
    return b",".join(values).decode("latin-1")


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
