"""Several processes, one book: what an agent did does not depend on the process that relayed an exchange."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pytest
from a2a_eval_proxy.capture import forwarding
from a2a_eval_proxy.capture.exchange import ExchangeBook
from a2a_eval_proxy.capture.forwarding import ForwardingBook
from a2a_eval_proxy.capture.lookups import TaskHistory
from a2a_eval_proxy.capture.observations import Observation, ObservedTurns, decoded, encoded, turn_to_message
from a2a_eval_proxy.capture.ordering import InOrder
from a2a_eval_proxy.capture.records import ASKED_KEY
from a2a_eval_proxy.capture.turn_book import LINGER_S, TurnBook
from a2a_eval_proxy.turn import STARTS_TRACE, NamedIn, Turn, TurnLinks
from a2a_tool_capture import METADATA_KEY, URI, Finding
from hypothesis import example, given
from hypothesis import strategies as st
from support.asked_store import AskedStore

Event = dict[str, Any]

CLIENTS = ["unary", "stream", "polls", "polls twice", "drops, polls", "drops, subscribes", "killed, polls", "notified",
    "subscribes"]  # fmt: skip
ENDS = ["INPUT_REQUIRED", "COMPLETED", "FAILED", "message"]


@dataclass(frozen=True)
class Said:
    """A turn as the client plans it; `processes` relay its exchanges, in their order.

    `late`: its webhook is notified after the next message was sent, unless the client waits for that. `ends`: the
    process that is killed afterwards, 3 for none. A client that is "killed" was relayed by a process that was.
    """

    client: str
    calls: int
    end: str
    processes: tuple[int, ...]
    webhook: bool
    late: bool = False
    ends: int = 3


SAID = st.builds(
    Said,
    st.sampled_from(CLIENTS),
    st.integers(0, 3),
    st.sampled_from(ENDS),
    st.tuples(*[st.integers(0, 2)] * 4),
    st.booleans(),
    st.booleans(),
    st.integers(0, 3),
)


class World:
    """An agent, and clients that use it through books; `book(n)` is that of process n, which `kill` kills."""

    def __init__(self, book: Callable[[int], ExchangeBook], kill: Callable[[int, float], None] | None = None) -> None:
        self._book = book
        self._kill = kill
        self.now = 1000.0
        self._numbers = itertools.count()
        self._task: Event | None = None
        self._hooks: dict[tuple[int, str], Any] = {}
        self._late: list[Callable[[], None]] = []

    def passes(self) -> float:
        self.now += 0.01
        return self.now

    def converse(self, turns: Sequence[Said]) -> None:
        for said in turns:
            self._converse(next(self._numbers), said)
            if said.ends < 3:
                self.process_ends(said.ends)

    def process_ends(self, process: int) -> None:
        if self._kill is not None:
            self._kill(process, self.passes())
            self._hooks = {key: hook for key, hook in self._hooks.items() if key[0] != process}

    def is_notified(self) -> None:
        """What webhooks have not been notified of reaches them."""
        for late in self._late:
            late()
        self._late.clear()

    def _converse(self, number: int, said: Said) -> None:
        if said.end == "message" and self._task is not None:
            said = replace(said, end="COMPLETED")
        task_id = "" if self._task is None else self._task["id"]
        turn = Turn(f"turn-{number}", "run", "agent", "JSONRPC", "1.0", self.now, task_id=task_id)
        one, two, three, four = said.processes
        returns = said.client in ("polls", "polls twice", "subscribes", "notified")
        sent = self._book(one).open(turn, self.passes(), returns_at_once=returns)
        self.is_notified()
        if said.end == "message":
            self._feed(one, sent, {"message": {"messageId": "m", "contextId": "c", "parts": []}}, live=False)
            self._book(one).end(sent, self.passes())
            return
        events = self._events(number, said)
        assert self._task is not None
        notify: Callable[[Event], None] = lambda event: None  # noqa: E731
        if said.webhook or said.client == "notified":
            notify = partial(self._notify, four, self._task["id"])
            if said.late and said.client != "notified":
                at_once = notify
                notify = lambda event: self._late.append(partial(at_once, event))  # noqa: E731
        match said.client:
            case "unary":
                for event in events:
                    self._happens(event)
                    notify(event)
                self._answer(one, sent)
            case "stream":
                self._stream(one, sent, events, notify)
            case "polls" | "polls twice" | "notified":
                self._happens(events[0])
                self._answer(one, sent)
                for event in events[1:]:
                    self._happens(event)
                    notify(event)
                    if said.client == "polls twice":
                        self._answer(two, self._book(two).watch())
                if said.client != "notified":
                    self._answer(three, self._book(three).watch())
            case "drops, polls" | "drops, subscribes" | "killed, polls":
                why, rest = said.client.split(", ")
                killed = why == "killed" and bool(task_id)  # a new task may be known to that process alone
                self._stream(one, sent, events[:2], notify, Finding("client_gone", "left"), killed=killed)
                self._rest(rest, two, events[2:], notify)
            case "subscribes":
                self._happens(events[0])
                self._answer(one, sent)
                self._rest("subscribes", two, events[1:], notify)
        if said.end != "INPUT_REQUIRED":
            self._task = None

    def _rest(self, how: str, process: int, events: list[Event], notify: Callable[[Event], None]) -> None:
        watcher = self._book(process).watch()
        if how == "polls":
            for event in events:
                self._happens(event)
                notify(event)
            self._answer(process, watcher)
        else:
            self._feed(process, watcher, {"task": json.loads(json.dumps(self._task))})
            self._stream(process, watcher, events, notify)

    def _stream(
        self,
        process: int,
        stream: Any,
        events: list[Event],
        notify: Callable[[Event], None],
        problem: Finding | None = None,
        *,
        killed: bool = False,
    ) -> None:
        for event in events:
            self._happens(event)
            self._feed(process, stream, event)
            notify(event)
        if killed and self._kill is not None:
            self.process_ends(process)
        else:
            self._book(process).end(stream, self.passes(), problem=problem)

    def _answer(self, process: int, exchange: Any) -> None:
        self._feed(process, exchange, {"task": json.loads(json.dumps(self._task))}, live=False)
        self._book(process).end(exchange, self.passes())

    def _notify(self, process: int, task_id: str, event: Event) -> None:
        key = process, task_id
        if key not in self._hooks:
            self._hooks[key] = self._book(process).watch(notified=f"hook of {task_id}")
        self._feed(process, self._hooks[key], event)

    def _feed(self, process: int, exchange: Any, event: Event, *, live: bool = True) -> None:
        observed = json.dumps(event)
        self._book(process).feed(exchange, json.loads(observed), self.passes(), live=live, size=len(observed))

    def _events(self, number: int, said: Said) -> list[Event]:
        """What the agent does in a turn: it begins, gives an artifact for each call, and ends."""
        if self._task is None:
            self._task = {"id": f"task-{number}", "contextId": "c", "artifacts": []}
        of = {"taskId": self._task["id"], "contextId": "c"}
        made = [
            {
                "artifactId": f"{number}.{place}",
                "extensions": [URI],
                "parts": [{"text": f"answer {number}.{place}"}],
                "metadata": {METADATA_KEY: [{"name": f"call-{number}.{place}"}]},
            }
            for place in range(said.calls)
        ]
        return [
            {"statusUpdate": {**of, "status": {"state": "TASK_STATE_WORKING"}}},
            *({"artifactUpdate": {**of, "artifact": artifact}} for artifact in made),
            {"statusUpdate": {**of, "status": {"state": f"TASK_STATE_{said.end}"}}},
        ]

    def _happens(self, event: Event) -> None:
        """The agent's task changes."""
        assert self._task is not None
        if (update := event.get("statusUpdate")) is not None:
            update["status"]["timestamp"] = f"2026-01-01T00:{int(self.passes()) % 60:02}:{self.now % 60:09.6f}Z"
            self._task["status"] = update["status"]
        else:
            self._task["artifacts"].append(event["artifactUpdate"]["artifact"])


