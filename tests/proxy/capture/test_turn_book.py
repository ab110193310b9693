"""Turns joined from exchanges: transcripts of what clients and agents do, and what must come out."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest
from a2a_eval_proxy.capture.task_fold import LINGER_S, FoldRules
from a2a_eval_proxy.capture.turn_book import MAX_AT_ONCE, MAX_OWN_BYTES, MAX_OWN_S, BookEntry
from a2a_eval_proxy.memory import of_json
from a2a_eval_proxy.turn import Turn
from a2a_tool_capture import METADATA_KEY, URI, Finding
from hypothesis import given
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
        self.exchanges: dict[str, BookEntry] = {}

    def sends(self, task_id: str = "", **how: Any) -> BookEntry:
        """A client sends a message; to continue a task, it names it."""
        number = next(self._numbers)
        turn = Turn(f"turn-{number}", "run", "http://agent", "JSONRPC", "1.0", self.now, task_id=task_id)
        return self.book.open(turn, self.now, **how)

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

    def plays(self, *steps: Callable[[Wire], object]) -> None:
        """A transcript: what happens, and what is to be known then, in order."""
        for step in steps:
            step(self)

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


# ── steps of transcripts ────────────────────────────────────────────────────────────────────────────────────

Step = Callable[[Wire], object]


def sends(name: str, task_id: str = "", **how: Any) -> Step:
    """A client sends a message; what its exchange shows is told by this name."""
    return lambda wire: wire.exchanges.update({name: wire.sends(task_id, **how)})


def watches(name: str) -> Step:
    return lambda wire: wire.exchanges.update({name: wire.watches()})


def follows(name: str) -> Step:
    """A webhook is notified."""
    return lambda wire: wire.exchanges.update({name: wire.book.follow(notified=name)})


def streams(name: str, *events: Event) -> Step:
    return lambda wire: wire.streams(wire.exchanges[name], *events)


def both(first: str, second: str, *events: Event) -> list[Step]:
    """Each event is shown to both, one after the other."""
    return [streams(name, event) for event in events for name in (first, second)]


def answers(name: str, event: Event) -> Step:
    return lambda wire: wire.answers(wire.exchanges[name], event)


def feeds(name: str, event: Event, *, live: bool) -> Step:
    return lambda wire: wire.book.feed(wire.exchanges[name], event, wire.now, live=live, size=100)


def touches(name: str) -> Step:
    return lambda wire: wire.book.touch(wire.exchanges[name], wire.now)


def reports(task_id: str, finding: Finding) -> Step:
    return lambda wire: wire.book.report(task_id, finding, wire.now)


def finds(name: str, finding: Finding) -> Step:
    return lambda wire: wire.exchanges[name].findings.append(finding)


def ends(name: str, problem: Finding | None = None, *, final: bool = False) -> Step:
    return lambda wire: wire.ends(wire.exchanges[name], problem, final=final)


def answered(event: Event, *, to: str = "") -> Step:
    """A message, which may be to a task, is answered as a whole."""
    return lambda wire: wire.answers(wire.sends(to), event)


def polled(event: Event) -> Step:
    return lambda wire: wire.answers(wire.watches(), event)


def waits(seconds: float) -> Step:
    """Time passes, and nobody looks."""
    return lambda wire: setattr(wire, "now", wire.now + seconds)


def passes(seconds: float) -> Step:
    return lambda wire: wire.passes(seconds)


def begins(name: str, *, restarted: bool = False) -> Step:
    return lambda wire: wire.begins(name, restarted=restarted)


forgets, stops = Wire.forgets, Wire.stops


def known(what: Callable[[Wire], Any], expected: Any) -> Step:
    """To be known then."""

    def check(wire: Wire) -> None:
        assert what(wire) == expected

    return check


def turns(expected: list[tuple[str, list[str], str]], *, after: int = 0) -> Step:
    return known(lambda wire: wire.turns[after:], expected)


def calls(expected: list[list[str]]) -> Step:
    return known(lambda wire: [names for _, names, _ in wire.turns], expected)


def findings(expected: list[list[str]], *, after: int = 0, most: int | None = None) -> Step:
    return known(lambda wire: wire.findings[after:most], expected)


def number_answered(expected: int) -> Step:
    return known(lambda wire: wire.book.number_answered, expected)


def closed(expected: int) -> Step:
    return known(lambda wire: len(wire.closed), expected)


def number_open(expected: int) -> Step:
    return known(lambda wire: len(wire.open_turns), expected)


none_open = known(lambda wire: wire.open_turns, [])


@pytest.fixture
def wire() -> Wire:
    return Wire()


CUT = Finding("upstream_cut", "the agent broke off")

# ── webhooks ────────────────────────────────────────────────────────────────────────────────────────────────


A, B, C = artifact("a", "one"), artifact("b", "two"), artifact("c", "three")


def asks_for_login(*artifacts: Event) -> Event:
    return at(task("AUTH_REQUIRED", *artifacts), 1)


def in_a_stream(name: str) -> list[Step]:
    """The turn's own calls and its end, which comes late."""
    return [
        streams(name, at(says("WORKING"), 2), gives(B)),
        passes(LINGER_S + 1),
        closed(1),
        streams(name, at(says("COMPLETED"), 3)),
        passes(LINGER_S + 1),
    ]


def with_messages(event: Event, count: int) -> Event:
    """The event, whose task shows so many messages of its user, and as many of the agent."""
    event["task"]["history"] = [{"role": "ROLE_USER"}, {"role": "ROLE_AGENT"}] * count
    return event


def at(event: Event, second: float) -> Event:
    """The event, whose status the agent has dated."""
    holder = event.get("task") or event["statusUpdate"]
    holder["status"]["timestamp"] = f"2026-01-01T00:00:{second:09.6f}Z"
    return event


