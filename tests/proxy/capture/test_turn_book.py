"""Turns joined from exchanges: transcripts of what clients and agents do, and what must come out."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from typing import Any

import pytest
from a2a_eval_proxy.capture.task_fold import LINGER_S, FoldRules
from a2a_eval_proxy.capture.turn_book import MAX_AT_ONCE, MAX_OWN_S, BookEntry
from a2a_eval_proxy.memory import of_json
from a2a_eval_proxy.turn import Turn
from a2a_tool_capture import METADATA_KEY, URI, Finding
from hypothesis import given, settings
from hypothesis import strategies as st
from support.folded import Folded
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


class Wire(Folded):
    """Clients, as a test plays them."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._numbers = itertools.count(1)

    def sends(self, task_id: str = "") -> BookEntry:
        """A client sends a message; to continue a task, it names it."""
        number = next(self._numbers)
        turn = Turn(f"turn-{number}", "run", "http://agent", "JSONRPC", "1.0", self.now, task_id=task_id)
        return self.book.open(turn, self.now)

    def watches(self) -> BookEntry:
        return self.book.follow()

    def streams(self, stream: BookEntry, *events: Event) -> None:
        for event in events:
            self.book.feed(stream, event, self.now, live=True, size=size_of(event))

    def answers(self, stream: BookEntry, event: Event) -> None:
        self.book.feed(stream, event, self.now, live=False, size=size_of(event))
        self.ends(stream)

    def ends(self, stream: BookEntry, problem: Finding | None = None, *, final: bool = False) -> None:
        self.book.end(stream, self.now, problem=problem, final=final)

    def passes(self, seconds: float) -> None:
        self.now += seconds
        self.book.expire(self.now)
        assert self.closed is not None  # folded at this time, too

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
    hook = wire.book.follow(notified=True)
    sent = wire.book.open(Turn("turn-a", "run", "", "JSONRPC", "1.0", wire.now), wire.now, returns_at_once=True)
    wire.answers(sent, at(task("SUBMITTED"), 1))
    wire.streams(hook, at(task("SUBMITTED"), 1), at(says("WORKING"), 2), gives(artifact("a", "one#1")))
    wire.streams(hook, at(says("INPUT_REQUIRED"), 3))
    wire.answers(wire.sends("t"), at(task("COMPLETED", artifact("a", "one#1"), artifact("b", "two#2")), 5))
    wire.streams(hook, gives(artifact("b", "two#2")), at(says("COMPLETED"), 5))
    assert wire.turns == [("INPUT_REQUIRED", ["one"], ""), ("COMPLETED", ["two"], "")]
    assert wire.findings == [[], []]


def test_notifications_may_lag_behind_what_a_client_is_shown(wire: Wire) -> None:
    hook = wire.book.follow(notified=True)
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
    hook, stream = wire.book.follow(notified=True), wire.sends()
    wire.streams(stream, at(task("WORKING"), 1))
    wire.streams(hook, at(task("INPUT_REQUIRED", artifact("a", "one")), 2))
    assert wire.book.number_answered == 0
    wire.ends(stream, CUT)
    wire.passes(LINGER_S + 1)
    assert wire.turns == [("INPUT_REQUIRED", ["one"], "")]


def test_a_notification_may_come_before_the_answer_that_names_its_task(wire: Wire) -> None:
    sent, hook = wire.sends(), wire.book.follow(notified="h")
    wire.streams(hook, at(task("WORKING"), 1), gives(artifact("a", "one")))
    wire.streams(hook, at(says("COMPLETED"), 2))
    wire.answers(sent, at(task("SUBMITTED"), 1))
    wire.passes(LINGER_S + 1)
    assert wire.turns == [("COMPLETED", ["one"], "")]


def test_what_was_read_of_a_task_before_its_turn_is_not_of_it(wire: Wire) -> None:
    """Agents use ids again: a client reads the task of before while another one begins."""
    sent = wire.sends()
    wire.answers(wire.watches(), task("COMPLETED", artifact("a", "before")))
    wire.answers(sent, task("COMPLETED", artifact("b", "one")))
    assert wire.turns == [("COMPLETED", ["one"], "")]