def found(turns: list[Turn]) -> list[tuple[str, str | None, list[str], str, list[str]]]:
    return sorted(
        (
            turn.turn_id,
            turn.state,
            [call.name for call in turn.tool_calls],
            turn.response_text,
            [finding.code for finding in turn.findings],
        )
        for turn in turns
    )


def one_book(closed: list[Turn], asked: list[str]) -> TurnBook:
    return TurnBook(closed.append, store=AskedStore(asked))


def through_one(turns: Sequence[Said]) -> list[Any]:
    closed: list[Turn] = []
    asked: list[str] = []
    book = one_book(closed, asked)
    world = World(lambda process: book)
    world.converse(turns)
    world.is_notified()
    for task_id in asked:
        book.found(task_id, TaskHistory(), world.now)
    book.expire(world.now + LINGER_S + 1)
    assert not book.open_turns
    return found(closed)


@dataclass
class Processes:
    """Three of them, and the one book; what they forward is under way until `arrives`."""

    closed: list[Turn] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    now: float = 0.0

    def __post_init__(self) -> None:
        self.book = one_book(self.closed, self.asked)
        self.order = ObservedTurns(self.book)
        self.under_way: list[list[tuple[float, Observation]]] = [[], [], []]
        self._lives = itertools.count()
        self.books = [self._started(number) for number in range(3)]

    def _started(self, process: int) -> ForwardingBook:
        source = f"{next(self._lives)}-process"
        self.order.join(source)
        return ForwardingBook(TurnBook(self.closed.append), self._forward(process), source)

    def kill(self, process: int, now: float) -> None:
        """A process is killed, and another one takes its place. What it had forwarded arrives."""
        self.arrives(process)
        self.leaves(process)
        self.order.source_ended(self.books[process].source, now)
        assert not self.books[process].open_turns
        self.books[process] = self._started(process)

    def mark(self, process: int, now: float) -> None:
        self.order.mark(self.books[process].source, now)

    def leaves(self, process: int) -> None:
        self.order.leave(self.books[process].source)

    def _forward(self, process: int) -> Callable[[float, Observation], None]:
        return lambda at, one: self.under_way[process].append((at, one))

    def arrives(self, process: int) -> None:
        """What a process has forwarded reaches the book."""
        under_way, self.under_way[process] = self.under_way[process], []
        for at, one in under_way:
            self.order.put(at, decoded(encoded(one)))