@pytest.mark.parametrize("meanwhile", ["nothing", "restart", "another proxy"])
def test_calls_of_a_turn_without_its_end_are_unknown_until_a_task_shows_them(wire: Wire, meanwhile: str) -> None:
    wire.plays(
        answered(task("WORKING")),  # and nobody sees its end
    )
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
    wire.plays(
        calls([[], ["call2"], ["call3"], ["unseen", "call4"], ["call5"]]),
        findings([["incomplete"], *[["earlier_calls_unknown"]] * 3, []]),
    )


# ── generations (A2A 1.1) ───────────────────────────────────────────────────────────────────────────────────


def numbered(event: Event, generation: int) -> Event:
    (inner,) = event.values()
    return {next(iter(event)): {**inner, "generation": str(generation)}}


def test_calls_are_unknown_after_a_jump_and_those_that_a_task_shows_later_may_be_of_either_turn(wire: Wire) -> None:
    a, b = artifact("a", "one"), artifact("b", "missed", "two")
    wire.plays(
        sends("sent"),
        streams("sent", numbered(task("SUBMITTED"), 1), numbered(gives(a), 2), numbered(says("INPUT_REQUIRED"), 5)),
        ends("sent"),
        answered(numbered(task("INPUT_REQUIRED", a, b), 8), to="t"),
        answered(numbered(task("COMPLETED", a, b, artifact("c", "three")), 11), to="t"),
        calls([["one"], ["missed", "two"], ["three"]]),
        findings([["missed_events"], ["earlier_calls_unknown"], []]),
    )


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
    wire.plays(
        answered(numbered(events[1], 1)),
        follows("hook"),
        streams("hook", *[numbered(events[number], number) for number in notified]),
        passes(LINGER_S + 1),
    )
    (turn,) = wire.closed
    assert {call.name for call in turn.tool_calls} == {f"call{one}" for one in gifts if one not in lost}
    maybe_the_message = {2} if notified[0] == 3 else set()
    wire.plays(
        findings([["missed_events"] if lost - maybe_the_message else []]),
    )


# ── one exchange ────────────────────────────────────────────────────────────────────────────────────────────


# ── several turns of one task ───────────────────────────────────────────────────────────────────────────────


def asks_back(wire: Wire) -> None:
    """The first turn of a task, which ends with a question."""
    sent = wire.sends()
    wire.streams(sent, task("SUBMITTED"), gives(artifact("a", "one", text="so far")))
    wire.streams(sent, says("INPUT_REQUIRED", "Which order?"))
    wire.ends(sent)
    assert wire.turns == [("INPUT_REQUIRED", ["one"], "so far\nWhich order?")]
    wire.skipped = len(wire.closed)


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


# ── an answer that repeats the end of the turn before ─────────────────────────────────────────────────────────


def asked(second: float, *artifacts: Event, question: str = "q", written: str = "") -> Event:
    """`written`: its time, in another spelling."""
    event = at(task("INPUT_REQUIRED", *artifacts, text="Which?"), second)
    event["task"]["status"]["message"]["messageId"] = question
    event["task"]["status"]["timestamp"] = written or event["task"]["status"]["timestamp"]
    return event


# ── time, limits, the end ───────────────────────────────────────────────────────────────────────────────────


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


def test_a_task_with_a_webhook_is_not_timed_out_as_long_as_it_has_one() -> None:
    wire = Wire(awaited=True)
    wire.plays(answered(task("WORKING")), *[passes(10_000)] * 5, turns([]))
    wire.awaited = False
    wire.plays(passes(301), findings([["incomplete"]]))


@pytest.mark.parametrize(
    ("rules", "steps"),
    [
        ({"timeout_s": 5.0}, [answered(task("WORKING")), passes(6), findings([["incomplete"]])]),
        (
            {"require_artifact_uri": False},
            [answered(task("COMPLETED", {**A, "extensions": []})), turns([("COMPLETED", ["one"], "")])],
        ),
    ],
)
def test_rules_that_can_be_set(rules: dict[str, Any], steps: list[Step]) -> None:
    Wire(FoldRules(**rules)).plays(*steps)


# ── memory ──────────────────────────────────────────────────────────────────────────────────────────────────

LARGE = "x" * 10_000


def test_turns_that_take_too_much_memory_are_closed_unless_their_task_is_known(wire: Wire) -> None:
    wire.book.max_bytes = 100_000
    named, small, unnamed = wire.sends(), wire.sends(), wire.sends()
    wire.streams(named, task("WORKING", artifact("a", text=5 * LARGE), task_id="named"))
    wire.streams(small, message("hi"))
    wire.streams(unnamed, message(6 * LARGE))
    assert wire.book.held_bytes < 50_000
    assert (wire.turns, wire.evicted) == ([("-", [], 6 * LARGE)], [1])
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
    wire.plays(
        passes(4000),
        passes(4000),
    )
    assert (len({turn.turn_id for turn in wire.closed}), len(wire.closed), wire.open_turns) == (sent, sent, [])
    assert all(turn.status == "pending" and turn.ended_at is not None for turn in wire.closed)


# ── transcripts ─────────────────────────────────────────────────────────────────────────────────────────────


