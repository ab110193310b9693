"""How the body of an answer passes: unread, read as a whole, or event by event. Without sockets.

Which of the three it is follows from the head of the answer. Each gets the body as it arrives, and shows the client
what it may have of it. What the client may have as the agent sent it goes first, and is read then.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, Protocol

from a2a_tool_capture.extension_filter import names_extension
from a2a_tool_capture.json_limits import has_too_many_values

from ..body_memory import HeldBody
from ..net.http_client import RawHeaders, UpstreamError
from ..protocol import extension_filter
from ..protocol.answers import ReadAnswer, read_answer
from ..protocol.content_coding import STEP_BYTES, DecodedTooLargeError, Decoder, codings, decoding
from ..protocol.error_bodies import LocalResponse
from ..protocol.headers import DIGESTS
from ..protocol.operations import CARRIES_TASKS, Operation
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
from .webhooks import Webhooks

_READ = CARRIES_TASKS | {Operation.BATCH}
"""Operations whose answers are read, whatever media type they have."""
LENGTH = frozenset({b"content-length"})
DESCRIBE_BODY = frozenset({b"content-length", b"content-encoding", *DIGESTS})
"""Header fields that are wrong once the body is changed."""
_TOO_LARGE = (
    "the response exceeds the limit for capture, alone or with others read at the time; it was passed on unread"
)


class UnreadableAnswerError(UpstreamError):
    """The proxy asked for the extension, and cannot read the answer to remove the extension again."""


class AnswerHead:
    """The head of an answer, as far as it decides how the body passes."""

    def __init__(self, status: int, headers: RawHeaders, fields: dict[bytes, bytes], *, is_complete: bool) -> None:
        """`fields`: the last value of each of the `headers`, by its name in lower case. `is_complete`: the body has
        arrived with the head."""
        self.status = status
        self.fields = fields
        self.encoding = ""
        """All of `Content-Encoding`."""
        if b"content-encoding" in fields:
            values = [value for name, value in headers if name.lower() == b"content-encoding"]
            self.encoding = b",".join(values).decode("latin-1")
        media_type = fields.get(b"content-type", b"").lower()
        self.is_stream = media_type.startswith(b"text/event-stream")
        """Whether events follow."""
        self.is_json = b"json" in media_type
        """Whether it says to be JSON of any kind."""
        self.is_whole = is_complete or b"content-length" in fields or not DIGESTS.isdisjoint(fields)
        """Whether it describes the body as a whole, so that it is sent when the body is known."""


class Rules(NamedTuple):
    """What the client of an answer may have of it."""

    strips: bool
    """Whether it may not see the extension."""
    asked: bool
    """Whether the proxy has asked for the extension, for a client that did not: then no body passes that names it."""
    webhooks: Webhooks | None
    """Whose addresses a body may have in place of the client's own; None where webhooks are not relayed."""


Change = Callable[[bytes, bytes], Awaitable[LocalResponse]]
"""What the client gets for a body, as received and decoded."""


class Shell(Protocol):
    """What a reader works with, which is of its exchange."""

    held: HeldBody

    async def show(self, reader: AnswerReader, content: bytes) -> None:
        """Give the client part of the body that `reader` reads, and wait until it takes more."""