def through_three(turns: Sequence[Said], late: int) -> list[Any]:
    processes = Processes()
    world = World(lambda process: processes.books[process], processes.kill)
    for number, said in enumerate(turns):
        world.converse([said])
        for process in range(3):
            if process != late or number % 2:
                processes.arrives(process)
                processes.mark(process, world.now)
        for task_id in processes.asked:
            processes.book.found(task_id, TaskHistory(), world.now)
        processes.asked.clear()
    world.is_notified()
    for process in range(3):
        processes.arrives(process)
        processes.leaves(process)
    for task_id in processes.asked:
        processes.book.found(task_id, TaskHistory(), world.now)
    processes.book.expire(world.now + LINGER_S + 1)
    assert not processes.book.open_turns
    assert not any(book.open_turns for book in processes.books)
    assert not processes.order.waiting
    return found(processes.closed)


@given(st.lists(SAID, min_size=1, max_size=5), st.integers(0, 2))
@example([Said("polls", 1, "INPUT_REQUIRED", (0, 1, 2, 0), True), Said("unary", 2, "COMPLETED", (1, 0, 0, 2), True)], 0)
def test_any_distribution_over_processes_gives_the_turns_of_one(turns: list[Said], late: int) -> None:
    alone = through_one(turns)
    assert [turn[:3] for turn in through_three(turns, late)] == [turn[:3] for turn in alone]
    made = [[f"call-{number}.{place}" for place in range(said.calls)] for number, said in enumerate(turns)]
    expected = [[] if not turn[1] else calls for turn, calls in zip(alone, made, strict=True)]
    assert [turn[2] for turn in alone] == expected


def sent(book: ForwardingBook, now: float = 1.0) -> Any:
    return book.open(Turn("turn-1", "run", "agent", "JSONRPC", "1.0", now), now)


WORKING = {"task": {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}}


def test_an_exchange_that_ends_its_task_forwards_nothing() -> None:
    processes = Processes()
    book = processes.books[0]
    exchange = sent(book)
    book.feed(exchange, WORKING, 2, live=True, size=100)
    book.feed(
        exchange, {"statusUpdate": {"taskId": "t", "status": {"state": "TASK_STATE_COMPLETED"}}}, 3, live=True, size=100
    )
    book.end(exchange, 4)
    assert processes.under_way == [[], [], []]
    assert [turn.state for turn in processes.closed] == ["TASK_STATE_COMPLETED"]


@pytest.mark.parametrize("why", ["long", "large", "large with others", "stopped", "continued"])
def test_an_open_exchange_is_handed_over(why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwarding, "MAX_HELD_BYTES" if why == "large with others" else "MAX_OWN_BYTES", 10_000)
    processes = Processes()
    book = processes.books[0]
    exchange = sent(book)
    book.feed(exchange, WORKING, 2, live=True, size=100)
    assert processes.under_way[0] == []
    match why:
        case "long":
            book.expire(2 + forwarding.MAX_OWN_S)
        case "large" | "large with others":
            part = {"artifactId": "a", "parts": [{"text": "x" * 10_000}]}
            book.feed(exchange, {"artifactUpdate": {"taskId": "t", "artifact": part}}, 3, live=True, size=10_000)
        case "stopped":
            book.close_all(3)
        case "continued":
            history = [{"role": "ROLE_USER"}, {"role": "ROLE_AGENT"}, {"role": "ROLE_USER"}]
            book.feed(exchange, {"task": {**WORKING["task"], "history": history}}, 3, live=True, size=100)
    assert not book.open_turns
    processes.arrives(0)
    for process in range(3):
        processes.leaves(process)
    assert [(turn.turn_id, turn.task_id) for turn in processes.book.open_turns] == [("turn-1", "t")]
    book.end(exchange, 20, problem=Finding("client_gone", "left"))
    processes.arrives(0)
    assert [[finding.code for finding in turn.findings] for turn in processes.book.open_turns] == [["client_gone"]]


