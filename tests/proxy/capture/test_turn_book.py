"""Turns joined from exchanges: transcripts of what clients and agents do, and what must come out."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest
from a2a_eval_proxy.capture import turn_book
from a2a_eval_proxy.capture.lookups import TaskHistory
from a2a_eval_proxy.capture.records import TaskWatcher
from a2a_eval_proxy.capture.turn_book import LINGER_S, TurnBook
from a2a_eval_proxy.memory import measured, of_json
from a2a_eval_proxy.turn import Turn
from a2a_tool_capture import METADATA_KEY, URI, Finding
from hypothesis import given, settings
from hypothesis import strategies as st
from support.asked_store import AskedStore
from support.junk import almost_events

Event = dict[str, Any]


def artifact(artifact_id: str, *calls: str, text: str = "") -> Event:
    """An artifact with calls, each given as "name" or "name#id"."""
    entries = [{"name": call.split("#")[0], "id": call.partition("#")[2]} for call in calls]
    metadata = {"metadata": {METADATA_KEY: entries}} if calls else {}
    return {"artifactId": artifact_id, "extensions": [URI], "parts": [{"text": text}] if text else [], **metadata}


def status(state: str, text: str = "") -> Event:
    message = {"message": {"parts": [{"text": text}]}} if text else {}
    return {"state": f"TASK_STATE_{state}", **message}


def task(state: str, *artifacts: Event, task_id: str = "t", text: str = "") -> Event:
    return {"task": {"id": task_id, "contextId": "c", "status": status(state, text), "artifacts": list(artifacts)}}


def says(state: str, text: str = "", task_id: str = "t") -> Event:
    return {"statusUpdate": {"taskId": task_id, "contextId": "c", "status": status(state, text)}}


def gives(content: Event, *, append: bool = False, task_id: str = "t") -> Event:
    return {"artifactUpdate": {"taskId": task_id, "contextId": "c", "artifact": content, "append": append}}


def message(text: str, **more: Any) -> Event:
    return {"message": {"messageId": "m", "contextId": "c", "parts": [{"text": text}], **more}}


def size_of(event: Event) -> int:
    return of_json(json.dumps(event).encode())


@dataclass
class Wire:
    """A turn book with a clock that a test advances."""

    now: float = 1000.0
    options: dict[str, Any] = field(default_factory=dict)
    closed: list[Turn] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    """Tasks that the store is asked about."""
    questions: int = 0
    shared: Any = None

    def __post_init__(self) -> None:
        self.book = TurnBook(self.closed.append, **self.options)
        self._numbers = itertools.count(1)

    def sends(self, task_id: str = "") -> TaskWatcher:
        """A client sends a message; to continue a task, it names it."""
        number = next(self._numbers)
        turn = Turn(f"turn-{number}", "run", "http://agent", "JSONRPC", "1.0", self.now, task_id=task_id)
        return self.book.open(turn, self.now)

    def watches(self) -> TaskWatcher:
        return self.book.watch()

    def streams(self, stream: TaskWatcher, *events: Event) -> None:
        for event in events:
            self.book.feed(stream, event, self.now, live=True, size=size_of(event))

    def answers(self, stream: TaskWatcher, event: Event) -> None:
        self.book.feed(stream, event, self.now, live=False, size=size_of(event))
        self.ends(stream)

    def ends(self, stream: TaskWatcher, problem: Finding | None = None, *, final: bool = False) -> None:
        self.book.end(stream, self.now, problem=problem, final=final)

    def answered(self) -> None:
        """The shared store answers what it was asked."""
        asked, self.asked[:] = list(self.asked), []
        self.questions += len(asked)
        for task_id in asked:
            self.book.found(task_id, self.shared.history(task_id), self.now)

    def passes(self, seconds: float) -> None:
        self.now += seconds
        self.book.expire(self.now)

    @property
    def turns(self) -> list[tuple[str, list[str], str]]:
        """Closed turns: state, names of calls, text."""
        return [
            (
                (turn.state or "-").removeprefix("TASK_STATE_"),
                [call.name for call in turn.tool_calls],
                turn.response_text,
            )
            for turn in self.closed
        ]

    @property
    def findings(self) -> list[list[str]]:
        return [[finding.code for finding in turn.findings] for turn in self.closed]


@pytest.fixture
def wire() -> Wire:
    return Wire()


CUT = Finding("upstream_cut", "the agent broke off")

# ── webhooks ────────────────────────────────────────────────────────────────────────────────────────────────


def at(event: Event, second: float) -> Event:
    """The event, whose status the agent has dated."""
    holder = event.get("task") or event["statusUpdate"]
    holder["status"]["timestamp"] = f"2026-01-01T00:00:{second:09.6f}Z"
    return event


def test_a_webhook_shows_each_turn_of_a_task_its_own_calls(wire: Wire) -> None:
    hook = wire.book.watch(notified=True)
    sent = wire.book.open(Turn("turn-a", "run", "", "JSONRPC", "1.0", wire.now), wire.now, returns_at_once=True)
    wire.answers(sent, at(task("SUBMITTED"), 1))
    wire.streams(hook, at(task("SUBMITTED"), 1), at(says("WORKING"), 2), gives(artifact("a", "one#1")))
    wire.streams(hook, at(says("INPUT_REQUIRED"), 3))
    wire.answers(wire.sends("t"), at(task("COMPLETED", artifact("a", "one#1"), artifact("b", "two#2")), 5))
    wire.streams(hook, gives(artifact("b", "two#2")), at(says("COMPLETED"), 5))
    assert wire.turns == [("INPUT_REQUIRED", ["one"], ""), ("COMPLETED", ["two"], "")]
    assert wire.findings == [[], []]


def test_notifications_may_lag_behind_what_a_client_is_shown(wire: Wire) -> None:
    hook = wire.book.watch(notified=True)
    wire.answers(wire.sends(), at(task("SUBMITTED"), 1))
    wire.streams(hook, at(task("SUBMITTED"), 1))
    wire.answers(wire.watches(), at(task("INPUT_REQUIRED", artifact("a", "one#1")), 3))
    assert wire.turns == [("INPUT_REQUIRED", ["one"], "")]
    stream = wire.sends("t")
    wire.streams(hook, at(says("WORKING"), 2), gives(artifact("a", "one#1")), at(says("INPUT_REQUIRED"), 3))
    wire.streams(stream, at(says("WORKING"), 4), gives(artifact("b", "two#2")))
    wire.ends(stream, CUT)
    wire.streams(hook, at(says("WORKING"), 4), gives(artifact("b", "two#2")), at(says("INPUT_REQUIRED"), 5))
    wire.passes(LINGER_S + 1)
    assert wire.turns[1:] == [("INPUT_REQUIRED", ["two"], "")]


def test_a_stream_that_is_dropped_after_its_webhook_has_shown_the_end_closes(wire: Wire) -> None:
    hook, stream = wire.book.watch(notified=True), wire.sends()
    wire.streams(stream, at(task("WORKING"), 1))
    wire.streams(hook, at(task("INPUT_REQUIRED", artifact("a", "one")), 2))
    assert wire.book.answered == 0
    wire.ends(stream, CUT)
    wire.passes(LINGER_S + 1)
    assert wire.turns == [("INPUT_REQUIRED", ["one"], "")]


def test_a_notification_may_come_before_the_answer_that_names_its_task() -> None:
    wire = Shared().process(1)
    sent, hook = wire.sends(), wire.book.watch(notified=True)
    wire.streams(hook, at(task("WORKING"), 1), gives(artifact("a", "one")))
    wire.answered()
    wire.streams(hook, at(says("COMPLETED"), 2))
    wire.answers(sent, at(task("SUBMITTED"), 1))
    wire.passes(LINGER_S + 1)
    assert wire.shared.in_order() == [["one"]]
    assert wire.questions == 1


def test_what_came_before_the_message_that_continues_a_task_does_not_count_for_its_turn() -> None:
    wire = Shared().process(1)
    hook = wire.book.watch(notified="h")
    wire.streams(hook, at(task("WORKING"), 1), gives(artifact("a", "one#1")), at(says("INPUT_REQUIRED"), 2))
    wire.answered()  # it knows nothing
    sent = wire.sends("t")
    wire.answered()
    wire.streams(hook, at(says("WORKING"), 3), gives(artifact("b", "two#2")))
    wire.answered()
    wire.answers(sent, at(task("WORKING"), 3))
    wire.streams(hook, at(says("INPUT_REQUIRED"), 4))
    wire.passes(LINGER_S + 1)
    assert wire.shared.in_order() == [["two"]]
    assert wire.book.held_bytes < 20_000


def test_what_no_turn_claims_is_forgotten() -> None:
    wire = Shared().process(1)
    wire.streams(wire.book.watch(notified=True), task("WORKING", artifact("a", "one" * 10_000)))
    wire.answered()
    assert wire.book.held_bytes > 30_000
    wire.passes(60)
    assert wire.book.held_bytes == 0


@pytest.mark.parametrize("seen_working", [False, True])
def test_a_question_of_the_past_does_not_end_the_next_turn(wire: Wire, seen_working: bool) -> None:
    wire.answers(wire.sends(), at(task("INPUT_REQUIRED", artifact("a", "one")), 1))
    sent = wire.book.open(Turn("turn-b", "run", "", "JSONRPC", "1.0", 1000, task_id="t"), 1000, returns_at_once=True)
    wire.answers(sent, at(task("INPUT_REQUIRED", artifact("a", "one")), 1))  # it has not begun
    if seen_working:
        wire.answers(wire.watches(), at(task("WORKING", artifact("a", "one")), 2))
    wire.answers(wire.watches(), at(task("INPUT_REQUIRED", artifact("a", "one")), 1))  # overtaken
    assert len(wire.turns) == 1
    wire.answers(wire.watches(), at(task("INPUT_REQUIRED", artifact("a", "one"), artifact("b", "two")), 3))
    assert wire.turns[1:] == [("INPUT_REQUIRED", ["two"], "")]


def test_a_stream_of_an_earlier_turn_goes_on_in_the_next_one(wire: Wire) -> None:
    first, second = wire.sends(), wire.watches()
    wire.streams(first, at(task("WORKING"), 1))
    wire.streams(second, at(task("WORKING"), 1))
    for stream in (first, second):
        wire.streams(stream, gives(artifact("a", "one")), at(says("INPUT_REQUIRED"), 2))
    wire.ends(first)
    sent = wire.sends("t")  # which the agent answers at once
    wire.streams(second, at(says("INPUT_REQUIRED"), 2), at(says("WORKING"), 3))
    wire.answers(sent, at(task("WORKING", artifact("a", "one")), 3))
    wire.streams(second, gives(artifact("b", "two")), at(says("INPUT_REQUIRED"), 4))
    wire.ends(second)
    assert wire.turns == [("INPUT_REQUIRED", ["one"], ""), ("INPUT_REQUIRED", ["two"], "")]


def test_an_answer_of_which_a_webhook_was_notified_outlives_the_process_while_the_turn_lingers() -> None:
    shared = Shared()
    first = shared.process(1)
    first.answers(first.sends(), at(task("SUBMITTED"), 1))
    first.streams(first.book.watch(notified="h"), gives(artifact("a", "one")), at(says("INPUT_REQUIRED"), 2))
    second = shared.process(2)  # the first was killed
    second.sends("t")
    second.answered()
    assert shared.in_order()[0] == ["one"]
    assert next((turn.state, turn.findings) for turn in shared.turns.values()) == ("TASK_STATE_INPUT_REQUIRED", [])


def test_a_turn_that_the_store_lost_is_noticed_by_the_messages_of_the_task() -> None:
    shared = Shared()
    first = shared.process(1)
    first.answers(first.sends(), task("INPUT_REQUIRED", artifact("a", "one")))
    second = shared.process(2)  # the first was killed after another turn, which it did not store
    sent = second.sends("t")
    second.answered()
    answer = task("INPUT_REQUIRED", artifact("a", "one"), artifact("b", "lost"), artifact("c", "three"))
    answer["task"]["history"] = [{"role": "ROLE_USER"}, {"role": "ROLE_AGENT"}] * 3
    second.answers(sent, answer)
    assert shared.in_order() == [["one"], ["lost", "three"]]
    assert [finding.code for finding in list(shared.turns.values())[1].findings] == ["earlier_calls_unknown"]


@pytest.mark.parametrize("restarted", [False, True])
def test_calls_of_a_turn_without_its_end_are_unknown_until_a_task_shows_them(restarted: bool) -> None:
    shared = Shared()
    wire = shared.process(1)
    wire.answers(wire.sends(), task("WORKING"))  # and nobody sees its end
    made = [artifact("unseen", "unseen")]
    for number, streamed in enumerate((True, True, False, False), start=2):
        if restarted:
            wire = shared.process(number)
        made.append(artifact(f"a{number}", f"call{number}"))
        sent = wire.sends("t")
        if streamed:
            wire.streams(sent, says("WORKING"), gives(made[-1]), says("INPUT_REQUIRED"))
            wire.ends(sent)
        else:
            wire.answers(sent, task("INPUT_REQUIRED", *made))
        wire.answered()
    codes = [[finding.code for finding in turn.findings] for turn in shared.turns.values()]
    assert shared.in_order() == [[], ["call2"], ["call3"], ["unseen", "call4"], ["call5"]]
    assert codes == [["incomplete"], *[["earlier_calls_unknown"]] * 3, []]


def test_what_a_killed_owner_had_seen_last_is_missing_unless_a_task_shows_it() -> None:
    shared = Shared()
    first = shared.process(1)
    first.answers(first.sends(), at(task("SUBMITTED"), 1))
    first.streams(first.book.watch(notified="h"), gives(artifact("a", "one")))
    second = shared.process(2)  # the first was killed before it stored that
    second.streams(second.book.watch(notified="h"), at(says("INPUT_REQUIRED"), 2))
    second.answered()
    second.passes(LINGER_S + 1)
    sent = second.sends("t")
    second.answered()
    second.answers(sent, at(task("COMPLETED", artifact("a", "one"), artifact("b", "two")), 4))
    assert shared.in_order() == [[], ["one", "two"]]
    codes = [[finding.code for finding in turn.findings] for turn in shared.turns.values()]
    assert codes == [["calls_missed"], ["earlier_calls_unknown"]]


@pytest.mark.parametrize("foreign", [0, 3])
def test_a_message_that_nobody_saw_is_noticed_by_the_messages_of_the_task(wire: Wire, foreign: int) -> None:
    """`foreign`: messages of the user that the agent shows before those of the task."""

    def shown(event: Event, messages: int) -> Event:
        event["task"]["history"] = [{"role": "ROLE_USER"}] * (foreign + messages)
        return event

    a, b, c = artifact("a", "one"), artifact("b", "unseen"), artifact("c", "three")
    wire.answers(wire.sends(), shown(task("INPUT_REQUIRED", a), 1))
    wire.answers(wire.sends("t"), shown(task("INPUT_REQUIRED", a, b, c), 3))
    wire.answers(wire.sends("t"), shown(task("COMPLETED", a, b, c), 4))
    assert [calls for _, calls, _ in wire.turns] == [["one"], ["unseen", "three"], []]
    assert wire.findings == [[], ["earlier_calls_unknown"], []]


@pytest.mark.parametrize("shown_to", ["poll", "stream", "webhook", "nobody"])
def test_a_task_that_goes_on_without_a_message_is_noticed_once(shown_to: str) -> None:
    late: list[tuple[str, str]] = []
    wire = Wire(options={"store": AskedStore(late=late)})
    hook = wire.book.watch(notified="h")
    asks = at(task("AUTH_REQUIRED", artifact("a", "one")), 1)
    wire.answers(wire.sends(), asks)
    wire.answers(wire.watches(), asks)
    wire.streams(hook, at(says("WORKING"), 0), at(says("AUTH_REQUIRED"), 1))
    assert late == []
    for _ in range(2):
        match shown_to:
            case "poll":
                asks["task"]["artifacts"] = [artifact("a", "one"), artifact("b", "two")]
                wire.answers(wire.watches(), asks)
            case "stream":
                wire.streams(stream := wire.watches(), at(says("WORKING"), 2), gives(artifact("b", "two")))
                wire.ends(stream)
            case "webhook":
                wire.streams(hook, at(says("COMPLETED"), 3))
    wire.answers(wire.sends("t"), at(task("COMPLETED", artifact("a", "one"), artifact("c", "three")), 4))
    assert late == ([] if shown_to == "nobody" else [("t", "calls_missed")])
    assert [calls for _, calls, _ in wire.turns] == [["one"], ["three"]]


@pytest.mark.parametrize("passed", [0.0, 60.0])
@pytest.mark.parametrize("before", [[], ["one"]])
def test_calls_that_a_task_shows_first_after_its_end_are_noticed(before: list[str], passed: float) -> None:
    late: list[tuple[str, str]] = []
    wire = Wire(options={"store": AskedStore(late=late)})
    shared = artifact("a", *before, text="x")
    wire.answers(wire.sends(), task("INPUT_REQUIRED", artifact("a", text="x")))
    sent = wire.sends("t")
    wire.streams(sent, gives(shared), says("COMPLETED"))
    wire.ends(sent)
    assert [calls for _, calls, _ in wire.turns] == [[], before]
    wire.passes(passed)
    wire.answers(wire.watches(), task("COMPLETED", shared))
    for task_id in list(wire.book.task_ids):
        wire.book.found(task_id, TaskHistory(closed=wire.closed), wire.now)
    assert late == []
    for _ in range(2):
        wire.answers(wire.watches(), task("COMPLETED", shared, artifact("b", "two")))
    assert late == [("t", "calls_missed")]


def test_events_of_another_task_neither_end_a_turn_nor_are_its_calls(wire: Wire) -> None:
    sent = wire.sends()
    wire.streams(sent, task("WORKING"), gives(artifact("x", "foreign"), task_id="u"), says("FAILED", "no", task_id="u"))
    wire.streams(sent, gives(artifact("a", "one")), says("COMPLETED"))
    wire.ends(sent)
    assert wire.turns == [("COMPLETED", ["one"], "")]
    assert "calls_not_on_artifact" in wire.findings[0]
    assert wire.closed[0].task_id == "t"


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("shown_to", ["poll", "subscription", "nobody"])
def test_a_task_that_shows_calls_after_its_end_is_noticed_once(shown_to: str, restarted: bool) -> None:
    shared = Shared()
    wire = shared.process(1)
    wire.answers(wire.sends(), at(task("COMPLETED", text="done"), 1))
    if restarted:
        wire = shared.process(2)
    late: list[tuple[str, str]] = []
    store = AskedStore(wire.asked, late=late)
    wire.book.follow(store, turn_timeout_s=300, require_artifact_uri=True, dialects=())
    shown = task("COMPLETED", artifact("a", "one")) if shown_to != "nobody" else task("COMPLETED")
    for _ in range(2):
        if shown_to == "subscription":
            wire.streams(watch := wire.watches(), at(shown, 1))
            wire.ends(watch)
        else:
            wire.answers(wire.watches(), at(shown, 1))
        wire.answered()
    assert late == ([] if shown_to == "nobody" else [("t", "calls_missed")])


# ── generations (A2A 1.1) ───────────────────────────────────────────────────────────────────────────────────


def numbered(event: Event, generation: int) -> Event:
    (inner,) = event.values()
    return {next(iter(event)): {**inner, "generation": str(generation)}}


def test_calls_are_unknown_after_a_jump_and_those_that_a_task_shows_later_may_be_of_either_turn(wire: Wire) -> None:
    a, b = artifact("a", "one"), artifact("b", "missed", "two")
    sent = wire.sends()
    wire.streams(sent, numbered(task("SUBMITTED"), 1), numbered(gives(a), 2), numbered(says("INPUT_REQUIRED"), 5))
    wire.ends(sent)
    wire.answers(wire.sends("t"), numbered(task("INPUT_REQUIRED", a, b), 8))
    wire.answers(wire.sends("t"), numbered(task("COMPLETED", a, b, artifact("c", "three")), 11))
    assert [calls for _, calls, _ in wire.turns] == [["one"], ["missed", "two"], ["three"]]
    assert wire.findings == [["missed_events"], ["earlier_calls_unknown"], []]


def test_an_answer_that_was_overtaken_is_told_by_its_generation(wire: Wire) -> None:
    """The agent has no times, and the answer to the earlier poll arrives last."""
    sent = wire.sends()
    wire.answers(sent, numbered(task("SUBMITTED"), 1))
    late = wire.watches()
    wire.answers(wire.watches(), numbered(task("WORKING", artifact("a", "one", text="half")), 3))
    wire.answers(late, numbered(task("WORKING"), 2))
    wire.ends(stream := wire.watches())
    wire.streams(stream, numbered(gives(artifact("a", text=" whole"), append=True), 4))
    wire.streams(stream, numbered(says("COMPLETED"), 5))
    wire.ends(stream)
    assert wire.turns == [("COMPLETED", ["one"], "half whole")]
    assert wire.findings == [[]]


@given(st.lists(st.integers(0, 6), max_size=12), st.lists(st.integers(0, 6), max_size=12), st.integers(1, 8))
def test_a_webhook_that_repeats_overtakes_or_lags_changes_nothing_of_what_came(
    before: list[int], after: list[int], shown_to_client: int
) -> None:
    """The webhook is notified of all events, some of them twice and before others; the client is shown only some."""
    texts = [gives(artifact("a", f"call{number}", text=f"{number}."), append=number > 0) for number in range(5)]
    shown = [task("SUBMITTED"), says("WORKING"), *texts, says("COMPLETED")]
    events = [numbered(event, number) for number, event in enumerate(shown, 1)]
    wire = Wire()
    hook = wire.book.watch(notified="h")
    sent = wire.sends()
    wire.streams(sent, events[0])
    for place, event in enumerate(events[1:shown_to_client], 1):
        wire.streams(hook, *[events[number] for number in before if number <= place])
        wire.streams(sent, event)
    gone = shown_to_client < len(events)
    wire.ends(sent, Finding("client_gone", "it left") if gone else None)
    wire.streams(hook, *[events[number] for number in after], *events[1:])
    wire.passes(LINGER_S + 1)
    (turn,) = wire.closed
    assert (turn.state, turn.response_text) == ("TASK_STATE_COMPLETED", "0.1.2.3.4.")
    assert sorted(call.name for call in turn.tool_calls) == [f"call{number}" for number in range(5)]
    assert {*wire.findings[0], "append_to_unknown_artifact"} == {"append_to_unknown_artifact", *["client_gone"] * gone}


@given(st.permutations(range(2, 8)), st.sets(st.integers(2, 7)))
def test_a_turn_that_only_a_webhook_follows_knows_what_it_was_not_notified_of(order: list[int], lost: set[int]) -> None:
    """The message was answered at once. Notifications overtake each other; lost ones may have held calls."""
    gifts = {number: gives(artifact(f"a{number}", f"call{number}")) for number in range(2, 8)}
    events = {1: task("SUBMITTED"), **gifts, 8: says("COMPLETED")}
    notified = [number for number in (*order, 8) if number not in lost]
    wire = Wire()
    wire.answers(wire.sends(), numbered(events[1], 1))
    hook = wire.book.watch(notified="h")
    wire.streams(hook, *[numbered(events[number], number) for number in notified])
    wire.passes(LINGER_S + 1)
    (turn,) = wire.closed
    assert {call.name for call in turn.tool_calls} == {f"call{one}" for one in gifts if one not in lost}
    maybe_the_message = {2} if notified[0] == 3 else set()
    assert wire.findings == [["missed_events"] if lost - maybe_the_message else []]


@pytest.mark.parametrize(("meanwhile", "codes"), [(4, []), (6, ["calls_missed"])])
def test_a_conditional_message_says_if_its_task_went_on_before_it_was_seen_to_be_taken(
    wire: Wire, meanwhile: int, codes: list[str]
) -> None:
    """A client polls while the agent answers. The message itself is a change."""
    one = artifact("a", "one")
    wire.answers(wire.sends(), numbered(task("INPUT_REQUIRED", one), 3))
    wire.answers(wire.watches(), numbered(task("WORKING", one), meanwhile))
    turn = Turn("turn-2", "run", "http://agent", "JSONRPC", "1.0", wire.now, task_id="t")
    sent = wire.book.open(turn, wire.now, if_generation=3)
    wire.answers(sent, numbered(task("COMPLETED", one, artifact("b", "two")), 8))
    assert [calls for _, calls, _ in wire.turns] == [["one"], ["two"]]
    assert wire.findings[1] == codes


# ── several processes ───────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Shared:
    """What several books share as a store: turns by id, the first end of each counts."""

    turns: dict[str, Turn] = field(default_factory=dict)

    def keep(self, turn: Turn) -> bool:
        kept = self.turns.get(turn.turn_id)
        if kept is None or kept.status == "open":
            self.turns[turn.turn_id] = Turn.from_dict(turn.to_dict())
        return True

    def history(self, task_id: str) -> TaskHistory:
        found = [Turn.from_dict(turn.to_dict()) for turn in self.turns.values() if turn.task_id == task_id]
        closed = [turn for turn in found if turn.status != "open"]
        return TaskHistory(closed, next((turn for turn in found if turn.status == "open"), None), known=bool(found))

    def process(self, number: int, **options: Any) -> Wire:
        """Another process over the same store, which answers its questions when `Wire.answered` is called."""
        wire = Wire(options=options)
        wire.book = TurnBook(self.keep, store=AskedStore(wire.asked, self.keep), **wire.options)
        wire._numbers = itertools.count(number * 100)
        wire.shared = self
        return wire

    def in_order(self) -> list[list[str]]:
        return [[call.name for call in turn.tool_calls] for turn in self.turns.values()]


def test_what_an_exchange_reports_waits_for_the_store() -> None:
    shared = Shared()
    one, two = shared.process(1), shared.process(2)
    one.answers(one.sends(), task("INPUT_REQUIRED", artifact("a", "first")))
    sent = two.sends("t")
    two.streams(sent, task("WORKING", artifact("a", "first")), gives(artifact("b", "second")), says("COMPLETED"))
    two.ends(sent)
    assert len(shared.turns) == 1
    assert len(two.book.open_turns) == two.book.answered == 1
    two.answered()
    assert shared.in_order() == [["first"], ["second"]]
    assert two.book.open_turns == []


def test_a_turn_that_outlives_its_exchange_is_kept_and_kept_up_to_date() -> None:
    shared = Shared()
    wire = shared.process(1)
    wire.answers(wire.sends(), task("WORKING"))
    (kept,) = shared.turns.values()
    assert (kept.status, kept.ended_at, kept.task_id) == ("open", None, "t")
    wire.passes(1)
    wire.answers(wire.watches(), task("WORKING", artifact("a", "search")))
    wire.passes(10)
    assert shared.in_order() == [[]]
    wire.passes(70)  # a quarter of the timeout, and something new
    assert shared.in_order() == [["search"]]
    wire.book.close_all(wire.now)
    assert [turn.status for turn in shared.turns.values()] == ["open"]


def test_an_open_turn_goes_on_where_its_task_is_asked_for() -> None:
    shared = Shared()
    one, two = shared.process(1), shared.process(2)
    sent = one.sends()
    one.streams(sent, task("WORKING"), gives(artifact("a", "search", text="4")))
    one.ends(sent, CUT)
    watching = two.watches()
    two.streams(watching, task("WORKING", artifact("a", "search", text="4")))
    two.answered()
    two.streams(watching, gives(artifact("a", text="2"), append=True), says("COMPLETED"))
    two.ends(watching)
    (turn,) = shared.turns.values()
    assert (turn.status, turn.state, turn.response_text) == ("pending", "TASK_STATE_COMPLETED", "42")
    assert [finding.code for finding in turn.findings] == ["upstream_cut"]
    assert shared.in_order() == [["search"]]


def test_what_was_known_of_an_open_turn_stands_where_nothing_more_comes() -> None:
    shared = Shared()
    one, two = shared.process(1), shared.process(2)
    sent = one.sends()
    one.streams(sent, task("WORKING"), gives(artifact("a", "search", text="42")))
    one.ends(sent, CUT)
    watching = two.watches()
    two.streams(watching, says("WORKING"))
    two.ends(watching)
    two.answered()
    two.passes(301)
    (turn,) = shared.turns.values()
    assert (turn.response_text, [finding.code for finding in turn.findings]) == ("42", ["upstream_cut", "incomplete"])
    assert shared.in_order() == [["search"]]


def test_a_task_without_an_open_turn_is_not_asked_about_again_and_again() -> None:
    wire = Shared().process(1)
    for _ in range(5):
        wire.answers(wire.watches(), task("COMPLETED"))
        wire.answered()
    assert wire.questions == 1
    wire.answers(wire.sends(), task("COMPLETED", task_id="mine"))
    wire.answers(wire.watches(), task("COMPLETED", task_id="mine"))
    assert wire.questions == 1


def test_more_events_than_may_wait_do_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn_book, "MAX_WAITING", 5)
    wire = Shared().process(1)
    sent = wire.sends("t")
    wire.streams(sent, task("WORKING"), *[gives(artifact(f"a{n}", "search")) for n in range(9)], says("COMPLETED"))
    wire.ends(sent)
    (turn,) = wire.shared.turns.values()
    assert len(turn.tool_calls) == 9
    assert [finding.code for finding in turn.findings] == ["earlier_calls_unknown"]


@given(
    st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.booleans()), min_size=1, max_size=6),
    st.sampled_from(["", "#own", "#0"]),
)
def test_a_task_goes_on_after_restarts(turns: list[tuple[int, bool, bool]], ids: str) -> None:
    """Each turn: how many calls it makes, whether it is streamed, and whether a restart comes before it.

    With ids that begin at 0 again in each turn the calls differ by name.
    """
    shared = Shared()
    wire = shared.process(1)
    artifacts: list[Event] = []
    expected = []
    for number, (count, streamed, restarted) in enumerate(turns):
        if restarted:
            wire = shared.process(number + 2)
        names = [f"call{number}.{position}" for position in range(count)]
        suffix = {"": lambda n: "", "#own": lambda n: f"#{n}", "#0": lambda n: "#call_0"}[ids]
        made = artifact(f"a{number}", *(name + suffix(name) for name in names), text=f"answer {number}")
        expected.append((names, f"answer {number}"))
        sent = wire.sends("t" if number else "")
        if streamed:
            wire.streams(sent, task("WORKING", *artifacts), gives(made), says("INPUT_REQUIRED"))
            wire.ends(sent)
        else:
            wire.answers(sent, task("INPUT_REQUIRED", *artifacts, made))
        wire.answered()
        artifacts.append(made)
    assert [([call.name for call in turn.tool_calls], turn.response_text) for turn in shared.turns.values()] == expected


# ── one exchange ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_unary_send(wire: Wire) -> None:
    sent = wire.sends()
    wire.answers(sent, task("COMPLETED", artifact("a", "search", text="42")))
    assert wire.turns == [("COMPLETED", ["search"], "42")]
    (turn,) = wire.closed
    assert (turn.task_id, turn.conversation_id, turn.status) == ("t", "c", "pending")
    assert (turn.first_event_at, turn.ended_at) == (1000.0, 1000.0)
    assert turn.capture.snapshot_seen
    assert turn.capture.protocol_only == 1
    assert wire.book.open_turns == []


def test_a_stream(wire: Wire) -> None:
    sent = wire.sends()
    wire.streams(sent, task("SUBMITTED"), says("WORKING"))
    wire.now += 1
    wire.streams(sent, gives(artifact("a", "search", text="4")), gives(artifact("a", text="2"), append=True))
    wire.streams(sent, says("COMPLETED"))
    assert wire.closed == []
    assert wire.book.answered == 1
    wire.now += 1
    wire.ends(sent)
    assert wire.turns == [("COMPLETED", ["search"], "42")]
    assert (wire.closed[0].first_event_at, wire.closed[0].ended_at) == (1000.0, 1002.0)
    assert wire.findings == [[]]
    assert not wire.closed[0].capture.snapshot_seen


@pytest.mark.parametrize("live", [True, False])
def test_a_message_alone(wire: Wire, live: bool) -> None:
    sent = wire.sends()
    wire.book.feed(sent, message("hi"), wire.now, live=live, size=100)
    wire.ends(sent)
    assert wire.turns == [("-", [], "hi")]
    assert wire.closed[0].conversation_id == "c"


@pytest.mark.parametrize("live", [True, False])
def test_a_message_that_names_a_task_nobody_sees(wire: Wire, live: bool) -> None:
    """Servers reserve a task id for every request, and helpers of SDKs put it into the reply."""
    sent = wire.sends()
    wire.book.feed(sent, message("hi", taskId="t"), wire.now, live=live, size=100)
    wire.ends(sent)
    assert wire.turns == [("-", [], "hi")]
    assert wire.findings == [[]]


def test_a_message_whose_stream_lingers(wire: Wire) -> None:
    sent = wire.sends()
    wire.streams(sent, message("hi"))
    wire.passes(LINGER_S + 1)
    assert wire.turns == [("-", [], "hi")]
    wire.streams(sent, says("WORKING"))  # against the protocol
    wire.ends(sent)
    assert len(wire.closed) == 1
    assert wire.book.open_turns == []


@pytest.mark.parametrize("state", ["COMPLETED", "FAILED", "CANCELED", "REJECTED", "INPUT_REQUIRED", "AUTH_REQUIRED"])
def test_states_that_close_a_turn(wire: Wire, state: str) -> None:
    wire.answers(wire.sends(), task(state, text="why"))
    assert wire.turns == [(state, [], "why")]


@pytest.mark.parametrize("state", ["SUBMITTED", "WORKING", "UNSPECIFIED"])
def test_states_that_leave_a_turn_open(wire: Wire, state: str) -> None:
    wire.answers(wire.sends(), task(state))
    assert wire.closed == []
    assert len(wire.book.open_turns) == 1


def test_a_settled_task_whose_stream_lingers(wire: Wire) -> None:
    sent = wire.sends()
    wire.streams(sent, says("COMPLETED", "done"))
    wire.passes(LINGER_S)
    assert wire.closed == []
    wire.passes(LINGER_S)
    assert wire.turns == [("COMPLETED", [], "done")]


def test_what_a_stream_says_after_its_turn_was_closed_harms_nobody(wire: Wire) -> None:
    sent = wire.sends()
    wire.streams(sent, says("COMPLETED"))
    wire.passes(2 * LINGER_S)
    wire.streams(sent, gives(artifact("a", "late")), says("COMPLETED"))
    wire.ends(sent)
    assert wire.turns == [("COMPLETED", [], "")]


def test_an_end_without_an_answer(wire: Wire) -> None:
    sent = wire.sends()
    wire.ends(sent, CUT)
    assert wire.turns == [("-", [], "")]
    assert wire.findings == [["upstream_cut"]]


# ── several exchanges ───────────────────────────────────────────────────────────────────────────────────────


def test_a_non_blocking_send_is_completed_by_polling(wire: Wire) -> None:
    wire.answers(wire.sends(), task("SUBMITTED"))
    wire.answers(wire.watches(), task("WORKING", artifact("a", "search")))
    assert wire.closed == []
    wire.answers(wire.watches(), task("COMPLETED", artifact("a", "search", text="42")))
    assert wire.turns == [("COMPLETED", ["search"], "42")]
    wire.answers(wire.watches(), task("COMPLETED", artifact("a", "search", text="42")))
    assert len(wire.closed) == 1


@pytest.mark.parametrize("live", [True, False])
def test_whoever_watches_may_learn_that_the_agent_asks_back(wire: Wire, live: bool) -> None:
    wire.answers(wire.sends(), task("SUBMITTED"))
    watching = wire.watches()
    wire.book.feed(
        watching, task("INPUT_REQUIRED", artifact("a", "search"), text="Which one?"), wire.now, live=live, size=100
    )
    wire.ends(watching)
    assert wire.turns == [("INPUT_REQUIRED", ["search"], "Which one?")]


def test_a_dropped_stream_is_completed_by_a_subscription(wire: Wire) -> None:
    sent = wire.sends()
    wire.streams(sent, task("SUBMITTED"), gives(artifact("a", "search", text="4")))
    wire.ends(sent, CUT)
    assert wire.closed == []
    again = wire.watches()
    wire.streams(again, task("WORKING", artifact("a", "search", text="4")), gives(artifact("a", text="2"), append=True))
    wire.streams(again, says("COMPLETED"))
    wire.ends(again)
    assert wire.turns == [("COMPLETED", ["search"], "42")]
    assert wire.findings == [["upstream_cut"]]


def test_two_streams_of_one_task_are_not_added_up(wire: Wire) -> None:
    sent, watching = wire.sends(), wire.watches()
    wire.streams(sent, task("WORKING"), gives(artifact("a", "one", text="x")))
    wire.streams(watching, task("WORKING", artifact("a", "one", text="x")))
    for event in (
        gives(artifact("b", "two", text="y")),
        gives(artifact("a", "one", text="z"), append=True),
        says("COMPLETED"),
    ):
        wire.streams(sent, event)
        wire.streams(watching, event)
    wire.ends(sent)
    assert wire.closed == []
    wire.ends(watching)
    assert wire.turns == [("COMPLETED", ["one", "two"], "xz\ny")]


def test_a_poll_may_see_the_end_while_a_stream_still_delivers(wire: Wire) -> None:
    sent = wire.sends()
    wire.streams(sent, task("WORKING"), gives(artifact("a", "one", text="x")))
    wire.answers(wire.watches(), task("COMPLETED", artifact("a", "one", text="x"), artifact("b", "two", text="y")))
    for _ in range(3):
        wire.passes(LINGER_S / 2)
        wire.streams(sent, says("WORKING"))
    wire.streams(sent, gives(artifact("b", "two", text="y")), says("COMPLETED"))
    assert wire.closed == []
    wire.ends(sent)
    assert wire.turns == [("COMPLETED", ["one", "two"], "x\ny")]
    assert wire.findings == [[]]


def test_when_the_first_of_two_streams_is_cut_the_other_one_counts(wire: Wire) -> None:
    sent, watching = wire.sends(), wire.watches()
    wire.streams(sent, task("WORKING"))
    wire.streams(watching, task("WORKING"))
    wire.streams(watching, gives(artifact("a", "one")))  # the other one is slower
    wire.ends(sent, CUT)
    wire.streams(watching, gives(artifact("b", "two")), says("COMPLETED"))
    wire.ends(watching)
    assert wire.turns == [("COMPLETED", ["one", "two"], "")]


def test_a_subscription_that_ends_before_the_cut_is_noticed(wire: Wire) -> None:
    sent, again = wire.sends(), wire.watches()
    wire.streams(sent, task("SUBMITTED"), gives(artifact("a", "one")))
    wire.streams(again, task("WORKING", artifact("a", "one")), gives(artifact("b", "two")), says("COMPLETED"))
    wire.ends(again)
    assert wire.closed == []
    wire.ends(sent, CUT)
    assert wire.turns == [("COMPLETED", ["one", "two"], "")]
    assert wire.findings == [["upstream_cut"]]


def test_a_subscription_that_ends_while_nobody_reads_the_first_stream(wire: Wire) -> None:
    sent, again = wire.sends(), wire.watches()
    wire.streams(sent, task("SUBMITTED"), gives(artifact("a", "one")))
    wire.streams(again, task("COMPLETED", artifact("a", "one"), artifact("b", "two")))
    wire.ends(again)
    wire.passes(LINGER_S + 0.1)
    assert wire.turns == [("COMPLETED", ["one", "two"], "")]
    wire.streams(sent, gives(artifact("b", "two")), says("COMPLETED"))
    wire.ends(sent)
    assert len(wire.closed) == 1


def test_a_subscription_that_is_ahead_is_no_end(wire: Wire) -> None:
    sent, again = wire.sends(), wire.watches()
    wire.streams(sent, task("SUBMITTED"), gives(artifact("a", "one")))
    wire.streams(again, task("WORKING", artifact("a", "one")), gives(artifact("b", "two")), says("COMPLETED"))
    wire.ends(again)
    wire.streams(sent, gives(artifact("b", "two", text="the whole")), says("COMPLETED"))
    wire.ends(sent)
    assert wire.turns == [("COMPLETED", ["one", "two"], "the whole")]


def test_a_poll_while_a_stream_is_live_changes_nothing(wire: Wire) -> None:
    sent = wire.sends()
    wire.streams(sent, task("WORKING"), gives(artifact("a", "one")), gives(artifact("a", "two"), append=True))
    wire.answers(wire.watches(), task("WORKING", artifact("a", "one")))  # already behind
    wire.streams(sent, says("COMPLETED"))
    wire.ends(sent)
    assert wire.turns == [("COMPLETED", ["one", "two"], "")]


def test_a_poll_that_finds_the_task_over_is_not_added_to_what_its_stream_still_delivers(wire: Wire) -> None:
    sent = wire.sends()
    wire.streams(sent, task("WORKING"), gives(artifact("a", "one", text="x")))
    wire.answers(wire.watches(), task("COMPLETED", artifact("a", "one", "two", text="xy")))
    wire.streams(sent, gives(artifact("a", "two", text="y"), append=True), says("COMPLETED"))
    assert wire.closed == []
    wire.ends(sent)
    assert wire.turns == [("COMPLETED", ["one", "two"], "xy")]
    assert wire.findings == [[]]


def test_a_poll_that_finds_the_task_waiting_leaves_the_end_to_its_stream(wire: Wire) -> None:
    sent = wire.sends()
    wire.streams(sent, task("WORKING"))
    wire.answers(wire.watches(), task("AUTH_REQUIRED", artifact("a", "one")))
    wire.streams(sent, gives(artifact("a", "one")), says("AUTH_REQUIRED"), gives(artifact("b", "two")))
    wire.streams(sent, says("COMPLETED"))
    wire.ends(sent)
    assert wire.turns == [("COMPLETED", ["one", "two"], "")]


def test_cancelling(wire: Wire) -> None:
    sent = wire.sends()
    wire.streams(sent, task("WORKING"), gives(artifact("a", "one")))
    wire.answers(wire.watches(), task("CANCELED", artifact("a", "one"), text="canceled by client"))
    wire.streams(sent, says("CANCELED", "canceled by client"))
    wire.ends(sent)
    assert wire.turns == [("CANCELED", ["one"], "canceled by client")]


def test_watching_a_task_that_did_not_come_through_here(wire: Wire) -> None:
    wire.answers(wire.watches(), task("COMPLETED", artifact("a", "one"), task_id="elsewhere"))
    assert wire.closed == []
    assert wire.book.open_turns == []


def test_tasks_do_not_mix(wire: Wire) -> None:
    one, two = wire.sends(), wire.sends()
    wire.streams(one, task("WORKING", task_id="t1"))
    wire.streams(two, task("WORKING", task_id="t2"))
    wire.streams(one, gives(artifact("a", "one"), task_id="t1"))
    wire.streams(two, gives(artifact("a", "two"), task_id="t2"), says("COMPLETED", task_id="t2"))
    wire.streams(one, says("COMPLETED", task_id="t1"))
    wire.ends(one)
    wire.ends(two)
    assert sorted((turn.task_id, turn.tool_calls[0].name) for turn in wire.closed) == [("t1", "one"), ("t2", "two")]


# ── several turns of one task ───────────────────────────────────────────────────────────────────────────────


def asks_back(wire: Wire) -> None:
    """The first turn of a task, which ends with a question."""
    sent = wire.sends()
    wire.streams(sent, task("SUBMITTED"), gives(artifact("a", "one", text="so far")))
    wire.streams(sent, says("INPUT_REQUIRED", "Which order?"))
    wire.ends(sent)
    assert wire.turns == [("INPUT_REQUIRED", ["one"], "so far\nWhich order?")]
    wire.closed.clear()


@pytest.mark.parametrize(
    "introduction",
    [
        [],  # as a2a-sdk does
        [task("INPUT_REQUIRED", artifact("a", "one", text="so far"))],  # in the state it waited in
        [task("WORKING", artifact("a", "one", text="so far"))],
    ],
)
def test_a_resumed_task_repeats_its_old_calls(wire: Wire, introduction: list[Event]) -> None:
    asks_back(wire)
    sent = wire.sends("t")
    wire.streams(sent, *introduction, says("WORKING"), gives(artifact("b", "two", text="done")), says("COMPLETED"))
    wire.ends(sent)
    assert wire.turns == [("COMPLETED", ["two"], "done")]
    assert wire.findings == [[]]


def test_a_resumed_task_in_one_answer(wire: Wire) -> None:
    asks_back(wire)
    wire.answers(
        wire.sends("t"), task("COMPLETED", artifact("a", "one", text="so far"), artifact("b", "one", text="done"))
    )
    assert wire.turns == [("COMPLETED", ["one"], "done")]


def test_a_resumed_task_may_ask_again(wire: Wire) -> None:
    asks_back(wire)
    sent = wire.sends("t")
    wire.streams(sent, says("INPUT_REQUIRED", "No such order. Which one?"))
    wire.ends(sent)
    assert wire.turns == [("INPUT_REQUIRED", [], "No such order. Which one?")]


def test_a_resumed_task_may_answer_with_a_snapshot_alone(wire: Wire) -> None:
    asks_back(wire)
    sent = wire.sends("t")
    wire.streams(sent, task("INPUT_REQUIRED", artifact("a", "one", text="so far"), text="Which one?"))
    wire.ends(sent)
    assert wire.turns == [("INPUT_REQUIRED", [], "Which one?")]


def test_a_resumed_task_that_works_quietly_is_not_taken_for_settled(wire: Wire) -> None:
    """It need not say that it works: its chunks do. What it waited for once says nothing of now."""
    asks_back(wire)
    sent = wire.sends("t")
    wire.streams(sent, gives(artifact("b", "two", text="do")), gives(artifact("b", text="ne"), append=True))
    wire.passes(10 * LINGER_S)
    assert wire.closed == []
    wire.streams(sent, gives(artifact("c", "three")), says("COMPLETED"))
    wire.ends(sent)
    assert wire.turns == [("COMPLETED", ["two", "three"], "done")]


def test_a_poll_before_a_resumed_task_reacts_is_no_end(wire: Wire) -> None:
    asks_back(wire)
    sent = wire.sends("t")
    wire.answers(wire.watches(), task("INPUT_REQUIRED", artifact("a", "one", text="so far")))
    assert wire.closed == []
    wire.streams(sent, gives(artifact("b", "two")), says("COMPLETED"))
    wire.ends(sent)
    assert wire.turns == [("COMPLETED", ["two"], "")]


def test_a_quick_reply_while_the_stream_of_the_question_lingers(wire: Wire) -> None:
    asking = wire.sends()
    wire.streams(asking, task("SUBMITTED"), gives(artifact("a", "one")), says("INPUT_REQUIRED", "Which order?"))
    sent = wire.sends("t")
    wire.ends(asking)
    wire.streams(sent, gives(artifact("b", "two")), says("COMPLETED"))
    wire.ends(sent)
    assert wire.turns == [("INPUT_REQUIRED", ["one"], "Which order?"), ("COMPLETED", ["two"], "")]
    assert wire.findings == [[], []]


def test_a_message_to_a_task_that_is_over(wire: Wire) -> None:
    """Agents refuse it; it is a turn all the same, and the earlier one was complete."""
    lingering = wire.sends()
    wire.streams(lingering, says("COMPLETED", "done"))
    sent = wire.sends("t")
    assert wire.turns == [("COMPLETED", [], "done")]
    assert len(wire.book.open_turns) == 1
    sent.findings.append(Finding("agent_error", "the task is over"))
    wire.ends(sent, final=True)
    assert wire.turns[1:] == [("-", [], "")]
    assert wire.findings == [[], ["agent_error"]]


def test_a_resumed_task_whose_stream_is_cut_stays_open(wire: Wire) -> None:
    asks_back(wire)
    sent = wire.sends("t")
    wire.streams(sent, gives(artifact("b", "two")))
    wire.ends(sent, CUT)
    assert wire.closed == []
    wire.answers(wire.watches(), task("COMPLETED", artifact("a", "one"), artifact("b", "two"), artifact("c", "three")))
    assert wire.turns == [("COMPLETED", ["two", "three"], "")]


@pytest.mark.parametrize("live", [True, False])
def test_a_resumed_task_may_answer_with_a_message(wire: Wire, live: bool) -> None:
    asks_back(wire)
    sent = wire.sends("t")
    wire.book.feed(sent, message("thanks", taskId="t"), wire.now, live=live, size=100)
    wire.ends(sent)
    assert len(wire.closed) == 1
    assert wire.turns[0][2] == "thanks"


def test_the_next_message_closes_a_turn_that_has_not_settled(wire: Wire) -> None:
    wire.answers(wire.sends(), task("WORKING", artifact("a", "one")))
    sent = wire.sends("t")
    assert wire.turns == [("WORKING", ["one"], "")]
    assert wire.findings == [["incomplete"]]
    wire.answers(sent, task("COMPLETED", artifact("a", "one"), artifact("b", "two")))
    assert wire.turns[1:] == [("COMPLETED", ["two"], "")]


def test_a_message_into_a_live_stream(wire: Wire) -> None:
    """Both streams now deliver every event of the task up to its one end: what the second message did is not known."""
    first = wire.sends()
    wire.streams(first, task("WORKING"), gives(artifact("a", "one", text="x")))
    second = wire.sends("t")
    for event in (
        gives(artifact("b", "two", text="y")),
        gives(artifact("b", "three", text="z"), append=True),
        says("COMPLETED"),
    ):
        wire.streams(first, event)
        wire.streams(second, event)
    wire.ends(first)
    wire.ends(second)
    assert wire.turns == [("COMPLETED", ["one", "two", "three"], "x\nyz"), ("COMPLETED", [], "")]
    assert wire.findings == [[], ["calls_missed"]]


ONE, TWO, THREE = (gives(artifact(name, f"{name}#{name}", text=name)) for name in ("one", "two", "three"))


def told_one_by_one() -> list[list[Event]]:
    """What the streams of three messages to one task show, which the agent answers one after the other."""
    events = [at(says("WORKING"), 2), ONE, at(says("INPUT_REQUIRED"), 3)]
    events += [at(says("WORKING"), 4), TWO, at(says("INPUT_REQUIRED"), 5)]
    events += [at(says("WORKING"), 6), THREE, at(says("COMPLETED"), 7)]
    return [events[:3], events[:6], events]


OWN_ENDS = [("INPUT_REQUIRED", ["one"], "one"), ("INPUT_REQUIRED", ["two"], "two"), ("COMPLETED", ["three"], "three")]


@pytest.mark.parametrize("unary", [(), (0,), (1,), (2,), (0, 1, 2)])
@pytest.mark.parametrize("seen", [0, 1, 2])
def test_messages_that_an_agent_answers_one_by_one(wire: Wire, unary: tuple[int, ...], seen: int) -> None:
    """The next ones come while the first is under way, whose stream has shown `seen` events: each has its own calls."""
    streams = told_one_by_one()
    wire.answers(wire.sends(), at(task("INPUT_REQUIRED"), 1))
    shown = [event["artifactUpdate"]["artifact"] for event in (ONE, TWO, THREE)]
    whole = [
        at(task(state, *shown[: number + 1]), 3 + 2 * number)
        for number, state in enumerate(("INPUT_REQUIRED", "INPUT_REQUIRED", "COMPLETED"))
    ]
    first = wire.sends("t")
    wire.streams(first, *streams[0][:seen] if 0 not in unary else ())
    others = [wire.sends("t"), wire.sends("t")]
    for number in (1, 2):  # ahead of what the first one shows
        if number not in unary:
            wire.streams(others[number - 1], *streams[number][seen:])
    for number, sent in enumerate((first, *others)):
        if number in unary:
            wire.answers(sent, whole[number])
        else:
            wire.streams(sent, *streams[0][seen:] if number == 0 else ())
            wire.ends(sent)
    assert wire.turns[1:] == OWN_ENDS
    assert wire.findings[1:] == [[], [], []]


def test_streams_that_interleave_have_each_their_own_calls(wire: Wire) -> None:
    wire.answers(wire.sends(), at(task("INPUT_REQUIRED"), 1))
    first, second = wire.sends("t"), wire.sends("t")
    for event in told_one_by_one()[2]:
        wire.streams(second, event)
        if event in told_one_by_one()[0]:
            wire.streams(first, event)
    wire.ends(first)
    wire.ends(second)
    assert wire.turns[1:] == [OWN_ENDS[0], ("COMPLETED", ["two", "three"], "two\nthree")]


@pytest.mark.parametrize("replayed", ["events", "task", "nothing"])
@pytest.mark.parametrize("seen", range(5))
@pytest.mark.parametrize("dated", [False, True])
@pytest.mark.parametrize("named", [False, True])
def test_two_streams_of_one_task_that_has_one_end(
    wire: Wire, named: bool, dated: bool, seen: int, replayed: str
) -> None:
    """The second message comes after `seen` events, with or without the name of the task: each call is in one turn, and
    what the second one did is not known."""
    events = [task("WORKING"), ONE, TWO, says("COMPLETED")]
    if dated:
        events = [at(events[0], 1), ONE, TWO, at(events[3], 2)]
    shown = [event["artifactUpdate"]["artifact"] for event in events[1:seen] if "artifactUpdate" in event]
    first = wire.sends()
    wire.streams(first, *events[:seen])
    if seen == 4:
        wire.ends(first)
        wire.now += 0.001
    second = wire.sends("t" if named and seen else "")
    wire.streams(first, *events[seen:])
    if seen < 4:
        wire.ends(first)
    before = {"events": events[:seen], "task": [task("WORKING", *shown)], "nothing": []}[replayed]
    wire.streams(second, *before, *events[min(seen, 3) :])
    wire.ends(second)
    if seen == 4 and not named:  # the id is used again
        before = shown if replayed == "task" else ["one", "two"] if replayed == "events" else []
        assert wire.turns[1:] == [("COMPLETED", ["one", "two"] if before else [], "one\ntwo" if before else "")]
        assert wire.findings == [[], []]
        return
    assert wire.turns == [("COMPLETED", ["one", "two"], "one\ntwo"), ("COMPLETED", [], "")]
    assert wire.findings == [[], ["calls_missed"]]


@pytest.mark.parametrize("why", ["client left", "silent", "proxy stops", "too much waits", "memory"])
def test_a_message_does_not_wait_for_ever(why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wire = Wire(options={"max_open_bytes": 60_000} if why == "memory" else {})
    monkeypatch.setattr(turn_book, "MAX_WAITING", 20)
    first = wire.sends()
    wire.streams(first, task("WORKING"), ONE)
    second = wire.sends("t")
    wire.streams(second, ONE, TWO)
    assert wire.turns == []
    match why:
        case "client left":
            wire.ends(first, CUT)
        case "silent":
            wire.passes(301)
        case "proxy stops":
            wire.book.close_all(wire.now)
        case "too much waits":
            wire.streams(second, *[TWO] * 20)
        case "memory":
            wire.streams(second, gives(artifact("b", text="x" * 50_000)))
    assert wire.turns[0] == ("WORKING", ["one"], "one")
    assert "incomplete" in wire.findings[0]
    wire.streams(second, says("COMPLETED"))
    wire.ends(second)
    wire.passes(LINGER_S + 1)
    assert [turn[1] for turn in wire.turns[1:]] == [["two"]]
    assert wire.book.open_turns == []


# ── an answer that repeats the end of the turn before ─────────────────────────────────────────────────────────


def asked(second: float, *artifacts: Event, question: str = "q") -> Event:
    event = at(task("INPUT_REQUIRED", *artifacts, text="Which?"), second)
    event["task"]["status"]["message"]["messageId"] = question
    return event


@pytest.mark.parametrize("live", [False, True])
def test_an_answer_that_repeats_the_end_before_is_no_end(wire: Wire, live: bool) -> None:
    wire.answers(wire.sends(), asked(1, artifact("a", "one")))
    sent = wire.sends("t")
    wire.book.feed(sent, asked(1, artifact("a", "one")), wire.now, live=live, size=100)
    wire.ends(sent)
    assert len(wire.closed) == 1
    wire.passes(LINGER_S + 1)
    assert wire.turns[1:] == [("INPUT_REQUIRED", [], "Which?")]
    assert [turn.visibility.evidence for turn in wire.closed[1:]] == ["calls_missed"]
    wire.answers(wire.sends("t"), asked(3, artifact("a", "one"), artifact("b", "two"), question="r"))
    assert wire.findings[2] == ["earlier_calls_unknown"]


@pytest.mark.parametrize("shown_to", ["webhook", "poll", "subscription"])
def test_after_a_repeated_end_others_show_the_turns_own(wire: Wire, shown_to: str) -> None:
    hook = wire.book.watch(notified=True)
    sent = wire.sends()
    wire.streams(hook, asked(1, artifact("a", "one")))
    wire.answers(sent, asked(1, artifact("a", "one")))
    sent = wire.sends("t")
    wire.answers(sent, asked(1, artifact("a", "one")))
    watch = hook if shown_to == "webhook" else wire.watches()
    done = at(task("COMPLETED", artifact("a", "one"), artifact("b", "two")), 3)
    if shown_to == "poll":
        wire.answers(watch, done)
    else:
        wire.streams(watch, at(says("WORKING"), 2), gives(artifact("b", "two")))
        wire.passes(LINGER_S + 1)
        assert len(wire.closed) == 1
        wire.streams(watch, at(says("COMPLETED"), 3))
        wire.passes(LINGER_S + 1)
        wire.ends(watch)
    assert [turn[:2] for turn in wire.turns] == [("INPUT_REQUIRED", ["one"]), ("COMPLETED", ["two"])]
    assert wire.findings == [[], []]


@pytest.mark.parametrize("written", ["2026-01-01T00:00:01Z", "2026-01-01T00:00:01.000+00:00"])
def test_the_same_time_in_another_binding_is_the_same_status(wire: Wire, written: str) -> None:
    wire.answers(wire.sends(), asked(1))
    again = asked(1)
    again["task"]["status"]["timestamp"] = written
    wire.answers(wire.sends("t"), again)
    wire.passes(LINGER_S + 1)
    assert wire.findings == [[], ["calls_missed"]]


@pytest.mark.parametrize("again", [asked(2), asked(1, question="r")])
def test_a_task_that_asks_again_is_a_turns_own_end(wire: Wire, again: Event) -> None:
    wire.answers(wire.sends(), asked(1))
    wire.answers(wire.sends("t"), again)
    assert wire.findings == [[], []]


def test_a_subscription_beside_a_resumed_turn(wire: Wire) -> None:
    asks_back(wire)
    sent, watching = wire.sends("t"), wire.watches()
    wire.streams(watching, task("WORKING", artifact("a", "one", text="so far")))  # it is heard of first
    for event in (
        gives(artifact("b", "two", text="y")),
        gives(artifact("b", text="z"), append=True),
        says("COMPLETED"),
    ):
        wire.streams(sent, event)
        wire.streams(watching, event)
    wire.ends(sent)
    wire.ends(watching)
    assert wire.turns == [("COMPLETED", ["two"], "yz")]


def test_when_the_stream_of_a_resumed_turn_is_cut_the_other_one_counts(wire: Wire) -> None:
    """The subscriber's view shows the whole task; what was earlier stays earlier."""
    asks_back(wire)
    sent, watching = wire.sends("t"), wire.watches()
    wire.streams(sent, says("WORKING"))
    wire.streams(watching, task("WORKING", artifact("a", "one", text="so far")))
    wire.ends(sent, CUT)
    wire.streams(watching, gives(artifact("b", "two", text="done")), says("COMPLETED"))
    wire.ends(watching)
    assert wire.turns == [("COMPLETED", ["two"], "done")]