class AnswerReader:
    """Passes a body unread; one that the proxy asked for as long as it does not name the extension."""

    holds_head = False
    """Whether the client gets the head with the whole body, at the end."""
    shows_end = True
    """Whether `end` may have something for the client."""
    leaves_out: frozenset[bytes] = frozenset()
    """Header fields that are not true of what the client gets."""
    rest = b""
    """An event that is not complete."""

    def __init__(self, exchange: RelayedExchange, head: AnswerHead, rules: Rules, shell: Shell) -> None:
        self._exchange = exchange
        self._head = head
        self._rules = rules
        self._shell = shell
        self._changes = rules.strips or rules.webhooks is not None
        """Whether the client may get other bytes than the agent sent."""
        self._check: extension_filter.UnreadBodyFilter | None = None

    async def feed(self, chunk: bytes, now: float) -> None:
        """Part of the body has arrived. Raises UpstreamError where nothing more may pass."""
        self._exchange.part(chunk, now)
        await self._shell.show(self, self._checked(chunk))

    def _checked(self, chunk: bytes) -> bytes:
        """What may pass unread now. Raises UnreadableAnswerError."""
        if not self._rules.asked:
            return chunk
        self._check = self._check or extension_filter.UnreadBodyFilter()
        try:
            return self._check.feed(chunk)
        except extension_filter.UnreadableError as error:
            raise UnreadableAnswerError(str(error)) from None

    async def end(self, now: float) -> None:
        """The body is complete. Raises UpstreamError where it may not pass."""
        if self._check is not None and (held := self._check.rest()):
            await self._shell.show(self, held)

    def _read(self, data: bytes, payload: Any, *, in_stream: bool) -> ReadAnswer | None:
        """What capture gets of an event, or of a whole answer, about tasks; None for one with too many values.
        `payload`: what it holds, where that is known."""
        request = self._exchange.request
        if request is None or (payload is None and has_too_many_values(data)):
            return None
        return read_answer(data, request, in_stream=in_stream, payload=payload)


class WholeReader(AnswerReader):
    """Reads a body as a whole: before its client gets it, or, where the client gets it as it comes, of a copy."""

    def __init__(
        self,
        exchange: RelayedExchange,
        head: AnswerHead,
        rules: Rules,
        shell: Shell,
        *,
        holds: bool | None = None,
        change: Change | None = None,
    ) -> None:
        """`holds`: whether the client gets nothing before the end, though the body does not change. `change`: what the
        client gets in place of the body once it is read."""
        super().__init__(exchange, head, rules, shell)
        self.change = change
        self.holds_head = self._changes if holds is None else holds
        self._copies = not self.holds_head
        self._coding = codings(head.encoding) if head.encoding else []
        self.shows_end = self.holds_head or rules.asked
        if self._coding is None:
            exchange.stop_reading("unknown_encoding", _unknown(head.encoding))
            self.holds_head = False
        self._chunks: list[bytes] = []
        self._size = self._taken = 0
        length = head.fields.get(b"content-length", b"")
        self._announced = int(length) if length.isdigit() and int(length) <= exchange.max_bytes else 0
        """Takes its room at once: halves of bodies would wait for each other."""
        self.body = b""
        """As it was received, after `end`."""
        self.content: bytes | None = None
        """Without its coding, after `end`; None where it could not be read."""

    async def feed(self, chunk: bytes, now: float) -> None:
        exchange, held = self._exchange, self._shell.held
        if exchange.unreadable is not None and not self._copies:
            await super().feed(chunk, now)
            return
        exchange.part(chunk, now)
        if self._copies:
            await self._shell.show(self, self._checked(chunk))
            if exchange.unreadable is not None:
                return
        self._chunks.append(chunk)
        self._size += len(chunk)
        more = max(self._size, self._announced) - self._taken
        if self._size <= exchange.max_bytes and (held.take(more) or await held.room(more, waits=self._rules.asked)):
            self._taken += more
            return
        exchange.stop_reading("body_too_large", _TOO_LARGE)
        if self._rules.asked and self._coding:
            raise UnreadableAnswerError(f"it exceeds {exchange.max_bytes} bytes, compressed")
        chunks, self._chunks = self._chunks, []
        if not self._copies:
            chunks = [self._checked(chunk) for chunk in chunks]  # the client may get an error instead
            self.holds_head = False
            for passed in chunks:
                await self._shell.show(self, passed)
        held.give_back(self._taken)

    async def end(self, now: float) -> None:
        exchange = self._exchange
        if self._check is not None:
            await super().end(now)
        if exchange.unreadable is not None:
            return
        self.body, self._chunks = b"".join(self._chunks), []
        self.content = await self._decoded(self._coding, self.body) if self._coding else self.body
        if self.content is None and self._rules.asked and exchange.unreadable is not None:
            raise UnreadableAnswerError(exchange.unreadable.message)
        if self.content is not None and (self._copies or self._changes):
            await self._show(self.content, now)
        elif not self._copies:
            await self._shell.show(self, self.body)

    async def _decoded(self, coding: list[str], body: bytes) -> bytes | None:
        steps = decoding(coding, body, self._exchange.max_bytes)
        try:
            return await self._shell.held.decoded(steps, waits=self._rules.asked)
        except DecodedTooLargeError as error:
            self._exchange.stop_reading("body_too_large", str(error))
        except ValueError as error:
            self._exchange.stop_reading("undecodable_body", f"the compressed response could not be decoded: {error}")
        return None

    async def _show(self, received: bytes, now: float) -> None:
        content, exchange = received, self._exchange
        webhooks = self._rules.webhooks
        if webhooks is not None and webhooks.may_show(content):
            content = await webhooks.restored(content)
        shown, answer = await self._shell.held.parse(len(content), self._shown, content)
        try:
            if not self._copies:
                if shown is not received:
                    self.leaves_out = DESCRIBE_BODY
                await self._shell.show(self, self.body if shown is received else shown)
        finally:  # the client may leave once it has all
            if answer is not None:
                exchange.answer(self._head.status, answer, now)
            elif exchange.shows_tasks:
                exchange.stop_reading("body_too_large", "the response has too many values; it was passed on unread")

    def _shown(self, content: bytes) -> tuple[bytes, ReadAnswer | None]:
        """What the client gets of the body, and capture. Raises UnreadableAnswerError."""
        exchange, payload = self._exchange, None
        shown: bytes | None = content
        if self._rules.strips and not self._copies:
            try:
                shown, payload = extension_filter.strip(content, exchange.keeps)
            except extension_filter.UnreadableError as error:
                if self._rules.asked:
                    raise UnreadableAnswerError(str(error)) from None
        return shown or b"", self._read(content, payload, in_stream=False) if exchange.shows_tasks else None


