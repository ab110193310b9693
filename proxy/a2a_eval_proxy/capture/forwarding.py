"""The book of a process that is not the only one: what it can know alone it folds itself, the rest it forwards.

An exchange that begins and ends its task needs nothing of others: it becomes a turn here. Everything else that concerns
a task is forwarded, as observations, to the one process that folds all that is known of the task.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from a2a_tool_capture import Finding
from a2a_tool_capture.dialects import DialectMark
from a2a_tool_capture.wire import TERMINAL_STATES

from ..protocol.answers import task_id_of
from ..turn import Turn
from .observations import Observation, turn_to_message
from .records import TaskWatcher, messages_in
from .turn_book import TurnBook

MAX_OWN_BYTES = 256 * 1024
"""Events that one exchange holds for the case that it has to be forwarded; beyond that it is forwarded at once."""

MAX_HELD_BYTES = 32 * 1024 * 1024
"""Those of all exchanges; beyond that each is forwarded as soon as its task is known."""

MAX_OWN_S = 10.0
"""Time after which an exchange that is still open is forwarded: others may watch its task meanwhile."""

_ALIVE_EVERY_S = 1.0

_NUMBERS = count(1)
"""Of all exchanges of this process: several books, one after the other, may forward those of one agent."""


@dataclass(slots=True, eq=False)
class ForwardedExchange:
    """One exchange, as `TaskWatcher`."""

    exchange_id: str
    task_id: str = ""
    """The latest task that was named; "" for none."""
    turn: Turn | None = None
    """The turn that it opened; None where it only watches, or once the exchange has ended."""
    notified: bool = False
    findings: list[Finding] = field(default_factory=list)
    own: TaskWatcher | None = None
    """Set as long as its turn is folded here."""
    began_at: float = 0.0
    held: list[Observation] = field(default_factory=list)
    """What it has shown, as long as its turn is folded here."""
    held_bytes: int = 0
    alive_at: float = 0.0


class ForwardingBook:
    """Takes what a `TurnBook` takes. Sans-io: `forward` receives observations and the time of each among those of other
    processes; it neither waits nor raises.

    `own` folds the turns that need no other process.
    """

    def __init__(self, own: TurnBook, forward: Callable[[float, Observation], None], source: str) -> None:
        """`source`: what the ids of its exchanges begin with, of no other process."""
        self.own = own
        self.source = source
        self._forward = forward
        self._open: dict[str, ForwardedExchange] = {}
        """The exchanges whose turn is folded here."""
        self._held_bytes = 0

    @property
    def unread(self) -> tuple[DialectMark, ...]:
        return self.own.unread

    @property
    def open_turns(self) -> list[Turn]:
        """Those that are folded here."""
        return self.own.open_turns

    def open(
        self, turn: Turn, now: float, *, returns_at_once: bool = False, if_generation: int = 0
    ) -> ForwardedExchange:
        """See `TurnBook.open`."""
        exchange = ForwardedExchange(self._new_id(), turn.task_id, turn, began_at=now)
        more = {"returns_at_once": returns_at_once, "if_generation": if_generation}
        sent = self._observed(exchange, "sent", now, **more)
        if turn.task_id:
            self._forward(now, {**sent, "turn": turn_to_message(turn)})
        else:
            exchange.own = self.own.open(turn, now, returns_at_once=returns_at_once)
            exchange.findings = exchange.own.findings
            exchange.held.append(sent)
            self._open[exchange.exchange_id] = exchange
        return exchange

    def watch(self, *, notified: str = "") -> ForwardedExchange:
        """See `TurnBook.watch`. `notified`: the id of a webhook, whose notifications any process may receive."""
        return ForwardedExchange(f"webhook {notified}" if notified else self._new_id(), notified=bool(notified))

    def feed(self, exchange: ForwardedExchange, event: Mapping[str, Any], now: float, *, live: bool, size: int) -> str:
        """See `TurnBook.feed`."""
        task_id = task_id_of(event)
        exchange.task_id = task_id or exchange.task_id
        if exchange.own is not None:
            self.own.feed(exchange.own, event, now, live=live, size=size)
            if exchange.own.turn is None:  # it was closed before its time
                self._forget(exchange)
            elif messages_in(event) > 1:  # the task had a message before, although this one names no task
                self._hand_over(exchange, now)
        if not exchange.task_id and exchange.own is None:
            return task_id
        more = {"event": event, "live": live, "size": size, "notified": exchange.notified}
        observed = self._observed(exchange, "event", now, **more)
        if exchange.own is None:
            self._forward(now, observed)
        else:
            exchange.held.append(observed)
            exchange.held_bytes += size
            self._held_bytes += size
            full = exchange.held_bytes > MAX_OWN_BYTES or self._held_bytes > MAX_HELD_BYTES
            if exchange.task_id and full:
                self._hand_over(exchange, now)
        return task_id

    def touch(self, exchange: ForwardedExchange, now: float) -> None:
        """See `TurnBook.touch`."""
        if exchange.own is not None:
            self.own.touch(exchange.own, now)
        elif exchange.task_id and now - exchange.alive_at > _ALIVE_EVERY_S:
            exchange.alive_at = now
            self._forward(now, self._observed(exchange, "alive", now))

    def end(
        self, exchange: ForwardedExchange, now: float, *, problem: Finding | None = None, final: bool = False
    ) -> None:
        """See `TurnBook.end`."""
        own = exchange.own
        if own is not None:
            record = own.record
            if own.turn is None or record is None or not record.task_id or record.merger.state in TERMINAL_STATES:
                self._forget(exchange)
                self.own.end(own, now, problem=problem, final=final)
                exchange.turn = None
                return
            self._hand_over(exchange, now)
        exchange.turn = None
        if exchange.task_id:
            findings = [finding.to_dict() for finding in exchange.findings]
            why = None if problem is None else problem.to_dict()
            self._forward(now, self._observed(exchange, "ended", now, problem=why, final=final, findings=findings))

    def report(self, task_id: str, finding: Finding, now: float) -> None:
        """See `TurnBook.report`."""
        exchange = ForwardedExchange(self.source, task_id)
        self._forward(now, self._observed(exchange, "finding", now, finding=finding.to_dict()))

    def expire(self, now: float) -> None:
        """See `TurnBook.expire`."""
        for exchange in [one for one in self._open.values() if now - one.began_at > MAX_OWN_S]:
            if exchange.own is None or exchange.own.turn is None:
                self._forget(exchange)
            elif exchange.task_id:
                self._hand_over(exchange, now)
        self.own.expire(now)

    def close_all(self, now: float) -> None:
        """The process stops. What another one can continue is forwarded; other turns are closed."""
        for exchange in list(self._open.values()):
            record = None if exchange.own is None else exchange.own.record
            if exchange.task_id and record is not None and record.open is not None and not record.answered:
                self._hand_over(exchange, now)
        self.own.close_all(now)

    def _new_id(self) -> str:
        return f"{self.source} {next(_NUMBERS)}"

    def _observed(self, exchange: ForwardedExchange, kind: str, now: float, **content: Any) -> Observation:
        return {"kind": kind, "exchange": exchange.exchange_id, "task": exchange.task_id, "at": now, **content}

    def _forget(self, exchange: ForwardedExchange) -> None:
        """Its turn is not folded here any more."""
        exchange.own = None
        exchange.held.clear()
        self._held_bytes -= exchange.held_bytes
        exchange.held_bytes = 0
        self._open.pop(exchange.exchange_id, None)

    def _hand_over(self, exchange: ForwardedExchange, now: float) -> None:
        """Forward what an exchange has shown so far: its turn continues where all turns of its task are folded."""
        own, turn = exchange.own, exchange.turn
        if own is None or turn is None:
            return
        exchange.findings = list(own.findings)
        self.own.withdraw(own)
        turn.task_id = ""  # which its message did not name
        for observed in exchange.held:
            observed["task"] = exchange.task_id
            if observed["kind"] == "sent":
                observed["turn"] = turn_to_message(turn)
            self._forward(now, observed)
        turn.task_id = exchange.task_id
        self._forget(exchange)