def test_conversations_that_an_answer_names_reach_the_process_that_folds_the_turn() -> None:
    processes = Processes()
    first, second, _ = processes.books
    turn = Turn("turn-1", "run", "agent", "JSONRPC", "1.0", 1, links=STARTS_TRACE)
    exchange, poll = first.open(turn, 1, returns_at_once=True), second.watch()
    first.feed(exchange, {**WORKING, ASKED_KEY: ["c7"]}, 2, live=False, size=100)
    first.end(exchange, 3)
    second.feed(poll, {**WORKING, ASKED_KEY: ["c7", "c8"]}, 4, live=False, size=100)
    second.end(poll, 5)
    for process in range(3):
        processes.arrives(process)
        processes.leaves(process)
    (folded,) = processes.book.open_turns
    assert folded.links == TurnLinks(names=tuple((NamedIn.CHILD_CONVERSATION, one) for one in ("c7", "c8")))


def test_what_cannot_be_taken_costs_itself() -> None:
    processes = Processes()
    observed = ObservedTurns(processes.book)
    for junk in (
        {},
        {"kind": "sent", "exchange": "a", "at": 1, "turn": {}},
        {"kind": "event", "exchange": "a", "at": 1},
    ):
        for _ in range(2):
            observed.take(junk)
    assert processes.book.open_turns == []


def test_an_observation_that_fails_costs_its_turn_what_is_known_of_its_calls() -> None:
    processes = Processes()
    observed = ObservedTurns(processes.book)
    sent = {"kind": "sent", "exchange": "a", "task": "t", "at": 1.0, "returns_at_once": False}
    observed.take({**sent, "turn": turn_to_message(Turn("1", "run", "agent", "JSONRPC", "1.0", 1.0))})
    event = {"kind": "event", "exchange": "a", "task": "t", "at": 2.0, "live": True, "size": 9, "notified": False}
    observed.take({**event, "event": {"statusUpdate": {"taskId": "t", "status": {"state": "TASK_STATE_WORKING"}}}})
    observed.take(event)
    (found,) = processes.book.open_turns
    assert found.visibility.evidence == "capture_error"


def test_an_event_that_cannot_be_encoded_costs_itself() -> None:
    event: Event = {}
    for _ in range(1_100):
        event = {"artifact": event}
    observation = {"kind": "event", "exchange": "a", "task": "t", "at": 2.0, "event": event, "live": True}
    one = decoded(encoded(observation))
    assert (one["kind"], one["task"], one["at"], one["finding"]["code"]) == ("finding", "t", 2.0, "capture_error")


def test_observations_wait_for_the_process_that_is_behind() -> None:
    taken: list[str] = []
    order: InOrder[str] = InOrder(taken.append)
    for source in "ab":
        order.join(source)
    order.mark("a", 2)
    order.put(2, "second")
    assert (taken, order.behind()) == ([], ["b"])
    order.put(1, "first")
    order.mark("b", 1.5)
    assert taken == ["first"]
    order.put(0.5, "late")
    assert taken == ["first", "late"]
    order.leave("b")
    assert (taken, order.waiting) == (["first", "late", "second"], False)
    order.mark("b", 9)  # it has left


def test_the_exchanges_of_a_process_that_ends_are_ended() -> None:
    processes = Processes()
    for number, book in enumerate(processes.books):
        exchange = book.open(Turn(f"turn-{number}", "run", "agent", "JSONRPC", "1.0", 1, task_id=f"t{number}"), 1)
        book.feed(exchange, {"task": {**WORKING["task"], "id": f"t{number}"}}, 2, live=True, size=100)
    observed = ObservedTurns(processes.book)
    for way in processes.under_way:
        for _, one in way:
            observed.put(one["at"], decoded(encoded(one)))
    for task_id in list(processes.asked):
        processes.book.found(task_id, TaskHistory(known=True), 3)
    observed.source_ended(processes.books[1].source, 3)
    assert [[finding.code for finding in turn.findings] for turn in processes.book.open_turns] == [
        [], ["process_ended"], []
    ]  # fmt: skip