class _ShownEvent(NamedTuple):
    raw: bytes
    """What the agent sent."""
    content: bytes
    """What the client gets."""
    answer: ReadAnswer | None
    """What capture gets."""
    problems: list[str]
    """Why the client does not get all of it."""


class EventsReader(AnswerReader):
    """Reads a stream of events, each as soon as it is complete."""

    def __init__(self, exchange: RelayedExchange, head: AnswerHead, rules: Rules, shell: Shell) -> None:
        super().__init__(exchange, head, rules, shell)
        self._shows_tasks, self._keeps = exchange.shows_tasks, exchange.keeps
        self._withheld: set[str] = set()
        """See `extension_filter.strip`."""
        names = codings(head.encoding) or []
        self._decoder = Decoder(names) if names else None
        self._splitter = SseSplitter(exchange.max_bytes)
        self._held = 0
        """Bytes of the unfinished event that are counted."""
        self.shows_end = self._changes
        if self._changes:  # its length and digest are not known in advance
            self.leaves_out = DESCRIBE_BODY if names else LENGTH | DIGESTS

    @property
    def rest(self) -> bytes:  # type: ignore[override]
        return self._splitter.rest

    async def feed(self, chunk: bytes, now: float) -> None:
        exchange = self._exchange
        if not self._changes:
            await self._shell.show(self, chunk)
        if exchange.unreadable is not None:
            await self._pass_unread(chunk, now)
        elif self._decoder is None:
            for at in range(0, len(chunk), STEP_BYTES):
                await self._split(chunk[at : at + STEP_BYTES], now)
                if exchange.unreadable is not None:
                    await self._pass_unread(self._splitter.rest + chunk[at + STEP_BYTES :], now)
                    return
        else:
            self._decoder.feed(chunk)
            while (part := self._decoded(self._decoder)) and exchange.unreadable is None:
                await self._split(part, now)
            if exchange.unreadable is not None:
                await self._pass_unread(b"", now)

    def _decoded(self, decoder: Decoder) -> bytes:
        try:
            return decoder.take()
        except ValueError as error:
            self._exchange.stop_reading("undecodable_body", f"the compressed response could not be decoded: {error}")
            return b""

    async def _pass_unread(self, content: bytes, now: float) -> None:
        """The stream is not read any more."""
        if not self._changes:
            if content:
                self._exchange.part(content, now)
        elif self._decoder is not None:  # what cannot be decoded cannot be sent as plain text
            raise UpstreamError("its compressed stream could not be decoded")
        else:
            await super().feed(content, now)

    async def _split(self, part: bytes, now: float) -> None:
        """Show the events that a part of the stream completes."""
        exchange, splitter, held = self._exchange, self._splitter, self._shell.held
        try:
            events = splitter.feed(part)
        except EventTooLargeError as error:
            exchange.stop_reading("event_too_large", f"{error}; the rest of the stream was not read")
            return
        if events:
            await self._show(events, now)
        if splitter.size and self._changes and (comments := splitter.comments()):
            await self._show([SseEvent(comments, b"")], now)
        more = splitter.size - self._held
        if more > 0 and not (held.take(more) or await held.room(more, waits=self._rules.asked)):
            exchange.stop_reading("body_too_large", _TOO_LARGE)
            return
        if more < 0:
            held.give_back(-more)
        self._held += more

    async def _show(self, events: list[SseEvent], now: float) -> None:
        exchange, webhooks = self._exchange, self._rules.webhooks
        passed: list[_ShownEvent] = []
        for event in events:
            if webhooks is not None and webhooks.may_show(event.data):
                data = await webhooks.restored(event.data)
                if data is not event.data:
                    event = SseEvent(with_data(event.raw, data), data)
            passed.append(await self._shell.held.parse(len(event.raw), self._shown, event))
        try:
            if self._changes and (content := b"".join([shown.content for shown in passed])):
                await self._shell.show(self, content)
        finally:  # the client may leave once it has the last event
            for shown in passed:
                for problem in shown.problems:
                    exchange.finding("unreadable_event", problem)
                if shown.answer is None and self._shows_tasks:
                    exchange.stop_reading(
                        "event_too_large", "an event has too many values; the rest of the stream was not read"
                    )
                    break
                exchange.event(shown.raw, shown.answer, now)

    def _shown(self, event: SseEvent) -> _ShownEvent:
        raw, data = event
        shown, payload = raw, None
        problems: list[str] = []
        if self._rules.strips and (self._withheld or names_extension(raw)):
            shown = kept = without_lines(raw, names_extension)
            if len(kept) < len(raw):
                problems.append("an event names the extension outside of its data")
            try:
                clean, payload = extension_filter.strip(data, self._keeps, withheld=self._withheld)
                if clean is None:
                    shown = comment_lines(kept)
                elif clean is not data:
                    shown = with_data(kept, clean)
            except extension_filter.UnreadableError as error:
                if self._rules.asked:
                    shown = b""
                    problems.append(f"an event was not passed on: {error}")
        answer = self._read(data, payload, in_stream=True) if self._shows_tasks else None
        return _ShownEvent(raw, shown, answer, problems)

    async def end(self, now: float) -> None:
        if self._exchange.unreadable is not None:
            await super().end(now)
        elif self._changes and (rest := self._splitter.rest):  # as if a blank line had ended it
            await self._show([SseEvent(rest, event_data(rest))], now)


