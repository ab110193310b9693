"""What exchanges report, on its way to turns: folded here where one exchange is all there is, else observed for a log.

A task that one exchange begins and ends is folded in memory. Everything else that concerns a task is an observation
(`capture.observations`): all that is known of the task, here and elsewhere, is folded from them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import count, islice
from typing import Any

from a2a_tool_capture import Finding
from a2a_tool_capture.recent import Recent, RecentKeys

from ..protocol.answers import task_id_of
from ..turn import Turn
from .observations import Observation, fold_one, turn_to_json
from .task_events import messages_in
from .task_fold import FoldRules, TaskFold
from .turn_changes import ChangeTracker

MAX_OWN_S = 10.0
"""Time after which an exchange that is still open is observed for the log: it outlives this process from then on, and
others may follow its task meanwhile."""

MAX_AT_ONCE = 200
"""Tasks that one call of `TurnBook.expire` hands over, and exchanges whose sign of life it observes: exchanges wait
meanwhile."""

MAX_OWN_BYTES = 4 * 1024 * 1024
"""Events that one exchange holds for the case that it is to be observed; beyond that it is observed at once."""

MAX_HELD_BYTES = 64 * 1024 * 1024
"""Those of all exchanges of all agents. Beyond that those with most are observed, or their turns closed where no task
is named."""

_MAX_KNOWN, _MAX_ENDED = 100_000, 1_000


@dataclass(slots=True, eq=False)
class OwnTask:
    """A task that is folded here, as long as one exchange is all there is of it."""

    fold: TaskFold
    turn: Turn
    began_at: float
    held: list[Observation] = field(default_factory=list)
    """What exchanges have shown."""
    held_bytes: int = 0
    exchanges: dict[str, BookEntry] = field(default_factory=dict)
    """Those that report to it and have not ended, by id."""

    @property
    def is_complete(self) -> bool:
        """Whether its turn is closed, and nothing can continue it."""
        return self.fold.open is None and (self.fold.is_over or not self.fold.task_id)


@dataclass(slots=True, eq=False)
class BookEntry:
    """One exchange that reports to the book."""

    exchange_id: str
    task_id: str = ""
    """The first task that was named; "" for none."""
    turn: Turn | None = None
    """The turn that it opened; None where it only follows tasks, or once the exchange has ended."""
    notified: bool = False
    findings: list[Finding] = field(default_factory=list)
    own: OwnTask | None = None
    """Set as long as its task is folded here."""
    touched_at: float = 0.0
    shown_at: float = 0.0
    """When its last sign of life was observed."""


class TurnBook:
    """Takes what exchanges report. Sans-io: times are passed in, and no callback waits or raises.

    `observe` receives the id of a task and what is observed of it; `on_opened` every turn at its start; `on_closed`
    turns that were folded here; `on_evicted` the number of turns that were closed for lack of memory. `source` begins
    the ids of exchanges: no other process has it.
    """

    def __init__(
        self,
        rules: FoldRules,
        source: str,
        observe: Callable[[str, Observation], None],
        on_closed: Callable[[Turn], None],
        *,
        on_opened: Callable[[Turn], None] = lambda turn: None,
        on_evicted: Callable[[int], None] = lambda turns: None,
        max_bytes: int = MAX_HELD_BYTES,
    ) -> None:
        self.rules = rules
        self.max_bytes = max_bytes
        self.source = source
        self._observe = observe
        self._on_closed = on_closed
        self._on_opened = on_opened
        self._on_evicted = on_evicted
        self._numbers = count(1)
        self._own: dict[str, OwnTask] = {}
        """By the id of their turn."""
        self._named: dict[str, OwnTask] = {}
        """Those that the agent has named, by task id."""
        self._ended: OrderedDict[str, OwnTask] = OrderedDict()
        """The latest tasks that were folded here and are over: what others still show of them is rarely news."""
        self.held_bytes = 0
        self._known: RecentKeys[str] = RecentKeys(_MAX_KNOWN)
        """Ids of tasks that were folded here or observed: a new one has another id."""
        self._observed: dict[str, BookEntry] = {}
        """Exchanges that are observed, and whose end is to be, by id."""
        self._answers: Recent[str, tuple[bytes, float]] = Recent(10_000)
        """The last single answer about a task, as a digest, and when it was observed: polls repeat it."""
        self.live: ChangeTracker | None = None
        """Set while somebody looks at open turns."""

    @property
    def open_turns(self) -> list[Turn]:
        """Those that are folded here, as they began."""
        return [own.turn for own in self._own.values()]

    @property
    def number_answered(self) -> int:
        """Number of those that have their answer: they close when their streams end or have lingered."""
        return sum(own.fold.answered for own in self._own.values())

    def latest_open(self, most: int, turn_id: str | None = None) -> list[Turn]:
        """Copies of the open turns that are folded here and began last, or of the one with this id, as far as known."""
        found = [own for own in self._own.values() if turn_id in (None, own.turn.turn_id)]
        latest = sorted(found, key=lambda own: own.turn.started_at)[-most:]
        return [turn for own in latest for turn in own.fold.open_turns()]

    # ── exchanges ───────────────────────────────────────────────────────────────────────────────────────

    def open(self, turn: Turn, now: float, *, returns_at_once: bool = False, if_generation: int = 0) -> BookEntry:
        """A user message was sent; one that continues a task names it (`turn.task_id`).

        `returns_at_once`: its answer does not wait for the agent's work; `if_generation`: see `capture.task_fold`.
        """
        self._on_opened(turn)
        exchange = BookEntry(self._new_id(), turn.task_id, turn, touched_at=now, shown_at=now)
        sent = {
            "kind": "sent",
            "exchange": exchange.exchange_id,
            "at": now,
            "size": len(turn.user_text) + len(str(turn.user_parts or "")),
            "returns_at_once": returns_at_once,
            "if_generation": if_generation,
        }
        if turn.task_id:
            self._observed[exchange.exchange_id] = exchange
            self._put(exchange, {**sent, "turn": turn_to_json(turn)})
            return exchange
        exchange.own = own = self._own[turn.turn_id] = OwnTask(TaskFold(self.rules), turn, now)
        own.exchanges[exchange.exchange_id] = exchange
        own.held.append(sent)
        own.fold.sent(exchange.exchange_id, turn, now, returns_at_once=returns_at_once, if_generation=if_generation)
        return exchange

    def follow(self, *, notified: str = "") -> BookEntry:
        """An exchange that follows tasks without a message of its own: get, list, subscribe, cancel.

        `notified`: the id of the webhook whose notifications it is.
        """
        name = f"webhook {notified}" if notified else self._new_id()
        return BookEntry(name, notified=bool(notified))

    def feed(self, exchange: BookEntry, event: Mapping[str, Any], now: float, *, live: bool, size: int) -> str:
        """Take one v1.0 event of an exchange; returns the id of the task it is about ("" for none).

        `size` is the most memory that it can take (`memory.of_json` of what was received).
        `live` says that more may come (a stream), as opposed to a single answer.
        """
        task_id = task_id_of(event)
        exchange.task_id = exchange.task_id or task_id
        exchange.touched_at = now
        exchange_id, notified = exchange.exchange_id, exchange.notified
        own = exchange.own or (None if exchange_id in self._observed else self._named.get(task_id))
        observation = {
            "kind": "event",
            "exchange": exchange_id,
            "at": now,
            "size": size,
            "event": event,
            "live": live,
            "notified": notified,
        }
        if own is None:
            if exchange.task_id and (exchange.turn is not None or not self._is_no_news(exchange, observation)):
                if live and not notified:
                    self._observed[exchange_id] = exchange
                self._put(exchange, observation)
            return task_id
        exchange.own, own.exchanges[exchange_id] = own, exchange
        own.held.append(observation)
        own.held_bytes += size
        self.held_bytes += size
        own.fold.event(exchange_id, event, now, live=live, notified=notified)
        turn_id = own.turn.turn_id
        if task_id and exchange.turn is own.turn:
            if messages_in(event) > 1 or (self._named.get(task_id, own) is not own) or self._is_known(own, task_id):
                self._hand_over(own, task_id)
            else:
                self._named[task_id] = own
        if self.held_bytes > self.max_bytes:
            self._make_room(now)
        elif own.held_bytes > MAX_OWN_BYTES and own.fold.task_id and turn_id in self._own:
            self._hand_over(own, own.fold.task_id)
        if self.live is not None and turn_id in self._own:
            self.live.changed(turn_id, own.fold.open_turns)
        return task_id

    def touch(self, exchange: BookEntry, now: float) -> None:
        """The exchange shows that it is alive, and nothing else (a comment in a stream)."""
        exchange.touched_at = now
        if exchange.own is not None:
            exchange.own.fold.alive(exchange.exchange_id, now)

    def end(self, exchange: BookEntry, now: float, *, problem: Finding | None = None, final: bool = False) -> None:
        """The exchange ended. `problem` says what went wrong; `final` that nothing can complete the turn later."""
        own, is_opener = exchange.own, exchange.turn is not None
        ended = {
            "kind": "ended",
            "exchange": exchange.exchange_id,
            "at": now,
            "problem": None if problem is None else problem.to_dict(),
            "final": final,
            "findings": list(map(Finding.to_dict, exchange.findings)),
        }
        exchange.turn = None
        if own is not None:
            own.held.append(ended)
            own.fold.ended(exchange.exchange_id, now, problem=problem, final=final, findings=exchange.findings)
            del own.exchanges[exchange.exchange_id]
            if own.is_complete:
                self._close(own)
            elif is_opener and not own.fold.is_over:
                self._hand_over(own, own.fold.task_id)
        elif self._observed.pop(exchange.exchange_id, None) or (exchange.task_id and (exchange.findings or problem)):
            self._put(exchange, ended)
        elif exchange.task_id in self._ended:
            fold_one(self._ended[exchange.task_id].fold, ended)

    def report(self, task_id: str, finding: Finding, now: float) -> None:
        """Add a finding, once, to the open turn of a task, or else to its last one."""
        observation = {"kind": "finding", "exchange": "", "at": now, "finding": finding.to_dict()}
        own = self._named.get(task_id)
        if own is not None:
            own.held.append(observation)
            own.fold.found(finding)
        else:
            self._known.add(task_id)
            self._observe(task_id, observation)

    def over(self, task_id: str) -> None:
        """The task has ended, by what was observed of it: its id may be used again."""
        self._known.discard(task_id)

    # ── time ────────────────────────────────────────────────────────────────────────────────────────────

    def expire(self, now: float) -> None:
        """See to exchanges that take long: they are observed from now on; those that the agent has named no task are
        closed when they were silent for too long. What exceeds `MAX_AT_ONCE` is left to the next call."""
        long = []
        for own in list(self._own.values()):
            own.fold.expire(now)
            if own.is_complete:
                self._close(own)
            elif own.fold.task_id and now - own.began_at > MAX_OWN_S:
                long.append(own)
        for own in long[:MAX_AT_ONCE]:
            self._hand_over(own, own.fold.task_id)
        late_s = self.rules.timeout_s / 4
        quiet = (exchange for exchange in self._observed.values() if exchange.touched_at - exchange.shown_at > late_s)
        for exchange in list(islice(quiet, MAX_AT_ONCE)):
            self._put(exchange, {"kind": "alive", "exchange": exchange.exchange_id, "at": exchange.touched_at})

    def close_all(self, now: float) -> None:
        """The proxy stops. What is known of tasks is observed; turns without a task are closed as incomplete."""
        for own in list(self._own.values()):
            if own.fold.task_id:
                self._hand_over(own, own.fold.task_id)
            else:
                own.fold.stop(now)
                self._close(own)

    # ── inside ──────────────────────────────────────────────────────────────────────────────────────────

    def _new_id(self) -> str:
        return f"{self.source} {next(self._numbers)}"

    def _is_known(self, own: OwnTask, task_id: str) -> bool:
        """Whether a task that the agent has just named for an exchange goes on; else it is new, if its id is not."""
        if task_id in self._named or task_id not in self._known:
            return False
        before = self._ended.get(task_id)
        return before is None or own.turn.started_at <= before.fold.touched_at

    def _is_no_news(self, exchange: BookEntry, observation: Observation) -> bool:
        """Whether what an exchange without a turn shows is known: of a task that is over, or in the last single answer
        about it, unless that was long ago."""
        task_id, now = exchange.task_id, observation["at"]
        if (own := self._ended.get(task_id)) is not None:
            fold_one(own.fold, observation)
            is_news, own.fold.late_findings = bool(own.fold.late_findings), []
            return not is_news
        if observation["live"]:
            return False
        event = repr(observation["event"]).encode("utf-8", "surrogatepass")
        digest = blake2b(event, digest_size=16).digest()
        before, at = self._answers.get(task_id, (b"", 0.0))
        if before == digest and now - at < self.rules.timeout_s / 4:
            return True
        self._answers[task_id] = digest, now
        return False

    def _put(self, exchange: BookEntry, observation: Observation) -> None:
        task_id, exchange.shown_at = exchange.task_id, observation["at"]
        own = self._named.get(task_id) or self._ended.pop(task_id, None)
        if own is not None:  # it is not the only exchange
            self._hand_over(own, task_id)
        self._known.add(task_id)
        self._observe(task_id, observation)

    def _leave(self, own: OwnTask) -> list[BookEntry]:
        """It is not folded here any more; returns the exchanges that go on."""
        self._own.pop(own.turn.turn_id, None)
        if self._named.get(own.fold.task_id) is own:
            del self._named[own.fold.task_id]
        exchanges = list(own.exchanges.values())
        own.exchanges.clear()
        for exchange in exchanges:
            exchange.own = None
        return exchanges

    def _close(self, own: OwnTask) -> None:
        """Its turn is folded, and complete as far as it ever will be."""
        for exchange in self._leave(own):
            exchange.turn = None
        closed, own.fold.closed = own.fold.closed, []
        if task_id := own.fold.task_id:
            self._known.add(task_id)
            if (before := self._ended.pop(task_id, None)) is not None:
                self.held_bytes -= before.held_bytes
            self._ended[task_id] = own
            if len(self._ended) > _MAX_ENDED:
                self.held_bytes -= self._ended.popitem(last=False)[1].held_bytes
        else:
            self.held_bytes -= own.held_bytes
        for turn in closed:
            self._on_closed(turn)

    def _hand_over(self, own: OwnTask, task_id: str) -> None:
        """All that was seen of the task is observed, and folded with what else is known of it."""
        for exchange in self._leave(own):
            exchange.task_id = task_id
            if not exchange.notified:
                self._observed[exchange.exchange_id] = exchange
        self.held_bytes -= own.held_bytes
        other = self._named.get(task_id) or self._ended.pop(task_id, None)
        if other is not None:
            self._hand_over(other, task_id)
        self._known.add(task_id)
        for observation in own.held:
            if observation["kind"] == "sent":  # with the turn as it began: the fold has added to it
                began = replace(own.turn, task_id="", findings=[], first_event_at=None, status="open")
                observation = {**observation, "turn": turn_to_json(began)}
            self._observe(task_id, observation)
        own.turn.task_id = task_id

    def _make_room(self, now: float) -> None:
        """Give up the largest tasks where too much is held: first those that are over."""
        while self._ended and self.held_bytes > self.max_bytes // 2:
            self.held_bytes -= self._ended.popitem(last=False)[1].held_bytes
        evicted = 0
        for own in sorted(self._own.values(), key=lambda own: own.held_bytes, reverse=True):
            if self.held_bytes <= self.max_bytes // 2:
                break
            if own.fold.task_id:
                self._hand_over(own, own.fold.task_id)
            else:
                evicted += 1
                own.fold.stop(now, f"open turns take more than {self.max_bytes / 1024**2:g} MiB")
                self._close(own)
        if evicted:
            self._on_evicted(evicted)
