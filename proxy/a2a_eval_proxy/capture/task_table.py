"""The tasks and open turns that the turn book knows, and the memory that they take."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from operator import attrgetter, itemgetter
from sys import getsizeof

from a2a_tool_capture import TaskMerger

from ..memory import HeldBytes, measured
from ..turn import Turn
from .lookups import Lookup
from .phases import TRANSITIONS, TurnEvent, TurnPhase
from .records import OpenTurn, TaskRecord, TaskWatcher

MAX_OPEN_BYTES = 64 * 1024 * 1024
"""Limit of memory for tasks and open turns."""

_FREED_SHARE = 8
"""An eviction frees an eighth of the limit at once: finding the oldest takes time."""

_MEASURED_SHARE = 4
"""Views are measured after as much as a quarter of the limit was received: that takes time, too."""

_RECORD_BYTES = 4_000
"""Memory of a turn with its record and its view, before anything was received."""

_HAVE_ANSWER = frozenset({TurnPhase.ANSWERED, TurnPhase.REPEATED, TurnPhase.FINISHED_ELSEWHERE, TurnPhase.ENDED_EARLY})

_MAX_ENDED = 1_000
"""Maximum number of tasks that are remembered after their end: what other exchanges still show of them is not new."""


class TaskTable:
    """Records by task, and the bytes held by them, by views of their streams, and by events that wait for the store.

    At most `max_bytes` and `max_tasks` are allowed: once `is_full`, the caller evicts if `why_full` says why. What is
    received counts with the most memory that it can take (`memory.of_json`). That is often too much, since views keep a
    part, or replace earlier events: before something is given up for it, they are measured.
    """

    def __init__(self, new_merger: Callable[[], TaskMerger], max_bytes: int, max_tasks: int) -> None:
        self.new_merger = new_merger
        self._held = HeldBytes(max_bytes)
        self._max_tasks = max_tasks
        self.named: dict[str, TaskRecord] = {}
        """By task id."""
        self.unnamed: dict[str, TaskRecord] = {}
        """Those of turns for which the agent has named no task yet, by turn id."""
        self._ended: dict[str, TaskRecord] = {}
        """Of `named`, those whose task has ended, the latest last."""
        self.is_full = False
        """Whether more may be held than is allowed."""

    @property
    def records(self) -> list[TaskRecord]:
        """All records, those without a task first."""
        return [*self.unnamed.values(), *self.named.values()]

    @property
    def open_turns(self) -> list[Turn]:
        return [record.open.turn for record in self.records if record.open is not None]

    def latest_open(self, most: int, turn_id: str | None = None) -> list[Turn]:
        """Copies of the open turns that began last, or of the one with this id, as far as they are known."""
        started = [
            (record.open.turn.started_at, record, record.open)
            for record in self.records
            if record.open and turn_id in (None, record.open.turn.turn_id)
        ]
        latest = heapq.nlargest(most, started, key=itemgetter(0))
        return [record.copy_of_turn(open_turn) for _, record, open_turn in latest]

    @property
    def answered(self) -> int:
        """Number of open turns that have their answer."""
        return sum(record.open is not None and record.open.phase in _HAVE_ANSWER for record in self.records)

    def add(self, turn: Turn, now: float) -> TaskWatcher:
        """Add a record for a turn whose task is not known yet; returns the exchange that opened it."""
        merger = self.new_merger()
        watcher = TaskWatcher(merger)
        watcher.record = record = TaskRecord("", merger, now, OpenTurn(turn), watcher)
        self.unnamed[turn.turn_id] = record
        self.received(record, _RECORD_BYTES + getsizeof(turn.user_text))
        return watcher

    def ended(self, record: TaskRecord) -> None:
        """The task of a record has ended, and with it the turn: it is remembered among the latest ones."""
        self._ended.pop(record.task_id, None)
        self._ended[record.task_id] = record
        if len(self._ended) > _MAX_ENDED:
            self._forget_ended(len(self._ended) - _MAX_ENDED)

    def _forget_ended(self, number: int) -> None:
        for task_id in list(self._ended)[:number]:
            record = self._ended.pop(task_id)
            if record.open is None:
                self.forget(record)

    def forget(self, record: TaskRecord) -> None:
        """Remove a record; its exchanges only watch from now on."""
        if self.named.get(record.task_id) is record:
            del self.named[record.task_id]
            self._ended.pop(record.task_id, None)
        record.forgotten = True
        self._held.drop(record)
        if record.opener is not None:
            self.let_go(record.opener)
        for watcher in (*record.streams, *record.notified):
            self.let_go(watcher)

    def let_go(self, watcher: TaskWatcher) -> None:
        """Keep nothing for an exchange that continues after its turn was closed: it only watches from now on."""
        self._held.drop(watcher)
        watcher.record = None
        watcher.merger = self.new_merger()

    # ── memory ──────────────────────────────────────────────────────────────────────────────────────────

    @property
    def held_bytes(self) -> int:
        """Bytes held, at most."""
        return self._held.total

    @property
    def bytes_full(self) -> bool:
        return self._held.total > self._held.limit

    def why_full(self) -> str:
        """Why something has to be given up; "" where there is room."""
        self.is_full = False
        if self.bytes_full or len(self.named) > self._max_tasks:
            self._forget_ended(len(self._ended))
        if self.bytes_full:
            self._measure()
        if self.bytes_full:
            return f"open turns take more than {self._held.limit / 1024**2:g} MiB"
        return f"more than {self._max_tasks} tasks are open" if len(self.named) > self._max_tasks else ""

    def received(self, holder: TaskRecord | TaskWatcher, more: int) -> None:
        """`holder` was fed with what takes at most `more` bytes."""
        if self._held.add(holder, more) == more and isinstance(holder, TaskWatcher):
            self.hold(holder)  # a view that began as a copy
        else:
            holder.unmeasured += more
        self.is_full = self.is_full or self._held.total > self._held.limit or len(self.named) > self._max_tasks

    def hold(self, holder: TaskRecord | TaskWatcher) -> None:
        """Measure `holder` as it is now."""
        self._held.put(holder, _RECORD_BYTES + measured(*holder.kept))
        holder.unmeasured = 0
        self.is_full = True  # perhaps

    def _measure(self) -> None:
        """Measure what received most, where it may be that much less is held."""
        limit = self._held.limit
        fed = [one for one in self._held.holders if isinstance(one, TaskRecord | TaskWatcher) and one.unmeasured]
        if sum(one.unmeasured for one in fed) > limit // _MEASURED_SHARE:
            for holder in sorted(fed, key=attrgetter("unmeasured"), reverse=True):
                self.hold(holder)
                if self._held.total <= limit - limit // _MEASURED_SHARE:
                    return

    def hold_waiting(self, lookup: Lookup, more: int) -> None:
        """Count `more` bytes that wait for the store."""
        self._held.add(lookup, more)
        self.is_full = True  # perhaps

    def drop(self, holder: TaskRecord | TaskWatcher | Lookup) -> None:
        self._held.drop(holder)

    def to_evict(self) -> Iterator[TaskRecord]:
        """The records to give up, until enough is freed: the largest, then those of least importance."""
        most_bytes, most_tasks = (limit - limit // _FREED_SHARE for limit in (self._held.limit, self._max_tasks))
        candidates = [
            record
            for record in (*self.named.values(), *self.unnamed.values())
            if record.open is None or TurnEvent.EVICTED in TRANSITIONS[record.open.phase]
        ]
        for record in sorted(candidates, key=lambda one: (not self._held.is_large(one), *one.importance)):
            if self._held.total <= most_bytes and len(self.named) <= most_tasks:
                return
            yield record