def test_two_messages_to_a_task_that_began_elsewhere(wire: Wire) -> None:
    """The proxy learns of the task from the first one's answer: what that showed is not the second one's doing."""
    first, second = wire.sends("t"), wire.sends("t")
    wire.answers(first, task("INPUT_REQUIRED", artifact("a", "one")))
    wire.answers(second, task("COMPLETED", artifact("a", "one"), artifact("b", "two")))
    assert wire.turns == [("INPUT_REQUIRED", ["one"], ""), ("COMPLETED", ["two"], "")]


def test_a_task_may_be_continued_much_later(wire: Wire) -> None:
    """People take their time to answer."""
    asks_back(wire)
    wire.passes(3600)
    wire.answers(wire.sends("t"), task("COMPLETED", artifact("a", "one"), artifact("b", "two")))
    assert wire.turns == [("COMPLETED", ["two"], "")]


def test_a_task_whose_user_never_answers_is_forgotten_in_the_end(wire: Wire) -> None:
    asks_back(wire)
    wire.passes(3601)
    assert not wire.book._tasks.records


# ── time, limits, the end ───────────────────────────────────────────────────────────────────────────────────


def test_a_task_nobody_hears_of_any_more(wire: Wire) -> None:
    wire.answers(wire.sends(), task("WORKING", artifact("a", "one")))
    wire.passes(300)
    assert wire.closed == []
    wire.passes(1)
    assert wire.turns == [("WORKING", ["one"], "")]
    assert wire.findings == [["incomplete"]]
    assert "300 s" in wire.closed[0].findings[0].message
    wire.passes(1000)
    assert len(wire.closed) == 1


