"""The turns of one task, folded from what exchanges show of it. Sans-io, and the same for the same observations.

A turn is not an exchange: a non-blocking send is completed by later polling, a dropped stream by a subscription, and a
task may span several turns. Observations come in the order of their times. Whatever comes later, such as a notification
or what another proxy has seen, is one more observation: the task is folded again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from a2a_tool_capture import Finding, Severity, ToolCall
from a2a_tool_capture.dialect import Dialect, known_dialects
from a2a_tool_capture.merge import MISSED_EVENTS, ContinuedMerger
from a2a_tool_capture.same_call import new_calls
from a2a_tool_capture.wire import (
    INTERRUPTED_STATES,
    SETTLED_STATES,
    TERMINAL_STATES,
    UNREAD_KEY,
    generation_of,
)

from ..protocol.answers import task_id_of
from ..turn import Turn
from .phases import TRANSITIONS, TurnEvent, TurnPhase
from .task_events import CHILDREN_KEY, NO_STATUS, StatusMark, messages_in, shows_end

SILENT_S = 8.0
"""A proxy that has given no sign of life for this time was killed: at any moment of it, since a busy one is late."""

LINGER_S = 2.0
"""Longest time that the stream of an answered turn may stay open before the turn closes, and that a turn waits for
evidence of its own whose answer repeats the end of the turn before."""

_ANSWERS = (TurnEvent.ANSWER, TurnEvent.QUESTION_REPEATED)
_WITHOUT_NEWS = (TurnPhase.RESUMED, TurnPhase.REPEATED)
_NEXT_CAME = "the next message came before the task ended or asked its user"
_STOPPED = "the proxy stopped before the agent answered"

INCOMPLETE = "incomplete"
"""The code of `incomplete_because`."""


def incomplete_because(why: str) -> Finding:
    return Finding(INCOMPLETE, f"the turn was closed before it was complete: {why}", Severity.WARNING)


def _missed(message: str, code: str = "calls_missed") -> Finding:
    return Finding(code, message, Severity.WARNING, "capture")


EARLIER_UNKNOWN = _missed(
    "not all calls of earlier turns of this task are known; they may be among these", "earlier_calls_unknown"
)
PROXY_ENDED = _missed("the proxy that had followed this turn ended, and nothing shows what it saw last")
EXCHANGE_CUT = _missed("the proxy that relayed the exchange ended before it was complete", "process_ended")
END_REPEATED = _missed(
    "the answer repeats the status with which the turn before ended: nothing shows what the agent did with the message"
)
TAKEN_EARLIER = _missed(
    "the task continued before the agent was seen to take the message: what it did meanwhile is not in this turn"
)
SHOWN_LATE = _missed(
    "the task has shown, after its end, more calls than were captured: send them before the status that ends it"
)
CONTINUED_ALONE = _missed(
    "the task continued after this turn was closed, without a message that was seen: what it did then is in no turn"
)


@dataclass(frozen=True, slots=True)
class FoldRules:
    """What the settings say of turns. `timeout_s`: a turn that was silent for so long is closed; the others are
    `ContinuedMerger`'s."""

    timeout_s: float = 300.0
    require_artifact_uri: bool = True
    dialects: Collection[str] = ()
    unread: tuple[Dialect, ...] = field(init=False)
    """Dialects that are not read."""

    def __post_init__(self) -> None:
        unread = tuple(one for name, one in known_dialects().items() if name not in self.dialects)
        object.__setattr__(self, "unread", unread)

    def new_merger(self) -> ContinuedMerger:
        return ContinuedMerger(require_artifact_uri=self.require_artifact_uri, dialects=self.dialects)


@dataclass(slots=True, eq=False)
class OpenTurn:
    """A turn with its phase."""

    turn: Turn
    phase: TurnPhase = TurnPhase.WAITING
    since: float = 0.0
    """When the phase began, or the last answer came; seconds."""
    finished_elsewhere: ContinuedMerger | None = None
    """The whole task as shown by a stream that joined later and finished first."""
    gap: bool = False
    """Whether a proxy that followed it ended, and no Task has shown since what that one may have seen last."""

    def step(self, event: TurnEvent, now: float) -> TurnPhase:
        """Take an event; returns the phase it leads to. Raises KeyError for an event the phase does not allow."""
        before = self.phase
        self.phase = after = TRANSITIONS[before][event]
        if after is not before or event in _ANSWERS:
            self.since = now
        return after


