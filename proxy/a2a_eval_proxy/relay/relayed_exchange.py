"""One exchange as the byte path knows it. Sans-io."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from typing import TypeVarTuple

from a2a_tool_capture import Finding, Severity
from a2a_tool_capture.wire import TERMINAL_STATES

from ..body_memory import HeldBody
from ..capture.captured_exchange import CLIENT_GONE, CapturedExchange, ReadRequest
from ..capture.failures import log_failure
from ..capture.turn_book import TurnBook
from ..clock import CLOCK
from ..net.http_client import RawHeaders
from ..protocol.answers import ReadAnswer, state_of
from ..protocol.content_coding import DecodedTooLargeError, Decoder, NoRoomError, codings, decoding
from ..protocol.operations import CARRIES_TASKS, SENDS_MESSAGE, A2ARequest, Operation, ParsedRequest, rpc_method
from ..turn import Turn
from .opted_in_tasks import OptedInTasks
from .wire_log import WireLog, WireRecord

Ts = TypeVarTuple("Ts")

CLIENT_LEFT = "the client left before the answer was complete"

_TOO_LARGE = (
    "request_too_large",
    "the request exceeds the limit for capture, alone or with others read at the time; it was forwarded unread",
)
_UNCLEAR = "undecodable_body", "the request may set a webhook, and the proxy cannot read it; it was forwarded unread"
_SEVERAL_TASKS = frozenset({Operation.LIST, Operation.BATCH})


class RelayedExchange:
    """Who asks for what, which tasks the answer shows, and what could not be read: all that decides which bytes pass.

    Capture and the log of the wire are told what passes, and asked nothing. After an error of theirs the calls of the
    turn are unknown, and nothing but the end of the exchange is told.
    """

    def __init__(
        self,
        turn: Turn,
        asked_by_header: bool,
        book: TurnBook,
        log: WireLog | None,
        opted_in: OptedInTasks,
        caller: Callable[[], bytes | None],
        max_bytes: int,
    ) -> None:
        """`turn` and `asked_by_header`: see `CapturedExchange`. `caller` returns the key of the caller (`Callers.key`).
        `max_bytes`: of a body that is read. All times are in seconds since the epoch."""
        self._turn = turn
        self.max_bytes = max_bytes
        self._capture = CapturedExchange(book, turn, asked_by_header=asked_by_header)
        self._wire_log = log
        self._wire: WireRecord | None = None
        """Set once the request is known to concern turns, if the log keeps it."""
        self._has_failed = False
        """Whether capture, or the log, has."""
        self._opted_in = opted_in
        self._key_of_caller = caller
        self._requested = asked_by_header
        self.asked = False
        """Whether the proxy asks the agent for the extension."""
        self.traceparent = ""
        """Starts a trace for the agent; "" where the client, or a span, has started one."""
        self.trace_state = ""
        """The `tracestate` that names the turn for the agent, if the request is a message; "" where it is not named."""
        self.request: A2ARequest | None = None
        """The request, once it is read; None also where it cannot be read."""
        self.shows_tasks = False
        """Whether the answer shows tasks, and is read for capture."""
        self.named_task = ""
        """The task that the request names; "" for none."""
        self._unread: tuple[str, str] | None = None
        self.is_reported = False
        """Whether the request is."""
        self._beginning = b""
        """Of the body of the request, decoded, where all of it is too much."""
        self.undecoded = ""
        """Why the body of the request could not be decoded."""
        self.lacks_memory = False
        """Whether it could not be for want of memory."""
        self.is_notified = False
        """Whether a notification may name the task of this exchange: the request sets a webhook that is relayed."""
        self.task_ids: list[str] = []
        """Ids of the tasks in the answer so far."""
        self._state = ""
        """The latest state of the task in the answer, in 1.0 names, where the request sets a webhook."""
        self.unreadable: Finding | None = None
        """Set once something of the answer cannot be read: from then on its bytes pass unread."""
        self.rest = b""
        """The event of the answer that stays incomplete."""
        self._ended = self._left = False

    # ── the request ─────────────────────────────────────────────────────────────────────────────────────

    async def decoded(self, body: bytes, encoding: str, held: HeldBody) -> bytes | None:
        """The body of a request without its content coding; None where that is too much. A body that is not so coded
        stays as it is, and is the agent's to answer: see `undecoded`."""
        names = codings(encoding)
        if not names or not body:
            self.undecoded = "" if names is not None else f"the content coding {encoding!r} is not supported"
            return body
        try:
            return await held.decoded(decoding(names, body, self.max_bytes))
        except DecodedTooLargeError as error:
            self.undecoded, self.lacks_memory = str(error), isinstance(error, NoRoomError)
            beginning = Decoder(names)
            beginning.feed(body)
            with suppress(ValueError):
                self._beginning = beginning.take()
            return None
        except ValueError as error:
            self.undecoded = str(error)
            return body

    def take_request(self, parsed: ParsedRequest, *, sets_webhook: bool = False) -> None:
        """The request is read, and goes to the agent next. `sets_webhook`: an agent may read a webhook in it."""
        if parsed.is_too_large:
            self._unread = _TOO_LARGE
            return
        self._requested = self._requested or parsed.asks
        self._take(parsed.request)
        if self.request is not None:
            self.request.has_webhook = self.request.has_webhook or sets_webhook or self.has_foreign_webhook()
        elif sets_webhook:  # agents may read more than the proxy does
            self._unread = _UNCLEAR

    def _take(self, request: A2ARequest | None) -> None:
        if request is not None:
            self.request, self.named_task = request, request.named_task
            self.shows_tasks = request.operation in CARRIES_TASKS

    def report_request(
        self, rest: A2ARequest | None, head: bytes | None, body: bytes, now: float, *, is_cut: bool = False
    ) -> None:
        """Report the request, once, which goes to the agent with this head (None: it does not). `is_cut`: `body` is
        only the beginning of one that is not read."""
        self.is_reported = True
        if self._unread is not None:
            self._take(rest or rpc_method(self._beginning or body))  # the path or the first bytes have to suffice
            if self.request is not None and self.request.operation in SENDS_MESSAGE:
                self.request.has_webhook = True  # it may have one
        self._tell(self._report_request, head, body, now, is_cut)
        request = self.request
        if request is None:
            return
        request.message = None  # it may be large
        if request.has_webhook:
            self.remember_tasks()

    def _report_request(self, head: bytes | None, body: bytes, now: float, is_cut: bool) -> None:
        request = self.request
        self._capture.request(ReadRequest(request, self._requested, self._unread, self.is_notified, self.task_ids), now)
        if request is None or self._wire_log is None or not self.shows_tasks:
            return
        self._wire = wire = self._wire_log.begin(self._turn.started_at, head, body, is_cut=is_cut)
        if wire is not None:
            wire.turn_id = self._turn.turn_id if request.operation in SENDS_MESSAGE else ""
            wire.named_task, wire.task_ids = self.named_task, self.task_ids

    @property
    def requested(self) -> bool:
        """Whether this client may see the extension: it asked for it now, or in an earlier request about this task."""
        if self._requested:
            return True
        request = self.request
        return request is not None and bool(request.task_id) and self._opted_in.has(self._caller, request.task_id)

    @cached_property
    def _caller(self) -> bytes | None:
        return self._key_of_caller()

    @property
    def keeps(self) -> Callable[[str], bool] | None:
        """Whether an answer about several tasks may show the calls of a task (its id); None for any other answer."""
        if self.request is None or self.request.operation not in _SEVERAL_TASKS:
            return None
        return lambda task_id: self._opted_in.has(self._caller, task_id)

    def has_foreign_webhook(self) -> bool:
        """Whether the agent notifies a webhook of this task past the proxy."""
        return bool(self.named_task) and self._opted_in.has_webhook(self.named_task)

    def remember_tasks(self) -> None:
        """Remember the tasks of this exchange for later requests."""
        if self._requested:
            self._opted_in.add(self._caller, self.task_ids)
        if self.request is not None and self.request.has_webhook:
            self._opted_in.add_webhook([self.named_task, *self.task_ids] if self.named_task else self.task_ids)

    # ── the answer ──────────────────────────────────────────────────────────────────────────────────────

    def answer_begins(self, status: int, headers: RawHeaders, *, is_stream: bool) -> None:
        """The header of the answer has arrived. `is_stream`: events follow."""
        if self._wire is not None:
            self._tell(self._wire.answer_begins, status, headers, CLOCK.now(), is_stream)

    def part(self, data: bytes, now: float) -> None:
        """Part of an answer has arrived, as the agent sent it, which is not read as events."""
        if self._wire is not None:
            self._tell(self._wire.part, data, now)

    def event(self, raw: bytes, answer: ReadAnswer | None, now: float) -> None:
        """An event of the answer has passed: its bytes, and what was read of it (None: nothing)."""
        self.part(raw, now)
        if answer is not None:
            self._learn(answer)
        if answer is not None and not self._has_failed:
            self._tell(self._capture.event, answer, now)

    def answer(self, status: int, answer: ReadAnswer, now: float) -> None:
        """The answer, which is no stream, has passed."""
        self._learn(answer)
        if not self._has_failed:
            self._tell(self._capture.answer, status, answer, now)

    def _learn(self, answer: ReadAnswer) -> None:
        known = len(self.task_ids)
        for task_id in answer.task_ids:
            if task_id not in self.task_ids:
                self.task_ids.append(task_id)
        if len(self.task_ids) > known:
            self.remember_tasks()
        if self.is_notified and answer.event is not None:
            self._state = state_of(answer.event) or self._state

    def refused(self, status: str, now: float, *, mismatch: bool) -> None:
        """The agent ended the exchange with an error: see `CapturedExchange.refused`."""
        if not self._has_failed:
            self._tell(self._capture.refused, status, now, mismatch)

    def finding(self, code: str, message: str) -> None:
        """Something did not reach the client, or was not asked for, while the rest is read."""
        if not self._has_failed:
            self._tell(self._capture.report, code, message)

    def stop_reading(self, code: str, message: str) -> None:
        """The rest of the answer cannot be read."""
        if self.unreadable is None:
            self.unreadable = Finding(code, message, Severity.ERROR, "capture")

    @property
    def task_over(self) -> bool:
        """Whether the task of the answer has ended, where the request sets a webhook."""
        return self._state in TERMINAL_STATES

    # ── the end ─────────────────────────────────────────────────────────────────────────────────────────

    def end(self, problem: Finding | None = None, *, lost: bool = False) -> None:
        """The exchange has ended; further calls do nothing. `lost`: the agent did not answer."""
        if self._ended:
            return
        self._ended = True
        problem, now = problem or self.unreadable, CLOCK.now()
        lost = lost or self.unreadable is not None or self._has_failed  # nothing of the agent can complete the turn
        self._tell(self._capture.end, now, problem, lost)
        if self._wire is not None:
            self._tell(self._wire.end, now, "" if problem is None else problem.code, self.rest)

    def client_gone(self, reason: str) -> None:
        """The exchange has ended, as its client has left (`CLIENT_LEFT`), or was given up."""
        self._left = self._left or not self._ended
        self.end(Finding(CLIENT_GONE, reason, Severity.WARNING))

    @property
    def awaits_notification(self) -> bool:
        """Whether the client has left before anything named the task: a notification may do so."""
        return self._left and self.is_notified and not (self.named_task or self.task_ids)

    def notified(self, task_id: str) -> None:
        """A webhook which the request set was notified of this task."""
        self._tell(self._capture.notified, task_id, CLOCK.now())

    @property
    def is_closed(self) -> bool:
        """Whether the client has left, and the turn was closed since."""
        return self._capture.is_closed

    # ── capture and the log of the wire ─────────────────────────────────────────────────────────────────

    def _tell(self, report: Callable[[*Ts], None], *arguments: *Ts) -> None:
        """Returns nothing, and raises nothing."""
        try:
            report(*arguments)
        except Exception as error:  # noqa: BLE001  # capture's errors end here
            log_failure(error)
            if not self._has_failed:
                self._has_failed, self._wire = True, None
                self._tell(self._capture.failed, CLOCK.now())