def test_what_came_before_the_message_that_continues_a_task_does_not_count_for_its_turn(wire: Wire) -> None:
    hook = wire.book.follow(notified="h")
    wire.streams(hook, at(task("WORKING"), 1), gives(artifact("a", "one#1")), at(says("INPUT_REQUIRED"), 2))
    sent = wire.sends("t")
    wire.streams(hook, at(says("WORKING"), 3), gives(artifact("b", "two#2")))
    wire.answers(sent, at(task("WORKING"), 3))
    wire.streams(hook, at(says("INPUT_REQUIRED"), 4))
    wire.passes(LINGER_S + 1)
    assert wire.turns == [("INPUT_REQUIRED", ["two"], "")]


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


def test_an_answer_of_which_a_webhook_was_notified_outlives_the_process(wire: Wire) -> None:
    wire.answers(wire.sends(), at(task("SUBMITTED"), 1))
    wire.streams(wire.book.follow(notified="h"), gives(artifact("a", "one")), at(says("INPUT_REQUIRED"), 2))
    wire.begins("next", restarted=True)
    wire.sends("t")
    assert wire.turns == [("INPUT_REQUIRED", ["one"], "")]
    assert wire.findings == [[]]


def test_a_turn_that_the_store_lost_is_noticed_by_the_messages_of_the_task(wire: Wire) -> None:
    wire.answers(wire.sends(), task("INPUT_REQUIRED", artifact("a", "one")))
    wire.forgets()  # and another turn, which was not stored
    answer = task("INPUT_REQUIRED", artifact("a", "one"), artifact("b", "lost"), artifact("c", "three"))
    answer["task"]["history"] = [{"role": "ROLE_USER"}, {"role": "ROLE_AGENT"}] * 3
    wire.answers(wire.sends("t"), answer)
    assert [calls for _, calls, _ in wire.turns] == [["one"], ["lost", "three"]]
    assert wire.findings == [[], ["earlier_calls_unknown"]]


@pytest.mark.parametrize("meanwhile", ["nothing", "restart", "another proxy"])
def test_calls_of_a_turn_without_its_end_are_unknown_until_a_task_shows_them(wire: Wire, meanwhile: str) -> None:
    wire.answers(wire.sends(), task("WORKING"))  # and nobody sees its end
    made = [artifact("unseen", "unseen")]
    for number, streamed in enumerate((True, True, False, False), start=2):
        if meanwhile != "nothing":
            wire.begins(f"proxy{number}", restarted=meanwhile == "restart")
        made.append(artifact(f"a{number}", f"call{number}"))
        sent = wire.sends("t")
        if streamed:
            wire.streams(sent, says("WORKING"), gives(made[-1]), says("INPUT_REQUIRED"))
            wire.ends(sent)
        else:
            wire.answers(sent, task("INPUT_REQUIRED", *made))
    assert [calls for _, calls, _ in wire.turns] == [[], ["call2"], ["call3"], ["unseen", "call4"], ["call5"]]
    assert wire.findings == [["incomplete"], *[["earlier_calls_unknown"]] * 3, []]


def test_what_a_killed_proxy_had_seen_last_is_missing_unless_a_task_shows_it(wire: Wire) -> None:
    wire.answers(wire.sends(), at(task("SUBMITTED"), 1))
    wire.streams(wire.book.follow(notified="h"), at(says("WORKING"), 1))
    wire.begins("next", restarted=True)  # what the first was notified of last is nowhere
    wire.now += 1
    wire.streams(wire.book.follow(notified="h"), at(says("INPUT_REQUIRED"), 2))
    wire.passes(LINGER_S + 1)
    wire.answers(wire.sends("t"), at(task("COMPLETED", artifact("a", "one"), artifact("b", "two")), 4))
    assert [calls for _, calls, _ in wire.turns] == [[], ["one", "two"]]
    assert wire.findings == [["calls_missed"], ["earlier_calls_unknown"]]


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
def test_a_task_that_goes_on_without_a_message_is_noticed_once(wire: Wire, shown_to: str) -> None:
    hook = wire.book.follow(notified="h")
    asks = at(task("AUTH_REQUIRED", artifact("a", "one")), 1)
    wire.answers(wire.sends(), asks)
    wire.answers(wire.watches(), asks)
    wire.streams(hook, at(says("WORKING"), 0), at(says("AUTH_REQUIRED"), 1))
    assert wire.findings == [[]]
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
    assert wire.findings[0] == ([] if shown_to == "nobody" else ["calls_missed"])
    assert [calls for _, calls, _ in wire.turns] == [["one"], ["three"]]