TRANSCRIPTS: dict[str, list[Step]] = {
    "a unary send": [
        answered(task("COMPLETED", artifact("a", "search", text="42"))),
        turns([("COMPLETED", ["search"], "42")]),
        known(
            lambda wire: [(one.task_id, one.conversation_id, one.status) for one in wire.closed],
            [("t", "c", "pending")],
        ),
        known(lambda wire: [(one.first_event_at, one.ended_at) for one in wire.closed], [(1000.0, 1000.0)]),
        known(
            lambda wire: [(one.capture.snapshot_seen, one.capture.protocol_only) for one in wire.closed], [(True, 1)]
        ),
        none_open,
    ],
    "a clock that is set back ends no turn before its start": [
        sends("sent"),
        waits(-86_400),
        answers("sent", task("COMPLETED")),
        known(lambda wire: [one.ended_at == one.first_event_at == one.started_at for one in wire.closed], [True]),
    ],
    # webhooks
    "notifications may lag behind what a client is shown": [
        follows("hook"),
        answered(at(task("SUBMITTED"), 1)),
        streams("hook", at(task("SUBMITTED"), 1)),
        polled(at(task("INPUT_REQUIRED", artifact("a", "one#1")), 3)),
        turns([("INPUT_REQUIRED", ["one"], "")]),
        sends("stream", "t"),
        streams("hook", at(says("WORKING"), 2), gives(artifact("a", "one#1")), at(says("INPUT_REQUIRED"), 3)),
        streams("stream", at(says("WORKING"), 4), gives(artifact("b", "two#2"))),
        ends("stream", CUT),
        streams("hook", at(says("WORKING"), 4), gives(artifact("b", "two#2")), at(says("INPUT_REQUIRED"), 5)),
        passes(LINGER_S + 1),
        turns([("INPUT_REQUIRED", ["two"], "")], after=1),
    ],
    "a stream that is dropped after its webhook has shown the end closes": [
        follows("hook"),
        sends("stream"),
        streams("stream", at(task("WORKING"), 1)),
        streams("hook", at(task("INPUT_REQUIRED", artifact("a", "one")), 2)),
        number_answered(0),
        ends("stream", CUT),
        passes(LINGER_S + 1),
        turns([("INPUT_REQUIRED", ["one"], "")]),
    ],
    "a notification may come before the answer that names its task": [
        sends("sent"),
        follows("hook"),
        streams("hook", at(task("WORKING"), 1), gives(artifact("a", "one"))),
        streams("hook", at(says("COMPLETED"), 2)),
        answers("sent", at(task("SUBMITTED"), 1)),
        passes(LINGER_S + 1),
        turns([("COMPLETED", ["one"], "")]),
    ],
    # Agents use ids again: a client reads the task of before while another one begins.
    "what was read of a task before its turn is not of it": [
        sends("sent"),
        polled(task("COMPLETED", artifact("a", "before"))),
        answers("sent", task("COMPLETED", artifact("b", "one"))),
        turns([("COMPLETED", ["one"], "")]),
    ],
    "what came before the message that continues a task does not count for its turn": [
        follows("hook"),
        streams("hook", at(task("WORKING"), 1), gives(artifact("a", "one#1")), at(says("INPUT_REQUIRED"), 2)),
        sends("sent", "t"),
        streams("hook", at(says("WORKING"), 3), gives(artifact("b", "two#2"))),
        answers("sent", at(task("WORKING"), 3)),
        streams("hook", at(says("INPUT_REQUIRED"), 4)),
        passes(LINGER_S + 1),
        turns([("INPUT_REQUIRED", ["two"], "")]),
    ],
    "what a killed proxy had seen last is missing unless a task shows it": [
        answered(at(task("SUBMITTED"), 1)),
        follows("other"),
        streams("other", at(says("WORKING"), 1)),
        begins("next", restarted=True),  # what the first was notified of last is nowhere
        waits(1),
        follows("other"),
        streams("other", at(says("INPUT_REQUIRED"), 2)),
        passes(LINGER_S + 1),
        answered(at(task("COMPLETED", artifact("a", "one"), artifact("b", "two")), 4), to="t"),
        calls([[], ["one", "two"]]),
        findings([["calls_missed"], ["earlier_calls_unknown"]]),
    ],
    # generations (A2A 1.1)
    # The agent has no times, and the answer to the earlier poll arrives last.
    "an answer that was overtaken is told by its generation": [
        sends("sent"),
        answers("sent", numbered(task("SUBMITTED"), 1)),
        watches("late"),
        polled(numbered(task("WORKING", artifact("a", "one", text="half")), 3)),
        answers("late", numbered(task("WORKING"), 2)),
        watches("stream"),
        ends("stream"),
        streams("stream", numbered(gives(artifact("a", text=" whole"), append=True), 4)),
        streams("stream", numbered(says("COMPLETED"), 5)),
        ends("stream"),
        turns([("COMPLETED", ["one"], "half whole")]),
        findings([[]]),
    ],
    # several processes
    "an open turn goes on where its task is asked for": [
        sends("sent"),
        streams("sent", task("WORKING"), gives(artifact("a", "search", text="4"))),
        ends("sent", CUT),
        begins("another"),
        watches("watching"),
        streams("watching", task("WORKING", artifact("a", "search", text="4"))),
        streams("watching", gives(artifact("a", text="2"), append=True), says("COMPLETED")),
        ends("watching"),
        turns([("COMPLETED", ["search"], "42")]),
        findings([["upstream_cut"]]),
    ],
    "what was known of an open turn stands where nothing more comes": [
        sends("sent"),
        streams("sent", task("WORKING"), gives(artifact("a", "search", text="42"))),
        ends("sent", CUT),
        begins("next", restarted=True),
        watches("watching"),
        streams("watching", says("WORKING")),
        ends("watching"),
        passes(301),
        turns([("WORKING", ["search"], "42")]),
        findings([["upstream_cut", "incomplete"]]),
    ],
    # one exchange
    "a message whose stream lingers": [
        sends("sent"),
        streams("sent", message("hi")),
        passes(LINGER_S + 1),
        turns([("-", [], "hi")]),
        streams("sent", says("WORKING")),  # against the protocol
        ends("sent"),
        closed(1),
        none_open,
    ],
    "a settled task whose stream lingers": [
        sends("sent"),
        streams("sent", says("COMPLETED", "done")),
        passes(LINGER_S),
        turns([]),
        passes(LINGER_S),
        turns([("COMPLETED", [], "done")]),
    ],
    "what a stream says after its turn was closed is of that turn": [
        sends("sent"),
        streams("sent", says("COMPLETED")),
        passes(2 * LINGER_S),
        turns([("COMPLETED", [], "")]),
        streams("sent", gives(artifact("a", "late")), says("COMPLETED")),
        ends("sent"),
        turns([("COMPLETED", ["late"], "")]),
    ],
    "an end without an answer": [
        sends("sent"),
        ends("sent", CUT),
        turns([("-", [], "")]),
        findings([["upstream_cut"]]),
    ],
    # several exchanges
    "a non blocking send is completed by polling": [
        answered(task("SUBMITTED")),
        polled(task("WORKING", artifact("a", "search"))),
        turns([]),
        polled(task("COMPLETED", artifact("a", "search", text="42"))),
        turns([("COMPLETED", ["search"], "42")]),
        polled(task("COMPLETED", artifact("a", "search", text="42"))),
        closed(1),
    ],
    "a dropped stream is completed by a subscription": [
        sends("sent"),
        streams("sent", task("SUBMITTED"), gives(artifact("a", "search", text="4"))),
        ends("sent", CUT),
        turns([]),
        watches("again"),
        streams(
            "again", task("WORKING", artifact("a", "search", text="4")), gives(artifact("a", text="2"), append=True)
        ),
        streams("again", says("COMPLETED")),
        ends("again"),
        turns([("COMPLETED", ["search"], "42")]),
        findings([["upstream_cut"]]),
    ],
    "when the first of two streams is cut the other one counts": [
        sends("sent"),
        watches("watching"),
        streams("sent", task("WORKING")),
        streams("watching", task("WORKING")),
        streams("watching", gives(artifact("a", "one"))),  # the other one is slower
        ends("sent", CUT),
        streams("watching", gives(artifact("b", "two")), says("COMPLETED")),
        ends("watching"),
        turns([("COMPLETED", ["one", "two"], "")]),
    ],
    "a subscription that ends before the cut is noticed": [
        sends("sent"),
        watches("again"),
        streams("sent", task("SUBMITTED"), gives(artifact("a", "one"))),
        streams("again", task("WORKING", artifact("a", "one")), gives(artifact("b", "two")), says("COMPLETED")),
        ends("again"),
        turns([]),
        ends("sent", CUT),
        turns([("COMPLETED", ["one", "two"], "")]),
        findings([["upstream_cut"]]),
    ],
    "a subscription that ends while nobody reads the first stream": [
        sends("sent"),
        watches("again"),
        streams("sent", task("SUBMITTED"), gives(artifact("a", "one"))),
        streams("again", task("COMPLETED", artifact("a", "one"), artifact("b", "two"))),
        ends("again"),
        passes(LINGER_S + 0.1),
        turns([("COMPLETED", ["one", "two"], "")]),
        streams("sent", gives(artifact("b", "two")), says("COMPLETED")),
        ends("sent"),
        closed(1),
    ],
    "a subscription that is ahead is no end": [
        sends("sent"),
        watches("again"),
        streams("sent", task("SUBMITTED"), gives(artifact("a", "one"))),
        streams("again", task("WORKING", artifact("a", "one")), gives(artifact("b", "two")), says("COMPLETED")),
        ends("again"),
        streams("sent", gives(artifact("b", "two", text="the whole")), says("COMPLETED")),
        ends("sent"),
        turns([("COMPLETED", ["one", "two"], "the whole")]),
    ],
    "a poll while a stream is live changes nothing": [
        sends("sent"),
        streams("sent", task("WORKING"), gives(artifact("a", "one")), gives(artifact("a", "two"), append=True)),
        polled(task("WORKING", artifact("a", "one"))),  # already behind
        streams("sent", says("COMPLETED")),
        ends("sent"),
        turns([("COMPLETED", ["one", "two"], "")]),
    ],
    "a poll that finds the task over is not added to what its stream still delivers": [
        sends("sent"),
        streams("sent", task("WORKING"), gives(artifact("a", "one", text="x"))),
        polled(task("COMPLETED", artifact("a", "one", "two", text="xy"))),
        streams("sent", gives(artifact("a", "two", text="y"), append=True), says("COMPLETED")),
        turns([]),
        ends("sent"),
        turns([("COMPLETED", ["one", "two"], "xy")]),
        findings([[]]),
    ],
    "a poll that finds the task waiting leaves the end to its stream": [
        sends("sent"),
        streams("sent", task("WORKING")),
        polled(task("AUTH_REQUIRED", artifact("a", "one"))),
        streams("sent", gives(artifact("a", "one")), says("AUTH_REQUIRED"), gives(artifact("b", "two"))),
        streams("sent", says("COMPLETED")),
        ends("sent"),
        turns([("COMPLETED", ["one", "two"], "")]),
    ],
    "cancelling": [
        sends("sent"),
        streams("sent", task("WORKING"), gives(artifact("a", "one"))),
        polled(task("CANCELED", artifact("a", "one"), text="canceled by client")),
        streams("sent", says("CANCELED", "canceled by client")),
        ends("sent"),
        turns([("CANCELED", ["one"], "canceled by client")]),
    ],
    "watching a task that did not come through here": [
        polled(task("COMPLETED", artifact("a", "one"), task_id="elsewhere")),
        turns([]),
        none_open,
    ],
    # several turns of one task
    "a resumed task in one answer": [
        asks_back,
        answered(task("COMPLETED", artifact("a", "one", text="so far"), artifact("b", "one", text="done")), to="t"),
        turns([("COMPLETED", ["one"], "done")]),
    ],
    "a resumed task may ask again": [
        asks_back,
        sends("sent", "t"),
        streams("sent", says("INPUT_REQUIRED", "No such order. Which one?")),
        ends("sent"),
        turns([("INPUT_REQUIRED", [], "No such order. Which one?")]),
    ],
    "a resumed task may answer with a snapshot alone": [
        asks_back,
        sends("sent", "t"),
        streams("sent", task("INPUT_REQUIRED", artifact("a", "one", text="so far"), text="Which one?")),
        ends("sent"),
        turns([("INPUT_REQUIRED", [], "Which one?")]),
    ],
    # It need not say that it works: its chunks do. What it waited for once says nothing of now.
    "a resumed task that works quietly is not taken for settled": [
        asks_back,
        sends("sent", "t"),
        streams("sent", gives(artifact("b", "two", text="do")), gives(artifact("b", text="ne"), append=True)),
        passes(10 * LINGER_S),
        turns([]),
        streams("sent", gives(artifact("c", "three")), says("COMPLETED")),
        ends("sent"),
        turns([("COMPLETED", ["two", "three"], "done")]),
    ],
    "a poll before a resumed task reacts is no end": [
        asks_back,
        sends("sent", "t"),
        polled(task("INPUT_REQUIRED", artifact("a", "one", text="so far"))),
        turns([]),
        streams("sent", gives(artifact("b", "two")), says("COMPLETED")),
        ends("sent"),
        turns([("COMPLETED", ["two"], "")]),
    ],
    "a quick reply while the stream of the question lingers": [
        sends("asking"),
        streams("asking", task("SUBMITTED"), gives(artifact("a", "one")), says("INPUT_REQUIRED", "Which order?")),
        sends("sent", "t"),
        ends("asking"),
        streams("sent", gives(artifact("b", "two")), says("COMPLETED")),
        ends("sent"),
        turns([("INPUT_REQUIRED", ["one"], "Which order?"), ("COMPLETED", ["two"], "")]),
        findings([[], []]),
    ],
    "a resumed task whose stream is cut stays open": [
        asks_back,
        sends("sent", "t"),
        streams("sent", gives(artifact("b", "two"))),
        ends("sent", CUT),
        turns([]),
        polled(task("COMPLETED", artifact("a", "one"), artifact("b", "two"), artifact("c", "three"))),
        turns([("COMPLETED", ["two", "three"], "")]),
    ],
    "the next message closes a turn that has not settled": [
        answered(task("WORKING", artifact("a", "one"))),
        sends("sent", "t"),
        turns([("WORKING", ["one"], "")]),
        findings([["incomplete"]]),
        answers("sent", task("COMPLETED", artifact("a", "one"), artifact("b", "two"))),
        turns([("COMPLETED", ["two"], "")], after=1),
    ],
    # an answer that repeats the end of the turn before
    # The subscriber's view shows the whole task; what was earlier stays earlier.
    "when the stream of a resumed turn is cut the other one counts": [
        asks_back,
        sends("sent", "t"),
        watches("watching"),
        streams("sent", says("WORKING")),
        streams("watching", task("WORKING", artifact("a", "one", text="so far"))),
        ends("sent", CUT),
        streams("watching", gives(artifact("b", "two", text="done")), says("COMPLETED")),
        ends("watching"),
        turns([("COMPLETED", ["two"], "done")]),
    ],
    # The proxy learns of the task from the first one's answer: what that showed is not the second one's doing.
    "two messages to a task that began elsewhere": [
        sends("first", "t"),
        sends("second", "t"),
        answers("first", task("INPUT_REQUIRED", artifact("a", "one"))),
        answers("second", task("COMPLETED", artifact("a", "one"), artifact("b", "two"))),
        turns([("INPUT_REQUIRED", ["one"], ""), ("COMPLETED", ["two"], "")]),
    ],
    # People take their time to answer.
    "a task may be continued much later": [
        asks_back,
        passes(3600),
        answered(task("COMPLETED", artifact("a", "one"), artifact("b", "two")), to="t"),
        turns([("COMPLETED", ["two"], "")]),
    ],
    # time, limits, the end
    "a silent stream is timed out": [
        sends("sent"),
        streams("sent", task("WORKING", artifact("a", "search"))),
        passes(299),
        turns([]),
        passes(2),
        turns([("WORKING", ["search"], "")]),
        findings([["incomplete"]]),
        streams("sent", says("COMPLETED")),
        ends("sent"),
        closed(1),
        none_open,
    ],
    "a request that is not answered is timed out": [
        sends("sent"),
        passes(301),
        findings([["incomplete"]]),
        none_open,
        answers("sent", task("COMPLETED")),
        closed(1),
    ],
    "a webhook shows each turn of a task its own calls": [
        follows("hook"),
        sends("sent", returns_at_once=True),
        answers("sent", at(task("SUBMITTED"), 1)),
        streams("hook", at(task("SUBMITTED"), 1), at(says("WORKING"), 2), gives(artifact("a", "one#1"))),
        streams("hook", at(says("INPUT_REQUIRED"), 3)),
        answered(at(task("COMPLETED", artifact("a", "one#1"), artifact("b", "two#2")), 5), to="t"),
        streams("hook", gives(artifact("b", "two#2")), at(says("COMPLETED"), 5)),
        turns([("INPUT_REQUIRED", ["one"], ""), ("COMPLETED", ["two"], "")]),
        findings([[], []]),
    ],
    **{
        f"a question of the past does not end the next turn, {'which works' if seen_working else 'which waits'}": [
            answered(at(task("INPUT_REQUIRED", artifact("a", "one")), 1)),
            sends("sent", "t", returns_at_once=True),
            answers("sent", at(task("INPUT_REQUIRED", artifact("a", "one")), 1)),  # it has not begun
            *([polled(at(task("WORKING", artifact("a", "one")), 2))] if seen_working else []),
            polled(at(task("INPUT_REQUIRED", artifact("a", "one")), 1)),  # overtaken
            closed(1),
            polled(at(task("INPUT_REQUIRED", artifact("a", "one"), artifact("b", "two")), 3)),
            turns([("INPUT_REQUIRED", ["two"], "")], after=1),
        ]
        for seen_working in (False, True)
    },
    "a stream of an earlier turn goes on in the next one": [
        sends("first"),
        watches("second"),
        streams("first", at(task("WORKING"), 1)),
        streams("second", at(task("WORKING"), 1)),
        streams("first", gives(artifact("a", "one")), at(says("INPUT_REQUIRED"), 2)),
        streams("second", gives(artifact("a", "one")), at(says("INPUT_REQUIRED"), 2)),
        ends("first"),
        sends("sent", "t"),  # which the agent answers at once
        streams("second", at(says("INPUT_REQUIRED"), 2), at(says("WORKING"), 3)),
        answers("sent", at(task("WORKING", artifact("a", "one")), 3)),
        streams("second", gives(artifact("b", "two")), at(says("INPUT_REQUIRED"), 4)),
        ends("second"),
        turns([("INPUT_REQUIRED", ["one"], ""), ("INPUT_REQUIRED", ["two"], "")]),
    ],
    "an answer of which a webhook was notified outlives the process": [
        answered(at(task("SUBMITTED"), 1)),
        follows("other"),
        streams("other", gives(artifact("a", "one")), at(says("INPUT_REQUIRED"), 2)),
        begins("next", restarted=True),
        sends("sent", "t"),
        turns([("INPUT_REQUIRED", ["one"], "")]),
        findings([[]]),
    ],
    "a turn that the store lost is noticed by the messages of the task": [
        answered(task("INPUT_REQUIRED", artifact("a", "one"))),
        forgets,  # and another turn, which was not stored
        answered(
            with_messages(
                task("INPUT_REQUIRED", artifact("a", "one"), artifact("b", "lost"), artifact("c", "three")), 3
            ),
            to="t",
        ),
        calls([["one"], ["lost", "three"]]),
        findings([[], ["earlier_calls_unknown"]]),
    ],
    **{
        f"a message that nobody saw is noticed by the messages of the task, after {foreign} others": [
            answered(with_messages(task("INPUT_REQUIRED", A), foreign + 1)),
            answered(with_messages(task("INPUT_REQUIRED", A, B, C), foreign + 3), to="t"),
            answered(with_messages(task("COMPLETED", A, B, C), foreign + 4), to="t"),
            calls([["one"], ["two", "three"], []]),
            findings([[], ["earlier_calls_unknown"], []]),
        ]
        for foreign in (0, 3)  # that the agent shows before those of the task
    },
    "events of another task neither end a turn nor are its calls": [
        sends("sent"),
        streams("sent", task("WORKING"), gives(artifact("x", "foreign"), task_id="u")),
        streams("sent", says("FAILED", "no", task_id="u"), gives(artifact("a", "one")), says("COMPLETED")),
        ends("sent"),
        turns([("COMPLETED", ["one"], "")]),
        findings([["calls_not_on_artifact", "other_task"]]),
        known(lambda wire: wire.closed[0].task_id, "t"),
    ],
    "a stream": [
        sends("sent"),
        streams("sent", task("SUBMITTED"), says("WORKING")),
        waits(1),
        streams("sent", gives(artifact("a", "search", text="4")), gives(artifact("a", text="2"), append=True)),
        streams("sent", says("COMPLETED")),
        turns([]),
        number_answered(1),
        waits(1),
        ends("sent"),
        turns([("COMPLETED", ["search"], "42")]),
        known(lambda wire: (wire.closed[0].first_event_at, wire.closed[0].ended_at), (1000.0, 1002.0)),
        known(lambda wire: wire.closed[0].capture.snapshot_seen, expected=False),
        findings([[]]),
    ],
    **{
        f"{name}, {'in a stream' if live else 'in one answer'}": steps
        for live in (True, False)
        for name, steps in {
            # Servers reserve a task id for every request, and helpers of SDKs put it into the reply.
            "a message alone, which names a task that nobody sees": [
                sends("sent"),
                feeds("sent", message("hi", taskId="t"), live=live),
                ends("sent"),
                turns([("-", [], "hi")]),
                findings([[]]),
                known(lambda wire: wire.closed[0].conversation_id, "c"),
            ],
            "whoever watches may learn that the agent asks back": [
                answered(task("SUBMITTED")),
                watches("watching"),
                feeds("watching", task("INPUT_REQUIRED", artifact("a", "search"), text="Which one?"), live=live),
                ends("watching"),
                turns([("INPUT_REQUIRED", ["search"], "Which one?")]),
            ],
            "a resumed task may answer with a message": [
                asks_back,
                sends("sent", "t"),
                feeds("sent", message("thanks", taskId="t"), live=live),
                ends("sent"),
                known(lambda wire: [text for _, _, text in wire.turns], ["thanks"]),
            ],
            "an answer that repeats the end before is no end": [
                answered(asked(1, artifact("a", "one"))),
                sends("sent", "t"),
                feeds("sent", asked(1, artifact("a", "one")), live=live),
                ends("sent"),
                closed(1),
                passes(LINGER_S + 1),
                turns([("INPUT_REQUIRED", [], "Which?")], after=1),
                known(lambda wire: [turn.visibility.evidence for turn in wire.closed[1:]], ["calls_missed"]),
                answered(asked(3, artifact("a", "one"), artifact("b", "two"), question="r"), to="t"),
                findings([["earlier_calls_unknown"]], after=2),
            ],
        }.items()
    },
    **{
        f"{state} closes a turn": [answered(task(state, text="why")), turns([(state, [], "why")])]
        for state in ("COMPLETED", "FAILED", "CANCELED", "REJECTED", "INPUT_REQUIRED", "AUTH_REQUIRED")
    },
    **{
        f"{state} leaves a turn open": [answered(task(state)), turns([]), number_open(1)]
        for state in ("SUBMITTED", "WORKING", "UNSPECIFIED")
    },
    "two streams of one task are not added up": [
        sends("sent"),
        watches("watching"),
        streams("sent", task("WORKING"), gives(artifact("a", "one", text="x"))),
        streams("watching", task("WORKING", artifact("a", "one", text="x"))),
        *both("sent", "watching", gives(artifact("b", "two", text="y"))),
        *both("sent", "watching", gives(artifact("a", "one", text="z"), append=True), says("COMPLETED")),
        ends("sent"),
        turns([]),
        ends("watching"),
        turns([("COMPLETED", ["one", "two"], "xz\ny")]),
    ],
    "a poll may see the end while a stream still delivers": [
        sends("sent"),
        streams("sent", task("WORKING"), gives(artifact("a", "one", text="x"))),
        polled(task("COMPLETED", artifact("a", "one", text="x"), artifact("b", "two", text="y"))),
        *[passes(LINGER_S / 2), streams("sent", says("WORKING"))] * 3,
        streams("sent", gives(artifact("b", "two", text="y")), says("COMPLETED")),
        turns([]),
        ends("sent"),
        turns([("COMPLETED", ["one", "two"], "x\ny")]),
        findings([[]]),
    ],
    "tasks do not mix": [
        sends("one"),
        sends("two"),
        streams("one", task("WORKING", task_id="t1")),
        streams("two", task("WORKING", task_id="t2")),
        streams("one", gives(artifact("a", "one"), task_id="t1")),
        streams("two", gives(artifact("a", "two"), task_id="t2"), says("COMPLETED", task_id="t2")),
        streams("one", says("COMPLETED", task_id="t1")),
        ends("one"),
        ends("two"),
        known(
            lambda wire: {turn.task_id: [call.name for call in turn.tool_calls] for turn in wire.closed},
            {"t1": ["one"], "t2": ["two"]},
        ),
    ],
    **{
        f"a resumed task repeats its old calls, {name}": [
            asks_back,
            sends("sent", "t"),
            streams("sent", *introduction, says("WORKING"), gives(artifact("b", "two", text="done"))),
            streams("sent", says("COMPLETED")),
            ends("sent"),
            turns([("COMPLETED", ["two"], "done")]),
            findings([[]]),
        ]
        for name, introduction in {
            "not at all, as a2a-sdk does": [],
            "in the state it waited in": [task("INPUT_REQUIRED", artifact("a", "one", text="so far"))],
            "while it works": [task("WORKING", artifact("a", "one", text="so far"))],
        }.items()
    },
    # Agents refuse it; it is a turn all the same, and the earlier one was complete.
    "a message to a task that is over": [
        sends("lingering"),
        streams("lingering", says("COMPLETED", "done")),
        sends("sent", "t"),
        turns([("COMPLETED", [], "done")]),
        number_open(1),
        finds("sent", Finding("agent_error", "the task is over")),
        ends("sent", final=True),
        turns([("-", [], "")], after=1),
        findings([[], ["agent_error"]]),
    ],
    # Both streams deliver every event of the task up to its one end: what the second message did is not known.
    "a message into a live stream": [
        sends("first"),
        streams("first", task("WORKING"), gives(artifact("a", "one", text="x"))),
        sends("second", "t"),
        *both("first", "second", gives(artifact("b", "two", text="y"))),
        *both("first", "second", gives(artifact("b", "three", text="z"), append=True), says("COMPLETED")),
        ends("first"),
        ends("second"),
        turns([("COMPLETED", ["one", "two", "three"], "x\nyz"), ("COMPLETED", [], "")]),
        findings([[], ["calls_missed"]]),
    ],
    **{
        f"the same time as another binding writes it is the same status: {written}": [
            answered(asked(1)),
            answered(asked(1, written=written), to="t"),
            passes(LINGER_S + 1),
            findings([[], ["calls_missed"]]),
        ]
        for written in ("2026-01-01T00:00:01Z", "2026-01-01T00:00:01.000+00:00")
    },
    **{
        f"a task that asks again, {name}, is a turn's own end": [
            answered(asked(1)),
            answered(again, to="t"),
            findings([[], []]),
        ]
        for name, again in {"later": asked(2), "something else": asked(1, question="r")}.items()
    },
    "a subscription beside a resumed turn": [
        asks_back,
        sends("sent", "t"),
        watches("watching"),
        streams("watching", task("WORKING", artifact("a", "one", text="so far"))),  # it is heard of first
        *both("sent", "watching", gives(artifact("b", "two", text="y"))),
        *both("sent", "watching", gives(artifact("b", text="z"), append=True), says("COMPLETED")),
        ends("sent"),
        ends("watching"),
        turns([("COMPLETED", ["two"], "yz")]),
    ],
    "a task that nobody hears of any more": [
        answered(task("WORKING", artifact("a", "one"))),
        passes(300),
        turns([]),
        passes(1),
        turns([("WORKING", ["one"], "")]),
        findings([["incomplete"]]),
        known(lambda wire: "300 s" in wire.closed[0].findings[0].message, expected=True),
        passes(1000),
        closed(1),
    ],
    "news of a task put the timeout off": [
        answered(task("WORKING")),
        *[passes(200), polled(task("WORKING"))] * 5,
        turns([]),
    ],
    "a stream with nothing but comments is alive": [
        sends("sent"),
        streams("sent", task("WORKING")),
        *[passes(200), touches("sent")] * 5,
        turns([]),
        streams("sent", says("COMPLETED")),
        ends("sent"),
        findings([[]]),
    ],
    "when the proxy stops": [
        sends("unanswered"),
        answered(task("WORKING", artifact("a", "one"), task_id="t1")),
        sends("settled"),
        streams("settled", says("COMPLETED", "done", task_id="t2")),
        stops,
        known(lambda wire: sorted(wire.turns), [("-", [], ""), ("COMPLETED", [], "done"), ("WORKING", ["one"], "")]),
        known(lambda wire: sorted(wire.findings), [[], ["incomplete"], ["incomplete"]]),
        none_open,
    ],
    "findings of the merger and of the exchange reach the turn": [
        sends("sent"),
        streams("sent", task("WORKING"), gives(artifact("a", "one"), append=True)),
        finds("sent", Finding("malformed_response", "an event was no JSON")),
        streams("sent", says("COMPLETED")),
        ends("sent"),
        known(lambda wire: sorted(wire.findings[0]), ["append_to_unknown_artifact", "malformed_response"]),
    ],
    **{
        f"a task that goes on without a message is noticed once, by {shown_to}": [
            follows("hook"),
            answered(asks_for_login(A)),
            polled(asks_for_login(A)),
            streams("hook", at(says("WORKING"), 0), at(says("AUTH_REQUIRED"), 1)),
            findings([[]]),
            *shown * 2,
            answered(at(task("COMPLETED", A, C), 4), to="t"),
            findings([["calls_missed"] if shown else []], most=1),
            calls([["one"], ["three"]]),
        ]
        for shown_to, shown in {
            "a poll": [polled(asks_for_login(A, B))],
            "a stream": [watches("stream"), streams("stream", at(says("WORKING"), 2), gives(B)), ends("stream")],
            "a webhook": [streams("hook", at(says("COMPLETED"), 3))],
            "nobody": [],
        }.items()
    },
    **{
        f"a task that shows calls after its end is noticed once, by {shown_to}, {meanwhile}": [
            answered(at(task("COMPLETED", text="done"), 1)),
            *([begins("next", restarted=True)] if meanwhile != "soon" else []),
            *[*shown, *([forgets] if meanwhile == "much later" else [])] * 2,
            findings([[] if shown_to == "nobody" else ["calls_missed"]]),
        ]
        for meanwhile in ("soon", "after a restart", "much later")
        for shown_to, shown in {
            "a poll": [polled(at(task("COMPLETED", A), 1))],
            "a subscription": [watches("watch"), streams("watch", at(task("COMPLETED", A), 1)), ends("watch")],
            "a webhook": [follows("hook"), streams("hook", gives(A))],
            "nobody": [polled(at(task("COMPLETED"), 1))],
        }.items()
    },
    **{
        f"calls that a task shows first after its end are noticed {passed} s later, beside {before}": [
            answered(task("INPUT_REQUIRED", artifact("a", text="x"))),
            sends("sent", "t"),
            streams("sent", gives(artifact("a", *before, text="x")), says("COMPLETED")),
            ends("sent"),
            calls([[], before]),
            passes(passed),
            polled(task("COMPLETED", artifact("a", *before, text="x"))),
            follows("other"),
            streams("other", gives(artifact("a", *before, text="x"))),
            findings([[], []]),
            *[polled(task("COMPLETED", artifact("a", *before, text="x"), B))] * 2,
            findings([[], ["calls_missed"]]),
        ]
        for passed in (0.0, 60.0)
        for before in ([], ["one"])
    },
    **{
        f"a message does not wait for ever: {why}": [
            sends("first"),
            streams("first", task("WORKING"), ONE),
            sends("second", "t"),
            streams("second", ONE, TWO),
            turns([]),
            step,
            known(lambda wire: wire.turns[0], ("WORKING", ["one"], "one")),
            known(lambda wire: "incomplete" in wire.findings[0], expected=True),
            streams("second", says("COMPLETED")),
            ends("second"),
            passes(LINGER_S + 1),
            known(lambda wire: [names for _, names, _ in wire.turns[1:]], [["two"]]),
            none_open,
        ]
        for why, step in {"the client left": ends("first", CUT), "silence": passes(301), "the end": stops}.items()
    },
    **{
        f"after a repeated end others show the turn's own, {shown_to}": [
            follows("hook"),
            sends("sent"),
            streams("hook", asked(1, A)),
            answers("sent", asked(1, A)),
            answered(asked(1, A), to="t"),
            *shown,
            known(
                lambda wire: [turn[:2] for turn in wire.turns], [("INPUT_REQUIRED", ["one"]), ("COMPLETED", ["two"])]
            ),
            findings([[], []]),
        ]
        for shown_to, shown in {
            "a poll": [polled(at(task("COMPLETED", A, B), 3))],
            "a webhook": in_a_stream("hook"),
            "a subscription": [watches("watch"), *in_a_stream("watch"), ends("watch")],
        }.items()
    },
    **{
        f"a conditional message whose task has generation {meanwhile} before it is seen to be taken": [
            answered(numbered(task("INPUT_REQUIRED", A), 3)),
            polled(numbered(task("WORKING", A), meanwhile)),  # while the agent answers
            sends("sent", "t", if_generation=3),
            answers("sent", numbered(task("COMPLETED", A, B), 8)),
            calls([["one"], ["two"]]),
            findings([codes], after=1),
        ]
        for meanwhile, codes in ((4, []), (6, ["calls_missed"]))  # the message itself is a change
    },
    "a question after which the agent goes on is no end": [
        sends("sent"),
        streams("sent", says("AUTH_REQUIRED"), says("WORKING")),
        passes(LINGER_S + 1),
        turns([]),
        streams("sent", says("COMPLETED")),
        ends("sent"),
        turns([("COMPLETED", [], "")]),
    ],
    "comments of a stream do not put off its end": [
        sends("sent"),
        streams("sent", says("COMPLETED")),
        passes(0.75 * LINGER_S),
        touches("sent"),
        passes(0.5 * LINGER_S),
        turns([("COMPLETED", [], "")]),
    ],
    "a finding is of the open turn or else of the last one": [
        sends("sent"),
        streams("sent", task("WORKING")),
        reports("t", Finding("open", "of the open turn")),
        streams("sent", says("COMPLETED")),
        ends("sent"),
        findings([["open"]]),
        reports("t", Finding("last", "of the last turn")),
        known(lambda wire: wire.log["t"][-1]["finding"]["code"], "last"),
    ],
    "a short exchange is not observed, though its task has been read": [
        sends("sent"),
        streams("sent", with_messages(task("WORKING"), 1)),
        polled(task("WORKING")),
        streams("sent", says("COMPLETED")),
        ends("sent"),
        closed(1),
        known(lambda wire: wire.log, {}),
    ],
    "a stream that holds much is observed at once": [
        sends("sent"),
        streams("sent", task("WORKING"), gives(artifact("a", text="x" * (MAX_OWN_BYTES // 100)))),
        known(lambda wire: [*wire.log], []),
        streams("sent", gives(artifact("b", text="x" * MAX_OWN_BYTES))),
        known(lambda wire: [*wire.log], ["t"]),
    ],
    # memory
    "a message that lingers when the proxy stops is complete": [
        sends("other"),
        streams("other", message("hi")),
        stops,
        turns([("-", [], "hi")]),
        findings([[]]),
    ],
}


@pytest.mark.parametrize("steps", TRANSCRIPTS.values(), ids=TRANSCRIPTS)
def test_a_transcript(wire: Wire, steps: list[Step]) -> None:
    wire.plays(*steps)