def test_news_of_a_task_put_the_timeout_off(wire: Wire) -> None:
    wire.answers(wire.sends(), task("WORKING"))
    for _ in range(5):
        wire.passes(200)
        wire.answers(wire.watches(), task("WORKING"))
    assert wire.closed == []


def test_a_silent_stream_is_timed_out(wire: Wire) -> None:
    sent = wire.sends()
    wire.streams(sent, task("WORKING", artifact("a", "search")))
    wire.passes(299)
    assert wire.closed == []
    wire.passes(2)
    assert wire.turns == [("WORKING", ["search"], "")]
    assert wire.findings == [["incomplete"]]
    wire.streams(sent, says("COMPLETED"))
    wire.ends(sent)
    assert len(wire.closed) == 1
    assert wire.book.open_turns == []


def test_a_stream_with_nothing_but_comments_is_alive(wire: Wire) -> None:
    sent = wire.sends()
    wire.streams(sent, task("WORKING"))
    for _ in range(5):
        wire.passes(200)
        wire.book.touch(sent, wire.now)
    assert wire.closed == []
    wire.streams(sent, says("COMPLETED"))
    wire.ends(sent)
    assert wire.findings == [[]]


def test_a_request_that_is_not_answered_is_timed_out(wire: Wire) -> None:
    sent = wire.sends()
    wire.passes(301)
    assert wire.findings == [["incomplete"]]
    assert wire.book.open_turns == []
    wire.answers(sent, task("COMPLETED"))
    assert len(wire.closed) == 1