@pytest.mark.parametrize("passed", [0.0, 60.0])
@pytest.mark.parametrize("before", [[], ["one"]])
def test_calls_that_a_task_shows_first_after_its_end_are_noticed(wire: Wire, before: list[str], passed: float) -> None:
    shared = artifact("a", *before, text="x")
    wire.answers(wire.sends(), task("INPUT_REQUIRED", artifact("a", text="x")))
    sent = wire.sends("t")
    wire.streams(sent, gives(shared), says("COMPLETED"))
    wire.ends(sent)
    assert [calls for _, calls, _ in wire.turns] == [[], before]
    wire.passes(passed)
    wire.answers(wire.watches(), task("COMPLETED", shared))
    wire.streams(wire.book.follow(notified="h"), gives(shared))
    assert wire.findings == [[], []]
    for _ in range(2):
        wire.answers(wire.watches(), task("COMPLETED", shared, artifact("b", "two")))
    assert wire.findings == [[], ["calls_missed"]]


def test_events_of_another_task_neither_end_a_turn_nor_are_its_calls(wire: Wire) -> None:
    sent = wire.sends()
    wire.streams(sent, task("WORKING"), gives(artifact("x", "foreign"), task_id="u"), says("FAILED", "no", task_id="u"))
    wire.streams(sent, gives(artifact("a", "one")), says("COMPLETED"))
    wire.ends(sent)
    assert wire.turns == [("COMPLETED", ["one"], "")]
    assert "calls_not_on_artifact" in wire.findings[0]
    assert wire.closed[0].task_id == "t"


@pytest.mark.parametrize("meanwhile", ["nothing", "restart", "restart, much later"])
@pytest.mark.parametrize("shown_to", ["poll", "subscription", "webhook", "nobody"])
def test_a_task_that_shows_calls_after_its_end_is_noticed_once(wire: Wire, shown_to: str, meanwhile: str) -> None:
    wire.answers(wire.sends(), at(task("COMPLETED", text="done"), 1))
    if meanwhile != "nothing":
        wire.begins("next", restarted=True)
    shown = task("COMPLETED", artifact("a", "one")) if shown_to != "nobody" else task("COMPLETED")
    for _ in range(2):
        if shown_to == "subscription":
            wire.streams(watch := wire.watches(), at(shown, 1))
            wire.ends(watch)
        elif shown_to == "webhook":
            wire.streams(wire.book.follow(notified="h"), gives(artifact("a", "one")))
        else:
            wire.answers(wire.watches(), at(shown, 1))
        if "later" in meanwhile:
            wire.forgets()
    assert wire.findings == [[] if shown_to == "nobody" else ["calls_missed"]]


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
    hook = wire.book.follow(notified="h")
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
    hook = wire.book.follow(notified="h")
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


def test_an_open_turn_goes_on_where_its_task_is_asked_for(wire: Wire) -> None:
    sent = wire.sends()
    wire.streams(sent, task("WORKING"), gives(artifact("a", "search", text="4")))
    wire.ends(sent, CUT)
    wire.begins("another")
    watching = wire.watches()
    wire.streams(watching, task("WORKING", artifact("a", "search", text="4")))
    wire.streams(watching, gives(artifact("a", text="2"), append=True), says("COMPLETED"))
    wire.ends(watching)
    assert wire.turns == [("COMPLETED", ["search"], "42")]
    assert wire.findings == [["upstream_cut"]]


def test_what_was_known_of_an_open_turn_stands_where_nothing_more_comes(wire: Wire) -> None:
    sent = wire.sends()
    wire.streams(sent, task("WORKING"), gives(artifact("a", "search", text="42")))
    wire.ends(sent, CUT)
    wire.begins("next", restarted=True)
    watching = wire.watches()
    wire.streams(watching, says("WORKING"))
    wire.ends(watching)
    wire.passes(301)
    assert wire.turns == [("WORKING", ["search"], "42")]
    assert wire.findings == [["upstream_cut", "incomplete"]]


@given(
    st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.booleans()), min_size=1, max_size=6),
    st.sampled_from(["", "#own", "#0"]),
)
def test_a_task_goes_on_after_restarts(turns: list[tuple[int, bool, bool]], ids: str) -> None:
    """Each turn: how many calls it makes, whether it is streamed, and whether a restart comes before it.

    With ids that begin at 0 again in each turn the calls differ by name.
    """
    wire = Wire()
    artifacts: list[Event] = []
    expected = []
    for number, (count, streamed, restarted) in enumerate(turns):
        if restarted:
            wire.begins(f"proxy{number}", restarted=number % 2 == 0)
            if number % 3 == 0:
                wire.forgets()
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
        artifacts.append(made)
    assert [(calls, text) for _, calls, text in wire.turns] == expected


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
    assert wire.open_turns == []


