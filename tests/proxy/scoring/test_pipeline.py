"""Closed turns on their way: stored as pending, scored, done; and after a restart, the rest of them."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
import threading
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
from a2a_eval_proxy.privacy.policy import Privacy, privacy_of
from a2a_eval_proxy.scoring.pipeline import memory_of
from a2a_eval_proxy.store import Scored, SqliteStore, StoreError, TurnQuery, write_queue
from a2a_eval_proxy.store.base import Limits
from a2a_eval_proxy.store.encoding import encoded_turn
from a2a_eval_proxy.turn import Turn
from a2a_tool_capture import Finding, Severity, ToolCall
from support.kept import result
from support.kept import turn as kept_turn
from support.live import heard
from support.patience import PATIENCE_S
from support.registered import registered
from support.scoring import scoring
from support.scoring import turn_with as turn
from tool_call_evaluators.evaluator import Measurement, SyncEvaluator
from tool_call_evaluators.model import EvalCase

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
def gate() -> Iterator[type[Gate]]:
    """The evaluator, known to suites for the time of the test."""
    Gate.opened.clear()
    Gate.reached.clear()
    with registered(Gate):
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
        with it.bus.listen() as events:
            it.pipeline.take(turn(1, "search", findings=[Finding("odd", "seen")]))
            assert it.pipeline.depth == 1
            await it.pipeline.drained()
            assert it.pipeline.depth == 0
            closed, done = heard(events)
        assert (closed.name, closed.data["status"], closed.data["evaluations"]) == ("turn.closed", "pending", [])
        assert (done.name, done.data["status"]) == ("turn.done", "done")
        (stored,) = await it.stored()
        assert stored == done.data
        assert stored["evaluations"]
        assert (it.metrics.turns_closed, it.metrics.turns_scored, it.metrics.turns_dropped) == (1, 1, 0)
        assert (it.metrics.calls, it.metrics.findings) == ({"a2a_protocol": 1}, {"odd": 1})
        assert sum(it.metrics.evaluations.values()) == len(stored["evaluations"])


@pytest.mark.parametrize("more", [{}, {"memory": 0}], ids=["in memory", "the store alone keeps what waits"])
async def test_positions_are_counted_by_conversation_and_run(path: Path, more: dict[str, Any]) -> None:
    """The case says the same text twice; which of its turns this is depends on what came before."""
    async with scoring(path, SUITE, **more) as it:
        said = [
            ("c1", "nightly", "first"),
            ("c2", "nightly", "first"),
            ("c1", "nightly", "second"),
            ("c1", "another", "first"),
            ("c2", "nightly", "first"),  # wrong: it should be the second
        ]
        for number, (conversation, run, call) in enumerate(said):
            it.pipeline.take(
                turn(number, call, conversation_id=conversation, run=run, case_id="twice", user_text="Again")
            )
            await it.pipeline.written()
        await it.pipeline.drained()
        assert await it.outcomes() == [["passed"]] * 4 + [["failed"]]
        assert (it.pipeline.depth, it.metrics.turns_scored) == (0, 5)


async def test_a_turn_with_a_late_finding_keeps_its_position(path: Path) -> None:
    suite = "suite: s\ncases: [{id: twice, turns: [{user: Again}, {user: Again, expect: {state: input-required}}]}]"
    place = {"conversation_id": "c", "case_id": "twice", "user_text": "Again"}
    async with scoring(path, suite) as it:
        for number, state in enumerate(["COMPLETED", "INPUT_REQUIRED"]):
            await it.take(turn(number, "first", state=f"TASK_STATE_{state}", **place))
        for number in range(2):
            (_, second) = await it.stored()
            missed = Finding("calls_missed", f"{number}", Severity.WARNING)
            assert it.pipeline.revise(second, findings=[missed]), "what is known of its calls changes"
            await it.pipeline.drained()
        (_, second) = await it.stored()
        scored = it.metrics.turns_scored
        assert not it.pipeline.revise(second, findings=[Finding("odd", "seen")])
        await it.store.drained()
        (_, second) = await it.stored()
        assert (second["calls"], len(second["findings"]), it.metrics.turns_scored) == ("unknown", 3, scored)
        assert [one["status"] for one in second["evaluations"] if one["evaluator"] == "turn_succeeded"] == ["passed"]


# ── evaluators ──────────────────────────────────────────────────────────────────────────────────────────────


async def test_an_evaluator_that_raises_does_not_stop_the_line(path: Path, gate: type[Gate]) -> None:
    gate.opened.set()
    async with scoring(path, GATED) as it:
        await it.take(*(turn(number, user_text=text) for number, text in enumerate(["fine", "raise", "fine"])))
        assert [statuses[0] for statuses in await it.outcomes()] == ["passed", "errored", "passed"]
        assert it.metrics.evaluations["gate_of_test_pipeline", "errored"] == 1


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


async def test_a_turn_that_is_taken_again_while_its_results_are_written_counts_once(
    path: Path, gate: type[Gate]
) -> None:
    async with scoring(path, GATED) as it:
        it.pipeline.take(turn(1, user_text="before"))
        assert await asyncio.to_thread(gate.reached.wait, PATIENCE_S)
        with locked(path):
            gate.opened.set()
            async with asyncio.timeout(PATIENCE_S):
                while not it.store.health.waiting_bytes:
                    await asyncio.sleep(0)
            it.pipeline.take(turn(1, user_text="now"))
        await it.pipeline.drained()
        assert [one["user_text"] for one in await it.stored(status="done")] == ["now"]
        assert it.metrics.turns_scored == 1


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
        assert not before.pipeline.scores
        await before.take(*(turn(number, "search") for number in range(450)))  # more than a page
    async with scoring(path) as after:
        assert after.pipeline.scores
        assert await after.pipeline.resume() == 450
        await after.take(turn(1000))
        assert len(await after.stored(status="done")) == 451
        assert all(await after.outcomes())
        assert (after.metrics.turns_scored, sum(after.metrics.calls.values())) == (451, 450)
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


class BrokenRemoval(Privacy):
    """Has a bug in what it does with some turns."""

    def stored(self, turn: Turn) -> Turn:
        if turn.user_text == "raise":
            raise RuntimeError("a bug")
        return turn


async def test_nobody_waits_for_a_turn_that_cannot_be_stored(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with scoring(path, privacy=BrokenRemoval(keeps_content=False), memory=0) as it:
        await it.take(turn(1, user_text="raise"))
        await it.take(turn(2))
        assert (it.metrics.turns_dropped, await it.outcomes()) == (1, [["passed"]])
    assert caplog.messages[0] == "turns could not be stored"


@pytest.mark.parametrize(
    ("write", "scored", "found"),
    [("finish", "turns", ["c2"]), ("finish_conversations", "conversations", ["c1", "c2"])],
)
async def test_results_that_cannot_be_stored_stop_nobody(
    path: Path,
    write: str,
    scored: str,
    found: list[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A turn stays pending, a conversation unscored; later ones are scored."""
    case = "{id: one, turns: [{user: hello, expect: {tool_calls: []}}]}"
    evaluators = "[tool_trajectory, {tool_trajectory: {scope: conversation, id: whole}}]"
    async with scoring(path, f"suite: s\nevaluators: {evaluators}\ncases: [{case}]", memory=0) as it:
        with monkeypatch.context() as broken:
            broken.setattr(type(it.store), write, lambda *_: 1 / 0)
            await it.take(turn(1, case_id="one", conversation_id="c1"))
        await it.take(turn(2, case_id="one", conversation_id="c2"))
        done = await it.stored(status="done")
        assert [item["conversation_id"] for item in done] == found
        assert list(await it.scores()) == [("c2", "one")]
    assert caplog.messages[0] == f"results of {scored} could not be stored"