def test_a_clock_that_is_set_back_ends_no_turn_before_its_start(wire: Wire) -> None:
    sent = wire.sends()
    wire.now -= 86_400
    wire.answers(sent, task("COMPLETED"))
    (turn,) = wire.closed
    assert turn.ended_at == turn.first_event_at == turn.started_at


def test_a_task_with_a_webhook_is_not_timed_out_as_long_as_it_has_one() -> None:
    notified = {"t"}
    wire = Wire(options={"notified": notified})
    sent = wire.sends()
    wire.answers(sent, task("WORKING", task_id="t"))
    wire.ends(sent)
    for _ in range(5):
        wire.passes(10_000)
    assert wire.closed == []
    notified.clear()
    wire.passes(301)
    assert wire.findings == [["incomplete"]]


def test_the_timeout_can_be_set() -> None:
    wire = Wire(options={"turn_timeout_s": 5.0})
    wire.answers(wire.sends(), task("WORKING"))
    wire.passes(6)
    assert wire.findings == [["incomplete"]]


def test_the_task_not_heard_of_for_longest_goes_first_when_there_are_too_many() -> None:
    wire = Wire(options={"max_open": 2})
    for task_id in ("t1", "t2"):
        wire.answers(wire.sends(), task("WORKING", task_id=task_id))
    wire.now += 1
    wire.answers(wire.watches(), task("WORKING", task_id="t1"))
    wire.answers(wire.sends(), task("WORKING", task_id="t3"))
    assert [turn.task_id for turn in wire.closed] == ["t2"]
    assert wire.findings == [["incomplete"]]
    assert [turn.task_id for turn in wire.book.open_turns] == ["t1", "t3"]


