"""Closed turns on their way: stored as pending, scored, done; and after a restart, the rest of them."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest
from a2a_eval_proxy.scoring.case_book import RegisteredCase
from a2a_eval_proxy.store import write_queue
from a2a_tool_capture import Finding, Severity
from support.live import heard
from support.patience import PATIENCE_S
from support.scoring import scoring
from support.scoring import turn_with as turn
from tool_call_evaluators import registry
from tool_call_evaluators.evaluator import Measurement, SyncEvaluator
from tool_call_evaluators.model import EvalCase
from tool_call_evaluators.suite import parse_case

SUITE = """
suite: orders
evaluators: [tool_trajectory]
cases:
  - id: twice
    turns:
      - {user: Again, expect: {tool_calls: [{name: first}]}}
      - {user: Again, expect: {tool_calls: [{name: second}]}}
"""


@dataclass(frozen=True, kw_only=True)
class Gate(SyncEvaluator):
    """Holds scoring up until a test lets it continue."""

    name: ClassVar[str] = "gate_of_test_pipeline"
    opened: ClassVar[threading.Event] = threading.Event()
    reached: ClassVar[threading.Event] = threading.Event()

    def measure(self, case: EvalCase) -> Measurement:
        self.reached.set()
        assert self.opened.wait(PATIENCE_S)
        if case.user_text == "raise":
            raise RuntimeError("this evaluator is broken")
        return Measurement(1.0, "it was opened")


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Gate]]:
    """The evaluator, known to suites for the time of the test."""
    monkeypatch.setitem(registry._registered, Gate.name, Gate)
    Gate.opened.clear()
    Gate.reached.clear()
    yield Gate
    Gate.opened.set()


GATED = "suite: gated\nevaluators: [gate_of_test_pipeline, tool_error]\ncases: []"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "turns.db"


@pytest.mark.parametrize("suite", [None, SUITE, "suite: slow\nevaluators: [tool_error, gate_of_test_pipeline]"])
async def test_a_turn_is_stored_scored_and_done(path: Path, suite: str | None, gate: type[Gate]) -> None:
    gate.opened.set()
    async with scoring(path, suite) as it:
        it.pipeline.take(turn(1, "search", findings=[Finding("odd", "seen")]))
        assert it.pipeline.depth == 1
        await it.pipeline.drained()
        assert it.pipeline.depth == 0
        (stored,) = await it.stored()
        assert stored["status"] == "done"
        assert stored["evaluations"]
        assert (it.metrics.turns_closed, it.metrics.turns_scored, it.metrics.turns_dropped) == (1, 1, 0)
        assert (it.metrics.calls, it.metrics.findings) == ({"a2a_protocol": 1}, {"odd": 1})
        assert sum(it.metrics.evaluations.values()) == len(stored["evaluations"])


async def test_without_evaluation_turns_stay_pending(path: Path) -> None:
    async with scoring(path, evaluate=False) as it:
        await it.take(turn(1))
        assert [item["status"] for item in await it.stored()] == ["pending"]
        assert await it.pipeline.resume() == 0


async def test_turns_are_matched_with_their_cases_as_they_come(path: Path) -> None:
    async with scoring(path, SUITE) as it:
        it.cases.put(RegisteredCase(parse_case({"id": "mine", "turns": [{"user": "Hello"}]})))
        await it.take(
            turn(1, user_text="Hello"), turn(2, user_text="Hello", case_id="named"), turn(3, user_text="Nothing known")
        )
        assert [item["case_id"] for item in await it.stored()] == ["mine", "named", None]
        assert len(await it.stored(case="mine")) == 1


async def test_positions_are_counted_by_conversation_and_run(path: Path) -> None:
    """The case says the same text twice; which of its turns this is depends on what came before."""
    async with scoring(path, SUITE) as it:
        said = [
            ("c1", "nightly", "first"),
            ("c2", "nightly", "first"),
            ("c1", "nightly", "second"),
            ("c1", "another", "first"),
            ("c2", "nightly", "first"),  # wrong: it should be the second
        ]
        await it.take(
            *(
                turn(number, call, conversation_id=conversation, run=run, case_id="twice", user_text="Again")
                for number, (conversation, run, call) in enumerate(said)
            )
        )
        assert await it.outcomes() == [["passed"]] * 4 + [["failed"]]


async def test_a_turn_with_a_late_finding_keeps_its_position(path: Path) -> None:
    suite = "suite: s\ncases: [{id: twice, turns: [{user: Again}, {user: Again, expect: {state: input-required}}]}]"
    place = {"conversation_id": "c", "case_id": "twice", "user_text": "Again"}
    async with scoring(path, suite) as it:
        for number, state in enumerate(["COMPLETED", "INPUT_REQUIRED"]):
            await it.take(turn(number, "first", state=f"TASK_STATE_{state}", **place))
        for number in range(2):
            (_, second) = await it.stored()
            it.pipeline.revise(second, findings=[Finding("calls_missed", f"{number}", Severity.WARNING)])
            await it.pipeline.drained()
        (_, second) = await it.stored()
        assert (second["calls"], len(second["findings"])) == ("unknown", 2)
        assert [one["status"] for one in second["evaluations"] if one["evaluator"] == "turn_succeeded"] == ["passed"]


# ── evaluators ──────────────────────────────────────────────────────────────────────────────────────────────


async def test_an_evaluator_that_raises_does_not_stop_the_line(path: Path, gate: type[Gate]) -> None:
    gate.opened.set()
    async with scoring(path, GATED) as it:
        await it.take(*(turn(number, user_text=text) for number, text in enumerate(["fine", "raise", "fine"])))
        assert [statuses[0] for statuses in await it.outcomes()] == ["passed", "errored", "passed"]
        assert it.metrics.evaluations["gate_of_test_pipeline", "errored"] == 1


async def test_a_turn_is_on_disk_before_it_is_scored(path: Path, gate: type[Gate]) -> None:
    async with scoring(path, GATED) as it:
        it.pipeline.take(turn(1))
        await asyncio.to_thread(gate.reached.wait, 30)
        assert [item["status"] for item in await it.stored()] == ["pending"]
        assert it.pipeline.depth == 1
        gate.opened.set()
        await it.pipeline.drained()
        assert [item["status"] for item in await it.stored()] == ["done"]


async def test_a_turn_that_is_scored_at_once_is_written_once(path: Path) -> None:
    async with scoring(path) as it:
        for number, calls in ((1, 3), (2, 200)):
            before = it.store.health.writes
            await it.take(turn(number, *["search"] * calls))
            assert it.store.health.writes - before == number
        assert len(await it.stored(status="done")) == 2


# ── again ───────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_turn_that_is_taken_again_while_it_is_scored_is_scored_as_it_is_now(
    path: Path, gate: type[Gate]
) -> None:
    async with scoring(path, GATED) as it:
        it.pipeline.take(turn(1, user_text="raise"))
        assert await asyncio.to_thread(gate.reached.wait, PATIENCE_S)
        it.pipeline.take(turn(1, "search", user_text="fine", task_id="t"))
        assert it.pipeline.depth == 1
        gate.opened.set()
        await it.pipeline.drained()
        (found,) = await it.stored(status="done")
        assert (found["user_text"], found["task_id"], len(found["tool_calls"])) == ("fine", "t", 1)
        assert found["evaluations"][0]["status"] == "passed"
        assert it.metrics.turns_closed == 1


@pytest.mark.parametrize("suite", [SUITE, GATED])
async def test_a_turn_that_is_taken_again_after_a_restart_replaces_itself(
    path: Path, gate: type[Gate], suite: str
) -> None:
    gate.opened.set()
    for number in range(3):
        async with scoring(path, suite) as it:
            it.pipeline.take(turn(1, *["search"] * number, response_text=str(number)), again=number > 0)
            await it.pipeline.drained()
            (found,) = await it.stored()
            assert (found["status"], found["response_text"]) == ("done", str(number))
            assert len(found["tool_calls"]) == number
            assert found["evaluations"]


# ── restarts ────────────────────────────────────────────────────────────────────────────────────────────────


async def test_what_was_pending_is_scored_after_a_restart(path: Path) -> None:
    async with scoring(path, evaluate=False) as before:
        await before.take(*(turn(number, "search") for number in range(450)))  # more than a page
    async with scoring(path) as after:
        assert await after.pipeline.resume() == 450
        await after.take(turn(1000))
        assert len(await after.stored(status="done")) == 451
        assert all(await after.outcomes())
        assert after.metrics.turns_scored == 451
    async with scoring(path) as again:
        assert await again.pipeline.resume() == 0


async def test_closing_amid_scoring_leaves_the_turn_for_the_next_process(path: Path, gate: type[Gate]) -> None:
    """Who waits for it, as `flush` does while an agent is removed, waits no longer."""
    async with scoring(path, GATED) as it:
        it.pipeline.take(turn(1))
        await asyncio.to_thread(gate.reached.wait, 30)
        waiting = asyncio.create_task(it.pipeline.drained())
        await asyncio.sleep(0)
        gate.opened.set()
    await waiting
    async with scoring(path, GATED) as it:
        await it.resume()
        assert await it.outcomes() == [["passed", "passed"]]


async def test_a_conversation_that_goes_on_after_a_restart_keeps_its_position(path: Path) -> None:
    for number, call in enumerate(["first", "second"]):
        async with scoring(path, SUITE) as it:
            await it.resume()
            await it.take(turn(number, call, conversation_id="c", case_id="twice", user_text="Again"))
            outcomes = await it.outcomes()
    assert outcomes == [["passed"], ["passed"]]


# ── a slow disk, listeners ──────────────────────────────────────────────────────────────────────────────────


async def test_turns_that_the_store_cannot_take_are_counted_and_logged_once(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(write_queue, "MAX_QUEUED", 0)
    async with scoring(path) as it:
        for number in range(5):  # each a batch of its own
            await it.take(turn(number))
        assert it.metrics.turns_dropped == 5
        assert await it.stored() == []
    said = "the store does not keep up: {} turn(s) were dropped"
    assert [record.getMessage() for record in caplog.records if "dropped" in record.getMessage()] == [
        said.format(1),
        said.format(4),
    ]


async def test_a_locked_store_holds_nobody_up(path: Path) -> None:
    async with scoring(path) as it:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            it.pipeline.take(turn(1))
            await asyncio.sleep(0)
            it.pipeline.take(turn(2))
            assert it.pipeline.depth == 2
            other.execute("COMMIT")
        await it.pipeline.drained()
        assert len(await it.stored(status="done")) == 2


@pytest.mark.parametrize("suite", [SUITE, GATED])
async def test_listeners_hear_of_each_turn_twice(path: Path, suite: str, gate: type[Gate]) -> None:
    gate.opened.set()
    async with scoring(path, suite) as it:
        with it.bus.listen() as events:
            await it.take(turn(1, "search"))
            closed, done = heard(events)
            assert (closed.name, closed.data["status"], closed.data["evaluations"]) == ("turn.closed", "pending", [])
            assert (done.name, done.data["status"]) == ("turn.done", "done")
            assert [{**item} for item in await it.stored()] == [done.data]
