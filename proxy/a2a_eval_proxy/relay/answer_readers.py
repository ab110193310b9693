"""How the body of an answer passes: unread, read as a whole, or event by event. Sans-io.

Which of the three it is follows from the head of the answer. Each gets the body as it arrives, and has its shell do
`Steps`. What the client may have as the agent sent it goes first, and is read then.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from a2a_tool_capture.extension_filter import names_extension
from a2a_tool_capture.json_limits import has_too_many_values

from ..net.http_client import RawHeaders, UpstreamError
from ..protocol import extension_filter
from ..protocol.answers import ReadAnswer, read_answer
from ..protocol.content_coding import STEP_BYTES, DecodedTooLargeError, Decoder, codings, decoding
from ..protocol.headers import DIGESTS
from ..protocol.operations import CARRIES_TASKS, A2ARequest, Operation
from ..protocol.sse import (
    EventTooLargeError,
    SseEvent,
    SseSplitter,
    comment_lines,
    event_data,
    with_data,
    without_lines,
)
from .relayed_exchange import RelayedExchange
from .steps import GiveBack, OwnUrls, Room, Steps, decoded, parsed

_READ = CARRIES_TASKS | {Operation.BATCH}
"""Operations whose answers are read, whatever media type they have."""
_LENGTH = frozenset({b"content-length"})
DESCRIBE_BODY = frozenset({b"content-length", b"content-encoding", *DIGESTS})
"""Header fields that are wrong once the body is changed."""
_TOO_LARGE = (
    "the response exceeds the limit for capture, alone or with others read at the time; it was passed on unread"
)


class UnreadableAnswerError(UpstreamError):
    """The proxy asked for the extension, and cannot read the answer to remove the extension again."""


class AnswerHead(NamedTuple):
    """The head of an answer, as far as it decides how the body passes."""

    status: int
    fields: dict[bytes, bytes]
    """The last value of each header field, by its name in lower case."""
    encoding: str
    """All of `Content-Encoding`."""
    is_complete: bool
    """Whether the body has arrived with the head."""

    @classmethod
    def of(cls, status: int, headers: RawHeaders, fields: dict[bytes, bytes], *, is_complete: bool) -> AnswerHead:
        """`headers` are those in `fields`, with all of their values."""
        encoding = ""
        if b"content-encoding" in fields:
            values = [value for name, value in headers if name.lower() == b"content-encoding"]
            encoding = b",".join(values).decode("latin-1")
        return cls(status, fields, encoding, is_complete)

    @property
    def is_stream(self) -> bool:
        """Whether events follow."""
        return self.fields.get(b"content-type", b"").lower().startswith(b"text/event-stream")

    @property
    def is_json(self) -> bool:
        """Whether it says to be JSON of any kind."""
        return b"json" in self.fields.get(b"content-type", b"").lower()

    @property
    def is_whole(self) -> bool:
        """Whether it describes the body as a whole, so that it is sent when the body is known."""
        return self.is_complete or b"content-length" in self.fields or not DIGESTS.isdisjoint(self.fields)


class Rules(NamedTuple):
    """What the client of an answer may have of it."""

    strips: bool
    """Whether it may not see the extension."""
    asked: bool
    """Whether the proxy has asked for the extension, for a client that did not: then no body passes that names it."""
    restores: Callable[[bytes], bool] | None
    """Whether a body may have addresses of the proxy in place of webhooks; None where webhooks are not relayed."""

    @property
    def changes(self) -> bool:
        """Whether the client may get other bytes than the agent sent."""
        return self.strips or self.restores is not None


class AnswerReader(ABC):
    """The way of one body."""

    holds_head = False
    """Whether the client gets the head with the whole body, at the end."""
    shows_end = True
    """Whether `end` may have something for the client."""
    leaves_out: frozenset[bytes] = frozenset()
    """Header fields that are not true of what the client gets."""

    @property
    def rest(self) -> bytes:
        """An event that is not complete."""
        return b""

    @abstractmethod
    def feed(self, chunk: bytes, now: float) -> Steps[None]:
        """Part of the body has arrived. Raises UpstreamError where nothing more may pass."""

    @abstractmethod
    def end(self, now: float) -> Steps[None]:
        """The body is complete. Raises UpstreamError where it may not pass."""


class PassReader(AnswerReader):
    """Passes a body unread; one that the proxy asked for as long as it does not name the extension."""

    def __init__(self, exchange: RelayedExchange, *, asked: bool) -> None:
        self._exchange = exchange
        self._check = extension_filter.UnreadBodyFilter() if asked else None

    def feed(self, chunk: bytes, now: float) -> Steps[None]:
        self._exchange.reports.part(chunk, now)
        yield self.checked(chunk)

    def checked(self, chunk: bytes) -> bytes:
        """What may pass now. Raises UnreadableAnswerError."""
        try:
            return chunk if self._check is None else self._check.feed(chunk)
        except extension_filter.UnreadableError as error:
            raise UnreadableAnswerError(str(error)) from None

    def end(self, now: float) -> Steps[None]:
        if self._check is not None and (held := self._check.rest()):
            yield held


class _Shown(NamedTuple):
    """An event or a whole answer, for its client and for capture."""

    content: bytes
    """What the client may see."""
    answer: ReadAnswer | None
    """What was read; None where it is not to be read."""
    has_too_many_values: bool = False
    problem: str = ""
    """Why the extension cannot be removed: the client gets nothing of it."""
    names_it_outside: bool = False
    """Whether an event names the extension outside of its data."""


class AnswerFilter:
    """What a client may see of the answers to one request. Pure but for the artifacts that it has withheld."""

    def __init__(self, exchange: RelayedExchange, rules: Rules) -> None:
        self._request = exchange.request if exchange.shows_tasks else None
        self._keeps = exchange.keeps
        self._rules = rules
        self._withheld: set[str] = set()
        """See `extension_filter.strip_event`."""

    def document(self, content: bytes) -> _Shown:
        """A whole answer."""
        payload = extension_filter.decoded_once(content) if self._rules.strips else None
        shown, problem = content, ""
        if self._rules.strips:
            try:
                shown = extension_filter.strip(content, self._keeps, payload)
            except extension_filter.UnreadableError as error:
                problem = str(error) if self._rules.asked else ""
        return self._read(shown, content, payload, problem, in_stream=False)

    def event(self, event: SseEvent) -> _Shown:
        """One event of a stream."""
        raw, data = event
        if not self._rules.strips or not (self._withheld or names_extension(raw)):
            return self._read(raw, data, None, "", in_stream=True)
        payload, problem = extension_filter.decoded_once(data), ""
        kept = without_lines(raw, names_extension)
        shown = kept
        try:
            clean = extension_filter.strip_event(data, self._keeps, self._withheld, payload)
            if clean is None:
                shown = comment_lines(kept)
            elif clean is not data:
                shown = with_data(kept, clean)
        except extension_filter.UnreadableError as error:
            if self._rules.asked:
                shown, problem = b"", str(error)
        found = self._read(shown, data, payload, problem, in_stream=True)
        return found._replace(names_it_outside=len(kept) < len(raw))

    def _read(self, shown: bytes, data: bytes, payload: Any, problem: str, *, in_stream: bool) -> _Shown:
        if self._request is None:
            return _Shown(shown, None, problem=problem)
        if payload is None and has_too_many_values(data):
            return _Shown(shown, None, True, problem)
        answer = read_answer(data, self._request, in_stream=in_stream, payload=payload)
        return _Shown(shown, answer, problem=problem)


class WholeReader(AnswerReader):
    """Reads a body as a whole: before its client gets it, or, where the client gets it as it comes, of a copy."""

    def __init__(self, exchange: RelayedExchange, head: AnswerHead, rules: Rules, *, holds: bool | None = None) -> None:
        """`holds`: whether the client gets nothing before the end, though the body does not change."""
        self._exchange = exchange
        self._head = head
        self._rules = rules
        self.holds_head = rules.changes if holds is None else holds
        self._copies = not self.holds_head
        self._filter = AnswerFilter(exchange, rules._replace(strips=False) if self._copies else rules)
        self._coding = codings(head.encoding)
        self.shows_end = self.holds_head or rules.asked
        if self._coding is None:
            exchange.stop_reading("unknown_encoding", _unknown(head.encoding))
            self.holds_head = False
        self._chunks: list[bytes] = []
        self._size = self._taken = 0
        length = head.fields.get(b"content-length", b"")
        self._announced = int(length) if length.isdigit() and int(length) <= exchange.max_bytes else 0
        """Takes its room at once: halves of bodies would wait for each other."""
        self._passed = PassReader(exchange, asked=rules.asked)
        """Has the rest of a body that is not read."""
        self.body = b""
        """As it was received, after `end`."""
        self.content: bytes | None = None
        """Without its coding, after `end`; None where it could not be read."""

    def feed(self, chunk: bytes, now: float) -> Steps[None]:
        exchange = self._exchange
        if exchange.unreadable is not None and not self._copies:
            yield from self._passed.feed(chunk, now)
            return
        exchange.reports.part(chunk, now)
        if self._copies:
            yield self._passed.checked(chunk)
            if exchange.unreadable is not None:
                return
        self._chunks.append(chunk)
        size = self._size + len(chunk)
        more = max(size, self._announced) - self._taken
        if size <= exchange.max_bytes and (more == 0 or (yield Room(more, self._rules.asked))):
            self._size, self._taken = size, self._taken + more
            return
        exchange.stop_reading("body_too_large", _TOO_LARGE)
        if self._rules.asked and self._coding:
            raise UnreadableAnswerError(f"it exceeds {exchange.max_bytes} bytes, compressed")
        yield from self._give_up()

    def _give_up(self) -> Steps[None]:
        """The body is not read: it passes."""
        chunks, self._chunks = self._chunks, []
        if not self._copies:
            chunks = [self._passed.checked(chunk) for chunk in chunks]  # the client may get an error instead
            self.holds_head = False
            yield from chunks
        yield GiveBack(self._size)

    def end(self, now: float) -> Steps[None]:
        exchange = self._exchange
        if self._rules.asked:
            yield from self._passed.end(now)
        if exchange.unreadable is not None:
            return
        self.body, self._chunks = b"".join(self._chunks), []
        self.content = (yield from self._decoded(self._coding, self.body)) if self._coding else self.body
        if self.content is None:
            if self._rules.asked and exchange.unreadable is not None:
                raise UnreadableAnswerError(exchange.unreadable.message)
            if not self._copies:
                yield self.body
            return
        if self._copies or self._rules.changes:
            yield from self._show(self.content, now)
        else:
            yield self.body

    def _decoded(self, coding: list[str], body: bytes) -> Steps[bytes | None]:
        steps = decoding(coding, body, self._exchange.max_bytes)
        try:
            return (yield from decoded(steps, waits=self._rules.asked))
        except DecodedTooLargeError as error:
            self._exchange.stop_reading("body_too_large", str(error))
        except ValueError as error:
            self._exchange.stop_reading("undecodable_body", f"the compressed response could not be decoded: {error}")
        return None

    def _show(self, received: bytes, now: float) -> Steps[None]:
        content = received
        if self._rules.restores is not None and self._rules.restores(content):
            content = yield OwnUrls(content)
        shown = yield from parsed(partial(self._filter.document, content), len(content))
        if shown.problem:
            raise UnreadableAnswerError(shown.problem)
        try:
            if not self._copies:
                if shown.content is not received:
                    self.leaves_out = DESCRIBE_BODY
                yield self.body if shown.content is received else shown.content
        finally:  # the client may leave once it has all
            if shown.has_too_many_values:
                message = "the response has too many values; it was passed on unread"
                self._exchange.stop_reading("body_too_large", message)
            elif shown.answer is not None:
                self._exchange.answer(self._head.status, shown.answer, now)


class EventsReader(AnswerReader):
    """Reads a stream of events, each as soon as it is complete."""

    def __init__(self, exchange: RelayedExchange, head: AnswerHead, rules: Rules) -> None:
        self._exchange = exchange
        self._rules = rules
        self._filter = AnswerFilter(exchange, rules)
        names = codings(head.encoding) or []
        self._decoder = Decoder(names) if names else None
        self._splitter = SseSplitter(exchange.max_bytes)
        self._held = 0
        """Bytes of the unfinished event that are counted."""
        self._passed = PassReader(exchange, asked=rules.asked)
        self.shows_end = rules.changes
        if rules.changes:  # the length is not known in advance
            self.leaves_out = DESCRIBE_BODY if names else _LENGTH

    @property
    def rest(self) -> bytes:
        return self._splitter.rest

    def feed(self, chunk: bytes, now: float) -> Steps[None]:
        exchange = self._exchange
        if not self._rules.changes:
            yield chunk
        if exchange.unreadable is not None:
            yield from self._unread(chunk, now)
        elif self._decoder is None:
            for at in range(0, len(chunk), STEP_BYTES):
                yield from self._read(chunk[at : at + STEP_BYTES], now)
                if exchange.unreadable is not None:
                    yield from self._unread(self._splitter.rest + chunk[at + STEP_BYTES :], now)
                    return
        else:
            self._decoder.feed(chunk)
            while (part := self._decoded(self._decoder)) and exchange.unreadable is None:
                yield from self._read(part, now)
            if exchange.unreadable is not None:
                yield from self._unread(b"", now)

    def _decoded(self, decoder: Decoder) -> bytes:
        try:
            return decoder.take()
        except ValueError as error:
            self._exchange.stop_reading("undecodable_body", f"the compressed response could not be decoded: {error}")
            return b""

    def _unread(self, content: bytes, now: float) -> Steps[None]:
        """The stream is not read any more."""
        if not self._rules.changes:
            if content:
                self._exchange.reports.part(content, now)
        elif self._decoder is not None:  # what cannot be decoded cannot be sent as plain text
            raise UpstreamError("its compressed stream could not be decoded")
        else:
            yield from self._passed.feed(content, now)

    def _read(self, part: bytes, now: float) -> Steps[None]:
        """Show the events that a part of the stream completes."""
        exchange, splitter = self._exchange, self._splitter
        try:
            events = splitter.feed(part)
        except EventTooLargeError as error:
            exchange.stop_reading("event_too_large", f"{error}; the rest of the stream was not read")
            return
        if events:
            yield from self._show(events, now)
        if splitter.size and self._rules.changes and (comments := splitter.comments()):
            yield from self._show([SseEvent(comments, b"")], now)
        more = splitter.size - self._held
        if more > 0 and not (yield Room(more, self._rules.asked)):
            exchange.stop_reading("body_too_large", _TOO_LARGE)
            return
        if more < 0:
            yield GiveBack(-more)
        self._held += more

    def _show(self, events: list[SseEvent], now: float) -> Steps[None]:
        exchange = self._exchange
        passed: list[tuple[SseEvent, _Shown]] = []
        for event in events:
            restored = yield from self._with_own_urls(event)
            shown = yield from parsed(partial(self._filter.event, restored), len(restored.raw))
            passed.append((restored, shown))
        try:
            if self._rules.changes and (content := b"".join([shown.content for _, shown in passed])):
                yield content
        finally:  # the client may leave once it has the last event
            for event, shown in passed:
                if shown.names_it_outside:
                    exchange.reports.finding("unreadable_event", "an event names the extension outside of its data")
                if shown.problem:
                    exchange.reports.finding("unreadable_event", f"an event was not passed on: {shown.problem}")
                if shown.has_too_many_values:
                    message = "an event has too many values; the rest of the stream was not read"
                    exchange.stop_reading("event_too_large", message)
                    break
                exchange.event(event.raw, shown.answer, now)

    def _with_own_urls(self, event: SseEvent) -> Steps[SseEvent]:
        if self._rules.restores is None or not self._rules.restores(event.data):
            return event
        data = yield OwnUrls(event.data)
        return event if data is event.data else SseEvent(with_data(event.raw, data), data)

    def end(self, now: float) -> Steps[None]:
        if self._exchange.unreadable is not None:
            yield from self._passed.end(now)
        elif self._rules.changes and (rest := self._splitter.rest):  # as if a blank line had ended it
            yield from self._show([SseEvent(rest, event_data(rest))], now)


def reader_of(exchange: RelayedExchange, head: AnswerHead, rules: Rules, *, is_head: bool) -> AnswerReader:
    """How the body of an answer passes. `is_head`: it answers a HEAD, and has none. Raises UnreadableAnswerError.

    The agent may support methods that the proxy does not know: what it sends as JSON or events may be of A2A. JSON
    that comes in pieces may be a stream of documents: it is read as one document only where it answers A2A.
    """
    request: A2ARequest | None = exchange.request
    is_known = request is not None and request.operation in _READ
    if not is_known and (is_head or not (head.is_stream or head.is_json)):
        return PassReader(exchange, asked=rules.asked)
    if codings(head.encoding) is None:
        exchange.stop_reading("unknown_encoding", _unknown(head.encoding))
        if rules.asked:
            raise UnreadableAnswerError("its content coding cannot be decoded")
        return PassReader(exchange, asked=False)
    if head.is_stream:
        return EventsReader(exchange, head, rules)
    if head.is_whole or (is_known and (head.is_json or not rules.changes)) or (rules.asked and head.encoding):
        return WholeReader(exchange, head, rules)
    if is_known:  # text, which may arrive slowly
        return WholeReader(exchange, head, rules, holds=False)
    return PassReader(exchange, asked=rules.asked)


def _unknown(encoding: str) -> str:
    return f"content coding {encoding!r} cannot be decoded; the response was not read"