def test_a_stream(wire: Wire) -> None:
    sent = wire.sends()
    wire.streams(sent, task("SUBMITTED"), says("WORKING"))
    wire.now += 1
    wire.streams(sent, gives(artifact("a", "search", text="4")), gives(artifact("a", text="2"), append=True))
    wire.streams(sent, says("COMPLETED"))
    assert wire.closed == []
    assert wire.book.number_answered == 1
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
    assert wire.open_turns == []


@pytest.mark.parametrize("state", ["COMPLETED", "FAILED", "CANCELED", "REJECTED", "INPUT_REQUIRED", "AUTH_REQUIRED"])
def test_states_that_close_a_turn(wire: Wire, state: str) -> None:
    wire.answers(wire.sends(), task(state, text="why"))
    assert wire.turns == [(state, [], "why")]


@pytest.mark.parametrize("state", ["SUBMITTED", "WORKING", "UNSPECIFIED"])
def test_states_that_leave_a_turn_open(wire: Wire, state: str) -> None:
    wire.answers(wire.sends(), task(state))
    assert wire.closed == []
    assert len(wire.open_turns) == 1


def test_a_settled_task_whose_stream_lingers(wire: Wire) -> None:
    sent = wire.sends()
    wire.streams(sent, says("COMPLETED", "done"))
    wire.passes(LINGER_S)
    assert wire.closed == []
    wire.passes(LINGER_S)
    assert wire.turns == [("COMPLETED", [], "done")]


def test_what_a_stream_says_after_its_turn_was_closed_is_of_that_turn(wire: Wire) -> None:
    sent = wire.sends()
    wire.streams(sent, says("COMPLETED"))
    wire.passes(2 * LINGER_S)
    assert wire.turns == [("COMPLETED", [], "")]
    wire.streams(sent, gives(artifact("a", "late")), says("COMPLETED"))
    wire.ends(sent)
    assert wire.turns == [("COMPLETED", ["late"], "")]


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
    assert wire.open_turns == []


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
    wire.skipped = len(wire.closed)


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
    assert len(wire.open_turns) == 1
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


@pytest.mark.parametrize("why", ["client left", "silent", "proxy stops"])
def test_a_message_does_not_wait_for_ever(wire: Wire, why: str) -> None:
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
            wire.stops()
    assert wire.turns[0] == ("WORKING", ["one"], "one")
    assert "incomplete" in wire.findings[0]
    wire.streams(second, says("COMPLETED"))
    wire.ends(second)
    wire.passes(LINGER_S + 1)
    assert [turn[1] for turn in wire.turns[1:]] == [["two"]]
    assert wire.open_turns == []


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
    hook = wire.book.follow(notified=True)
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
    assert wire.open_turns == []


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


def test_streams_that_began_together_are_handed_over_some_at_a_time(wire: Wire) -> None:
    tasks = [f"t{number}" for number in range(2 * MAX_AT_ONCE + 1)]
    for name in tasks:
        wire.streams(wire.sends(), task("WORKING", task_id=name))
    handed_over = []
    for seconds in (MAX_OWN_S + 1, 0, 0):
        wire.passes(seconds)
        handed_over.append(len(wire.log))
    assert handed_over == [MAX_AT_ONCE, 2 * MAX_AT_ONCE, len(tasks)]
    assert {turn.task_id for turn in wire.open_turns} == set(tasks)


def test_signs_of_life_are_observed_of_some_streams_at_a_time(wire: Wire) -> None:
    streams = [wire.sends(f"t{number}") for number in range(MAX_AT_ONCE + 1)]
    wire.now += wire.rules.timeout_s / 2
    for stream in streams:
        wire.book.touch(stream, wire.now)
    alive = []
    for _ in range(2):
        wire.book.expire(wire.now)
        alive.append(sum(observations[-1]["kind"] == "alive" for observations in wire.log.values()))
    assert alive == [MAX_AT_ONCE, len(streams)]


def test_a_request_that_is_not_answered_is_timed_out(wire: Wire) -> None:
    sent = wire.sends()
    wire.passes(301)
    assert wire.findings == [["incomplete"]]
    assert wire.open_turns == []
    wire.answers(sent, task("COMPLETED"))
    assert len(wire.closed) == 1


