"""What waits in memory, for the store or to be scored: counted in bytes, held as text, and with a limit."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
import threading
import tracemalloc
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from a2a_eval_proxy.privacy.policy import Privacy, privacy_of
from a2a_eval_proxy.scoring.pipeline import memory_of
from a2a_eval_proxy.store import Scored, SqliteStore, StoreError, TurnQuery, write_queue
from a2a_eval_proxy.store.base import Limits
from a2a_eval_proxy.store.encoding import encoded_turn
from a2a_eval_proxy.turn import Turn
from a2a_tool_capture import ToolCall
from support.kept import result, turn
from support.patience import PATIENCE_S
from support.scoring import scoring

TEXTS = {"ascii": "a" * 30_000, "one emoji": "\U0001f600" + "a" * 30_000, "emoji": "\U0001f600" * 30_000}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "turns.db"


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
                assert store.add([turn(number, user_text=text[:-1] + "x", response_text=text[:-1] + "y")], lambda: None)
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
    broken = turn(1, user_text="hi", tool_calls=[ToolCall("look")])
    broken.tool_calls.append("no call")  # type: ignore[arg-type]
    told = threading.Event()
    assert store.add([broken, turn(2)], told.set, {broken.turn_id: [result()]})
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
    store.add([turn(1)], lambda: None)
    with monkeypatch.context() as broken:
        broken.setattr(write_queue, "delete_oldest", lambda *_, **__: 1 / 0)
        with pytest.raises(StoreError, match="could not be deleted: division by zero"):
            await store.pruned(Limits(before=4e9))
    assert store.health.remarks == ["store: old turns could not be deleted, see the log"]
    assert await store.pruned(Limits(before=4e9)) == 1
    assert store.health.remarks == []


async def test_a_writer_that_meets_its_own_error_ends_and_says_so(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SqliteStore, "_writing", lambda *_: 1 / 0)
    assert store.add([turn(1)], lambda: None)
    with pytest.raises(StoreError, match="division by zero; 1 turn"):
        await store.drained()
    assert store.health.remarks == ["store: nothing more is written, see the log; restart the proxy"]
    assert not store.add([turn(2)], lambda: None)


async def test_results_that_wait_count_too(store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("a2a_eval_proxy.store.write_queue.MAX_WAITING_BYTES", 1_000_000)
    with locked(path):
        store.finish([Scored("turn-0001", [result(reason="x" * 1_000_000)])], lambda: None)
        assert not store.add([turn(1)], lambda: None)
    await store.drained()
    assert store.add([turn(1)], lambda: None)


async def test_a_backlog_is_written_in_pieces(store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_queue, "MAX_GROUP_BYTES", 10 * encoded_turn(turn(0, user_text="x" * 10_000)).size)
    groups: list[int] = []
    original = SqliteStore._writing

    def writing(it: SqliteStore, group: Sequence[Any]) -> Any:
        groups.append(len(group))
        return original(it, group)

    monkeypatch.setattr(SqliteStore, "_writing", writing)
    with locked(path):
        for number in range(95):
            store.add([turn(number, user_text="x" * 10_000)], lambda: None)
    await store.drained()
    assert sum(groups) == 95
    assert max(groups) <= 10


async def in_a_batch_of_its_own() -> None:
    """Let the pipeline hand over what it took."""
    for _ in range(3):
        await asyncio.sleep(0)


# ── turns on their way to be scored ─────────────────────────────────────────────────────────────────────────

SUITE = """
suite: orders
evaluators: [tool_trajectory]
cases:
  - id: twice
    turns:
      - {user: Again, expect: {tool_calls: [{name: first}]}}
      - {user: Again, expect: {tool_calls: [{name: second}]}}
"""


async def test_turns_that_are_read_back_are_scored_as_ever(path: Path) -> None:
    """With a limit of nothing, the store alone keeps what waits."""
    async with scoring(path, SUITE, memory=0) as it:
        for number, (conversation, call) in enumerate([("a", "first"), ("b", "first"), ("a", "second"), ("b", "x")]):
            made = [ToolCall(call)]
            it.pipeline.take(
                turn(number, tool_calls=made, conversation_id=conversation, case_id="twice", user_text="Again")
            )
            await it.pipeline.written()
        await it.pipeline.drained()
        assert await it.outcomes() == [["passed"], ["passed"], ["passed"], ["failed"]]
        assert it.pipeline.depth == 0
        assert it.metrics.turns_scored == 4


async def test_a_turn_deleted_before_it_is_scored_is_done(path: Path) -> None:
    async with scoring(path, memory=0) as it:
        with locked(path):
            it.pipeline.take(turn(1))
            async with asyncio.timeout(PATIENCE_S):
                while not it.store.health.waiting_turns:
                    await asyncio.sleep(0)
            it.store.discard(["turn-0001"], lambda: None)
        await it.pipeline.drained()
        await it.store.drained()
        assert (await it.stored(), it.pipeline.depth) == ([], 0)


async def test_what_is_not_kept_and_cannot_be_read_back_does_not_pass(path: Path) -> None:
    async with scoring(path, privacy=privacy_of((), None, no_content=True), memory=0) as it:
        await it.take(turn(1, user_text="secret", tool_calls=[ToolCall("look")]))
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
            it.pipeline.take(turn(number, user_text=large))
            await in_a_batch_of_its_own()
        it.pipeline.take(turn(3, user_text=large))
        it.pipeline.take(turn(4, user_text=large))
        assert not it.pipeline.keep_open(turn(5, user_text=large, status="open"))
        it.pipeline.take(turn(6))  # there is room for a small one
        assert (it.metrics.turns_dropped, it.pipeline.depth) == (2, 4)
        (record,) = caplog.records
        assert record.message.startswith("the store does not keep up: 1 turn(s) were dropped")
        privacy.go_on.set()
        await it.pipeline.drained()
        assert [item["turn_id"][-1] for item in await it.stored()] == ["0", "1", "2", "6"]
        assert it.pipeline.keep_open(turn(7, user_text=large * 9, status="open"))  # one alone may have more
        await it.pipeline.written()
        it.pipeline.take(turn(8, user_text=large))
        await it.pipeline.drained()
        assert it.metrics.turns_dropped == 2


def test_memory_counts_real_bytes() -> None:
    plain, emoji = turn(1, user_text="a" * 1000), turn(1, user_text="\U0001f600" + "a" * 999)
    assert memory_of(emoji) - memory_of(plain) > 2_900
    deep: list[Any] = []
    for _ in range(10_000):
        deep = [deep]
    assert memory_of(turn(1, tool_calls=[ToolCall("deep", {"x": deep})])) > 500_000
