"""Traces find their turns: by trace id, by what they say, by being alone in time; and nothing grows without bound."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from a2a_eval_proxy.traces import trace_book
from a2a_eval_proxy.traces.merge import TraceEvidence
from a2a_eval_proxy.traces.trace_book import TraceBook
from a2a_eval_proxy.turn import Turn
from a2a_tool_capture import Finding, Severity, ToolCall
from a2a_tool_capture.spans.model import KIND_SERVER, LogEvent
from golden.spans.building import OTHER_TRACE, SECOND, START, TRACE, a_span, a_tool_span
from tool_call_evaluators.visibility import Calls

RUN = {"gen_ai.operation.name": "invoke_agent"}
NOW = START / SECOND
"""The time of the spans, in seconds since the epoch."""


class Book(TraceBook):
    """A trace book that remembers which turns it said had changed."""

    def __init__(self, **options: Any) -> None:
        self.changed: list[str] = []
        self.turns: dict[str, Turn] = {}
        super().__init__(lambda turn, tells: self.changed.append(turn.turn_id) if tells else None, **options)

    def open(
        self,
        turn_id: str,
        *,
        at: float = 0.0,
        trace: str = "",
        parent: str = "",
        conversation: str = "",
        agent: str = "",
    ) -> Turn:
        turn = Turn(turn_id, "run", "agent", "JSONRPC", "1.0", NOW + at, agent_name=agent or None)
        turn.trace_id, turn.parent_span_id, turn.conversation_id = trace, parent, conversation
        self.turns[turn_id] = turn
        self.opened(turn)
        return turn

    def close(self, turn: Turn, *, at: float = 1.0, task: str = "", conversation: str = "") -> None:
        turn.ended_at, turn.task_id, turn.conversation_id = NOW + at, task, conversation
        self.closed(turn, NOW + at)

    def take(self, *spans: Any, logs: tuple[LogEvent, ...] = (), at: float = 1.0, size: int = 100) -> None:
        self.add([*spans, *logs], size, NOW + at)

    def told(self, turn_id: str) -> list[str]:
        return [span.name for span in self.evidence(turn_id).spans]


@pytest.fixture
def book() -> Book:
    return Book()


def named(number: int, conversation: str, **span: Any) -> Any:
    return a_span(number, {"gen_ai.conversation.id": conversation}, name=f"chat {conversation}", **span)


# ── stories: what is opened, closed and received, and what is to be known then ─────────────────────────────────────

Step = Callable[[Book], object]
TOOL = "execute_tool get_weather"


def opens(turn_id: str, **how: Any) -> Step:
    return lambda book: book.open(turn_id, **how)


def closes(turn_id: str, **how: Any) -> Step:
    return lambda book: book.close(book.turns[turn_id], **how)


def takes(*spans: Any, **how: Any) -> Step:
    return lambda book: book.take(*spans, **how)


def known(what: Callable[[Book], Any], expected: Any) -> Step:
    def check(book: Book) -> None:
        assert what(book) == expected

    return check


def told(expected: dict[str, list[str]]) -> Step:
    """The names of the spans that each turn is given."""
    return known(lambda book: {name: sorted(book.told(name)) for name in expected}, expected)


def contested(expected: dict[str, int]) -> Step:
    return known(lambda book: {name: book.evidence(name).contested for name in expected}, expected)


def calls(expected: dict[str, tuple[Calls, str]]) -> Step:
    """What is known of the calls of each turn, and by what."""
    return known(
        lambda book: {
            name: (turn.visibility.calls, turn.visibility.evidence)
            for name, turn in ((name, book.evidence(name).added_to(book.turns[name])) for name in expected)
        },
        expected,
    )


def shows(turn_id: str, *made: ToolCall) -> Step:
    """Its calls, as the protocol shows them."""
    return lambda book: setattr(book.turns[turn_id], "tool_calls", [*made])


forgets_changes = lambda book: book.changed.clear()  # noqa: E731
RUNS = takes(*(a_span(1, RUN, trace=f"{number:032x}") for number in (1, 2, 3)))
OF_THREE = [opens(name, trace=f"{number:032x}") for number, name in enumerate(("old", "ended", "running"), 1)]
WEATHER = ToolCall("get_weather", {"city": "Paris"}, id="c1", result="Sunny")

STORIES: dict[str, list[Step]] = {
    # by trace id
    "spans of the turn's trace are its own": [
        opens("t", trace=TRACE),
        takes(a_span(1, name="any")),
        told({"t": ["any"]}),
        known(lambda book: bool(book.heard), expected=True),
    ],
    "spans may come before the turn": [takes(a_tool_span(1)), opens("t", trace=TRACE), told({"t": [TOOL]})],
    "turns in one trace share it by parent": [
        opens("t1", trace=TRACE, parent=f"{1:016x}"),
        opens("t2", trace=TRACE, parent=f"{2:016x}"),
        takes(
            a_span(11, name="of 1", parent=1), a_span(12, name="below 11", parent=11), a_span(21, name="of 2", parent=2)
        ),
        told({"t1": ["below 11", "of 1"], "t2": ["of 2"]}),
    ],
    "whose evidence grew is told, and whether it matters": [
        opens("t", trace=TRACE),
        takes(a_span(1, {"http.route": "/"})),
        known(lambda book: book.changed, []),
        takes(a_span(2), a_tool_span(3)),
        takes(logs=(LogEvent(TRACE, "", "gen_ai.choice", START, "app"),)),
        known(lambda book: book.changed, ["t", "t"]),
        known(lambda book: len(book.evidence("t").logs), 1),
    ],
    # by attributes
    "a trace is found by its conversation": [
        opens("t", at=-100.0),
        closes("t", at=-99.0, conversation="c"),
        takes(named(1, "c")),
        told({"t": ["chat c"]}),
        known(lambda book: book.evidence("t").by_time, frozenset()),
    ],
    "a trace that comes first is found by its conversation": [
        opens("t", at=-100.0),
        takes(named(1, "c")),
        closes("t", at=-99.0, conversation="c"),
        told({"t": ["chat c"]}),
    ],
    "of a conversation the turn that had begun last": [
        *(opens(f"t{number}", at=10.0 * number - 10) for number in range(3)),
        *(closes(f"t{number}", at=10.0 * number - 9, conversation="c") for number in range(3)),
        takes(named(1, "c", at=0.5)),
        told({"t0": [], "t1": ["chat c"], "t2": []}),
    ],
    "a task is worth more than a conversation": [
        opens("by task"),
        closes("by task", task="a", conversation="x"),
        opens("by conversation"),
        closes("by conversation", task="b", conversation="c"),
        takes(a_span(1, {"a2a.task.id": "a", "session.id": "c"}, name="both")),
        told({"by task": ["both"], "by conversation": []}),
    ],
    "a conversation that the client names is known while the turn is open": [
        opens("before", at=-3.0),
        closes("before", at=-2.0, conversation="c"),
        opens("open", at=-1.0, conversation="c"),
        opens("other", at=-1.0, conversation="d"),
        takes(named(1, "c")),
        told({"before": [], "open": ["chat c"], "other": []}),
    ],
    "a trace begun after its conversation's last turn waits for the open ones to be named": [
        opens("before", at=-3.0),
        closes("before", at=-2.0, conversation="c"),
        opens("first", at=-1.0),
        opens("second", at=-1.0),
        takes(named(1, "c")),
        told({"before": []}),
        closes("first", conversation="d"),
        told({"before": []}),
        closes("second", conversation="c"),
        told({"before": [], "first": [], "second": ["chat c"]}),
    ],
    "where none of the open ones was it the last turn has it": [
        opens("before", at=-3.0),
        closes("before", at=-2.0, conversation="c"),
        opens("first", at=-1.0),
        opens("second", at=-1.0),
        takes(named(1, "c")),
        closes("first", conversation="d"),
        closes("second", conversation="d"),
        told({"before": ["chat c"]}),
    ],
    "what was given by time is taken back when the trace names another": [
        opens("named", at=-100.0),
        closes("named", at=-99.0, conversation="c"),
        opens("alone", at=-1.0, conversation="d"),
        takes(a_tool_span(1)),
        told({"named": [], "alone": [TOOL]}),
        takes(named(2, "c")),
        told({"named": ["chat c", TOOL], "alone": []}),
    ],
    # by time
    "a trace that names nothing goes to the only open turn and is marked": [
        opens("t", at=-1.0, trace=OTHER_TRACE),
        takes(a_tool_span(1)),
        known(lambda book: book.evidence("t").by_time, {TRACE}),
    ],
    **{
        f"a turn of another time is not given it: {offset}": [
            opens("t", at=offset),
            closes("t", at=offset + 1),
            takes(a_tool_span(1)),
            told({"t": []}),
        ]
        for offset in (-10.0, 10.0)
    },
    "of two turns that follow closely the one within which it began": [
        opens("before", at=-1.0),
        closes("before", at=-0.02),
        opens("after", at=-0.01),
        takes(a_tool_span(1)),
        told({"before": [], "after": [TOOL]}),
    ],
    "HTTP around the agent is no evidence": [
        opens("t", at=-1.0, trace=OTHER_TRACE, parent="5" * 16),
        takes(a_span(1, {"http.route": "/.well-known/agent-card.json"}, name="GET", kind=KIND_SERVER)),
        told({"t": []}),
        known(lambda book: book.complete("t"), expected=False),
        takes(a_tool_span(2, parent=1)),  # the rest of the trace tells more
        told({"t": ["GET", TOOL]}),
    ],
    "a turn is complete with the agent's root span": [
        opens("t", trace=TRACE, parent="5" * 16),
        takes(a_tool_span(2, parent=1)),
        known(lambda book: book.complete("t"), expected=False),
        takes(a_span(1, parent="5" * 16)),
        known(lambda book: (book.complete("t"), book.complete("unheard of")), (True, False)),
    ],
    # traces that fit more than one turn
    "a trace that fits two turns is reported on both": [
        opens("one"),
        opens("two"),
        takes(a_tool_span(1, trace=OTHER_TRACE)),
        takes(a_tool_span(2, trace=OTHER_TRACE)),
        known(lambda book: book.changed, ["one", "two"] * 2),
        told({"one": [], "two": []}),
        contested({"one": 1, "two": 1}),
        calls(dict.fromkeys(("one", "two"), (Calls.UNKNOWN, "trace_contested"))),
        known(lambda book: book.evidence("one").added_to(book.turns["one"]).shown_by, ""),
    ],
    # Though each has the trace of an agent's run, in which calls would have been seen.
    "a tool in a trace of its own makes every turn it fits unknown": [
        *OF_THREE,
        RUNS,
        *map(closes, ("old", "ended", "running")),
        takes(a_tool_span(1, trace=OTHER_TRACE)),
        calls(dict.fromkeys(("old", "ended", "running"), (Calls.UNKNOWN, "trace_contested"))),
        known(lambda book: {*book.changed}, {"old", "ended", "running"}),
    ],
    # For example of an agent whose clock is wrong.
    "calls whose time fits no turn may be of any that is not long over": [
        *OF_THREE,
        RUNS,
        closes("old", at=1.0),
        closes("ended", at=18.0),
        takes(a_tool_span(2, trace=OTHER_TRACE, at=-100.0), at=20.0),
        calls(
            {"old": (Calls.NONE_MADE, "spans")}
            | dict.fromkeys(("ended", "running"), (Calls.UNKNOWN, "trace_contested"))
        ),
    ],
    "spans that did not arrive make the turns that wait for some unknown": [
        *OF_THREE,
        RUNS,
        closes("old", at=1.0),
        closes("ended", at=18.0),
        forgets_changes,
        lambda book: book.lost("an export was refused: not OTLP", NOW + 20.0),
        known(lambda book: {*book.changed}, {"ended", "running"}),
        calls(
            {"old": (Calls.NONE_MADE, "spans")} | dict.fromkeys(("ended", "running"), (Calls.UNKNOWN, "calls_missed"))
        ),
    ],
    "a contested trace whose calls are all known hides nothing": [
        *OF_THREE[:2],
        RUNS,
        takes(a_tool_span(1, arguments={"city": "Paris"}, trace=OTHER_TRACE)),
        closes("ended"),
        contested({"ended": 1}),
        forgets_changes,
        shows("old", WEATHER),
        closes("old"),
        known(lambda book: "ended" in book.changed, expected=True),
        contested({"old": 0, "ended": 0}),
        takes(a_tool_span(2, "delete_all", trace=OTHER_TRACE)),
        contested({"old": 1, "ended": 1}),
    ],
    "a call that a turn shows in its own trace explains no other": [
        *OF_THREE[:2],
        shows("old", WEATHER),
        RUNS,
        closes("old"),
        closes("ended"),
        takes(a_tool_span(3, arguments={"city": "Paris"}, trace=OTHER_TRACE)),
        contested({"ended": 0}),  # it may be that of the first
        forgets_changes,
        takes(a_tool_span(2, arguments={"city": "Paris"}, trace=f"{1:032x}")),
        known(lambda book: "ended" in book.changed, expected=True),
        calls({"ended": (Calls.UNKNOWN, "trace_contested")}),
    ],
    "a contested trace without calls hides none": [
        opens("one"),
        opens("two"),
        takes(a_span(1, {"gen_ai.operation.name": "chat", "gen_ai.output.messages": "Sunny."}, trace=OTHER_TRACE)),
        contested({"one": 0, "two": 0}),
    ],
    "a trace that names its turn after all is contested no more there": [
        opens("one", conversation="c1"),
        opens("two", conversation="c2"),
        takes(a_tool_span(1, trace=OTHER_TRACE)),
        forgets_changes,
        takes(named(2, "c1", trace=OTHER_TRACE)),
        known(lambda book: {*book.changed}, {"one", "two"}),
        contested({"one": 0, "two": 0}),
        told({"one": ["chat c1", TOOL]}),
    ],
    "agents may have the same conversation": [
        opens("a", conversation="c", agent="a"),
        opens("b", conversation="c", agent="b"),
        takes(named(1, "c", trace=OTHER_TRACE)),
        told({"a": [], "b": []}),
        known(lambda book: book.changed, ["a", "b"]),
    ],
    # bounds
    "unknown traces are forgotten after a while": [
        takes(named(1, "c"), at=0.0),
        lambda book: book.expire(NOW + 60.0),
        known(lambda book: book.take_dropped(), 0),
        lambda book: book.expire(NOW + 61.0),
        known(lambda book: (book.take_dropped(), book.take_dropped()), (1, 0)),
        opens("t", at=-100.0),
        closes("t", at=-99.0, conversation="c"),
        told({"t": []}),
    ],
    "closed turns are forgotten after a while with their spans": [
        opens("t", trace=TRACE),
        closes("t", at=1.0, conversation="c"),
        takes(a_tool_span(1)),
        lambda book: book.expire(NOW + 602.0),
        known(lambda book: book.evidence("t"), TraceEvidence()),
        opens("again", trace=TRACE),
        told({"again": []}),
    ],
}


@pytest.mark.parametrize("steps", STORIES.values(), ids=STORIES)
def test_a_story(book: Book, steps: list[Step]) -> None:
    for step in steps:
        step(book)


# ── by trace id ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_turns_with_one_parent_share_its_trace_as_the_state_of_the_spans_says(book: Book) -> None:
    """A client sends one header to several agents at once."""
    turns = [f"{number:032x}" for number in (1, 2)]
    for number, turn_id in enumerate(turns):
        book.open(turn_id, at=number / 10, trace=TRACE, parent="9" * 16)
    for number, turn_id in enumerate(turns, 1):
        state = f"v=1,a2a-eval-proxy={turn_id}"
        book.take(replace(a_span(number, name=turn_id, parent="9" * 16, at=0.5), trace_state=state))
        book.take(a_span(10 + number, name="below", parent=number, at=0.5))
    assert [book.told(turn_id) for turn_id in turns] == [[turn_id, "below"] for turn_id in turns]


# ── by attributes ───────────────────────────────────────────────────────────────────────────────────────────────


def test_an_attribute_of_ones_own_may_name_the_conversation() -> None:
    book = Book(conversation_attributes=["shop.session"])
    book.close(book.open("t", at=-100.0), at=-99.0, conversation="c")
    book.take(a_span(1, {"shop.session": "c"}, name="chat"))
    assert book.told("t") == ["chat"]


# ── bounds ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_flood_of_unknown_traces_makes_room_for_itself_and_leaves_turns_alone() -> None:
    book = Book(max_bytes=220_000)  # of these a hundred
    book.close(book.open("t", at=-100.0, trace=TRACE), at=-99.0)
    book.take(a_tool_span(1), size=100)
    for number in range(1_000):
        book.take(named(2, "c", trace=f"{number:032x}"), size=100)
    assert book.take_dropped() == 901
    assert len(book.told("t")) == 1


def test_turns_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_book, "MAX_TURNS", 10)
    book = Book()
    for number in range(100):
        book.open(f"t{number}", trace=f"{number:032x}")
        book.take(a_tool_span(1, trace=f"{number:032x}"))
    assert [number for number in range(100) if book.told(f"t{number}")] == list(range(90, 100))


def test_where_open_turns_alone_fill_it_the_oldest_trace_goes() -> None:
    book = Book(max_bytes=6_000)  # of these two
    for number in range(3):
        book.open(f"t{number}", trace=f"{number:032x}")
        book.take(a_tool_span(1, trace=f"{number:032x}"), size=400)
    assert [len(book.told(f"t{number}")) for number in range(3)] == [0, 1, 1]


# ── hints that traces answer ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("span", "codes"), [(a_tool_span(1, arguments={}), []), (a_span(1, name="chat"), ["dialect_not_read"])]
)
def test_a_dialect_is_no_hint_where_traces_tell_the_calls(book: Book, span: Any, codes: list[str]) -> None:
    turn = book.open("t", trace=TRACE)
    turn.findings.append(Finding("dialect_not_read", "parts are marked", Severity.INFO, "response"))
    book.take(span)
    assert [finding.code for finding in book.evidence("t").added_to(turn).findings] == codes