def test_the_stream_of_a_task_that_was_given_up_harms_nobody() -> None:
    wire = Wire(options={"max_open": 1})
    one, two = wire.sends(), wire.sends()
    wire.streams(one, task("WORKING", task_id="t1"))
    wire.streams(two, task("WORKING", task_id="t2"))
    assert [turn.task_id for turn in wire.closed] == ["t1"]
    wire.streams(one, says("COMPLETED", task_id="t1"))
    wire.ends(one)
    wire.streams(two, says("COMPLETED", task_id="t2"))
    wire.ends(two)
    assert [turn.task_id for turn in wire.closed] == ["t1", "t2"]


# ── memory ──────────────────────────────────────────────────────────────────────────────────────────────────

LARGE = "x" * 10_000


def bounded(limit: int) -> tuple[Wire, list[int]]:
    """A wire whose turn book may hold `limit` bytes, and how many turns it closes for want of room."""
    evicted: list[int] = []
    return Wire(options={"max_open_bytes": limit, "on_evicted": evicted.append}), evicted


def test_what_clients_leave_behind_is_bounded() -> None:
    wire, evicted = bounded(2**17)
    for number in range(50):
        wire.now += 1
        sent = wire.sends()
        wire.streams(sent, gives(artifact("a", text=LARGE), task_id=f"t{number}"))
        wire.ends(sent, Finding("client_gone", "the client left"))
        assert wire.book.held_bytes <= 2**17
    assert [turn.task_id for turn in wire.closed] == [f"t{number}" for number in range(len(wire.closed))]
    assert len(wire.closed) + len(wire.book.open_turns) == 50
    assert sum(evicted) == len(wire.closed) > 35
    assert {turn.response_text for turn in wire.closed} == {LARGE}
    reasons = {finding.message for turn in wire.closed for finding in turn.findings if finding.code == "incomplete"}
    assert reasons == {"the turn was closed before it was complete: open turns take more than 0.125 MiB"}


