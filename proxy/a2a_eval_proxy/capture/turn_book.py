"""The turns that are open: fed with events from any exchange, closed when the agent has answered.

A turn is not an exchange: a non-blocking send is completed by later polling, a dropped stream by a subscription,
and a task may span several turns. The book joins them by task id. `phases.TRANSITIONS` says how a turn proceeds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from a2a_tool_capture import Finding, TaskMerger, ToolCall
from a2a_tool_capture.dialects import DIALECT_MARKS
from a2a_tool_capture.wire import INTERRUPTED_STATES, SETTLED_STATES, TERMINAL_STATES, UNREAD_KEY

from ..protocol.answers import task_id_of
from ..turn import Turn
from .lookups import MAX_WAITING, Lookup, Lookups, TaskHistory, TaskStore
from .phases import TRANSITIONS, TurnEvent, TurnPhase
from .records import (
    ASKED_KEY,
    EARLIER_UNKNOWN,
    SHOWN_LATE,
    OpenTurn,
    StatusMark,
    TaskRecord,
    TaskWatcher,
    incomplete_because,
    kept_of,
)
from .task_table import MAX_OPEN_BYTES, TaskTable
from .turn_changes import ChangeTracker

MAX_WAITING_BYTES = 128 * 1024
"""Maximum size of an event that waits in a queue that no turn has claimed; larger ones are left out."""

LINGER_S = 2.0
"""Longest time that the stream of an answered turn may stay open before the turn closes, and that a turn waits for
evidence of its own whose answer repeats the end of the turn before."""

_NEXT_CAME = "the next message came before the task ended or asked its user"


class TurnBook:
    """Joins what exchanges report into turns. Sans-io: times are passed in, closed turns are passed to `on_closed`.

    `on_opened` receives every turn at its start; the same object changes until `on_closed` receives it.
    `store` is asked about tasks that the book does not know: an earlier process may have had them. Without one, the
    book knows only its own traffic, and closes every turn at the end.

    `turn_timeout_s` is the time after which a silent turn is closed, whether or not its request is open, unless
    `notified` has its task. The book keeps at most `max_open` tasks and `max_open_bytes` of memory. Beyond that, it
    forgets tasks without an open turn first; then it closes turns as incomplete: those that take a quarter of the
    memory, then those whose client has left, then the others, the longest silent first. `on_evicted` receives the
    number of turns closed so. `require_artifact_uri` and `dialects` are TaskMerger's.
    """

    def __init__(
        self,
        on_closed: Callable[[Turn], None],
        *,
        on_opened: Callable[[Turn], None] = lambda turn: None,
        store: TaskStore | None = None,
        turn_timeout_s: float = 300.0,
        max_open: int = 50_000,
        max_open_bytes: int = MAX_OPEN_BYTES,
        on_evicted: Callable[[int], None] = lambda turns: None,
        notified: Container[str] = (),
        require_artifact_uri: bool = True,
        dialects: Collection[str] = (),
    ) -> None:
        self._on_closed = on_closed
        self._on_opened = on_opened
        self.lookups = Lookups(store)
        self._on_evicted, self._notified = on_evicted, notified
        self._evicting = False
        self._tasks = TaskTable(TaskMerger, max_open_bytes, max_open)
        self.live: ChangeTracker | None = None
        """Who watches open turns, if anyone does."""
        self.follow(store, turn_timeout_s=turn_timeout_s, require_artifact_uri=require_artifact_uri, dialects=dialects)

    def follow(
        self, store: TaskStore | None, *, turn_timeout_s: float, require_artifact_uri: bool, dialects: Collection[str]
    ) -> None:
        """Go by these rules from now on. What was merged before stays as it is."""
        self._store = self.lookups.store = store
        self._timeout_s = turn_timeout_s
        self._silence = f"no event arrived for {turn_timeout_s:g} s"
        self._new_merger = partial(TaskMerger, require_artifact_uri=require_artifact_uri, dialects=dialects)
        self._tasks.new_merger = self._new_merger
        self._keeps_text = not dialects
        """Whether of a chunk without metadata only the text is kept."""
        self.unread = tuple(mark for mark in DIALECT_MARKS if mark.dialect not in dialects)
        """Marks of dialects that are not read."""

    @property
    def open_turns(self) -> list[Turn]:
        """Turns not yet closed, those without a task first."""
        return self._tasks.open_turns

    def latest_open(self, most: int, turn_id: str | None = None) -> list[Turn]:
        """Copies of the open turns that began last, at most `most`, or of the one with this id, as far as known."""
        return self._tasks.latest_open(most, turn_id)

    @property
    def answered(self) -> int:
        """Number of open turns that have their answer: they close when their streams end or have lingered."""
        return self._tasks.answered

    @property
    def held_bytes(self) -> int:
        """Bytes of memory, at most."""
        return self._tasks.held_bytes

    @property
    def task_ids(self) -> list[str]:
        """The tasks of which something is known, or awaited."""
        return [*self._tasks.named, *self.lookups.task_ids]

    def knows(self, turn_id: str) -> bool:
        """Whether the turn is open here."""
        return any(turn.turn_id == turn_id for turn in self.open_turns)

    # ── exchanges ───────────────────────────────────────────────────────────────────────────────────────

    def open(self, turn: Turn, now: float, *, returns_at_once: bool = False, if_generation: int = 0) -> TaskWatcher:
        """A user message was sent. If it continues a task (`turn.task_id`), calls so far belong to earlier turns.

        `returns_at_once` and `if_generation`: see `TaskWatcher`.
        """
        self._on_opened(turn)
        watcher = self._tasks.add(turn, now)
        watcher.returns_at_once, watcher.if_generation = returns_at_once, if_generation
        if turn.task_id and turn.task_id not in self._tasks.named:
            unclaimed = self.lookups.pending.get(turn.task_id)
            if unclaimed is not None and unclaimed.unclaimed_at is not None:  # it came before the message
                self._tasks.drop(unclaimed)
                self.lookups.answered(turn.task_id)
            watcher.lookup = self.lookups.of_turn(turn)
        self._begin(watcher, TurnEvent.SENT if watcher.lookup is None else TurnEvent.STORE_ASKED, now)
        if watcher.lookup is not None:
            watcher.lookup.waiting.append(partial(self._begin, watcher, TurnEvent.STORE_ANSWERED, now))
        if self._tasks.is_full:
            self._make_room(now)
        return watcher

    def _begin(self, watcher: TaskWatcher, event: TurnEvent, now: float) -> None:
        """Step the phase of a new turn; once it waits for the agent, it continues the task that its message names."""
        open_turn = watcher.record.open if watcher.record is not None else None
        if open_turn is not None and open_turn.step(event, now) is TurnPhase.WAITING:
            self._continue(watcher, now)

    def _continue(self, watcher: TaskWatcher, now: float) -> None:
        """Continue the task that the message of a new turn names, if it names one; after the turn before, if that goes
        on."""
        open_turn = watcher.record.open if watcher.record is not None else None
        if open_turn is not None and open_turn.phase is TurnPhase.WAITING and open_turn.turn.task_id:
            self._resume(open_turn.turn.task_id, watcher, open_turn, now)
            if watcher.behind is not None:
                self._waits(watcher, partial(self._continue, watcher, now), now)

    def watch(self, *, notified: str = "") -> TaskWatcher:
        """An exchange that asks about tasks without a message of its own: get, list, subscribe, cancel.

        `notified`: the id of the webhook whose notifications it is.
        """
        return TaskWatcher(self._new_merger(), notified=bool(notified))

    def feed(self, watcher: TaskWatcher, event: Mapping[str, Any], now: float, *, live: bool, size: int) -> str:
        """Take one v1.0 event of an exchange; returns the id of the task it is about ("" for none).

        `size` is the most memory that it can take (`memory.of_json` of what was received).
        `live` says that more may come (a stream), as opposed to a single answer.
        """
        task_id = task_id_of(event)
        lookup = self._awaited(watcher, task_id, event, now)
        if lookup is None:
            self._feed(watcher, event, now, live, size, task_id)
            return task_id
        watcher.lookup = lookup
        if lookup.unclaimed_at is not None and (size > MAX_WAITING_BYTES or len(lookup.waiting) >= MAX_WAITING):
            return task_id
        lookup.waiting.append(partial(self._feed, watcher, event, now, live, size, task_id))
        if len(lookup.waiting) > MAX_WAITING:
            self.found(lookup.task_id, TaskHistory(known=False), now)
        else:
            self._tasks.hold_waiting(lookup, size)
            self._make_room(now)
        return task_id

    def _awaited(self, watcher: TaskWatcher, task_id: str, event: Mapping[str, Any], now: float) -> Lookup | None:
        """The question that what an exchange reports waits for: all that concerns a task waits in one queue."""
        lookup, record = watcher.lookup, watcher.record
        if lookup is not None and not lookup.answered:
            return lookup
        ours = record is not None and record.opener is watcher and record.open is not None
        if ours and record is not None and not record.task_id:
            return None  # a new task: nobody but this exchange can know it before, see `_bind`
        task_id = task_id or (record.task_id if record is not None else "")
        lookup = self.lookups.pending.get(task_id)
        if lookup is not None or ours or not task_id or task_id in self._tasks.named:
            return lookup
        return self.lookups.of_watcher(task_id, now)

    def _feed(
        self, watcher: TaskWatcher, event: Mapping[str, Any], now: float, live: bool, size: int, task_id: str
    ) -> None:
        if watcher.behind is not None:
            feed = partial(self._feed, watcher, event, now, live, size, task_id)
            if self._waits(watcher, feed, now, size):
                return
        record = watcher.record
        if record is not None and record.forgotten:
            self._tasks.let_go(watcher)
            record = None
        if record is not None and record.opener is watcher and record.open is not None:
            turn = record.open.turn
            turn.first_event_at = turn.first_event_at or max(now, turn.started_at)
        if task_id and (record is None or not record.task_id):
            record = self._bind(watcher, task_id, now)
            if watcher.waits:
                self._feed(watcher, event, now, live, size, task_id)
                return
        if record is None:
            return
        record.touched_at = now
        if ASKED_KEY in event and record.open is not None:
            turn = record.open.turn
            turn.links = turn.links and turn.links.with_children(event[ASKED_KEY])
        view = watcher.merger if watcher in record.streams else record.merger
        if UNREAD_KEY in event or (
            task_id != record.task_id and view.concerns_other(event)
        ):  # it says nothing of the state, and only its stream
            view.feed(event, now)  # shows which task it concerns
            return
        mark = StatusMark.of(event)
        if not record.task_id:  # a Message: it concerns this turn alone
            record.merger.feed(event, now)
            if "message" in event and record.open is not None:
                record.open.step(TurnEvent.ANSWER, now)
        elif watcher.notified:
            record.notice(watcher, event, mark, now)
            if record.open is not None and record.open.turn.in_store and record.answered:
                self._keep(record, now)  # it may linger
        elif not live:
            view, own = record.merger, record.opener is watcher and watcher.concludes(mark)
            if record.take_answer(event, mark, now, own=own):
                conclusive = own and (mark is None or not mark.repeats(record.status_before))
                record.update_answered(event, mark, now, conclusive=conclusive)
            record.followed = record.followed or record.opener is not watcher
            for stream in (*record.streams, *record.notified) if record.merger is not view else ():
                self._tasks.hold(stream)
        else:
            if watcher not in record.streams:
                record.attach(watcher, self._new_merger)
            if record.opener is not watcher and "task" not in event and record.is_past(event, mark):
                watcher.merger.skip(event)
                return
            record.merged(watcher.merger, event, mark, now)
            if record.streams[0] is watcher:
                record.update_answered(event, mark, now, conclusive=False)
            else:
                record.finished_by(watcher.merger, now)
        if record.open is None and (late := record.found_late(event, mark)) is not None:
            self._found_late(record.task_id, late, record.merger.turn_tool_calls if late is SHOWN_LATE else ())
        elif record.next is not None and record.answered:
            self._advance(record, TurnEvent.NEXT_MESSAGE, now)
        if self.live is not None:
            self.live.changed(record)
        holder = watcher if live and watcher.merger is not record.merger else record
        self._tasks.received(holder, kept_of(event, size) if self._keeps_text and "artifactUpdate" in event else size)
        if self._tasks.is_full:
            self._make_room(now)

    def touch(self, watcher: TaskWatcher, now: float) -> None:
        """The exchange shows that it is alive, and nothing else (a comment in a stream)."""
        if watcher.record is not None:
            watcher.record.touched_at = now

    def end(self, watcher: TaskWatcher, now: float, *, problem: Finding | None = None, final: bool = False) -> None:
        """The exchange ended. `problem` says what went wrong; `final` that nothing can complete the turn later."""
        record = watcher.record
        lookup = watcher.lookup
        if (lookup is None or lookup.answered) and record is not None and record.task_id:
            lookup = self.lookups.pending.get(record.task_id)
        if lookup is None or lookup.answered:
            self._end(watcher, now, problem, final)
            return
        lookup.waiting.append(partial(self._end, watcher, now, problem, final))
        if record is not None and record.opener is watcher and record.open is not None:
            record.open.step(TurnEvent.EXCHANGE_ENDED, now)

    def _end(self, watcher: TaskWatcher, now: float, problem: Finding | None, final: bool) -> None:
        if watcher.behind is not None and self._waits(watcher, partial(self._end, watcher, now, problem, final), now):
            return
        if problem is not None:
            watcher.findings.append(problem)
        record = watcher.record
        if record is None:
            return
        if watcher in record.notified:
            record.notified.remove(watcher)
            if watcher.merger is not record.merger:
                self._tasks.drop(watcher)
        elif watcher in record.streams:
            record.detach(watcher)
            self._tasks.drop(watcher)
            if watcher.merger is not record.merger:
                self._tasks.hold(record)
        ours = record.opener is watcher
        if ours:
            record.opener = None
            if watcher.merger is not record.merger:
                self._tasks.drop(watcher)
        open_turn = record.open
        if open_turn is None:
            return
        if watcher.findings:
            found = open_turn.turn.findings
            found += [one for one in watcher.findings if not record.task_id or one not in found]  # polls repeat them
        repeated = open_turn.phase is TurnPhase.RESUMED and record.merger.state in INTERRUPTED_STATES
        if repeated and ours and not watcher.returns_at_once and not record.streams and problem is None:
            step = TurnEvent.END_REPEATED if record.end_is_repeated else TurnEvent.ANSWER
            open_turn.step(step, now)  # the task repeated its question, and nothing followed
        if open_turn.phase is TurnPhase.ANSWERED and not record.streams:
            self._advance(record, TurnEvent.LAST_STREAM_ENDED, now)
            if not record.forgotten:
                self._make_room(now)
        elif ours and self._advance(record, TurnEvent.FAILED if final else TurnEvent.EXCHANGE_ENDED, now):
            if record.next is not None:
                self._advance(record, TurnEvent.NEXT_MESSAGE, now, _NEXT_CAME)
            else:
                self._keep(record, now)

    def found(self, task_id: str, history: TaskHistory, now: float) -> None:
        """The answer of the store: what it has of a task. What exchanges reported meanwhile is taken now."""
        lookup = self.lookups.pending.get(task_id)
        if lookup is None:
            return
        mine = {turn.turn_id for turn in lookup.turns}
        if history.open is not None and history.open.turn_id in mine:  # folded again: its process was killed
            open_turn = self._tasks.unnamed[history.open.turn_id].open
            if open_turn is not None:
                open_turn.gap = True
            history = replace(history, open=None)
        if history.open is not None or lookup.turns:
            self._learn(task_id, history, now)
        if not history.known:
            for turn in lookup.turns:
                turn.findings.append(EARLIER_UNKNOWN)
        elif history.closed and task_id not in self._tasks.named:  # it may show calls that these turns lack
            self._learn(task_id, history, now)
            self._tasks.ended(self._tasks.named[task_id])
        if lookup.turns or task_id in self._tasks.named or history.closed:
            if history.open is None:
                self.lookups.is_not_open(task_id, now)
            self._release(task_id)
        else:
            lookup.unclaimed_at = now

    def _release(self, task_id: str) -> None:
        """Take what has waited for a task."""
        lookup = self.lookups.answered(task_id)
        if lookup is not None:
            self._tasks.drop(lookup)
            for report in lookup.waiting:
                report()

    def report(self, task_id: str, finding: Finding, now: float) -> None:
        """Add a finding, once, to the open turn of a task."""
        lookup, record = self.lookups.pending.get(task_id), self._tasks.named.get(task_id)
        if lookup is not None and lookup.unclaimed_at is None:
            lookup.waiting.append(partial(self.report, task_id, finding, now))
        elif record is None or record.open is None:
            self._found_late(task_id, finding)
        elif finding not in record.open.turn.findings:
            record.open.turn.findings.append(finding)

    def _found_late(self, task_id: str, finding: Finding, calls: Sequence[ToolCall] = ()) -> None:
        if self._store is not None:
            self._store.found_late(task_id, finding, calls)

    def _learn(self, task_id: str, history: TaskHistory, now: float) -> None:
        """Take over what the store has of a task that a message continues, or that has an open turn."""
        record = self._tasks.named.get(task_id)
        if record is None:
            record = self._tasks.named[task_id] = TaskRecord(task_id, self._new_merger(), now)
        record.learn(history, now)
        self._tasks.hold(record)
        self._make_room(now)

    def withdraw(self, watcher: TaskWatcher) -> None:
        """Forget the turn that an exchange opened: it continues in another book."""
        record = watcher.record
        if record is not None and record.open is not None:
            self._tasks.unnamed.pop(record.open.turn.turn_id, None)
            record.open = None
            self._tasks.forget(record)

    def give_up(self, turn: Turn, now: float) -> None:
        """Close a turn that another process left open and that has been silent for too long."""
        if turn.state not in SETTLED_STATES:
            turn.findings.append(incomplete_because(self._silence))
        self._over(turn, now)

    def expire(self, now: float) -> None:
        """Close turns that were silent for `turn_timeout_s`, and answered ones whose stream lingers."""
        for task_id in self.lookups.stale(now):
            self._release(task_id)
        for record in self._tasks.records:
            open_turn, idle_s = record.open, now - record.touched_at
            if open_turn is None:
                if not record.streams and idle_s > record.kept_s(self._timeout_s):
                    self._tasks.forget(record)
                continue
            if record.opener is not None and record.opener.waits:
                continue
            row = TRANSITIONS[open_turn.phase]
            if TurnEvent.LINGERED in row:
                elsewhere = open_turn.finished_elsewhere if open_turn.phase is TurnPhase.FINISHED_ELSEWHERE else None
                if (now - open_turn.since if elsewhere is None else idle_s) > LINGER_S:
                    if elsewhere is not None:
                        record.adopt_view(elsewhere)
                    self._advance(record, TurnEvent.LINGERED, now)
            elif record.task_id in self._notified and idle_s > self._timeout_s / 4:
                record.touched_at = now
            elif TurnEvent.TIMED_OUT in row and idle_s > self._timeout_s:
                self._advance(record, TurnEvent.TIMED_OUT, now, self._silence)
            elif record.task_id and record.opener is None and record.is_news(now, self._timeout_s / 4):
                self._keep(record, now)
        self._make_room(now)

    def close_all(self, now: float) -> None:
        """The proxy stops. Turns of tasks stay open for another process where the store takes them; others are closed,
        as incomplete where they have no answer."""
        for task_id in self.lookups.task_ids:
            self.found(task_id, TaskHistory(known=False), now)
            self._release(task_id)
        self._end_waiting(now)
        for record in self._tasks.records:
            if record.open is None:
                continue
            if record.answered:
                self._advance(record, TurnEvent.STOPPED, now)
            elif not record.task_id or not self._keep(record, now):
                self._advance(record, TurnEvent.STOPPED, now, "the proxy stopped before the agent answered")

    # ── tasks ───────────────────────────────────────────────────────────────────────────────────────────

    def _bind(self, watcher: TaskWatcher, task_id: str, now: float) -> TaskRecord | None:
        """Learn which task an exchange is about. None where no open turn or known task is concerned."""
        own = watcher.record
        if own is None or own.open is None:
            watcher.record = self._tasks.named.get(task_id)
            return watcher.record
        open_turn = own.open
        record = self._resume(task_id, watcher, open_turn, now) if task_id in self._tasks.named else None
        if watcher.waits:
            return own
        if record is None:
            record = self._tasks.named[task_id] = own
            del self._tasks.unnamed[open_turn.turn.turn_id]
            own.task_id = task_id
            own.captured.append(open_turn.turn.turn_id)
            open_turn.step(TurnEvent.TASK_STARTED, now)
        open_turn.turn.task_id = task_id
        if task_id in self.lookups.pending:  # other exchanges knew the task before
            self._release(task_id)
            if watcher.record is None:  # a message of them has ended this turn
                watcher.record = self._tasks.named.get(task_id)
        return watcher.record

    def _resume(self, task_id: str, watcher: TaskWatcher, open_turn: OpenTurn, now: float) -> TaskRecord | None:
        """Continue a known task with a turn that had a record of its own. None for a task that is new, or whose turn
        goes on: then the exchange is `behind`."""
        record = self._tasks.named.get(task_id)
        if record is None:
            return None
        if record.goes_on:
            record.next = record.next or Lookup(task_id)
            watcher.behind = record.next
            return None
        if record.open is not None:
            self._advance(record, TurnEvent.NEXT_MESSAGE, now, None if record.answered else _NEXT_CAME)
        if not open_turn.turn.task_id and record.was_over(open_turn.turn.started_at):
            self._tasks.forget(record)  # its id is used again, for a new task
            return None
        if record.opener is not None and record.opener not in record.streams:
            self._tasks.let_go(record.opener)
        self._tasks.drop(self._tasks.unnamed.pop(open_turn.turn.turn_id))
        for notified in record.notified:
            self._tasks.drop(notified)
        record.continue_with(open_turn, watcher, now)
        open_turn.step(TurnEvent.TASK_RESUMED, now)
        watcher.record = record
        self._tasks.hold(record)
        if watcher.merger is not record.merger:
            self._tasks.hold(watcher)
        return record

    def _waits(self, watcher: TaskWatcher, report: Callable[[], object], now: float, size: int = 0) -> bool:
        """Keep what an exchange reports for the end of the turn before, if its own turn begins then."""
        queue = watcher.behind
        if queue is None or queue.answered:
            return False
        queue.waiting.append(report)
        if len(queue.waiting) > MAX_WAITING:
            self._advance(self._tasks.named[queue.task_id], TurnEvent.NEXT_MESSAGE, now, _NEXT_CAME)
        else:
            self._tasks.hold_waiting(queue, size)
            self._make_room(now)
        return True

    def _end_waiting(self, now: float) -> None:
        """Close the turns for whose end others wait."""
        for record in self._tasks.records:
            while record.next is not None:
                self._advance(record, TurnEvent.NEXT_MESSAGE, now, _NEXT_CAME)

    def _make_room(self, now: float) -> None:
        """Give up the least important tasks where too much is held; see the class."""
        why = "" if self._evicting else self._tasks.why_full()
        if not why:
            return
        self._evicting = True
        try:
            for task_id in self.lookups.task_ids if self._tasks.bytes_full else ():
                self.found(task_id, TaskHistory(known=False), now)
                self._release(task_id)
            if self._tasks.bytes_full:
                self._end_waiting(now)
            evicted = 0
            for record in self._tasks.to_evict():
                while record.open is not None:
                    evicted += 1
                    self._advance(record, TurnEvent.EVICTED, now, why)
                self._tasks.forget(record)
            if evicted:
                self._on_evicted(evicted)
        finally:
            self._evicting = False

    def _keep(self, record: TaskRecord, now: float) -> bool:
        """Pass a copy of the open turn to the store; returns whether the store took it."""
        if record.open is None or self._store is None or not self._store.keep_open(record.copy_of_turn(record.open)):
            return False
        record.open.turn.in_store, record.open.stored_at = True, now
        return True

    def _advance(self, record: TaskRecord, event: TurnEvent, now: float, incomplete: str | None = None) -> bool:
        """Step the phase, and close the turn where that is its end: as incomplete, if there is a reason.

        Returns whether the turn is still open.
        """
        open_turn = record.open
        if open_turn is None or open_turn.step(event, now) is not TurnPhase.CLOSED:
            return open_turn is not None
        if not record.task_id:
            del self._tasks.unnamed[open_turn.turn.turn_id]
        turn = record.finish(open_turn, incomplete, self.unread)
        self._over(turn, now)
        if not record.task_id:
            self._tasks.forget(record)
        elif record.merger.state in TERMINAL_STATES:
            self._tasks.ended(record)
        else:
            self._tasks.hold(record)
        if record.next is not None:
            queue, record.next = record.next, None
            queue.answered = True
            self._tasks.drop(queue)
            for report in queue.waiting:
                report()
            self._make_room(now)
        return False

    def _over(self, turn: Turn, now: float) -> None:
        turn.ended_at = max(now, turn.started_at)  # a clock may have been set back
        turn.status = "pending"
        if turn.task_id:
            self.lookups.is_not_open(turn.task_id, now)
        self._on_closed(turn)