@dataclass(slots=True, eq=False)
class Reporter:
    """One exchange that reports on the task, with a view of its own: two streams of a task repeat each other."""

    view: ContinuedMerger
    joined: bool = False
    """Whether it reports on the task: it has opened a turn of it, or its first event has named it."""
    opens: OpenTurn | None = None
    """The turn of its message, as long as that is `behind`."""
    findings: list[Finding] = field(default_factory=list)
    notified: bool = False
    """Whether it is the notifications of a webhook: they may lag behind what a client of the task is shown."""
    whole: bool = False
    """Whether the last notification was a Task: it shows what earlier ones may have."""
    settled: bool = False
    """Whether the latest status of which this webhook was notified is the end of the turn."""
    returns_at_once: bool = False
    """Whether its answer does not wait for the agent's work (`returnImmediately`)."""
    if_generation: int = 0
    """The generation of the task when the agent took the message of this exchange (A2A 1.1); 0: not known."""
    behind: bool = False
    """Whether what it reports waits for the end of the turn before, which another exchange is about to show."""


class TaskFold:
    """What is known of one task: the merged view, the open turn, and the exchanges that report on it.

    `closed` has the turns that have ended, in that order; `late_findings` what the last turn of the history gets, each
    with the calls that it may lack.
    """

    def __init__(
        self, rules: FoldRules, history: Sequence[Turn] | None = None, killed_at: Collection[float] = ()
    ) -> None:
        """`history`: the turns of the task of which no observations are left, oldest first, as they are stored; None:
        whatever is known of the task is observed. `killed_at`: when proxies were there last that were killed, up to
        `SILENT_S` later: they may have received notifications."""
        self._rules = rules
        self._killed_at = killed_at
        self._history = history
        self.closed: list[Turn] = []
        self.late_findings: list[tuple[Finding, Sequence[ToolCall]]] = []
        self._reporters: dict[str, Reporter] = {}
        self._unclaimed: list[Callable[[], object]] = []
        """What webhooks were notified of before the first turn of the task was known."""
        self._begin()
        if history:
            self._learn(history)

    def _begin(self) -> None:
        """Nothing is known of the task."""
        self.task_id = ""
        self.merger = self._rules.new_merger()
        self.touched_at = 0.0
        self.open: OpenTurn | None = None
        self._opener: Reporter | None = None
        """The exchange that opened the latest turn, until it ends."""
        self._streams: list[Reporter] = []
        """Of clients. The first one leads: its events are merged into `merger`."""
        self._notified: list[Reporter] = []
        """Webhooks notified in this turn, each with a view of its own. While no client follows, the first one leads: at
        first the one notified first, then the one that was notified of the end."""
        self._followed = False
        """Whether a client has asked about the task since the message of the open turn."""
        self._status = self._status_before = NO_STATUS
        """The latest status of the task, and the latest before the message of the open turn."""
        self._moved_on = False
        """Whether another status was shown since."""
        self._next: list[Callable[[], object]] = []
        """What waits for the end of the open turn: the next messages of the task, which came before it, and all they
        show."""
        self._turns = 0
        """Number of turns whose calls `merger` knows."""
        self._rested: tuple[str, int] | None = None
        """State and number of calls with which the last turn ended, if the task then had ended or waited for its
        user."""
        self._foreign_messages: int | None = None
        """Of the user's messages in the history of the task, those without a turn of ours; None before any was seen."""
        self._earlier_unknown = False
        """Whether calls of earlier turns are not known: a Task may show them in the next turn, or in a later one."""

    def _learn(self, history: Sequence[Turn]) -> None:
        """Take over what is stored of the task."""
        last = history[-1]
        self.task_id, self.touched_at = last.task_id, last.ended_at or last.started_at
        calls = [call for turn in history for call in turn.tool_calls]
        self.merger.know_earlier(calls, [turn.response_text for turn in history])
        self._turns = len(history)
        if last.state in TERMINAL_STATES:
            self._rested = last.state or "", 0
        for turn in history:
            self._earlier_unknown = _leaves_unknown(turn, self._earlier_unknown)
        self._foreign_messages = 0  # the store may lack a turn

    # ── what exchanges report ───────────────────────────────────────────────────────────────────────────

    def sent(
        self, exchange: str, turn: Turn, now: float, *, returns_at_once: bool = False, if_generation: int = 0
    ) -> None:
        """A user message was sent. If it continues the task (`turn.task_id`), calls so far belong to earlier turns.

        `returns_at_once` and `if_generation`: see `Reporter`.
        """
        reporter = Reporter(self.merger, returns_at_once=returns_at_once, if_generation=if_generation)
        reporter.opens = OpenTurn(turn, since=now)
        self._reporters[exchange] = reporter
        if turn.task_id and not self.task_id:
            self._unclaimed.clear()  # it came before the message
            if self._history is not None:  # nobody knows what was before
                turn.findings.append(EARLIER_UNKNOWN)
        self._start(reporter, reporter.opens, now)

    def event(self, exchange: str, event: Mapping[str, Any], now: float, *, live: bool, notified: bool = False) -> None:
        """An exchange shows a v1.0 event. `live` says that more may come (a stream), as opposed to a single answer.

        `notified`: it is a notification, and `exchange` its webhook.
        """
        reporter = self._reporters.get(exchange)
        if reporter is None:
            reporter = self._reporters[exchange] = Reporter(self._rules.new_merger(), notified=notified)
        is_whole = not live and not notified and reporter is not self._opener and reporter.opens is None
        self._feed(reporter, event, now, live)
        if is_whole:  # a single answer to a question: no end of it is awaited
            self._reporters.pop(exchange, None)
            if self.open is not None and self.open.phase is TurnPhase.ANSWERED and not self._streams:
                self._advance(TurnEvent.LAST_STREAM_ENDED, now)

    def alive(self, exchange: str, now: float) -> None:
        """An exchange showed a sign of life, and nothing else."""
        if exchange in self._reporters:
            self.touched_at = max(self.touched_at, now)

    def ended(
        self,
        exchange: str,
        now: float,
        *,
        problem: Finding | None = None,
        final: bool = False,
        findings: Iterable[Finding] = (),
    ) -> None:
        """An exchange ended. `problem` says what went wrong; `final` that nothing can complete the turn later."""
        reporter = self._reporters.get(exchange)
        if reporter is None:
            reporter = Reporter(self._rules.new_merger(), joined=bool(self.task_id))
        reporter.findings += findings
        self._end(exchange, reporter, now, problem, final)

    def found(self, finding: Finding) -> None:
        """Add a finding, once, to the open turn, or else to the last one."""
        if self.open is None:
            self._add_late_finding(finding)
        elif finding not in self.open.turn.findings:
            self.open.turn.findings.append(finding)

    # ── what time brings ────────────────────────────────────────────────────────────────────────────────

    def cut(self, exchange: str, now: float) -> None:
        """The proxy of an exchange was killed before it ended."""
        reporter = self._reporters.get(exchange)
        follows = reporter is not None and (reporter is self._opener or reporter in self._streams)
        if self.open is not None and not self.answered and follows:
            self.open.gap = True
        self.ended(exchange, now, problem=EXCHANGE_CUT)

    def expire(self, now: float, *, awaited: bool = False) -> float | None:
        """Close turns that were silent for the time of the rules, unless notifications are `awaited`, and answered ones
        whose stream lingers. Returns when that has to be looked at again; None while nothing is open."""
        while (due := self._due(awaited)) is not None and due[0] < now:
            at, event = due
            if self.open is not None and self.open.finished_elsewhere is not None:
                self._adopt_view(self.open.finished_elsewhere)
            silence = f"no event arrived for {self._rules.timeout_s:g} s"
            self._advance(event, at, silence if event is TurnEvent.TIMED_OUT else None)
        return None if due is None else due[0]

    def stop(self, now: float, why: str = _STOPPED) -> None:
        """No more comes: close what is open, as incomplete for this reason where it has no answer."""
        while self._next:
            self._advance(TurnEvent.NEXT_MESSAGE, now, _NEXT_CAME)
        self._advance(TurnEvent.STOPPED, now, None if self.answered else why)

    def _due(self, awaited: bool) -> tuple[float, TurnEvent] | None:
        """What time brings next, and when."""
        if self.open is None:
            return None
        row = TRANSITIONS[self.open.phase]
        if TurnEvent.LINGERED in row:
            elsewhere = self.open.phase is TurnPhase.FINISHED_ELSEWHERE
            return (self.touched_at if elsewhere else self.open.since) + LINGER_S, TurnEvent.LINGERED
        if TurnEvent.TIMED_OUT in row and not (awaited and self.task_id):
            return self.touched_at + self._rules.timeout_s, TurnEvent.TIMED_OUT
        return None

    # ── views ───────────────────────────────────────────────────────────────────────────────────────────

    @property
    def answered(self) -> bool:
        """Whether the open turn, or else the last one, has its answer."""
        return self.merger.state in SETTLED_STATES if self.open is None else self.open.phase is TurnPhase.ANSWERED

    @property
    def is_over(self) -> bool:
        """Whether the task has ended."""
        return self.merger.state in TERMINAL_STATES

    def open_turns(self) -> list[Turn]:
        """Copies of the open turns, as far as they are known."""
        opens = [one.opens for one in self._reporters.values() if one.opens is not None]
        turns = [one.turn for one in (*opens, self.open) if one is not None]
        copies = [replace(turn, findings=list(turn.findings), capture=replace(turn.capture)) for turn in turns]
        if self.open is not None:
            _fill(copies[-1], self.merger)
        return copies

    # ── the beginning of a turn ─────────────────────────────────────────────────────────────────────────

    def _start(self, reporter: Reporter, open_turn: OpenTurn, now: float) -> None:
        """Open the turn of this exchange, which continues the task if that is known; after the turn before, if that
        goes on: until then the exchange is `behind`."""
        if self.open is not None and (self._opener is None or self.answered):
            self._advance(TurnEvent.NEXT_MESSAGE, now, None if self.answered else _NEXT_CAME)
        reporter.behind = self.open is not None
        if reporter.behind:
            self._next.append(partial(self._start, reporter, open_turn, now))
            return
        if self._opener is not None and self._opener not in self._streams:
            self._let_go(self._opener)
        turn = open_turn.turn
        is_over = self.merger.state in TERMINAL_STATES and turn.started_at > self.touched_at
        if (is_over and not turn.task_id) or (self.closed and not self.task_id):  # a new task, which may have its id
            for other in (*self._streams, *self._notified):
                self._let_go(other)
            self._begin()
        self.open, self._opener, self.touched_at = open_turn, reporter, now
        reporter.opens, reporter.joined, reporter.view = None, True, self.merger
        if not self.task_id:
            return
        if 0 < reporter.if_generation < self.merger.generation - 1:  # the message itself is one change
            turn.findings.append(TAKEN_EARLIER)
        self.merger.begin_turn()
        self._turns += 1
        self._status_before, self._moved_on, self._followed, self._rested = self._status, False, False, None
        if self._streams:
            reporter.view = deepcopy(self.merger)
        if self._earlier_unknown:
            self.found(EARLIER_UNKNOWN)
        self._notified.clear()  # they join again, with what is known by then
        for stream in self._streams:
            stream.view = self.merger if stream is self._streams[0] else deepcopy(self.merger)
        turn.task_id = self.task_id
        open_turn.step(TurnEvent.TASK_RESUMED, now)

    def _join(self, reporter: Reporter, event: Mapping[str, Any], task_id: str, now: float, live: bool) -> None:
        """An event names the task: that of the open turn, or another exchange reports on it from now on."""
        if self.task_id:
            reporter.joined = True
        elif self.open is not None and reporter is self._opener:
            self.task_id = self.open.turn.task_id = task_id
            self._turns += 1
            self.open.step(TurnEvent.TASK_STARTED, now)
            unclaimed, self._unclaimed = self._unclaimed, []
            for report in unclaimed:
                report()
        elif reporter.notified:
            self._unclaimed.append(partial(self._feed, reporter, event, now, live))

    def _let_go(self, reporter: Reporter) -> None:
        """Its turn was closed while it goes on: it opens no turn from now on."""
        reporter.joined = False
        reporter.view = self._rules.new_merger()

    # ── an event ────────────────────────────────────────────────────────────────────────────────────────

    def _feed(self, reporter: Reporter, event: Mapping[str, Any], now: float, live: bool) -> None:
        if reporter.behind:
            self._next.append(partial(self._feed, reporter, event, now, live))
            return
        task_id = task_id_of(event)
        if self.open is not None and reporter is self._opener:
            turn = self.open.turn
            turn.first_event_at = turn.first_event_at or max(now, turn.started_at)
        if task_id and not (reporter.joined and self.task_id):
            self._join(reporter, event, task_id, now, live)
        if not reporter.joined:
            return
        if CHILDREN_KEY in event and self.open is not None:
            turn = self.open.turn
            turn.links = turn.links and turn.links.with_children(event[CHILDREN_KEY])
        if not self.task_id:  # a Message, or what else names no task
            if self.open is not None:
                self.touched_at = max(self.touched_at, now)
                self.merger.feed(event, now)
                if "message" in event:
                    self.open.step(TurnEvent.ANSWER, now)
                    if self._next:
                        self._advance(TurnEvent.NEXT_MESSAGE, now)
            return
        self.touched_at = max(self.touched_at, now)
        view = reporter.view if reporter in self._streams else self.merger
        if UNREAD_KEY in event or (task_id != self.task_id and view.concerns_other(event)):
            view.feed(event, now)  # it says nothing of the state, and only its stream shows which task it concerns
            return
        mark = StatusMark.of(event)
        if reporter.notified:
            self._notice(reporter, event, mark, now)
        elif not live:
            settles = mark is None or mark.state in SETTLED_STATES
            own = reporter is self._opener and not reporter.returns_at_once and settles  # its whole answer
            if self._take_answer(event, mark, now, own=own):
                conclusive = own and (mark is None or not mark.repeats(self._status_before))
                self._update_answered(event, mark, now, conclusive=conclusive)
            self._followed = self._followed or reporter is not self._opener
        else:
            if reporter not in self._streams:
                self._attach(reporter)
            if reporter is not self._opener and "task" not in event and self._is_past(event, mark):
                reporter.view.skip(event)
                return
            self._merge(reporter.view, event, mark, now)
            if self._streams[0] is reporter:
                self._update_answered(event, mark, now, conclusive=False)
            else:
                self._finished_by(reporter.view, now)
        if self.open is None:
            self._find_late(event, mark)
        elif self._next and self.answered:
            self._advance(TurnEvent.NEXT_MESSAGE, now)

    def _is_past(self, event: Mapping[str, Any], mark: StatusMark | None) -> bool:
        """Whether an event shows a status from before the message of the open turn, or before the latest status.

        `mark` is that of the event. Such an answer or notification was overtaken, or came before the agent has begun.
        The agent's generations decide, or its times.
        """
        if mark is None:
            return False
        repeated = mark.repeats(self._status_before) and mark.state in INTERRUPTED_STATES
        known = self.merger.generation
        generation = generation_of(event.get("task") or event["statusUpdate"]) if known else 0
        if generation not in (0, known):
            return repeated or generation < known
        return repeated or mark.is_before(self._status)

    def _merge(self, view: ContinuedMerger, event: Mapping[str, Any], mark: StatusMark | None, now: float) -> None:
        """Merge an event into a view of the task, and remember its status."""
        view.feed(event, now)
        if "task" in event and self.open is not None:
            self.open.gap = False
            if self._foreign_messages is not None or view.state not in TERMINAL_STATES:  # else it was the only turn
                messages = messages_in(event)
                if self._foreign_messages is None and messages:
                    self._foreign_messages = messages - self._turns
                if messages - (self._foreign_messages or 0) > self._turns:
                    self.found(EARLIER_UNKNOWN)
        if mark is not None and (self._status is NO_STATUS or not mark.is_before(self._status)):
            self._status = mark
            before = self._status_before
            if self._moved_on or not before.state:
                return
            over = before.state in TERMINAL_STATES and not mark.timestamp  # what is over can only be repeated
            self._moved_on = not (over or mark.repeats(before) or mark.is_before(before))

    def _notice(self, reporter: Reporter, event: Mapping[str, Any], mark: StatusMark | None, now: float) -> None:
        """Take a notification. It decides nothing as long as a stream of a client does."""
        view = reporter.view if reporter in self._notified else self.merger
        if self.open is None and self._rested is not None:
            (shown := self._rules.new_merger()).feed(event, now)
            if missed := new_calls(shown.tool_calls, self.merger.tool_calls):
                self._add_late_finding(SHOWN_LATE, missed)
        if self.open is None or view.has_seen(event):
            return
        if self._is_past(event, mark):
            view.skip(event)
            return
        if reporter not in self._notified:
            self._notified.append(reporter)
            reporter.view, reporter.settled = deepcopy(self.merger), False
        self._merge(reporter.view, event, mark, now)
        reporter.whole = "task" in event
        if mark is not None:
            reporter.settled = mark.state in SETTLED_STATES
        if self._streams or not (reporter.settled or (reporter is self._notified[0] and not self._followed)):
            return
        self._notified.remove(reporter)
        self._notified.insert(0, reporter)
        if reporter.view is not self.merger:
            self._adopt(reporter.view)
        self._update_answered(event, mark, now, conclusive=False)

    def _separate(self) -> None:
        """Have the task's view be no webhook's: a client is about to report to it."""
        if any(reporter.view is self.merger for reporter in self._notified):
            self.merger = deepcopy(self.merger)

    def _attach(self, reporter: Reporter) -> None:
        """Add a client's stream. The first leads; a later one has a view of its own, since both show the same. That of
        the open turn takes the lead from those of earlier turns: it decides what the turn is, and when it ends."""
        if reporter is self._opener and self._streams and reporter.view is not self.merger:
            self._streams.insert(0, reporter)
            self.merger = reporter.view
            return
        self._streams.append(reporter)
        if len(self._streams) == 1:
            self._separate()
            reporter.view = self.merger
        elif reporter.view is self.merger:
            reporter.view = self._rules.new_merger()

    def _take_answer(self, event: Mapping[str, Any], mark: StatusMark | None, now: float, *, own: bool) -> bool:
        """Merge a single answer (send result, GetTask, CancelTask); False where more is known.

        That is so while a stream leads, until the task has ended, and for an answer that shows the past, unless it is
        the turn's `own`, and nothing more recent is known. What a stream still delivers after the end is in the task
        already: it continues with a view of its own.
        """
        if isinstance(event.get("task"), dict):
            latest = own and mark is not None and (not self._moved_on or not mark.repeats(self._status_before))
            if (self._streams and not shows_end(event)) or (not latest and self._is_past(event, mark)):
                return False
            if self._streams:
                self.merger = deepcopy(self.merger)
        if self._notified:
            self._separate()
        self._merge(self.merger, event, mark, now)
        return True

    def _update_answered(
        self, event: Mapping[str, Any], mark: StatusMark | None, now: float, *, conclusive: bool
    ) -> None:
        """Step the phase after `event` was merged. `conclusive`: it is the whole answer to the message."""
        open_turn, state = self.open, self.merger.state
        if open_turn is None:
            return
        if "artifactUpdate" in event:  # which does not change the state
            open_turn.step(TurnEvent.CONTENT, now)
        elif not conclusive and self._may_repeat(event, mark):
            if open_turn.phase in _WITHOUT_NEWS or not self._is_past(event, mark):
                open_turn.step(TurnEvent.QUESTION_REPEATED, now)
        elif state in SETTLED_STATES or "message" in event:
            open_turn.step(TurnEvent.ANSWER, now)
        else:
            open_turn.step(TurnEvent.PROGRESS, now)
            if open_turn.finished_elsewhere is not None:
                open_turn.step(TurnEvent.OTHER_STREAM_FINISHED, now)

    def _may_repeat(self, event: Mapping[str, Any], mark: StatusMark | None) -> bool:
        """Whether the event shows the question that the message of the open turn answers, as far as is known."""
        if mark is None or mark.state not in INTERRUPTED_STATES:
            return False
        before = self._status_before
        told_apart = (mark.timestamp and before.timestamp) or mark.message_id != before.message_id
        return mark.repeats(before) if told_apart else "task" in event

    def _finished_by(self, view: ContinuedMerger, now: float) -> None:
        """Take note that a stream that does not lead shows the end of the task, if it does."""
        if view.snapshot_seen and view.state in TERMINAL_STATES and self.open is not None:
            self.open.finished_elsewhere = view
            self.open.step(TurnEvent.OTHER_STREAM_FINISHED, now)

    def _find_late(self, event: Mapping[str, Any], mark: StatusMark | None) -> None:
        """Note, once, that the task of the last turn, which waited for its user, has continued without, or that it
        shows calls that the turn lacks.

        `event`, with its `mark`, was merged, or comes from a webhook. Only settled statuses count: others may come
        late.
        """
        if self._rested is None:
            return
        state, calls = self._rested
        asks = state in INTERRUPTED_STATES
        settled = asks and mark is not None and mark.state in SETTLED_STATES and mark.state != state
        if settled and not self._is_past(event, mark):
            self._add_late_finding(CONTINUED_ALONE)
        elif len(self.merger.turn_tool_calls) > calls:
            self._add_late_finding(CONTINUED_ALONE if asks else SHOWN_LATE, () if asks else self.merger.turn_tool_calls)
        else:
            return
        self._rested = None

    def _add_late_finding(self, finding: Finding, calls: Sequence[ToolCall] = ()) -> None:
        if not self.closed:
            self.late_findings.append((finding, calls))
        elif finding not in self.closed[-1].findings:
            self.closed[-1].findings.append(finding)

    # ── the end of an exchange, and of a turn ───────────────────────────────────────────────────────────

    def _end(self, exchange: str, reporter: Reporter, now: float, problem: Finding | None, final: bool) -> None:
        if reporter.behind:
            self._next.append(partial(self._end, exchange, reporter, now, problem, final))
            return
        self._reporters.pop(exchange, None)
        if problem is not None:
            reporter.findings.append(problem)
        if not reporter.joined:
            return
        if reporter in self._notified:
            self._notified.remove(reporter)
        elif reporter in self._streams:
            self._detach(reporter)
        ours = reporter is self._opener
        if ours:
            self._opener = None
        open_turn = self.open
        if open_turn is None:
            return
        if reporter.findings:
            found = open_turn.turn.findings
            found += [finding for finding in reporter.findings if finding not in found]  # polls repeat them
        repeated = open_turn.phase is TurnPhase.RESUMED and self.merger.state in INTERRUPTED_STATES
        if repeated and ours and not reporter.returns_at_once and not self._streams and problem is None:
            step = TurnEvent.END_REPEATED if self._end_is_repeated else TurnEvent.ANSWER
            open_turn.step(step, now)  # the task repeated its question, and nothing followed
        if open_turn.phase is TurnPhase.ANSWERED and not self._streams:
            self._advance(TurnEvent.LAST_STREAM_ENDED, now)
        elif ours:
            self._advance(TurnEvent.FAILED if final else TurnEvent.EXCHANGE_ENDED, now)
            if self._next and self.open is open_turn:
                self._advance(TurnEvent.NEXT_MESSAGE, now, _NEXT_CAME)

    def _detach(self, reporter: Reporter) -> None:
        """Remove a stream that ended. Where the leading one was cut, the turn continues with another view."""
        self._streams.remove(reporter)
        if reporter.view is self.merger and not self.answered:
            if self.open is not None and self.open.finished_elsewhere is not None:
                self._adopt_view(self.open.finished_elsewhere)
            elif self._streams:
                self._adopt_view(self._streams[0].view)
            elif self._notified and self._notified[0].settled:
                self._adopt_view(self._notified[0].view)

    def _adopt_view(self, view: ContinuedMerger) -> None:
        """Continue the open turn with what another stream has shown."""
        self._adopt(view)
        if self.open is not None and view.state in SETTLED_STATES:
            self.open.step(TurnEvent.ANSWER, self.touched_at)

    def _adopt(self, view: ContinuedMerger) -> None:
        """Continue with another view of the task."""
        view.continue_turn_of(self.merger)
        self.merger = view

    @property
    def _end_is_repeated(self) -> bool:
        """Whether all that the open turn has shown of the task's state is the end of the turn before."""
        return not self._moved_on and bool(self._status_before.state) and self.merger.turn_state is not None

    def _advance(self, event: TurnEvent, now: float, incomplete: str | None = None) -> None:
        """Step the phase, and close the turn where that is its end: as incomplete, if there is a reason."""
        open_turn = self.open
        if open_turn is None:
            return
        answered_at = open_turn.since if open_turn.phase is TurnPhase.ANSWERED else now
        if open_turn.step(event, now) is not TurnPhase.CLOSED:
            return
        self.open, turn = None, open_turn.turn
        if incomplete is None and (open_turn.gap or (self._killed_at and self._misses(turn, answered_at))):
            turn.findings.append(PROXY_ENDED)
        _fill(turn, self.merger, incomplete)
        if self._status_before.state and self._end_is_repeated and not self._shows_news(turn):
            turn.findings.append(END_REPEATED)
        if turn.state in SETTLED_STATES:
            self._rested = turn.state or "", len(turn.tool_calls)
        unknown = EARLIER_UNKNOWN in turn.findings
        self._earlier_unknown = _leaves_unknown(turn, unknown)
        if unknown and turn.capture.snapshot_seen:
            self._foreign_messages = None  # whatever was missing is in that Task
        self._close(turn, min(now, answered_at + LINGER_S))
        for reporter in self._reporters.values():
            reporter.behind = False
        waiting, self._next = self._next, []
        for report in waiting:
            report()

    def _misses(self, turn: Turn, answered_at: float) -> bool:
        """Whether a proxy was killed during a turn of which notifications alone show the end."""
        during = [at for at in self._killed_at if turn.started_at <= at + SILENT_S and at < answered_at]
        return bool(during) and any(one.view is self.merger and not one.whole for one in self._notified)

    def _close(self, turn: Turn, now: float) -> None:
        if turn.findings:
            irrelevant = [dialect.not_read for dialect in self._rules.unread] if turn.tool_calls else [EARLIER_UNKNOWN]
            turn.findings[:] = [finding for finding in turn.findings if finding not in irrelevant]
        turn.ended_at = max(now, turn.started_at)  # a clock may have been set back
        turn.status = "pending"
        self.closed.append(turn)

    def _shows_news(self, turn: Turn) -> bool:
        """Whether a turn is complete that has shown no other status than the one before it: of a task that was over."""
        told_apart = self._status_before.timestamp or self._status_before.message_id
        news = turn.tool_calls or (turn.response_text and not told_apart)
        return turn.state not in INTERRUPTED_STATES and bool(news)


