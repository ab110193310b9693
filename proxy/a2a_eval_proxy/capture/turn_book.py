"""The turns that are open: fed with events from any exchange, closed when the agent has answered.

A turn is not an exchange: a non-blocking send is completed by later polling, a dropped stream by a subscription,
and a task may span several turns. The book joins them by task id.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any

from a2a_tool_capture import Finding, TaskMerger
from a2a_tool_capture.footprint import value_bytes
from a2a_tool_capture.wire import INTERRUPTED_STATES, SETTLED_STATES, TERMINAL_STATES, normalize_state

from ..turn import Turn
from .dialect_hints import DIALECT_MARKS
from .held_bytes import HeldBytes
from .lookups import MAX_WAITING, LookUp, Lookup, Lookups, TaskHistory
from .records import EARLIER_UNKNOWN, UNCOUNTED_BYTES, Stream, TaskRecord, incomplete_because, task_id_of

LINGER_S = 2.0
"""How long a settled task may keep its stream open before its turn closes all the same."""

WAITING_S = 3600.0
"""How long a task that waits for its user is remembered: his reply would else count its earlier calls as new."""

MAX_OPEN_BYTES = 64 * 1024 * 1024
"""Of memory, for all that is kept of tasks and open turns."""

_ROOM_SHARE = 8
"""Where there is no room, an eighth of all is given up at once: to find the oldest costs time."""


class TurnBook:
    """Joins what exchanges report into turns. Sans-io: times are passed in, closed turns come out of `on_closed`.

    `on_opened` is told of every turn at its start; what it is given changes until `on_closed` is given the same.
    `on_outliving` is given a copy of each turn that is still open when its exchange is over, and again when more came
    to be known of it; it returns whether it took the copy, for another process to go on with. `look_up` asks a store
    about a task, see `LookUp`: what earlier turns had, also with another process, is no call of a later turn. Without
    these two, the book knows what it was told itself, and closes every turn at the end.

    `turn_timeout_s` is how long a turn may stay open with nothing heard of it, be its request open or not. At most
    `max_open` tasks are kept, and `max_open_bytes` of memory. Beyond that, tasks without an open turn are forgotten
    first; then turns are closed as incomplete: what alone takes a quarter of all, then those whose client has left,
    then the others, in the order in which they were last heard of. `on_evicted` gets the number of turns closed so.
    `require_artifact_uri` and `dialects` are TaskMerger's.
    """

    def __init__(
        self,
        on_closed: Callable[[Turn], None],
        *,
        on_opened: Callable[[Turn], None] = lambda turn: None,
        on_outliving: Callable[[Turn], bool] = lambda turn: False,
        look_up: LookUp | None = None,
        turn_timeout_s: float = 300.0,
        max_open: int = 50_000,
        max_open_bytes: int = MAX_OPEN_BYTES,
        on_evicted: Callable[[int], None] = lambda turns: None,
        require_artifact_uri: bool = True,
        dialects: Collection[str] = (),
    ) -> None:
        self._on_closed = on_closed
        self._on_opened = on_opened
        self._on_outliving = on_outliving
        self._lookups = Lookups(look_up)
        self._timeout_s = turn_timeout_s
        self._max_open = max_open
        self._held = HeldBytes(max_open_bytes)
        self._on_evicted = on_evicted
        self._making_room = False
        self._require_artifact_uri = require_artifact_uri
        self._dialects = dialects
        self.unread = tuple(mark for mark in DIALECT_MARKS if mark.dialect not in dialects)
        """What shows that an agent speaks a dialect that is not read."""
        self._tasks: dict[str, TaskRecord] = {}
        self._unbound: dict[str, tuple[Turn, Stream]] = {}

    @property
    def open_turns(self) -> list[Turn]:
        """Turns not yet closed, those without a task first."""
        bound = [record.turn for record in self._tasks.values() if record.turn is not None]
        return [turn for turn, _ in self._unbound.values()] + self._lookups.turns + bound

    @property
    def settling(self) -> int:
        """Open turns that have their answer: they close as soon as their stream ends or has lingered."""
        answered = sum(stream.answered_at is not None for _, stream in self._unbound.values())
        return (
            answered
            + self._lookups.ended
            + sum(
                record.turn is not None and (record.settled_at is not None or record.over is not None)
                for record in self._tasks.values()
            )
        )

    @property
    def held_bytes(self) -> int:
        """Memory of all that is kept of tasks and open turns, about."""
        return self._held.total

    # ── exchanges ───────────────────────────────────────────────────────────────────────────────────────

    def open(self, turn: Turn, now: float) -> Stream:
        """A user message was sent. If it continues a task (`turn.task_id`), calls so far belong to earlier turns."""
        self._on_opened(turn)
        stream = Stream(self._merger(), turn, touched_at=now)
        record = self._tasks.get(turn.task_id) if turn.task_id else None
        stream.lookup = self._lookups.of_turn(turn, list(record.captured) if record is not None else ())
        if stream.lookup is not None:
            stream.lookup.waiting.append(partial(self._open, stream, now))
            self._count_waiting(stream.lookup, stream.size, now)
        else:
            self._open(stream, now)
        return stream

    def _open(self, stream: Stream, now: float) -> None:
        turn = stream.turn
        assert turn is not None  # noqa: S101  # `open` makes it so
        record = self._resumed(turn.task_id, turn, now) if turn.task_id else None
        if record is not None:
            stream.record, stream.merger, record.opener = record, record.merger, stream
        else:
            self._unbound[turn.turn_id] = (turn, stream)
            self._hold(stream)
        self._make_room(now)

    def watch(self) -> Stream:
        """An exchange that asks about tasks without a message of its own: get, list, subscribe, cancel."""
        return Stream(self._merger())

    def feed(self, stream: Stream, event: Mapping[str, Any], now: float, *, live: bool) -> str:
        """Take one v1.0 event that `stream` delivered; returns the id of the task it is about ("" for none).

        `live` says that more may come (a stream), as opposed to a single answer.
        """
        task_id = task_id_of(event)
        if stream.lookup is None and stream.turn is None and task_id and not self._has_open(task_id):
            stream.lookup = self._lookups.of_watcher(task_id, _is_over(event), now)
        lookup = stream.lookup
        if lookup is not None and not lookup.answered:
            lookup.waiting.append(partial(self._feed, stream, event, now, live, task_id))
            if len(lookup.waiting) > MAX_WAITING:
                self.found(lookup.task_id, TaskHistory(known=False), now)
            else:
                self._count_waiting(lookup, value_bytes(event), now)
        else:
            self._feed(stream, event, now, live, task_id)
        return task_id

    def _feed(self, stream: Stream, event: Mapping[str, Any], now: float, live: bool, task_id: str) -> None:
        stream.touched_at = now
        if stream.turn is not None and stream.turn.first_event_at is None:
            stream.turn.first_event_at = max(now, stream.turn.started_at)
        record = stream.record
        if record is not None and self._tasks.get(record.task_id) is not record:  # forgotten meanwhile
            self._let_go(stream)
            record = None
        if record is None and task_id:
            record = self._bind(stream, task_id, now)
        if record is None:
            if stream.turn is not None:  # a Message, or junk: it concerns this turn alone
                stream.merger.feed(event)
                if "message" in event:
                    stream.answered_at = now
                self._count(stream, now)
            return
        record.touched_at = now
        if live:
            if stream not in record.streams:
                self._attach(stream, record)
            stream.merger.feed(event)
            leading = record.streams[0] is stream
        else:
            leading = self._take_answer(record, event)
        if leading:
            self._judge(record, event, now, conclusive=not live and stream.turn is record.turn)
        elif live and stream.merger.snapshot_seen and stream.merger.state in TERMINAL_STATES:
            record.over = stream.merger
        self._count(stream, now)

    def touch(self, stream: Stream, now: float) -> None:
        """The exchange shows that it is alive, and nothing else (a comment in a stream)."""
        stream.touched_at = now
        if stream.record is not None:
            stream.record.touched_at = now

    def end(self, stream: Stream, now: float, *, problem: Finding | None = None, final: bool = False) -> None:
        """The exchange is over. `problem` says what went wrong; `final` that nothing can complete the turn later."""
        lookup = stream.lookup
        if lookup is not None and not lookup.answered:
            lookup.waiting.append(partial(self._end, stream, now, problem, final))
            lookup.ended += 1
        else:
            self._end(stream, now, problem, final)

    def _end(self, stream: Stream, now: float, problem: Finding | None, final: bool) -> None:
        if problem is not None:
            stream.findings.append(problem)
        record, turn = stream.record, stream.turn
        if record is not None and stream in record.streams:
            self._detach(stream, record)
        if record is not None and record.opener is stream:
            record.opener = None
        if turn is not None and turn.turn_id in self._unbound:
            self._finish_unbound(stream, now)
        elif record is not None and record.turn is not None:
            found = record.turn.findings
            found.extend(finding for finding in stream.findings if finding not in found)  # polls repeat themselves
            ours = turn is record.turn
            waits_again = ours and record.resuming and problem is None and record.merger.state in INTERRUPTED_STATES
            settled = (record.settled_at is not None or waits_again) and not record.streams
            if settled or (final and ours):
                self._close(record, now, None)
            elif ours:
                record.outlives = True
                self._store(record, now)

    def found(self, task_id: str, history: TaskHistory, now: float) -> None:
        """The answer to `look_up`: what the store has of a task. What exchanges reported meanwhile is taken now."""
        lookup = self._lookups.answered(task_id)
        if lookup is None:
            return
        if history.open is None:
            self._lookups.is_not_open(task_id, now, over=lookup.over)
        if history.open is not None or lookup.turns:
            self._learn(task_id, history, now)
        if not history.known:
            for turn in lookup.turns:
                turn.findings.append(EARLIER_UNKNOWN)
        self._held.drop(lookup)
        for report in lookup.waiting:
            report()

    def _learn(self, task_id: str, history: TaskHistory, now: float) -> None:
        """Take over what another process had of a task; what this one was told itself it knows better."""
        record = self._tasks.get(task_id)
        if record is None:
            if not history.closed and history.open is None:
                return
            record = self._tasks[task_id] = TaskRecord(task_id, self._merger(), now)
        elsewhere = [turn for turn in history.closed if turn.turn_id not in record.captured]
        calls = [call for turn in elsewhere for call in turn.tool_calls]
        record.merger.know_earlier(calls, [turn.response_text for turn in elsewhere])
        record.captured += [turn.turn_id for turn in elsewhere]
        if history.open is not None and record.turn is None and history.open.turn_id not in record.captured:
            record.merger.begin_turn()
            record.merger.restore(history.open.tool_calls, history.open.response_text)
            record.turn, record.settled_at, record.over, record.resuming = history.open, None, None, False
            record.captured.append(history.open.turn_id)
            record.outlives, record.stored_at, record.touched_at = True, now, now
        self._hold(record)
        self._make_room(now)

    def _has_open(self, task_id: str) -> bool:
        record = self._tasks.get(task_id)
        return record is not None and record.turn is not None

    def knows(self, turn_id: str) -> bool:
        """Whether the turn is open here."""
        return any(turn.turn_id == turn_id for turn in self.open_turns)

    def give_up(self, turn: Turn, now: float) -> None:
        """Close a turn that another process left open: nobody has heard of it for too long."""
        turn.findings.append(incomplete_because(f"nothing was heard of it for {self._timeout_s:g} s"))
        self._over(turn, now)

    def expire(self, now: float) -> None:
        """Close what nobody has touched for `turn_timeout_s`, and what is answered while its stream lingers."""
        for turn, stream in list(self._unbound.values()):
            if stream.answered_at is not None and now - stream.answered_at > LINGER_S:
                self._finish_unbound(stream, now)
            elif stream.answered_at is None and now - stream.touched_at > self._timeout_s:
                turn.findings.append(incomplete_because(f"nothing was heard of it for {self._timeout_s:g} s"))
                self._finish_unbound(stream, now)
        for record in list(self._tasks.values()):
            idle_s = now - record.touched_at
            if record.turn is None:
                waiting = record.merger.state in INTERRUPTED_STATES
                if not record.streams and idle_s > (max(WAITING_S, self._timeout_s) if waiting else self._timeout_s):
                    self._forget(record)
            elif record.settled_at is not None:
                if now - record.settled_at > LINGER_S:
                    self._close(record, now, None)
            elif record.over is not None and idle_s > LINGER_S:
                self._go_on_with(record, record.over)
                self._close(record, now, None)
            elif idle_s > self._timeout_s:
                self._close(record, now, f"nothing was heard of the task for {self._timeout_s:g} s")
            elif record.outlives and self._is_news(record, now):
                self._store(record, now)

    def close_all(self, now: float) -> None:
        """The proxy stops. Turns of tasks stay open for another process where the store takes them; others are closed,
        as incomplete where they have no answer."""
        for task_id in self._lookups.task_ids:
            self.found(task_id, TaskHistory(known=False), now)
        for turn, stream in list(self._unbound.values()):
            if stream.answered_at is None:
                turn.findings.append(incomplete_because("the proxy was stopped before the agent answered"))
            self._finish_unbound(stream, now)
        for record in list(self._tasks.values()):
            if record.turn is not None:
                settled = record.settled_at is not None
                if settled or not self._store(record, now):
                    self._close(record, now, None if settled else "the proxy was stopped before the task settled")

    # ── tasks ───────────────────────────────────────────────────────────────────────────────────────────

    def _merger(self) -> TaskMerger:
        return TaskMerger(require_artifact_uri=self._require_artifact_uri, dialects=self._dialects)

    def _bind(self, stream: Stream, task_id: str, now: float) -> TaskRecord | None:
        """Learn which task an exchange is about. None where no open turn or known task is concerned."""
        turn = stream.turn
        if turn is None:
            stream.record = self._tasks.get(task_id)
            return stream.record
        del self._unbound[turn.turn_id]
        self._held.drop(stream)
        record = self._resumed(task_id, turn, now)
        if record is None:
            record = TaskRecord(task_id, stream.merger, now, turn, captured=[turn.turn_id])
            self._tasks[task_id] = record
            self._hold(record)
        turn.task_id = task_id
        stream.record, record.opener = record, stream
        return record

    def _resumed(self, task_id: str, turn: Turn, now: float) -> TaskRecord | None:
        """The known task that `turn` goes on with. None for one that is new, or over."""
        record = self._tasks.get(task_id)
        if record is not None and record.turn is not None:
            settled = record.settled_at is not None
            self._close(record, now, None if settled else "the next message came before the task settled")
            record = self._tasks.get(task_id)
        if record is None:
            return None
        if record.opener is not None and record.opener not in record.streams:
            self._let_go(record.opener)
        record.merger.begin_turn()
        record.turn = turn
        record.captured.append(turn.turn_id)
        record.settled_at = None
        record.over = None
        record.outlives, record.stored_at = False, None
        record.resuming = True
        record.touched_at = now
        self._hold(record)
        return record

    def _judge(self, record: TaskRecord, event: Mapping[str, Any], now: float, *, conclusive: bool) -> None:
        """Whether the task has settled, now that `event` came. `conclusive`: it is the whole answer to the message."""
        if "artifactUpdate" not in event:  # which says nothing of the state
            state = record.merger.state
            # A continued task may introduce itself in the state it waited in: that is no end.
            if record.resuming and "task" in event and state in INTERRUPTED_STATES and not conclusive:
                return
            record.settled_at = now if state in SETTLED_STATES or "message" in event else None
        record.resuming = False

    def _attach(self, stream: Stream, record: TaskRecord) -> None:
        record.streams.append(stream)
        # The first stream carries the task on; one that joins later has a view of its own, since both say the same.
        if len(record.streams) == 1:
            stream.merger = record.merger
        elif stream.merger is record.merger:
            stream.merger = self._merger()

    def _detach(self, stream: Stream, record: TaskRecord) -> None:
        record.streams.remove(stream)
        self._held.drop(stream)
        if stream.merger is record.merger and record.settled_at is None:  # the one that led was cut
            if record.over is not None:
                self._go_on_with(record, record.over)
            elif record.streams:
                self._go_on_with(record, record.streams[0].merger)

    def _go_on_with(self, record: TaskRecord, view: TaskMerger) -> None:
        view.continue_turn_of(record.merger)
        record.merger = view
        record.settled_at = record.touched_at if view.state in SETTLED_STATES else None

    def _take_answer(self, record: TaskRecord, event: Mapping[str, Any]) -> bool:
        """Merge a single answer (send result, GetTask, CancelTask). A live stream knows better until the task is over.

        What such a stream then still delivers is in the task already: it goes on in a view of its own.
        """
        if record.streams and isinstance(event.get("task"), dict):
            if not _is_over(event):
                return False
            record.merger = deepcopy(record.merger)
            for stream in record.streams:
                self._hold(stream)
        record.merger.feed(event)
        return True

    def _forget(self, record: TaskRecord) -> None:
        if self._tasks.get(record.task_id) is record:
            del self._tasks[record.task_id]
        self._held.drop(record)
        for stream in (*record.streams, *([record.opener] if record.opener is not None else [])):
            self._let_go(stream)

    def _let_go(self, stream: Stream) -> None:
        """Keep nothing for an exchange that goes on though its turn is closed: it only watches from now on."""
        self._held.drop(stream)
        stream.turn = stream.record = None
        stream.merger = self._merger()

    # ── memory ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _count(self, stream: Stream, now: float) -> None:
        """Count what is held of the exchange and its task, where that changed much since it was last counted."""
        record = stream.record
        self._recount(stream if record is None else record)
        if record is not None and stream.merger is not record.merger and stream in record.streams:
            self._recount(stream)
        self._make_room(now)

    def _recount(self, holder: Stream | TaskRecord) -> None:
        if not -UNCOUNTED_BYTES < holder.merger.size - holder.counted < UNCOUNTED_BYTES:
            self._hold(holder)

    def _hold(self, holder: Stream | TaskRecord) -> None:
        holder.counted = holder.merger.size
        self._held.put(holder, holder.size)

    def _count_waiting(self, lookup: Lookup, more: int, now: float) -> None:
        """Count what waits for the answer of a store."""
        lookup.size += more
        self._held.put(lookup, lookup.size)
        self._make_room(now)

    def _make_room(self, now: float) -> None:
        """Give up the oldest where too much is held; see the class."""
        full = self._held.total > self._held.limit
        if not (full or len(self._tasks) > self._max_open) or self._making_room:
            return
        self._making_room = True
        try:
            for task_id in self._lookups.task_ids if full else ():
                self.found(task_id, TaskHistory(known=False), now)
            mebibytes = self._held.limit / 1024**2
            why = (
                f"open turns take more than {mebibytes:g} MiB" if full else f"more than {self._max_open} tasks are open"
            )
            self._evict(why, now)
        finally:
            self._making_room = False

    def _evict(self, why: str, now: float) -> None:
        candidates: list[TaskRecord | Stream] = [
            *self._tasks.values(),
            *(stream for _, stream in self._unbound.values()),
        ]
        most_bytes, most_tasks = (limit - limit // _ROOM_SHARE for limit in (self._held.limit, self._max_open))
        evicted = 0
        for candidate in sorted(candidates, key=lambda one: (not self._held.is_large(one), *one.importance)):
            if self._held.total <= most_bytes and len(self._tasks) <= most_tasks:
                break
            if candidate.turn is not None:
                evicted += 1
            if isinstance(candidate, Stream):
                candidate.findings.append(incomplete_because(why))
                self._finish_unbound(candidate, now)
            else:
                self._close(candidate, now, why)
                self._forget(candidate)
        if evicted:
            self._on_evicted(evicted)

    # ── turns that outlive their exchange ───────────────────────────────────────────────────────────────────────

    def _store(self, record: TaskRecord, now: float) -> bool:
        """Give a copy of the open turn to the store; whether it took it."""
        turn = record.turn
        if turn is None:
            return False
        copy = replace(turn, findings=list(turn.findings), capture=replace(turn.capture))
        self._fill(copy, record.merger)
        if not self._on_outliving(copy):
            return False
        turn.in_store, record.stored_at = True, now
        return True

    def _is_news(self, record: TaskRecord, now: float) -> bool:
        """Whether the store is to hear again of an open turn: else another process would take it for abandoned."""
        if record.stored_at is None:
            return True
        return record.touched_at > record.stored_at and now - record.stored_at > self._timeout_s / 4

    # ── closing ─────────────────────────────────────────────────────────────────────────────────────────

    def _close(self, record: TaskRecord, now: float, incomplete: str | None) -> None:
        turn = record.turn
        if turn is None:
            return
        if incomplete is not None:
            turn.findings.append(incomplete_because(incomplete))
        record.turn = None
        if record.opener is not None:
            record.opener.turn = None
        self._finish(turn, record.merger, [], now)
        if record.merger.state in TERMINAL_STATES:
            self._forget(record)
        else:
            self._hold(record)

    def _finish_unbound(self, stream: Stream, now: float) -> None:
        turn = stream.turn
        assert turn is not None  # noqa: S101  # those without a turn are not unbound
        del self._unbound[turn.turn_id]
        self._finish(turn, stream.merger, stream.findings, now)
        self._let_go(stream)

    def _finish(self, turn: Turn, merger: TaskMerger, findings: list[Finding], now: float) -> None:
        self._fill(turn, merger)
        turn.findings.extend(findings)
        beside_the_point = [mark.finding for mark in self.unread] if turn.tool_calls else [EARLIER_UNKNOWN]
        for finding in beside_the_point:
            while finding in turn.findings:
                turn.findings.remove(finding)
        self._over(turn, now)

    def _fill(self, turn: Turn, merger: TaskMerger) -> None:
        turn.task_id = merger.task_id or turn.task_id
        turn.conversation_id = merger.context_id or turn.conversation_id
        turn.state = merger.state or turn.state
        turn.response_text = merger.response_text
        turn.tool_calls = merger.turn_tool_calls
        turn.capture.snapshot_seen = merger.snapshot_seen
        turn.capture.protocol_only = len(turn.tool_calls)
        turn.findings.extend(merger.findings)

    def _over(self, turn: Turn, now: float) -> None:
        turn.ended_at = max(now, turn.started_at)  # a clock may have been set back
        turn.status = "pending"
        if turn.task_id:
            self._lookups.is_not_open(turn.task_id, now)
        self._on_closed(turn)


def _is_over(event: Mapping[str, Any]) -> bool:
    """Whether this is a task that has ended."""
    task = event.get("task")
    status = task.get("status") if isinstance(task, dict) else None
    return isinstance(status, dict) and normalize_state(status.get("state")) in TERMINAL_STATES