def test_turns_whose_client_has_left_make_room_before_those_whose_client_waits() -> None:
    wire, _ = bounded(100_000)
    waits = wire.sends()
    wire.streams(waits, gives(artifact("a", text=LARGE), task_id="waits"))
    for number in range(20):
        wire.now += 1
        leaves = wire.sends()
        wire.streams(leaves, gives(artifact("a", text=LARGE), task_id=f"t{number}"))
        wire.ends(leaves)
    wire.streams(waits, says("COMPLETED", task_id="waits"))
    wire.ends(waits)
    (turn,) = [turn for turn in wire.closed if turn.task_id == "waits"]
    assert (turn.state, turn.response_text, turn.findings) == ("TASK_STATE_COMPLETED", LARGE, [])


def test_tasks_that_wait_for_their_user_make_room_before_any_turn_is_closed() -> None:
    wire, evicted = bounded(100_000)
    for number in range(20):
        wire.now += 1
        wire.answers(wire.sends(), task("INPUT_REQUIRED", artifact("a", text=LARGE), task_id=f"t{number}"))
        assert wire.book.held_bytes <= 100_000
    assert (len(wire.closed), evicted, wire.findings) == (20, [], [[]] * 20)


def test_a_turn_that_is_too_large_makes_room_before_the_others() -> None:
    wire, _ = bounded(100_000)
    small, large = wire.sends(), wire.sends()
    wire.streams(small, gives(artifact("a", text=LARGE), task_id="small"))
    wire.now += 1
    wire.streams(large, gives(artifact("a", text=9 * LARGE), task_id="large"))
    assert [turn.task_id for turn in wire.closed] == ["large"]