def test_a_clock_that_is_set_back_ends_no_turn_before_its_start(wire: Wire) -> None:
    sent = wire.sends()
    wire.now -= 86_400
    wire.answers(sent, task("COMPLETED"))
    (turn,) = wire.closed
    assert turn.ended_at == turn.first_event_at == turn.started_at


def test_a_task_with_a_webhook_is_not_timed_out_as_long_as_it_has_one() -> None:
    wire = Wire(awaited=True)
    wire.answers(wire.sends(), task("WORKING"))
    for _ in range(5):
        wire.passes(10_000)
    assert wire.closed == []
    wire.awaited = False
    wire.passes(301)
    assert wire.findings == [["incomplete"]]


def test_the_timeout_can_be_set() -> None:
    wire = Wire(FoldRules(timeout_s=5.0))
    wire.answers(wire.sends(), task("WORKING"))
    wire.passes(6)
    assert wire.findings == [["incomplete"]]


# ── memory ──────────────────────────────────────────────────────────────────────────────────────────────────

LARGE = "x" * 10_000


def test_turns_that_take_too_much_memory_are_closed_unless_their_task_is_known(wire: Wire) -> None:
    wire.book.max_bytes = 100_000
    named, small, unnamed = wire.sends(), wire.sends(), wire.sends()
    wire.streams(named, task("WORKING", artifact("a", text=5 * LARGE), task_id="named"))
    wire.streams(small, message("hi"))
    wire.streams(unnamed, message(6 * LARGE))
    assert wire.book.held_bytes < 50_000
    assert wire.turns == [("-", [], 6 * LARGE)]
    assert [turn.task_id for turn in wire.open_turns] == ["", "named"]
    wire.streams(named, says("COMPLETED", task_id="named"))
    for exchange in (named, small, unnamed):
        wire.ends(exchange)
    assert [state for state, *_ in wire.turns] == ["-", "-", "COMPLETED"]
    assert wire.findings == [[], [], []]


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
)


@given(st.lists(_steps, max_size=40), st.sampled_from([20_000, 10**9]))
def test_what_is_held_is_bounded_and_given_back(steps: list[tuple[str, Any]], limit: int) -> None:
    wire = Wire()
    under_way: list[BookEntry] = []
    sent = 0
    wire.book.max_bytes = limit
    for step, what in steps:
        wire.now += 0.1
        if step == "send":
            under_way.append(wire.sends(what))
            sent += 1
        elif step == "watch":
            under_way.append(wire.watches())
        elif step == "pass":
            wire.passes(what)
        elif step == "end" and under_way:
            wire.ends(under_way.pop(what % len(under_way)))
        elif step in ("stream", "answer") and under_way:
            number, event = what
            exchange = under_way[number % len(under_way)]
            wire.book.feed(exchange, event, wire.now, live=step == "stream", size=size_of(event))
        assert wire.book.held_bytes <= limit
    for one in under_way:
        wire.ends(one)
    wire.passes(4_000)
    wire.passes(4_000)
    assert (len(wire.closed), wire.open_turns) == (sent, [])


def test_when_the_proxy_stops(wire: Wire) -> None:
    wire.sends()
    wire.answers(wire.sends(), task("WORKING", artifact("a", "one"), task_id="t1"))
    settled = wire.sends()
    wire.streams(settled, says("COMPLETED", "done", task_id="t2"))
    wire.stops()
    assert sorted(wire.turns) == [("-", [], ""), ("COMPLETED", [], "done"), ("WORKING", ["one"], "")]
    assert sorted(wire.findings) == [[], ["incomplete"], ["incomplete"]]
    assert wire.open_turns == []


def test_a_message_that_lingers_when_the_proxy_stops_is_complete(wire: Wire) -> None:
    wire.streams(wire.sends(), message("hi"))
    wire.stops()
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
    wire = Wire(FoldRules(require_artifact_uri=False))
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
@given(steps)
def test_every_turn_is_closed_exactly_once(script: list[tuple[str, Any, int]]) -> None:
    wire = Wire()
    open_streams: list[BookEntry] = []
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
        assert opened == len({turn.turn_id for turn in (*wire.closed, *wire.open_turns)})
    for stream in open_streams:
        wire.ends(stream)
    wire.stops()
    assert wire.open_turns == []
    assert Counter(turn.turn_id for turn in wire.closed) == Counter(f"turn-{n}" for n in range(1, opened + 1))
    assert all(turn.status == "pending" and turn.ended_at is not None for turn in wire.closed)
    assert all(turn.to_dict() for turn in wire.closed)
