"""What the turn book keeps of exchanges, tasks and open turns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from sys import getsizeof
from typing import Any, NamedTuple

from a2a_tool_capture import Finding, Severity, TaskMerger
from a2a_tool_capture.dialects import DialectMark
from a2a_tool_capture.merge import MISSED_EVENTS
from a2a_tool_capture.wire import (
    INTERRUPTED_STATES,
    SETTLED_STATES,
    TERMINAL_STATES,
    generation_of,
    is_from_user,
    parts_text,
    timeline_of,
)

from ..protocol.answers import state_of
from ..turn import Turn
from .lookups import Lookup, TaskHistory
from .phases import TRANSITIONS, TurnEvent, TurnPhase

_WAITING_S = 3600.0
"""Time that a task waiting for its user is remembered: in a later turn its earlier calls would count as new."""

_SMALL_BYTES, _CHUNK_BYTES = 16_384, 700
"""Of a chunk in which only the text counts: its memory at most, and what its view keeps apart from the text."""

ASKED_KEY = "\x00asked"
"""In an event: the conversations of other agents that it names, a list."""

_ANSWERS = (TurnEvent.ANSWER, TurnEvent.QUESTION_REPEATED)
_WITHOUT_NEWS = (TurnPhase.RESUMED, TurnPhase.REPEATED)


class StatusMark(NamedTuple):
    """Distinguishes the statuses of a task; the time is the agent's (A2A 1.0, TaskStatus.timestamp)."""

    state: str = ""
    timestamp: str = ""
    message_id: str = ""

    @classmethod
    def of(cls, event: Mapping[str, Any]) -> StatusMark | None:
        """The mark of the status in a v1.0 event; None where it has none."""
        holder = event.get("task") or event.get("statusUpdate")
        status = holder.get("status") if isinstance(holder, dict) else None
        if not isinstance(status, dict):
            return None
        state, message, timestamp = status.get("state"), status.get("message"), status.get("timestamp")
        message_id = message.get("messageId") if isinstance(message, dict) else ""
        return cls(
            state if isinstance(state, str) else "",
            timestamp if isinstance(timestamp, str) else "",
            message_id if isinstance(message_id, str) else "",
        )

    def repeats(self, other: StatusMark) -> bool:
        """Whether it is the same status as the other one; False where nothing tells statuses apart."""
        if self.state != other.state or self.message_id != other.message_id:
            return False
        if self.timestamp == other.timestamp:
            return bool(self.timestamp or self.message_id) or self.state in TERMINAL_STATES
        try:  # bindings write the same time in several ways
            return _moment(self.timestamp) == _moment(other.timestamp)
        except ValueError:
            return False

    def is_before(self, other: StatusMark) -> bool:
        """Whether the agent had this status before the other one; False where that is not known."""
        if not self.timestamp or not other.timestamp:
            return False
        try:
            return _moment(self.timestamp) < _moment(other.timestamp)
        except ValueError:
            return False


NO_STATUS = StatusMark()


def _moment(timestamp: str) -> datetime:
    """Raises ValueError for a text that is no time."""
    moment = datetime.fromisoformat(timestamp)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


@dataclass(slots=True, eq=False)
class OpenTurn:
    """A turn with its phase."""

    turn: Turn
    phase: TurnPhase = TurnPhase.NEW
    since: float = 0.0
    """When the phase began, or the last answer came; seconds."""
    finished_elsewhere: TaskMerger | None = None
    """The whole task as shown by a stream that joined later and finished first."""
    stored_at: float | None = None
    """When the store last received a copy."""
    gap: bool = False
    """Whether it continues from another process, and no Task has shown since what that one may have seen last."""

    def step(self, event: TurnEvent, now: float) -> TurnPhase:
        """Take an event; returns the phase it leads to. Raises KeyError for an event the phase does not allow."""
        before = self.phase
        self.phase = after = TRANSITIONS[before][event]
        if after is not before or event in _ANSWERS:
            self.since = now
        return after