def _leaves_unknown(turn: Turn, unknown: bool) -> bool:
    """Whether calls up to the end of a turn are not known, given whether those before it are `unknown`.

    A Task shows those of before, and is the only thing that does; a turn without its end may have made more, and one
    that missed events after the last Task.
    """
    if not turn.findings:
        return unknown and not turn.capture.snapshot_seen
    codes = {finding.code for finding in turn.findings if finding.severity is not Severity.INFO}
    unknown = unknown or not codes.isdisjoint((EARLIER_UNKNOWN.code, PROXY_ENDED.code))
    if END_REPEATED in turn.findings:
        return True
    return not codes.isdisjoint((INCOMPLETE, MISSED_EVENTS)) or (unknown and not turn.capture.snapshot_seen)


def _fill(turn: Turn, merger: ContinuedMerger, incomplete: str | None = None) -> None:
    """Set what the merged view shows: task, conversation, state, text, calls and findings; and the reason where the
    turn is `incomplete`."""
    if incomplete is not None:
        turn.findings.append(incomplete_because(incomplete))
    turn.task_id = merger.task_id or turn.task_id
    turn.conversation_id = merger.context_id or turn.conversation_id
    turn.state = merger.turn_state or turn.state
    turn.response_text = merger.response_text
    turn.tool_calls = calls = merger.turn_tool_calls
    turn.approvals = [call.to_dict() for call in merger.waiting_calls] or None
    turn.capture.snapshot_seen = merger.turn_snapshot_seen
    turn.capture.protocol_only = len(calls)
    turn.usage = None if merger.tokens is None else merger.tokens.of_turn(called_tools=bool(calls))
    turn.findings += merger.findings_with(calls)
