"""Traces find their turns: by trace id, by what they say, by being alone in time; and nothing grows without bound."""

from __future__ import annotations

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


# ── by trace id ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_spans_of_the_turns_trace_are_its_own(book: Book) -> None:
    book.open("t", trace=TRACE)
    book.take(a_span(1, name="any"))
    assert book.told("t") == ["any"]
    assert book.heard


def test_spans_may_come_before_the_turn(book: Book) -> None:
    book.take(a_tool_span(1))
    book.open("t", trace=TRACE)
    assert book.told("t") == ["execute_tool get_weather"]


def test_turns_in_one_trace_share_it_by_parent(book: Book) -> None:
    for number in (1, 2):
        book.open(f"t{number}", trace=TRACE, parent=f"{number:016x}")
    book.take(
        a_span(11, name="of 1", parent=1), a_span(12, name="below 11", parent=11), a_span(21, name="of 2", parent=2)
    )
    assert sorted(book.told("t1")) == ["below 11", "of 1"]
    assert book.told("t2") == ["of 2"]


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


def test_whose_evidence_grew_is_told_and_whether_it_matters(book: Book) -> None:
    book.open("t", trace=TRACE)
    book.take(a_span(1, {"http.route": "/"}))
    assert book.changed == []
    book.take(a_span(2), a_tool_span(3))
    book.take(logs=(LogEvent(TRACE, "", "gen_ai.choice", START, "app"),))
    assert book.changed == ["t", "t"]


# ── by attributes ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("first", ["turn", "spans"])
def test_a_trace_is_found_by_its_conversation(book: Book, first: str) -> None:
    turn = book.open("t", at=-100.0)
    if first == "spans":
        book.take(named(1, "c"))
    book.close(turn, at=-99.0, conversation="c")
    if first == "turn":
        book.take(named(1, "c"))
    assert book.told("t") == ["chat c"]
    assert book.evidence("t").by_time == frozenset()


def test_an_attribute_of_ones_own_may_name_the_conversation() -> None:
    book = Book(conversation_attributes=["shop.session"])
    book.close(book.open("t", at=-100.0), at=-99.0, conversation="c")
    book.take(a_span(1, {"shop.session": "c"}, name="chat"))
    assert book.told("t") == ["chat"]


def test_of_a_conversation_the_turn_that_had_begun_last(book: Book) -> None:
    for number in range(3):
        book.close(book.open(f"t{number}", at=10.0 * number - 10), at=10.0 * number - 9, conversation="c")
    book.take(named(1, "c", at=0.5))
    assert [book.told(f"t{number}") for number in range(3)] == [[], ["chat c"], []]


def test_a_task_is_worth_more_than_a_conversation(book: Book) -> None:
    book.close(book.open("by task"), task="a", conversation="x")
    book.close(book.open("by conversation"), task="b", conversation="c")
    book.take(a_span(1, {"a2a.task.id": "a", "session.id": "c"}, name="both"))
    assert (book.told("by task"), book.told("by conversation")) == (["both"], [])


def test_a_conversation_that_the_client_names_is_known_while_the_turn_is_open(book: Book) -> None:
    book.close(book.open("before", at=-3.0), at=-2.0, conversation="c")
    book.open("open", at=-1.0, conversation="c")
    book.open("other", at=-1.0, conversation="d")
    book.take(named(1, "c"))
    assert [book.told(turn_id) for turn_id in ("before", "open", "other")] == [[], ["chat c"], []]


def test_a_trace_begun_after_its_conversations_last_turn_waits_for_the_open_ones_to_be_named(book: Book) -> None:
    book.close(book.open("before", at=-3.0), at=-2.0, conversation="c")
    first, second = book.open("first", at=-1.0), book.open("second", at=-1.0)
    book.take(named(1, "c"))
    assert book.told("before") == []
    book.close(first, conversation="d")
    assert book.told("before") == []
    book.close(second, conversation="c")
    assert [book.told(turn_id) for turn_id in ("before", "first", "second")] == [[], [], ["chat c"]]


def test_where_none_of_the_open_ones_was_it_the_last_turn_has_it(book: Book) -> None:
    book.close(book.open("before", at=-3.0), at=-2.0, conversation="c")
    open_turns = [book.open(name, at=-1.0) for name in ("first", "second")]
    book.take(named(1, "c"))
    for turn in open_turns:
        book.close(turn, conversation="d")
    assert book.told("before") == ["chat c"]


def test_what_was_given_by_time_is_taken_back_when_the_trace_names_another(book: Book) -> None:
    book.close(book.open("named", at=-100.0), at=-99.0, conversation="c")
    book.open("alone", at=-1.0, conversation="d")
    book.take(a_tool_span(1))
    assert (book.told("named"), len(book.told("alone"))) == ([], 1)
    book.take(named(2, "c"))
    assert (len(book.told("named")), book.told("alone")) == (2, [])