@dataclass(slots=True, eq=False)
class TaskWatcher:
    """One exchange that reports on a task, with a view of its own: two streams of a task repeat each other."""

    merger: TaskMerger
    record: TaskRecord | None = None
    """None where the exchange concerns no known task, or its turn was closed while it continues."""
    findings: list[Finding] = field(default_factory=list)
    lookup: Lookup | None = None
    """The question to the store about its task; until it is answered, everything the exchange reports waits."""
    notified: bool = False
    """Whether it is the notifications of a webhook: they may lag behind what a client of the task is shown."""
    settled: bool = False
    """Whether the latest status of which this webhook was notified is the end of the turn."""
    returns_at_once: bool = False
    """Whether its answer does not wait for the agent's work (`returnImmediately`)."""
    if_generation: int = 0
    """The generation of the task when the agent took the message of this exchange (A2A 1.1); 0: not known."""
    behind: Lookup | None = None
    """What it reports waits here for the end of the turn before, which another exchange is about to show."""
    unmeasured: int = 0
    """Bytes that it received since its view was measured."""

    @property
    def waits(self) -> bool:
        """Whether its turn begins when the turn before has ended."""
        return self.behind is not None and not self.behind.answered

    def concludes(self, mark: StatusMark | None) -> bool:
        """Whether the answer, with this status, of the exchange that opened a turn is the whole one to its message."""
        return not self.returns_at_once and (mark is None or mark.state in SETTLED_STATES)

    @property
    def turn(self) -> Turn | None:
        """The open turn that this exchange opened; None where it only watches (get, list, subscribe, cancel)."""
        record = self.record
        return record.open.turn if record is not None and record.open is not None and record.opener is self else None

    @property
    def kept(self) -> tuple[object, ...]:
        """What takes memory."""
        return (self.merger,)