def test_what_comes_for_a_turn_that_had_to_make_room_is_not_kept() -> None:
    wire, evicted = bounded(100_000)
    sent = wire.sends()
    for number in range(50):
        wire.streams(sent, gives(artifact(f"a{number}", text=f"{number} {LARGE}"), task_id="t"))
        assert measured(sent.merger) + wire.book.held_bytes < 200_000
    assert (sent.turn, sent.record, evicted) == (None, None, [1])
    wire.ends(sent)
    assert (len(wire.closed), wire.book.held_bytes) == (1, 0)


def test_what_a_turn_does_not_keep_does_not_close_it() -> None:
    """Cumulative lists, chunks with much around their text, and snapshots that polls repeat."""
    wire, evicted = bounded(400_000)
    one, two = wire.sends(), wire.sends()
    names = [f"call#{number}" for number in range(100)]
    for number in range(1, 101):
        wire.streams(one, gives(artifact("a", *names[:number]), append=True, task_id="one"))
        wire.streams(two, gives(artifact("a", text="word " * 5), append=True, task_id="two"))
    wire.streams(two, says("INPUT_REQUIRED", task_id="two"))
    for _ in range(100):
        wire.answers(wire.watches(), task("WORKING", artifact("a", *names), task_id="one"))
    wire.answers(wire.watches(), task("COMPLETED", artifact("a", *names), task_id="one"))
    wire.ends(one)
    wire.ends(two)
    assert (evicted, [len(turn.tool_calls) for turn in wire.closed]) == ([], [100, 0])


