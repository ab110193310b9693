"""Reports an exchange from the byte path to capture; capture's errors end here."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any

from a2a_tool_capture import Finding, Severity
from a2a_tool_capture.json_limits import has_too_many_values

from ..capture.exchange import Exchange, ExchangeBook, RequestFacts
from ..capture.failures import log_failure
from ..clock import CLOCK
from ..net.http_client import RawHeaders, RequestHead
from ..protocol.content_coding import WINDOWS, DecodedTooLargeError, Decoder, codings
from ..protocol.json_stream import JsonPart, JsonSplitter, ObjectTooLargeError
from ..protocol.operations import A2ARequest, Operation
from ..protocol.sse import EventTooLargeError, SseEvent, SseSplitter, event_data
from .opted_in_tasks import OptedInTasks
from .wire_log import WireExchange, WireLog

CLIENT_LEFT = "the client left before the answer was complete"

_TOO_LARGE = (
    "request_too_large",
    "the request exceeds the limit for capture, alone or with others read at the time; it was forwarded unread",
)
_UNCLEAR = "undecodable_body", "the request may set a webhook, and the proxy cannot read it; it was forwarded unread"
_SEVERAL_TASKS = frozenset({Operation.LIST, Operation.BATCH})


class Tap:
    """One exchange, as the byte path sees it. No method raises, whatever the traffic is.

    `unreadable` is set once something cannot be read (too large, an unknown coding): from then on bytes pass unread,
    and the turn gets this finding. After an error of capture, nothing more is reported to it, and the byte path goes on
    as before: it decodes, splits and filters on its own.
    """

    def __init__(
        self,
        book: ExchangeBook,
        opted_in: OptedInTasks,
        facts: RequestFacts,
        turn_id: str,
        max_bytes: int,
        *,
        caller: Callable[[], bytes | None],
        request_coding: str = "",
        wire_log: WireLog | None = None,
    ) -> None:
        """`turn_id`: see `Exchange`.

        `caller` returns the key of the caller (`Callers.key`); it is called only where the key is needed.
        """
        self._exchange = Exchange(book, facts, turn_id)
        self.request: A2ARequest | None = None
        """The request, once it is read."""
        self._began = facts.started_at
        self._head: RequestHead | None = None
        self._wire_log = wire_log
        self._wire: WireExchange | None = None
        """Set once the request is known to concern turns, if there is a log."""
        self._opted_in = opted_in
        self._caller = caller
        self._limit = max_bytes
        self._request_coding = request_coding
        self._splitter: SseSplitter | None = None
        self._json: JsonSplitter | None = None
        self._decoder: Decoder | None = None
        self.request_reported = False
        """Whether `request_body` was called."""
        self._request_seen = False
        self._remembers = True
        """Whether tasks of this exchange may have to be remembered for later requests."""
        self._unread_request: tuple[bytes, tuple[str, str]] | None = None
        """The body, or its beginning, where it is not to be parsed, and the finding that says why."""
        self._ended = False
        self.is_notified = False
        """Whether a notification may name the task of this exchange: the request set a webhook that is relayed."""
        self._notified_task = ""
        self._sent_at = self._arrived_at = 0.0
        """When the request was sent to the agent, and the latest part of the response arrived; 0.0: not yet."""
        self._left: Finding | None = None
        """Set where the client has left, and the turn waits for that notification."""
        self.unreadable: Finding | None = None
        self._has_failed = False
        """Whether capture has failed on this exchange."""

    # ── questions of the byte path ───────────────────────────────────────────────────────────────────

    @property
    def requested(self) -> bool:
        """Whether this client may see the extension: it asked for it now, or in an earlier request about this task."""
        if self._exchange.requested:
            return True
        request = self.request
        return request is not None and bool(request.task_id) and self._opted_in.has(self._caller(), request.task_id)

    @property
    def has_foreign_webhook(self) -> bool:
        """Whether the agent notifies a webhook of this task past the proxy."""
        request = self.request
        return request is not None and self._opted_in.has_webhook(request.named_task)

    @property
    def task_ids(self) -> list[str]:
        """Ids of the tasks in the response so far."""
        return self._exchange.task_ids

    @property
    def answer_attributes(self) -> dict[str, str]:
        """What spans say of the answer; "" for what it does not show."""
        exchange = self._exchange
        task_id = "".join(exchange.task_ids[-1:])
        conversation = {"gen_ai.conversation.id": exchange.conversation_id}
        return {"a2a.task.id": task_id, "a2a.task.state": exchange.state, **conversation}

    @property
    def task_over(self) -> bool:
        """Whether its task is known to have ended, after `end`."""
        return self._exchange.task_over

    @property
    def is_captured(self) -> bool:
        """Whether all of the exchange so far was read and captured."""
        return self.unreadable is None and not self._has_failed

    @property
    def keeps(self) -> Callable[[str], bool] | None:
        """Whether a response about several tasks may show the calls of a task (its id); None for any other response."""
        if self.request is None or self.request.operation not in _SEVERAL_TASKS:
            return None
        return lambda task_id: self._opted_in.has(self._caller(), task_id)

    # ── reports of the byte path   ─────────────────────────────────────────────────────────────────────────────────

    def read_request(
        self,
        rest: A2ARequest | None,
        body: bytes,
        complete: bool = True,
        *,
        sets_webhook: bool = False,
        relays_webhooks: bool = False,
        payload: Any = None,
    ) -> A2ARequest | None:
        """Read the request before it is sent on, once; returns None where it cannot be read.

        `rest` is the request as far as its path names it, `body` all of the body, or its beginning, `payload` the
        decoded body, where the caller has it. `sets_webhook`: an agent may read a webhook in it. `relays_webhooks`: its
        webhook is not remembered yet: the caller may set `has_webhook` to False.
        """
        if self._request_seen:
            return self.request
        self._request_seen = True
        try:
            if self._request_coding in WINDOWS:
                body, complete = self._inflated(body)
            if not complete or has_too_many_values(body):
                self._unread_request = body, _TOO_LARGE
                return None
            self._exchange.read_request(rest, body, payload)
            self.request = request = self._exchange.request
            if request is None:
                if sets_webhook:  # agents may read more than the proxy does
                    self._unread_request = body, _UNCLEAR
            elif sets_webhook or self._opted_in.has_webhook(request.named_task):
                request.has_webhook = True
            self._remembers = self._exchange.requested or (request is not None and request.has_webhook)
            if self._remembers and not relays_webhooks:
                self.remember_tasks()
        except Exception as error:  # noqa: BLE001  # capture's errors end here
            self.failed(error)
        return self.request

    @property
    def is_logged(self) -> bool:
        """Whether what agent and client see of the exchange is kept, once the request is reported: see `WireLog`."""
        return self._wire is not None

    def sent(self, head: RequestHead) -> None:
        """Report the head of the request, which goes to the agent."""
        self._head = head
        self._sent_at = CLOCK.now()
        if self._wire is not None:
            self._wire.head = head

    def request_body(self, rest: A2ARequest | None, body: bytes, complete: bool, *, sets_webhook: bool = False) -> None:
        """Report the request, whose `body` is complete, or the beginning of one too large to keep. Counts once."""
        if self.request_reported:
            return
        self.request_reported = True
        if not self._request_seen:
            self.read_request(rest, body, complete, sets_webhook=sets_webhook)
        if self._has_failed:
            return
        try:
            now = self._sent_at or CLOCK.now()
            if self._unread_request is None:
                self._exchange.request_body(rest, body, now)
            else:
                self._exchange.unread_request(rest, *self._unread_request, now)
                self.request, self._unread_request = self._exchange.request, None
            log = self._wire_log
            if log is not None and self._exchange.concerns_turns and log.admits(self._began):
                self._wire = self._begin_wire(log, body, complete)
        except Exception as error:  # noqa: BLE001  # capture's errors end here
            self.failed(error)

    def _begin_wire(self, log: WireLog, body: bytes, complete: bool) -> WireExchange:
        exchange, wire = self._exchange, WireExchange(log, self._began, self._head)
        if exchange.turn is not None:
            wire.turn_id = exchange.turn.turn_id
        elif self.request is not None:
            wire.named_task = self.request.named_task
        wire.task_ids = exchange.task_ids
        wire.keep(body, complete=complete)
        return wire

    def remember_tasks(self) -> None:
        """Remember the tasks of this exchange for later requests."""
        exchange = self._exchange
        if exchange.requested:
            self._opted_in.add(self._caller(), exchange.task_ids)
        if self.request is not None and self.request.has_webhook:
            named = self.request.named_task
            self._opted_in.add_webhook([named, *exchange.task_ids] if named else exchange.task_ids)

    def answered(self, status: int, headers: RawHeaders, *, is_stream: bool) -> None:
        """The header of the response has arrived. `is_stream`: events follow, which `events` reports."""
        wire = self._wire
        if wire is not None:
            wire.status, wire.headers, wire.is_stream = status, headers, is_stream
            wire.response_at = CLOCK.now()

    def arrived(self, data: bytes) -> None:
        """Part of the body has arrived, as the agent sent it. Events are reported by `events` as long as it is read."""
        self._arrived_at = CLOCK.now()
        wire = self._wire
        if wire is not None and (not wire.is_stream or self.unreadable is not None):
            self._log_part(wire, data, self._arrived_at)

    def _log_part(self, wire: WireExchange, data: bytes, now: float) -> None:
        try:
            wire.part(data, now)
        except Exception as error:  # noqa: BLE001  # capture's errors end here
            self.failed(error)

    def decodes(self, encoding: str) -> bool:
        """Prepare for a `Content-Encoding`; False where capture cannot read it."""
        names = codings(encoding)
        if names is None:
            message = f"content coding {encoding!r} cannot be decoded; the response was not read"
            self.stop_reading("unknown_encoding", message)
            return False
        if names:
            self._decoder = Decoder(names, self._limit)
        return True

    def decoded(self, chunk: bytes) -> bytes:
        """The chunk without its content coding; b"" and `unreadable` where it cannot be decoded within the limit."""
        if self._decoder is None:
            return chunk
        try:
            return self._decoder.decode(chunk)
        except DecodedTooLargeError as error:
            self.stop_reading("body_too_large", str(error))
        except ValueError as error:
            self.stop_reading("undecodable_body", f"the compressed response could not be decoded: {error}")
        return b""

    def _inflated(self, body: bytes) -> tuple[bytes, bool]:
        """The request's body without its coding, and whether it is complete; unchanged where it is not so coded."""
        decoder = zlib.decompressobj(WINDOWS[self._request_coding])
        try:
            content = decoder.decompress(body, self._limit)
        except zlib.error:
            return body, True  # the agent responds to it
        if decoder.eof or decoder.unconsumed_tail:
            return content, decoder.eof
        return body, True

    def split(self, chunk: bytes) -> list[SseEvent]:
        """The events completed by `chunk`; sets `unreadable` when an event is too large."""
        if self._splitter is None:
            self._splitter = SseSplitter(self._limit)
        try:
            return self._splitter.feed(chunk)
        except EventTooLargeError as error:
            if self._wire is not None:
                self._log_part(self._wire, self.rest, CLOCK.now())
            self.stop_reading("event_too_large", f"{error}; the rest of the stream was not read")
            return []

    def comments(self) -> bytes:
        """Take comment lines that came before an event which is not complete."""
        comments = self._splitter.comments() if self._splitter is not None else b""
        if comments:
            self.events([SseEvent(comments, b"")])
        return comments

    def split_json(self, chunk: bytes) -> list[JsonPart]:
        """The parts of a body of JSON that `chunk` completes; sets `unreadable` when an object is too large."""
        if self._json is None:
            self._json = JsonSplitter(self._limit)
        try:
            return self._json.feed(chunk)
        except ObjectTooLargeError as error:
            self.stop_reading("body_too_large", f"{error}; the rest of the response was passed on unread")
            return []

    @property
    def rest(self) -> bytes:
        """The bytes after the last whole event or JSON object."""
        splitter = self._splitter or self._json
        return splitter.rest if splitter is not None else b""

    @property
    def rest_size(self) -> int:
        """Number of bytes of `rest`."""
        splitter = self._splitter or self._json
        return splitter.size if splitter is not None else 0

    def data_of_rest(self) -> bytes:
        """The data in `rest`, as if a blank line had ended it."""
        return event_data(self.rest)

    def events(self, events: list[SseEvent], payloads: Sequence[Any] = (), sizes: Sequence[int] = ()) -> None:
        """`payloads` has the decoded data of each event, None where the caller has not decoded it, and `sizes` the
        memory that these take, where it is not that of the data."""
        if self._has_failed:
            return
        now = self._arrived_at or CLOCK.now()  # the client may have it, and have sent something else, meanwhile
        known = len(self._exchange.task_ids)
        try:
            if self._wire is not None:
                self._wire.events(events, now)
            for event, payload, size in zip_longest(events, payloads, sizes):
                if has_too_many_values(event.data):
                    message = "an event has too many values; the rest of the stream was not read"
                    self.stop_reading("event_too_large", message)
                    break
                self._exchange.event(event.data, now, payload, size)
            if len(self._exchange.task_ids) > known:
                self.remember_tasks()
        except Exception as error:  # noqa: BLE001  # capture's errors end here
            self.failed(error)

    def response(self, status: int, body: bytes, payload: Any = None, size: int | None = None) -> None:
        """The body, unless it is `unreadable`. `payload` is the decoded body, where the caller has it, and `size` the
        memory that it takes, where it is not that of the body."""
        if not self.is_captured:
            return
        if payload is None and has_too_many_values(body):
            self.stop_reading("body_too_large", "the response has too many values; it was passed on unread")
            return
        try:
            self._exchange.answer(status, body, self._arrived_at or CLOCK.now(), payload, size)
            if self._remembers:
                self.remember_tasks()
        except Exception as error:  # noqa: BLE001  # capture's errors end here
            self.failed(error)

    def refused(self, status: str, *, mismatch: bool) -> None:
        """Report that the agent ended the exchange with an error; see `Exchange.refused`."""
        if self._has_failed:
            return
        try:
            self._exchange.refused(status, self._arrived_at or CLOCK.now(), mismatch=mismatch)
        except Exception as error:  # noqa: BLE001  # capture's errors end here
            self.failed(error)

    def end(self, problem: Finding | None = None, *, lost: bool = False) -> None:
        """Report the end, once; further calls do nothing."""
        if self._ended:
            return
        self._ended = True
        try:
            problem = problem or self.unreadable
            now = CLOCK.now()
            left = problem if problem is not None and problem.code == "client_gone" and self.is_notified else None
            if left is not None and self._notified_task:
                self._exchange.name_task(self._notified_task, now)
            if left is not None and self._exchange.awaits_task:
                self._left = left
                self._exchange.leave(left)
            else:
                self._exchange.end(now, problem=problem, lost=lost or not self.is_captured)
            if self._wire is not None:
                rest = self.rest if self.unreadable is None and self._wire.is_stream else b""
                self._wire.end(now, problem.code if problem is not None else "", rest)
        except Exception as error:  # noqa: BLE001  # capture's errors end here
            self.failed(error)

    def client_gone(self, reason: str) -> None:
        """Report the end of an exchange whose client has left (`CLIENT_LEFT`), or was given up."""
        self.end(Finding("client_gone", reason, Severity.WARNING))

    def notified(self, task_id: str) -> None:
        """Report that a webhook which the request set was notified of this task."""
        try:
            self._notified_task = task_id
            request = self.request
            if self._left is not None or (request is not None and request.operation is Operation.SEND):
                self._exchange.name_task(task_id, CLOCK.now())  # events of a stream come no later than notifications
            if self._left is not None:
                self._exchange.end(CLOCK.now(), problem=self._left)
                self._left = None
        except Exception as error:  # noqa: BLE001  # capture's errors end here
            self.failed(error)

    @property
    def awaits_notification(self) -> bool:
        """Whether the client has left, and the turn stays open until a notification names its task."""
        return self._left is not None

    @property
    def is_closed(self) -> bool:
        """Whether the client has left, and the turn was closed since: it timed out."""
        return self._left is not None and self._exchange.turn is None

    def withheld(self, code: str, message: str) -> None:
        """Report that something did not reach the client, while the rest is still read."""
        try:
            self._exchange.report(code, message)
        except Exception as error:  # noqa: BLE001  # capture's errors end here
            self.failed(error)

    def stop_reading(self, code: str, message: str) -> None:
        if self.unreadable is None:
            self.unreadable = Finding(code, message, Severity.ERROR, "capture")

    def failed(self, error: Exception) -> None:
        """Capture raised this error: see the class."""
        log_failure(error)
        if self._has_failed:
            return
        self._has_failed, self._wire = True, None
        try:
            self._exchange.failed(CLOCK.now())
        except Exception as second:  # noqa: BLE001  # capture's errors end here
            log_failure(second)
