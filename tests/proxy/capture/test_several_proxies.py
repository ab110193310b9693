"""Several proxies, one log: what an agent did does not depend on the proxy that relayed an exchange."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest
from a2a_eval_proxy.capture.task_fold import LINGER_S, SILENT_S, FoldRules, TaskFold
from a2a_eval_proxy.capture.turn_book import TurnBook
from a2a_eval_proxy.turn import Turn
from a2a_tool_capture import METADATA_KEY, URI, Finding
from hypothesis import example, given
from hypothesis import strategies as st
from support.folded import Folded

Event = dict[str, Any]

CLIENTS = ["unary", "stream", "polls", "polls twice", "drops, polls", "drops, subscribes", "killed, polls", "notified",
    "subscribes"]  # fmt: skip
ENDS = ["INPUT_REQUIRED", "COMPLETED", "FAILED", "message"]


@dataclass(frozen=True)
class Said:
    """A turn as the client plans it; proxies with the numbers `processes` relay its exchanges, in their order.

    `late`: its webhook is notified after the next message was sent, unless the client waits for that. `ends`: the
    proxy that is killed afterwards, 3 for none. A client that is "killed" was relayed by a proxy that was.
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
    """An agent, and clients that use it through books; `book(n)` is that of proxy n, which `kill` kills."""

    def __init__(self, book: Callable[[int], TurnBook], kill: Callable[[int, float], None] | None = None) -> None:
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
                        self._answer(two, self._book(two).follow())
                if said.client != "notified":
                    self._answer(three, self._book(three).follow())
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
        watcher = self._book(process).follow()
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
            self._hooks[key] = self._book(process).follow(notified=f"hook of {task_id}")
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


def through_one(turns: Sequence[Said]) -> list[Any]:
    folded = Folded()
    return passed(folded, World(lambda process: folded.book), turns)


def through_three(turns: Sequence[Said]) -> list[Any]:
    """Through three proxies; one that is killed is replaced by another."""
    folded = Folded()
    books = [folded.begins(f"{process}-proxy") for process in range(3)]
    lives = itertools.count(3)

    def kill(process: int, now: float) -> None:
        folded.gone[books[process].source] = now
        books[process] = folded.begins(f"{next(lives)}-proxy")

    return passed(folded, World(lambda process: books[process], kill), turns)


def passed(folded: Folded, world: World, turns: Sequence[Said]) -> list[Any]:
    world.converse(turns)
    world.is_notified()
    folded.now = world.now + LINGER_S + 1
    closed = folded.closed
    assert not folded.open_turns
    return found(closed)


@given(st.lists(SAID, min_size=1, max_size=5))
@example([Said("polls", 1, "INPUT_REQUIRED", (0, 1, 2, 0), True), Said("unary", 2, "COMPLETED", (1, 0, 0, 2), True)])
def test_any_distribution_over_proxies_gives_the_turns_of_one(turns: list[Said]) -> None:
    alone = through_one(turns)
    assert [turn[:3] for turn in through_three(turns)] == [turn[:3] for turn in alone]
    made = [[f"call-{number}.{place}" for place in range(said.calls)] for number, said in enumerate(turns)]
    expected = [[] if not turn[1] else calls for turn, calls in zip(alone, made, strict=True)]
    assert [turn[2] for turn in alone] == expected


def test_a_proxy_that_is_killed_before_the_agent_says_anything_leaves_the_calls_unknown() -> None:
    fold = TaskFold(FoldRules())
    fold.sent("exchange", Turn("turn", "run", "agent", "JSONRPC", "1.0", 1.0, task_id="t"), 1.0)
    fold.cut("exchange", 2.0)
    assert [finding.code for finding in fold.closed[0].findings] == ["process_ended", "calls_missed"]


@pytest.mark.parametrize(("started", "codes"), [(SILENT_S, ["calls_missed"]), (SILENT_S + 2.0, [])])
def test_a_proxy_may_have_been_notified_until_it_was_missed(started: float, codes: list[str]) -> None:
    """It was there last at 1.0; beside much other load it says so late."""
    fold = TaskFold(FoldRules(), killed_at=[1.0])
    of_task = {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}
    over = {"taskId": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}}
    fold.sent("exchange", Turn("turn", "run", "agent", "JSONRPC", "1.0", started), started, returns_at_once=True)
    fold.event("exchange", {"task": of_task}, started, live=False)
    fold.ended("exchange", started)
    fold.event("webhook", {"statusUpdate": over}, started + 1.0, live=True, notified=True)
    fold.expire(started + 10.0)
    assert [finding.code for finding in fold.closed[0].findings] == codes