TEXTS = {"ascii": "a" * 30_000, "one emoji": "\U0001f600" + "a" * 30_000, "emoji": "\U0001f600" * 30_000}


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    it = SqliteStore(str(path))
    yield it
    await asyncio.to_thread(it.close)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """No other connection can write the file."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("COMMIT")


# ── the store's queue ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
async def test_waiting_turns_take_the_memory_of_their_encoded_text(
    store: SqliteStore, path: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_queue, "MAX_GROUP_BYTES", 100_000)  # what is being written is decoded
    encoded = len(text.encode()) * 2 * 100
    with locked(path):
        gc.collect()
        tracemalloc.start()
        try:
            for number in range(100):
                assert store.add(
                    [kept_turn(number, user_text=text[:-1] + "x", response_text=text[:-1] + "y")], lambda: None
                )
            taken = tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()
        assert encoded <= store.health.waiting_bytes <= 1.1 * encoded
        assert taken <= 1.2 * encoded
    await store.drained()
    assert (store.health.waiting_bytes, store.health.waiting_turns) == (0, 0)


async def test_a_turn_that_cannot_be_encoded_is_stored_as_unknown(
    store: SqliteStore, caplog: pytest.LogCaptureFixture
) -> None:
    broken = kept_turn(1, user_text="hi", tool_calls=[ToolCall("look")])
    broken.tool_calls.append("no call")  # type: ignore[arg-type]
    told = threading.Event()
    assert store.add([broken, kept_turn(2)], told.set, {broken.turn_id: [result()]})
    await store.drained()
    first, second = (await store.turns(TurnQuery())).items
    assert (first["calls"], first["status"], first["user_text"]) == ("unknown", "pending", "")
    assert [found["code"] for found in first["findings"]] == ["capture_error"]
    assert second["findings"] == []
    assert told.is_set()
    assert [record.message for record in caplog.records] == [
        "turn turn-0001 could not be encoded; it is stored without its content"
    ]


async def test_deleting_that_fails_by_an_error_of_the_program_is_said_and_tried_again(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.add([kept_turn(1)], lambda: None)
    with monkeypatch.context() as broken:
        broken.setattr(write_queue, "delete_oldest", lambda *_, **__: 1 / 0)
        with pytest.raises(StoreError, match="could not be deleted: division by zero"):
            await store.pruned(Limits(before=4e9))
    assert store.health.remarks == ["store: old turns could not be deleted, see the log"]
    assert await store.pruned(Limits(before=4e9)) == 1
    assert store.health.remarks == []


async def test_results_that_wait_count_too(store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("a2a_eval_proxy.store.write_queue.MAX_WAITING_BYTES", 1_000_000)
    with locked(path):
        store.finish([Scored("turn-0001", [result(reason="x" * 1_000_000)])], lambda: None)
        assert not store.add([kept_turn(1)], lambda: None)
    await store.drained()
    assert store.add([kept_turn(1)], lambda: None)


async def test_a_backlog_is_written_in_pieces(store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_queue, "MAX_GROUP_BYTES", 10 * encoded_turn(kept_turn(0, user_text="x" * 10_000)).size)
    with locked(path):
        for number in range(95):
            store.add([kept_turn(number, user_text="x" * 10_000)], lambda: None)
    await store.drained()
    assert store.health.writes >= 10


async def in_a_batch_of_its_own() -> None:
    """Let the pipeline hand over what it took."""
    for _ in range(3):
        await asyncio.sleep(0)


# ── turns on their way to be scored ─────────────────────────────────────────────────────────────────────────


async def test_a_turn_deleted_before_it_is_scored_is_done(path: Path) -> None:
    async with scoring(path, memory=0) as it:
        with locked(path):
            it.pipeline.take(kept_turn(1))
            async with asyncio.timeout(PATIENCE_S):
                while not it.store.health.waiting_turns:
                    await asyncio.sleep(0)
            it.store.discard(["turn-0001"], lambda: None)
        await it.pipeline.drained()
        await it.store.drained()
        assert (await it.stored(), it.pipeline.depth) == ([], 0)


async def test_what_is_not_kept_and_cannot_be_read_back_does_not_pass(path: Path) -> None:
    async with scoring(path, privacy=privacy_of((), None, no_content=True), memory=0) as it:
        await it.take(kept_turn(1, user_text="secret", tool_calls=[ToolCall("look")]))
        (found,) = await it.stored()
        assert (found["status"], [one["status"] for one in found["evaluations"]]) == ("done", ["errored"])


class HeldRedaction(Privacy):
    """Redacts nothing before it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.changes_turns = True
        self.go_on = threading.Event()

    def redacted(self, turn: Turn) -> Turn:
        assert self.go_on.wait(PATIENCE_S)
        return turn