# ── by time ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_trace_that_names_nothing_goes_to_the_only_open_turn_and_is_marked(book: Book) -> None:
    book.open("t", at=-1.0, trace=OTHER_TRACE)
    book.take(a_tool_span(1))
    assert book.evidence("t").by_time == {TRACE}


@pytest.mark.parametrize("offset", [-10.0, 10.0])
def test_a_turn_of_another_time_is_not_given_it(book: Book, offset: float) -> None:
    book.close(book.open("t", at=offset), at=offset + 1)
    book.take(a_tool_span(1))
    assert book.told("t") == []


def test_of_two_turns_that_follow_closely_the_one_within_which_it_began(book: Book) -> None:
    book.close(book.open("before", at=-1.0), at=-0.02)
    book.open("after", at=-0.01)
    book.take(a_tool_span(1))
    assert (book.told("before"), len(book.told("after"))) == ([], 1)


def test_http_around_the_agent_is_no_evidence(book: Book) -> None:
    book.open("t", at=-1.0, trace=OTHER_TRACE, parent="5" * 16)
    book.take(a_span(1, {"http.route": "/.well-known/agent-card.json"}, name="GET", kind=KIND_SERVER))
    assert book.told("t") == []
    assert not book.complete("t")
    book.take(a_tool_span(2, parent=1))  # the rest of the trace tells more
    assert len(book.told("t")) == 2


def test_log_events_are_evidence(book: Book) -> None:
    book.open("t", at=-1.0)
    book.take(logs=(LogEvent(TRACE, "", "gen_ai.choice", START, "app"),), at=0.0)
    assert len(book.evidence("t").logs) == 1


# ── complete ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_turn_is_complete_with_the_agents_root_span(book: Book) -> None:
    book.open("t", trace=TRACE, parent="5" * 16)
    assert not book.complete("t")
    book.take(a_tool_span(2, parent=1))
    assert not book.complete("t")
    book.take(a_span(1, parent="5" * 16))
    assert book.complete("t")
    assert not book.complete("unheard of")


# ── bounds ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_unknown_traces_are_forgotten_after_a_while() -> None:
    book = Book()
    book.take(named(1, "c"), at=0.0)
    book.expire(NOW + 60.0)
    assert book.take_dropped() == 0
    book.expire(NOW + 61.0)
    assert (book.take_dropped(), book.take_dropped()) == (1, 0)
    book.close(book.open("t", at=-100.0), at=-99.0, conversation="c")
    assert book.told("t") == []


def test_a_flood_of_unknown_traces_makes_room_for_itself_and_leaves_turns_alone() -> None:
    book = Book(max_bytes=220_000)  # of these a hundred
    book.close(book.open("t", at=-100.0, trace=TRACE), at=-99.0)
    book.take(a_tool_span(1), size=100)
    for number in range(1_000):
        book.take(named(2, "c", trace=f"{number:032x}"), size=100)
    assert book.take_dropped() == 901
    assert len(book.told("t")) == 1
    assert len(book._traces) == 100


def test_closed_turns_are_forgotten_after_a_while_with_their_spans() -> None:
    book = Book()
    book.close(book.open("t", trace=TRACE), at=1.0, conversation="c")
    book.take(a_tool_span(1))
    book.expire(NOW + 602.0)
    assert book.evidence("t") == TraceEvidence()
    assert len(book._traces) == 0


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


# ── traces that fit more than one turn ──────────────────────────────────────────────────────────────────────────


def test_a_trace_that_fits_two_turns_is_reported_on_both(book: Book) -> None:
    turns = [book.open(name) for name in ("one", "two")]
    for number in (1, 2):
        book.take(a_tool_span(number, trace=OTHER_TRACE))
    assert book.changed == ["one", "two"] * 2
    for turn in turns:
        evidence = book.evidence(turn.turn_id)
        assert (evidence.spans, evidence.contested) == ([], 1)
        merged = evidence.added_to(turn)
        assert [finding.code for finding in merged.findings] == ["trace_contested"]
        assert (merged.visibility.calls, merged.shown_by) == (Calls.UNKNOWN, "")


def test_a_tool_in_a_trace_of_its_own_makes_every_turn_it_fits_unknown(book: Book) -> None:
    """Though each has the trace of an agent's run, in which calls would have been seen."""
    turns = [book.open(f"t{number}", trace=f"{number:032x}") for number in range(1, 31)]
    for number, turn in enumerate(turns, 1):
        book.take(a_span(1, RUN, trace=f"{number:032x}"))
        book.close(turn)
    book.take(a_tool_span(1, trace=OTHER_TRACE))
    merged = [book.evidence(turn.turn_id).added_to(turn) for turn in turns]
    assert {(turn.visibility.calls, turn.visibility.evidence) for turn in merged} == {
        (Calls.UNKNOWN, "trace_contested")
    }
    assert set(book.changed) == {turn.turn_id for turn in turns}