@dataclass(slots=True, eq=False)
class TaskRecord:
    """What the book knows about one task: the merged view, the open turn, and the live streams that report on it.

    Each message starts a record of its own, without a name until the agent names a task that is not known.
    """

    task_id: str
    merger: TaskMerger
    touched_at: float
    open: OpenTurn | None = None
    opener: TaskWatcher | None = None
    """The exchange that opened the latest turn, until it ends."""
    streams: list[TaskWatcher] = field(default_factory=list)
    """Of clients. The first one leads: its events are merged into `merger`."""
    notified: list[TaskWatcher] = field(default_factory=list)
    """Webhooks notified in this turn, each with a view of its own. While no client follows, the first one leads: at
    first the one notified first, then the one that was notified of the end."""
    followed: bool = False
    """Whether a client has asked about the task since the message of the open turn."""
    status: StatusMark = NO_STATUS
    """The latest status of the task."""
    status_before: StatusMark = NO_STATUS
    """The latest status before the message of the open turn."""
    moved_on: bool = False
    """Whether another status was shown since."""
    next: Lookup | None = None
    """What waits for the end of the open turn: the next messages of the task, which came before it, with their
    answers."""
    captured: list[str] = field(default_factory=list)
    """Ids of the turns whose calls `merger` knows."""
    forgotten: bool = False
    rested: tuple[str, int] | None = None
    """State and number of calls with which the last turn ended, if the task then had ended or waited for its user."""
    foreign_messages: int | None = None
    """Of the user's messages in the history of the task, those without a turn of ours; None before any was seen."""
    earlier_unknown: bool = False
    """Whether calls of earlier turns are not known: a Task may show them in the next turn, or in a later one."""
    unmeasured: int = 0
    """Bytes that it received since its view was measured."""

    @property
    def kept(self) -> tuple[object, ...]:
        """What takes memory, without views that streams have of their own."""
        open_turn = self.open
        return (self.merger,) if open_turn is None else (self.merger, open_turn.turn, open_turn.finished_elsewhere)

    @property
    def answered(self) -> bool:
        """Whether the open turn, or else the last one, has its answer."""
        return self.merger.state in SETTLED_STATES if self.open is None else self.open.phase is TurnPhase.ANSWERED

    @property
    def goes_on(self) -> bool:
        """Whether the exchange of the open turn is still to show how it ends: a message that comes now begins the next
        turn after that."""
        return self.open is not None and self.opener is not None and not self.answered

    def was_over(self, moment: float) -> bool:
        """Whether the task had ended by then: a message without its name does not continue it."""
        return self.merger.state in TERMINAL_STATES and moment > self.touched_at

    @property
    def end_is_repeated(self) -> bool:
        """Whether all that the open turn has shown of the task's state is the end of the turn before."""
        return not self.moved_on and bool(self.status_before.state) and self.merger.turn_state is not None

    @property
    def importance(self) -> tuple[int, float]:
        """The least important is evicted first: a task without an open turn, then one without its client."""
        rank = 0 if self.open is None else 1 if self.opener is None and not self.streams else 2
        return rank, self.touched_at

    def kept_s(self, timeout_s: float) -> float:
        """Seconds for which a silent task without an open turn is remembered."""
        return max(_WAITING_S, timeout_s) if self.merger.state in INTERRUPTED_STATES else timeout_s

    def is_news(self, now: float, interval_s: float) -> bool:
        """Whether the store needs a newer copy of the open turn, or another process would take it for abandoned."""
        stored_at = None if self.open is None else self.open.stored_at
        return stored_at is None or (self.touched_at > stored_at and now - stored_at > interval_s)

    def copy_of_turn(self, open_turn: OpenTurn) -> Turn:
        """The open turn as far as it is known."""
        turn = open_turn.turn
        copy = replace(turn, findings=list(turn.findings), capture=replace(turn.capture))
        fill(copy, self.merger)
        return copy

    def learn(self, history: TaskHistory, now: float) -> None:
        """Take over what another process had of the task, except for what this process knows itself."""
        elsewhere = [turn for turn in history.closed if turn.turn_id not in self.captured]
        calls = [call for turn in elsewhere for call in turn.tool_calls]
        self.merger.know_earlier(calls, [turn.response_text for turn in elsewhere])
        self.captured += [turn.turn_id for turn in elsewhere]
        if history.closed and history.closed[-1].state in TERMINAL_STATES:
            self.rested = history.closed[-1].state or "", 0
        for turn in elsewhere:
            self.earlier_unknown = _leaves_unknown(turn, self.earlier_unknown)
        if history.open is not None and self.open is None and history.open.turn_id not in self.captured:
            self.merger.begin_turn()
            self.merger.restore(history.open.tool_calls, history.open.response_text)
            self.open, self.opener, self.touched_at = OpenTurn(history.open, stored_at=now), None, now
            self.open.step(TurnEvent.TAKEN_OVER, now)
            if history.open.state in SETTLED_STATES:
                self.open.step(TurnEvent.ANSWER, now)
            else:
                self.open.gap = True
            self.captured.append(history.open.turn_id)
        self.foreign_messages = 0  # the store may lack a turn

    def continue_with(self, open_turn: OpenTurn, opener: TaskWatcher, now: float) -> None:
        """The task continues with the next turn, which is sent now."""
        if 0 < opener.if_generation < self.merger.generation - 1:  # the message itself is one change
            open_turn.turn.findings.append(TAKEN_EARLIER)
        self.merger.begin_turn()
        self.open, self.opener, self.touched_at = open_turn, opener, now
        self.captured.append(open_turn.turn.turn_id)
        self.status_before, self.moved_on, self.followed, self.rested = self.status, False, False, None
        opener.merger = deepcopy(self.merger) if self.streams else self.merger
        if self.earlier_unknown:
            self.miss(open_turn.turn)
        self.notified.clear()  # they join again, with what is known by then
        for stream in self.streams:
            stream.merger = self.merger if stream is self.streams[0] else deepcopy(self.merger)

    def miss(self, turn: Turn) -> None:
        """Calls of earlier turns, which are not known, may be among those of this one."""
        if EARLIER_UNKNOWN not in turn.findings:
            turn.findings.append(EARLIER_UNKNOWN)

    def is_past(self, event: Mapping[str, Any], mark: StatusMark | None) -> bool:
        """Whether an event shows a status from before the message of the open turn, or before the latest status.

        `mark` is that of the event. Such an answer or notification was overtaken, or came before the agent has begun.
        The agent's generations decide, or its times.
        """
        if mark is None:
            return False
        repeated = mark.repeats(self.status_before) and mark.state in INTERRUPTED_STATES
        known = self.merger.generation
        generation = generation_of(event.get("task") or event["statusUpdate"]) if known else 0
        if generation not in (0, known):
            return repeated or generation < known
        return repeated or mark.is_before(self.status)

    def merged(self, view: TaskMerger, event: Mapping[str, Any], mark: StatusMark | None, now: float) -> None:
        """Merge an event into a view of the task, and remember its status."""
        view.feed(event, now)
        if "task" in event and self.open is not None:
            self.open.gap = False
            if self.foreign_messages is not None or view.state not in TERMINAL_STATES:  # else it was the only turn
                messages = messages_in(event)
                if self.foreign_messages is None and messages:
                    self.foreign_messages = messages - len(self.captured)
                if messages - (self.foreign_messages or 0) > len(self.captured):
                    self.miss(self.open.turn)
        if mark is not None and (self.status is NO_STATUS or not mark.is_before(self.status)):
            self.status = mark
            before = self.status_before
            if self.moved_on or not before.state:
                return
            over = before.state in TERMINAL_STATES and not mark.timestamp  # what is over can only be repeated
            self.moved_on = not (over or mark.repeats(before) or mark.is_before(before))

    def notice(self, watcher: TaskWatcher, event: Mapping[str, Any], mark: StatusMark | None, now: float) -> None:
        """Take a notification. It decides nothing as long as a stream of a client does."""
        view = watcher.merger if watcher in self.notified else self.merger
        if self.open is None or view.has_seen(event):
            return
        if self.is_past(event, mark):
            view.skip(event)
            return
        if watcher not in self.notified:
            self.notified.append(watcher)
            watcher.merger, watcher.settled = deepcopy(self.merger), False
        self.merged(watcher.merger, event, mark, now)
        if mark is not None:
            watcher.settled = mark.state in SETTLED_STATES
        if self.streams or not (watcher.settled or (watcher is self.notified[0] and not self.followed)):
            return
        self.notified.remove(watcher)
        self.notified.insert(0, watcher)
        if watcher.merger is not self.merger:
            self.adopt(watcher.merger)
        self.update_answered(event, mark, now, conclusive=False)

    def _separate(self) -> None:
        """Have the task's view be no webhook's: a client is about to report to it."""
        for watcher in self.notified:
            if watcher.merger is self.merger:
                self.merger = deepcopy(self.merger)
                return

    def attach(self, watcher: TaskWatcher, new_merger: Callable[[], TaskMerger]) -> None:
        """Add a client's stream. The first leads; a later one has a view of its own, since both show the same. That of
        the open turn takes the lead from those of earlier turns: it decides what the turn is, and when it ends."""
        if watcher is self.opener and self.streams and watcher.merger is not self.merger:
            self.streams.insert(0, watcher)
            self.merger = watcher.merger
            return
        self.streams.append(watcher)
        if len(self.streams) == 1:
            self._separate()
            watcher.merger = self.merger
        elif watcher.merger is self.merger:
            watcher.merger = new_merger()

    def detach(self, watcher: TaskWatcher) -> None:
        """Remove a stream that ended. Where the leading one was cut, the turn continues with another view."""
        self.streams.remove(watcher)
        if watcher.merger is self.merger and not self.answered:
            if self.open is not None and self.open.finished_elsewhere is not None:
                self.adopt_view(self.open.finished_elsewhere)
            elif self.streams:
                self.adopt_view(self.streams[0].merger)
            elif self.notified and self.notified[0].settled:
                self.adopt_view(self.notified[0].merger)

    def adopt(self, view: TaskMerger) -> None:
        """Continue with another view of the task."""
        view.continue_turn_of(self.merger)
        self.merger = view

    def adopt_view(self, view: TaskMerger) -> None:
        """Continue the open turn with what another stream has shown."""
        self.adopt(view)
        if self.open is not None and view.state in SETTLED_STATES:
            self.open.step(TurnEvent.ANSWER, self.touched_at)

    def finish(self, open_turn: OpenTurn, incomplete: str | None, unread: Iterable[DialectMark]) -> Turn:
        """End the open turn: complete it with what is known, and with the reason where it is incomplete."""
        self.open = None
        turn = open_turn.turn
        if self.opener is not None and not self.task_id:
            turn.findings += self.opener.findings
        if incomplete is not None:
            turn.findings.append(incomplete_because(incomplete))
        elif open_turn.gap and FOLLOWER_ENDED not in turn.findings:
            turn.findings.append(FOLLOWER_ENDED)
        fill(turn, self.merger)
        if self.status_before.state and self.end_is_repeated and not self._shows_news(turn):
            turn.findings.append(END_REPEATED)
        if turn.state in SETTLED_STATES:
            self.rested = turn.state, len(turn.tool_calls)
        if turn.findings:
            unknown = EARLIER_UNKNOWN in turn.findings
            self.earlier_unknown = _leaves_unknown(turn, unknown)
            if unknown and turn.capture.snapshot_seen:
                self.foreign_messages = None  # whatever was missing is in that Task
            irrelevant = [mark.finding for mark in unread] if turn.tool_calls else [EARLIER_UNKNOWN]
            turn.findings[:] = [finding for finding in turn.findings if finding not in irrelevant]
        return turn

    def _shows_news(self, turn: Turn) -> bool:
        """Whether a turn is complete that has shown no other status than the one before it: of a task that was over."""
        told_apart = self.status_before.timestamp or self.status_before.message_id
        news = turn.tool_calls or (turn.response_text and not told_apart)
        return turn.state not in INTERRUPTED_STATES and bool(news)

    def found_late(self, event: Mapping[str, Any], mark: StatusMark | None) -> Finding | None:
        """What the last turn, which is closed, gets as a finding, once: its task, which waited for its user, has
        continued without, or shows calls that the turn lacks.

        `event`, with its `mark`, was merged, or comes from a webhook. Only settled statuses count: others may come
        late.
        """
        if self.rested is None:
            return None
        state, calls = self.rested
        asks = state in INTERRUPTED_STATES
        settled = asks and mark is not None and mark.state in SETTLED_STATES and mark.state != state
        if (settled and not self.is_past(event, mark)) or len(self.merger.turn_tool_calls) > calls:
            self.rested = None
            return CONTINUED_ALONE if asks else SHOWN_LATE
        return None

    def finished_by(self, view: TaskMerger, now: float) -> None:
        """Take note that a stream that does not lead shows the end of the task, if it does."""
        if view.snapshot_seen and view.state in TERMINAL_STATES and self.open is not None:
            self.open.finished_elsewhere = view
            self.open.step(TurnEvent.OTHER_STREAM_FINISHED, now)

    def take_answer(self, event: Mapping[str, Any], mark: StatusMark | None, now: float, *, own: bool) -> bool:
        """Merge a single answer (send result, GetTask, CancelTask); False where more is known.

        That is so while a stream leads, until the task has ended, and for an answer that shows the past, unless it is
        the turn's `own`, and nothing more recent is known. What a stream still delivers after the end is in the task
        already: it continues with a view of its own.
        """
        if isinstance(event.get("task"), dict):
            latest = own and mark is not None and (not self.moved_on or not mark.repeats(self.status_before))
            if (self.streams and not shows_end(event)) or (not latest and self.is_past(event, mark)):
                return False
            if self.streams:
                self.merger = deepcopy(self.merger)
        if self.notified:
            self._separate()
        self.merged(self.merger, event, mark, now)
        return True

    def update_answered(
        self, event: Mapping[str, Any], mark: StatusMark | None, now: float, *, conclusive: bool
    ) -> None:
        """Step the phase after `event` was merged. `conclusive`: it is the whole answer to the message."""
        open_turn, state = self.open, self.merger.state
        if open_turn is None:
            return
        if "artifactUpdate" in event:  # which does not change the state
            open_turn.step(TurnEvent.CONTENT, now)
        elif not conclusive and self.may_repeat(event, mark):
            if open_turn.phase in _WITHOUT_NEWS or not self.is_past(event, mark):
                open_turn.step(TurnEvent.QUESTION_REPEATED, now)
        elif state in SETTLED_STATES or "message" in event:
            open_turn.step(TurnEvent.ANSWER, now)
        else:
            open_turn.step(TurnEvent.PROGRESS, now)
            if open_turn.finished_elsewhere is not None:
                open_turn.step(TurnEvent.OTHER_STREAM_FINISHED, now)

    def may_repeat(self, event: Mapping[str, Any], mark: StatusMark | None) -> bool:
        """Whether the event shows the question that the message of the open turn answers, as far as is known."""
        if mark is None or mark.state not in INTERRUPTED_STATES:
            return False
        before = self.status_before
        told_apart = (mark.timestamp and before.timestamp) or mark.message_id != before.message_id
        return mark.repeats(before) if told_apart else "task" in event