def test_what_waits_for_the_store_counts() -> None:
    asked: list[str] = []
    wire = Wire(options={"max_open_bytes": 100_000, "store": AskedStore(asked)})
    for number in range(20):
        wire.now += 1
        sent = wire.sends(f"t{number}")
        wire.streams(sent, gives(artifact("a", text=LARGE), task_id=f"t{number}"))
        assert wire.book.held_bytes <= 100_000
    assert len(asked) == 20
    assert "earlier_calls_unknown" not in wire.findings[0]  # it has no calls
    assert wire.closed


_tasks = st.sampled_from(["t0", "t1", "t2"])
_events = st.one_of(
    st.builds(lambda t, n: gives(artifact(f"a{n}", "call", text="x" * 3_000), task_id=t), _tasks, st.integers(0, 3)),
    st.builds(lambda t, s: says(s, task_id=t), _tasks, st.sampled_from(["WORKING", "INPUT_REQUIRED", "COMPLETED"])),
    st.builds(lambda t, s: task(s, artifact("a", "one"), task_id=t), _tasks, st.sampled_from(["WORKING", "FAILED"])),
    st.just(message("x" * 3_000)),
    almost_events.filter(lambda event: isinstance(event, dict)),
)
_steps = st.one_of(
    st.tuples(st.just("send"), st.sampled_from(["", "t0", "t1"])),
    st.tuples(st.just("watch"), st.none()),
    st.tuples(st.sampled_from(["stream", "answer"]), st.tuples(st.integers(0, 9), _events)),
    st.tuples(st.just("end"), st.integers(0, 9)),
    st.tuples(st.just("pass"), st.sampled_from([1, 3, 400])),
    st.tuples(st.just("found"), _tasks),
)


@given(st.lists(_steps, max_size=40), st.sampled_from([20_000, 10**9]))
def test_held_bytes_are_what_is_held(steps: list[tuple[str, Any]], limit: int) -> None:
    asked: list[str] = []
    wire = Wire(options={"max_open_bytes": limit, "store": AskedStore(asked)})
    under_way: list[TaskWatcher] = []
    sent = 0
    for step, what in steps:
        wire.now += 0.1
        if step == "send":
            under_way.append(wire.sends(what))
            sent += 1
        elif step == "watch":
            under_way.append(wire.watches())
        elif step == "pass":
            wire.passes(what)
        elif step == "found":
            wire.book.found(what, TaskHistory(), wire.now)
        elif step == "end" and under_way:
            wire.ends(under_way.pop(what % len(under_way)))
        elif step in ("stream", "answer") and under_way:
            number, event = what
            wire.book.feed(
                under_way[number % len(under_way)], event, wire.now, live=step == "stream", size=size_of(event)
            )
        # a poll of a task that was given up has an empty view, until it reads on
        of_tasks = [one for one in under_way if one.record and not one.record.forgotten]
        views = {id(one.merger): measured(one.merger) for one in of_tasks}
        waiting = any(one.lookup is not None and not one.lookup.answered for one in under_way)
        assert wire.book.held_bytes <= limit
        assert waiting or sum(views.values()) <= wire.book.held_bytes
    for one in under_way:
        wire.ends(one)
    for task_id in asked:
        wire.book.found(task_id, TaskHistory(), wire.now)
    for _ in range(3):
        wire.passes(4_000)
    assert (len(wire.closed), wire.book.held_bytes, wire.book.open_turns) == (sent, 0, [])


def test_when_the_proxy_stops(wire: Wire) -> None:
    wire.sends()
    wire.answers(wire.sends(), task("WORKING", artifact("a", "one"), task_id="t1"))
    settled = wire.sends()
    wire.streams(settled, says("COMPLETED", "done", task_id="t2"))
    wire.book.close_all(wire.now)
    assert wire.turns == [("-", [], ""), ("WORKING", ["one"], ""), ("COMPLETED", [], "done")]
    assert wire.findings == [["incomplete"], ["incomplete"], []]
    assert wire.book.open_turns == []
    wire.book.close_all(wire.now)
    assert len(wire.closed) == 3
    wire.streams(settled, says("COMPLETED", task_id="t2"))
    wire.ends(settled)
    assert len(wire.closed) == 3


def test_a_message_that_lingers_when_the_proxy_stops_is_complete(wire: Wire) -> None:
    wire.streams(wire.sends(), message("hi"))
    wire.book.close_all(wire.now)
    assert wire.turns == [("-", [], "hi")]
    assert wire.findings == [[]]


def test_findings_of_the_merger_and_of_the_exchange_reach_the_turn(wire: Wire) -> None:
    sent = wire.sends()
    wire.streams(sent, task("WORKING"), gives(artifact("a", "one"), append=True))
    sent.findings.append(Finding("malformed_response", "an event was no JSON"))
    wire.streams(sent, says("COMPLETED"))
    wire.ends(sent)
    assert sorted(wire.findings[0]) == ["append_to_unknown_artifact", "malformed_response"]


def test_the_uri_may_be_optional() -> None:
    wire = Wire(options={"require_artifact_uri": False})
    content = artifact("a", "one")
    del content["extensions"]
    wire.answers(wire.sends(), task("COMPLETED", content))
    assert wire.turns == [("COMPLETED", ["one"], "")]


# ── whatever happens ────────────────────────────────────────────────────────────────────────────────────────

good_events = st.sampled_from(
    [
        task("WORKING", artifact("a", "one")),
        task("INPUT_REQUIRED", task_id="t1"),
        task("COMPLETED", artifact("a", "one"), task_id="t1"),
        says("COMPLETED", task_id="t1"),
        says("WORKING", task_id="t1"),
        gives(artifact("b", "two"), task_id="t1"),
        message("hi"),
        message("hi", taskId="t1"),
    ]
)
steps = st.lists(
    st.tuples(
        st.sampled_from(["send", "resume", "watch", "live", "answer", "end", "fail", "time"]),
        good_events | almost_events,
        st.integers(0, 5),
    ),
    max_size=12,
)


@pytest.mark.slow
@settings(max_examples=300)
@given(steps, st.sampled_from([1, 50_000]))
def test_every_turn_is_closed_exactly_once(script: list[tuple[str, Any, int]], max_open: int) -> None:
    wire = Wire(options={"max_open": max_open})
    open_streams: list[TaskWatcher] = []
    opened = 0
    for action, event, pick in script:
        stream = open_streams[pick % len(open_streams)] if open_streams else None
        if action in ("send", "resume"):
            open_streams.append(wire.sends("t1" if action == "resume" else ""))
            opened += 1
        elif action == "watch":
            open_streams.append(wire.watches())
        elif action == "time":
            wire.passes(pick * 100.0)
        elif stream is not None and action in ("live", "answer") and isinstance(event, dict):
            wire.book.feed(stream, event, wire.now, live=action == "live", size=100)
        elif stream is not None and action in ("end", "fail"):
            open_streams.remove(stream)
            wire.ends(stream, CUT if action == "fail" else None, final=action == "fail")
        assert opened == len(wire.closed) + len(wire.book.open_turns)
        assert 0 <= wire.book.answered <= len(wire.book.open_turns)
    for stream in open_streams:
        wire.ends(stream)
    wire.book.close_all(wire.now)
    assert wire.book.open_turns == []
    assert Counter(turn.turn_id for turn in wire.closed) == Counter(f"turn-{n}" for n in range(1, opened + 1))
    assert all(turn.status == "pending" and turn.ended_at is not None for turn in wire.closed)
    assert all(turn.to_dict() for turn in wire.closed)