def test_calls_whose_time_fits_no_turn_may_be_of_any_that_is_not_long_over(book: Book) -> None:
    """For example of an agent whose clock is wrong."""
    old, ended, running = (book.open(name, trace=f"{number:032x}") for number, name in enumerate(("o", "e", "r"), 1))
    for number in (1, 2, 3):
        book.take(a_span(1, RUN, trace=f"{number:032x}"))
    book.close(old, at=1.0)
    book.close(ended, at=18.0)
    book.take(a_tool_span(2, trace=OTHER_TRACE, at=-100.0), at=20.0)
    calls = [book.evidence(turn.turn_id).added_to(turn).visibility.calls for turn in (old, ended, running)]
    assert calls == [Calls.NONE_MADE, Calls.UNKNOWN, Calls.UNKNOWN]


def test_a_contested_trace_whose_calls_are_all_known_hides_nothing(book: Book) -> None:
    one, two = (book.open(name, trace=f"{number:032x}") for number, name in enumerate(("one", "two"), 1))
    for number in (1, 2):
        book.take(a_span(1, RUN, trace=f"{number:032x}"))
    book.take(a_tool_span(1, arguments={"city": "Paris"}, trace=OTHER_TRACE))
    book.close(two)
    assert book.evidence("two").contested == 1
    book.changed.clear()
    one.tool_calls = [ToolCall("get_weather", {"city": "Paris"}, id="c1", result="Sunny")]
    book.close(one)
    assert "two" in book.changed
    assert [book.evidence(name).contested for name in ("one", "two")] == [0, 0]
    book.take(a_tool_span(2, "delete_all", trace=OTHER_TRACE))
    assert [book.evidence(name).contested for name in ("one", "two")] == [1, 1]


def test_a_call_that_a_turn_shows_in_its_own_trace_explains_no_other(book: Book) -> None:
    one, two = (book.open(name, trace=f"{number:032x}") for number, name in enumerate(("one", "two"), 1))
    one.tool_calls = [ToolCall("get_weather", {"city": "Paris"}, id="c1", result="Sunny")]
    for turn in (one, two):
        book.take(a_span(1, RUN, trace=turn.trace_id))
        book.close(turn)
    book.take(a_tool_span(3, arguments={"city": "Paris"}, trace=OTHER_TRACE))
    assert book.evidence("two").contested == 0, "it may be that of the first"
    book.changed.clear()
    book.take(a_tool_span(2, arguments={"city": "Paris"}, trace=one.trace_id))
    assert "two" in book.changed
    assert book.evidence("two").added_to(two).visibility.calls is Calls.UNKNOWN


def test_a_contested_trace_without_calls_hides_none(book: Book) -> None:
    for name in ("one", "two"):
        book.open(name)
    book.take(a_span(1, {"gen_ai.operation.name": "chat", "gen_ai.output.messages": "Sunny."}, trace=OTHER_TRACE))
    assert [book.evidence(name).contested for name in ("one", "two")] == [0, 0]


def test_spans_that_did_not_arrive_make_the_turns_that_wait_for_some_unknown(book: Book) -> None:
    old, ended, running = (book.open(name, trace=f"{number:032x}") for number, name in enumerate(("o", "e", "r"), 1))
    for number in (1, 2, 3):
        book.take(a_span(1, RUN, trace=f"{number:032x}"))
    book.close(old, at=1.0)
    book.close(ended, at=18.0)
    book.lost("an export was refused: not OTLP", NOW + 20.0)
    seen = [book.evidence(turn.turn_id).added_to(turn) for turn in (old, ended, running)]
    assert [(turn.visibility.calls, turn.visibility.evidence) for turn in seen] == [
        (Calls.NONE_MADE, "spans"),
        *[(Calls.UNKNOWN, "calls_missed")] * 2,
    ]


def test_a_trace_that_names_its_turn_after_all_is_contested_no_more_there(book: Book) -> None:
    one = book.open("one", conversation="c1")
    book.open("two", conversation="c2")
    book.take(a_tool_span(1, trace=OTHER_TRACE))
    book.take(named(2, "c1", trace=OTHER_TRACE))
    assert book.evidence(one.turn_id).contested == book.evidence("two").contested == 0
    assert len(book.told("one")) == 2


def test_agents_may_have_the_same_conversation(book: Book) -> None:
    for name in ("a", "b"):
        book.open(name, conversation="c", agent=name)
    book.take(named(1, "c", trace=OTHER_TRACE))
    assert [book.told(name) for name in ("a", "b")] == [[], []]
    assert book.changed == ["a", "b"]


# ── hints that traces answer ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("span", "codes"), [(a_tool_span(1, arguments={}), []), (a_span(1, name="chat"), ["dialect_not_read"])]
)
def test_a_dialect_is_no_hint_where_traces_tell_the_calls(book: Book, span: Any, codes: list[str]) -> None:
    turn = book.open("t", trace=TRACE)
    turn.findings.append(Finding("dialect_not_read", "parts are marked", Severity.INFO, "response"))
    book.take(span)
    assert [finding.code for finding in book.evidence("t").added_to(turn).findings] == codes