INCOMPLETE = "incomplete"
"""The code of `incomplete_because`."""

EARLIER_UNKNOWN = Finding(
    "earlier_calls_unknown",
    "not all calls of earlier turns of this task are known; they may be among these",
    Severity.WARNING,
    "capture",
)

FOLLOWER_ENDED = Finding(
    "calls_missed",
    "the process that had followed this turn ended, and nothing shows what it saw last",
    Severity.WARNING,
    "capture",
)

END_REPEATED = Finding(
    "calls_missed",
    "the answer repeats the status with which the turn before ended: nothing shows what the agent did with the message",
    Severity.WARNING,
    "capture",
)

TAKEN_EARLIER = Finding(
    "calls_missed",
    "the task continued before the agent was seen to take the message: what it did meanwhile is not in this turn",
    Severity.WARNING,
    "capture",
)

SHOWN_LATE = Finding(
    "calls_missed",
    "after this turn was closed, its task showed tool calls that it lacks",
    Severity.WARNING,
    "capture",
)

CONTINUED_ALONE = Finding(
    "calls_missed",
    "the task continued after this turn was closed, without a message that was seen: what it did then is in no turn",
    Severity.WARNING,
    "capture",
)

SHOWN_LATE = Finding(
    "calls_missed",
    "the task has shown, after its end, more calls than were captured: send them before the status that ends it",
    Severity.WARNING,
    "capture",
)


