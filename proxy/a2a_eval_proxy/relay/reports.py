"""What the byte path says of an exchange, once it has decided. Nothing comes back."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec

from a2a_tool_capture import Finding

from ..capture.exchange import Exchange, ReadRequest
from ..capture.failures import log_failure
from ..clock import CLOCK
from ..net.http_client import RawHeaders, RequestHead
from ..protocol.answers import ReadAnswer
from .wire_log import WireExchange, WireLog

P = ParamSpec("P")


class Reports:
    """Tells capture, and the log of the wire, what passes. Every method returns nothing and raises nothing.

    After an error of theirs the calls of the turn are unknown, and nothing but the end of the exchange is reported.
    """

    def __init__(self, exchange: Exchange, log: WireLog | None, began: float) -> None:
        """`began`: when the exchange did, in seconds since the epoch, as all times here."""
        self._exchange = exchange
        self._log = log
        self._began = began
        self._wire: WireExchange | None = None
        """Set once the request is known to concern turns, if there is a log."""
        self._has_failed = False

    def request(self, sent: ReadRequest, head: RequestHead | None, body: bytes, now: float, *, complete: bool) -> None:
        """The request, which went to the agent with this head (None: it did not), and its body, or the beginning of one
        that is not `complete`."""
        self._tell(self._exchange.request, sent, now)
        self._tell(self._begin_wire, sent, head, body, complete)

    def answered(self, status: int, headers: RawHeaders, now: float, *, is_stream: bool) -> None:
        """The header of the answer has arrived. `is_stream`: events follow."""
        if self._wire is not None:
            self._tell(self._wire.answered, status, headers, now, is_stream)

    def part(self, data: bytes, now: float) -> None:
        """Part of an answer has arrived, as the agent sent it, which is not read as events."""
        if self._wire is not None:
            self._tell(self._wire.part, data, now)

    def event(self, raw: bytes, answer: ReadAnswer | None, now: float) -> None:
        """An event of the answer: its bytes, and what was read of it; None where nothing was."""
        if self._wire is not None:
            self._tell(self._wire.part, raw, now)
        if answer is not None:
            self._tell(self._exchange.event, answer, now)

    def answer(self, status: int, answer: ReadAnswer, now: float) -> None:
        """The whole answer, which is no stream."""
        self._tell(self._exchange.answer, status, answer, now)

    def refused(self, status: str, now: float, *, mismatch: bool) -> None:
        """The agent ended the exchange with an error: see `Exchange.refused`."""
        self._tell(self._exchange.refused, status, now, mismatch=mismatch)

    def finding(self, code: str, message: str) -> None:
        """Something did not reach the client, or was not asked for, while the rest is read."""
        self._tell(self._exchange.report, code, message)

    def end(self, problem: Finding | None, rest: bytes, *, lost: bool) -> None:
        """The exchange has ended; `rest` is the beginning of an event that was not complete then. `lost`: nothing of
        the agent can complete the turn."""
        now, lost = CLOCK.now(), lost or self._has_failed
        self._attempt(self._exchange.end, now, problem=problem, lost=lost)
        if self._wire is not None:
            self._tell(self._wire.end, now, problem.code if problem is not None else "", rest)

    def notified(self, task_id: str) -> None:
        """A webhook which the request set was notified of this task."""
        self._attempt(self._exchange.notified, task_id, CLOCK.now())

    @property
    def is_closed(self) -> bool:
        """Whether the client has left, and the turn was closed since."""
        return self._exchange.is_closed

    def _begin_wire(self, sent: ReadRequest, head: RequestHead | None, body: bytes, complete: bool) -> None:
        exchange, log = self._exchange, self._log
        if log is None or not exchange.concerns_turns or not log.admits(self._began):
            return
        wire = WireExchange(log, self._began, head)
        if exchange.turn is not None:
            wire.turn_id = exchange.turn.turn_id
        else:
            wire.named_task = exchange.named_task
        wire.task_ids = sent.task_ids
        wire.keep(body, complete=complete)
        self._wire = wire

    def _tell(self, report: Callable[P, None], *arguments: P.args, **named: P.kwargs) -> None:
        if not self._has_failed:
            self._attempt(report, *arguments, **named)

    def _attempt(self, report: Callable[P, None], *arguments: P.args, **named: P.kwargs) -> None:
        try:
            report(*arguments, **named)
        except Exception as error:  # noqa: BLE001  # capture's errors end here
            log_failure(error)
            if not self._has_failed:
                self._has_failed, self._wire = True, None
                self._attempt(self._exchange.failed, CLOCK.now())