async def test_turns_that_wait_to_be_redacted_are_limited_in_bytes(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    large = "x" * 1_000_000
    privacy = HeldRedaction()
    async with scoring(path, privacy=privacy, memory=3_500_000) as it:
        for number in range(3):
            it.pipeline.take(kept_turn(number, user_text=large))
            await in_a_batch_of_its_own()
        it.pipeline.take(kept_turn(3, user_text=large))
        it.pipeline.take(kept_turn(4, user_text=large))
        assert not it.pipeline.keep_open(kept_turn(5, user_text=large, status="open"))
        it.pipeline.take(kept_turn(6))  # there is room for a small one
        assert (it.metrics.turns_dropped, it.pipeline.depth) == (2, 4)
        (record,) = caplog.records
        assert record.message.startswith("the store does not keep up: 1 turn(s) were dropped")
        privacy.go_on.set()
        await it.pipeline.drained()
        assert [item["turn_id"][-1] for item in await it.stored()] == ["0", "1", "2", "6"]
        assert it.pipeline.keep_open(kept_turn(7, user_text=large * 9, status="open"))  # one alone may have more
        await it.pipeline.written()
        it.pipeline.take(kept_turn(8, user_text=large))
        await it.pipeline.drained()
        assert it.metrics.turns_dropped == 2


def test_memory_counts_real_bytes() -> None:
    plain, emoji = kept_turn(1, user_text="a" * 1000), kept_turn(1, user_text="\U0001f600" + "a" * 999)
    assert memory_of(emoji) - memory_of(plain) > 2_900
    texts = {"result": "r" * 1_000, "error": "e" * 1_000}
    assert memory_of(kept_turn(1, tool_calls=[ToolCall("look", **texts)])) > memory_of(kept_turn(1)) + 2_900
    deep: list[Any] = []
    for _ in range(10_000):
        deep = [deep]
    assert memory_of(kept_turn(1, tool_calls=[ToolCall("deep", {"x": deep})])) > 500_000