def shows_end(event: Mapping[str, Any]) -> bool:
    """Whether the event is a task in a final state."""
    return "task" in event and state_of(event) in TERMINAL_STATES


def messages_in(event: Mapping[str, Any]) -> int:
    """Number of the user's messages in the history or timeline of a task; 0 where the event shows none."""
    task = event.get("task")
    if not isinstance(task, dict):
        return 0
    history = task.get("history")
    messages = history if isinstance(history, list) else [entry.get("message") for entry in timeline_of(task)]
    return sum(map(is_from_user, messages))


def kept_of(event: Mapping[str, Any], size: int) -> int:
    """Of the `size` of an event, what a view keeps at most: of a chunk without calls, as most are, only the text."""
    update = event.get("artifactUpdate")
    artifact = update.get("artifact") if isinstance(update, dict) else None
    if size > _SMALL_BYTES or not isinstance(artifact, dict) or "metadata" in artifact:
        return size
    return min(size, _CHUNK_BYTES + getsizeof(parts_text(artifact)))


def incomplete_because(why: str) -> Finding:
    return Finding(INCOMPLETE, f"the turn was closed before it was complete: {why}", Severity.WARNING)


def _leaves_unknown(turn: Turn, unknown: bool) -> bool:
    """Whether calls up to the end of a turn are not known, given whether those before it are `unknown`.

    A Task shows those of before, and is the only thing that does; a turn without its end may have made more, and one
    that missed events after the last Task.
    """
    codes = {finding.code for finding in turn.findings if finding.severity is not Severity.INFO}
    unknown = unknown or not codes.isdisjoint((EARLIER_UNKNOWN.code, FOLLOWER_ENDED.code))
    if END_REPEATED in turn.findings:
        return True
    return not codes.isdisjoint((INCOMPLETE, MISSED_EVENTS)) or (unknown and not turn.capture.snapshot_seen)


def fill(turn: Turn, merger: TaskMerger) -> None:
    """Set what the merged view shows: task, conversation, state, text, calls and findings."""
    turn.task_id = merger.task_id or turn.task_id
    turn.conversation_id = merger.context_id or turn.conversation_id
    turn.state = merger.turn_state or turn.state
    turn.response_text = merger.response_text
    turn.tool_calls = calls = merger.turn_tool_calls
    turn.capture.snapshot_seen = merger.turn_snapshot_seen
    turn.capture.protocol_only = len(calls)
    turn.usage = None if merger.tokens is None else merger.tokens.of_turn(called_tools=bool(calls))
    turn.findings += merger.findings_with(calls)