def reader_of(
    exchange: RelayedExchange, head: AnswerHead, rules: Rules, shell: Shell, *, is_head: bool
) -> AnswerReader:
    """How the body of an answer passes. `is_head`: it answers a HEAD, and has none. Raises UnreadableAnswerError.

    The agent may support methods that the proxy does not know: what it sends as JSON or events may be of A2A. JSON
    that comes in pieces may be a stream of documents: it is read as one document only where it answers A2A.
    """
    request = exchange.request
    is_known = request is not None and request.operation in _READ
    if not is_known and (is_head or not (head.is_stream or head.is_json)):
        return AnswerReader(exchange, head, rules, shell)
    if head.encoding and codings(head.encoding) is None:
        exchange.stop_reading("unknown_encoding", _unknown(head.encoding))
        if rules.asked:
            raise UnreadableAnswerError("its content coding cannot be decoded")
        return AnswerReader(exchange, head, rules, shell)
    if head.is_stream:
        return EventsReader(exchange, head, rules, shell)
    if head.is_whole or (is_known and head.is_json) or (rules.asked and head.encoding):
        return WholeReader(exchange, head, rules, shell)
    if is_known:  # text, which may arrive slowly
        return WholeReader(exchange, head, rules, shell, holds=False)
    return AnswerReader(exchange, head, rules, shell)


def _unknown(encoding: str) -> str:
    return f"content coding {encoding!r} cannot be decoded; the response was not read"
