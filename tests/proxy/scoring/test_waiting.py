"""What waits in memory, for the store or to be scored: counted in bytes, held as text, and with a limit."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
import threading
import tracemalloc
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from a2a_eval_proxy.memory import HeldBytes
from a2a_eval_proxy.privacy.policy import NO_PRIVACY, Privacy, privacy_of
from a2a_eval_proxy.scoring import intake, pipeline
from a2a_eval_proxy.scoring.case_book import CaseBook
from a2a_eval_proxy.scoring.executor import Job
from a2a_eval_proxy.scoring.job_queue import JobQueue, ScoredJobs
from a2a_eval_proxy.scoring.pipeline import Pipeline
from a2a_eval_proxy.scoring.scorer import Scorer
from a2a_eval_proxy.scoring.turn_memory import QUEUE_BYTES, memory_of
from a2a_eval_proxy.store import Scored, SqliteStore, TurnQuery, encoding, write_queue
from a2a_eval_proxy.store.base import Evaluations
from a2a_eval_proxy.store.encoding import EncodedTurn, Mark, encoded_turn
from a2a_eval_proxy.telemetry.counters import Metrics
from a2a_eval_proxy.telemetry.turn_listener import TurnListener
from a2a_eval_proxy.turn import Turn
from a2a_tool_capture import ToolCall
from support.kept import result, turn
from support.patience import PATIENCE_S
from tool_call_evaluators.suite import Suite, parse_suite

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


@asynccontextmanager
async def running(
    path: Path, suite: Suite | None = None, privacy: Privacy = NO_PRIVACY, memory: int = QUEUE_BYTES
) -> AsyncIterator[Pipeline]:
    store, cases = SqliteStore(str(path)), CaseBook(suite)
    it = Pipeline(store, cases, Scorer(cases, suite), TurnListener(), Metrics(), privacy=privacy, memory=memory)
    try:
        yield it
    finally:
        await it.close()
        await asyncio.to_thread(store.close)


async def stored(pipeline: Pipeline) -> list[dict[str, Any]]:
    return (await pipeline._store.turns(TurnQuery(limit=1000))).items


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


async def test_turns_are_encoded_by_the_writing_thread_as_long_as_it_keeps_up(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[str] = []

    def encoded(one: Turn, evaluations: Evaluations | None = None) -> EncodedTurn:
        threads.append(threading.current_thread().name)
        return encoded_turn(one, evaluations)

    monkeypatch.setattr(encoding, "encoded_turn", encoded)
    for number in range(3):
        store.add([turn(number)], lambda: None)
        await store.drained()
    assert threads == ["store-writer"] * 3
    with locked(path):
        for number in range(3, 13):
            store.add([turn(number)], lambda: None)
        assert len(threads) >= 3 + 8  # one may wait, and one be in the writer's hands
    await store.drained()
    assert len(threads) == 13


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
        groups.append(sum(not isinstance(item, Mark) for item in group))
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


async def waiting(pipeline: Pipeline, turns: int) -> None:
    """Until that number waits for the store: redaction has a thread of its own."""
    async with asyncio.timeout(PATIENCE_S):
        while pipeline._store.health.waiting_turns < turns:
            await asyncio.sleep(0.001)


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


@pytest.mark.parametrize(("live", "queued"), [(0, 10**6), (10**6, 0)])
async def test_turns_that_are_read_back_are_scored_as_ever(
    path: Path, live: int, queued: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a limit of nothing, all that comes while the store is locked is kept by it alone."""
    monkeypatch.setattr(pipeline, "_LIVE_BYTES", live)
    monkeypatch.setattr(intake, "_GATHER_S", 0.0)
    async with running(path, parse_suite(SUITE), memory=queued) as it:
        with locked(path):
            for number, (conversation, call) in enumerate(
                [("a", "first"), ("b", "first"), ("a", "second"), ("b", "x")]
            ):
                made = [ToolCall(call)]
                fields = {"conversation_id": conversation, "case_id": "twice", "user_text": "Again"}
                it.take(turn(number, tool_calls=made, **fields))
                await in_a_batch_of_its_own()
        await it.drained()
        assert [[one["status"] for one in item["evaluations"]] for item in await stored(it)] == [
            *([["passed"]] * 3),
            ["failed"],
        ]
        assert it.depth == 0
        assert it._metrics.turns_scored == 4


async def test_a_turn_deleted_before_it_is_scored_is_done(path: Path) -> None:
    suite = parse_suite("suite: s\nevaluators: [tool_error, {custom: {}}]") if False else None
    async with running(path, suite) as it:
        gone: list[str] = []
        queue = JobQueue(
            it._store, -1, readable=True, on_read=lambda turn: None, on_gone=lambda job: gone.append(job.turn_id)
        )
        one = turn(1)
        queue.put([queue.at_rest(Job(one, one, one, 0))])
        kept = turn(2)
        it.take(kept)
        await it.drained()
        queue.put([Job(kept, kept, kept, 0)])
        assert [job.turn_id for job in await anext(aiter(queue.parts()))] == ["turn-0002"]
        assert gone == ["turn-0001"]


async def test_content_that_is_not_kept_cannot_be_read_back(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "_LIVE_BYTES", 0)
    monkeypatch.setattr(intake, "_GATHER_S", 0.0)
    async with running(path, privacy=privacy_of((), None, no_content=True)) as it:
        with locked(path):
            for number in range(3):
                it.take(turn(number, user_text="secret"))
                await waiting(it, number + 1)
        await it.drained()
        assert [item["status"] for item in await stored(it)] == ["done"] * 3
        it._unreadable = HeldBytes(0)
        with locked(path):
            it.take(turn(4, user_text="secret"))
            await waiting(it, 1)
            it.take(turn(5, user_text="secret"))
            async with asyncio.timeout(PATIENCE_S):
                while not it._metrics.turns_dropped:
                    await asyncio.sleep(0.001)
        await it.drained()
        assert it._metrics.turns_dropped == 1


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
    async with running(path, privacy=privacy, memory=3_500_000) as it:
        for number in range(3):
            it.take(turn(number, user_text=large))
            await in_a_batch_of_its_own()
        it.take(turn(3, user_text=large))
        it.take(turn(4, user_text=large))
        assert not it.keep_open(turn(5, user_text=large, status="open"))
        it.take(turn(6))  # there is room for a small one
        assert (it._metrics.turns_dropped, it.depth) == (2, 4)
        (record,) = caplog.records
        assert record.message.startswith("redaction does not keep up: 1 turn(s) were dropped")
        privacy.go_on.set()
        await it.drained()
        assert [item["turn_id"][-1] for item in await stored(it)] == ["0", "1", "2", "6"]
        assert it.keep_open(turn(7, user_text=large * 9, status="open"))  # one alone may have more
        await it.written()
        it.take(turn(8, user_text=large))
        await it.drained()
        assert it._metrics.turns_dropped == 2


async def test_open_turns_that_wait_to_be_redacted_are_limited_in_number(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "_MAX_UNREDACTED", 2)
    privacy = HeldRedaction()
    async with running(path, privacy=privacy) as it:
        assert [it.keep_open(turn(number, status="open")) for number in range(3)] == [True, True, False]
        privacy.go_on.set()
        await it.written()
        assert it.keep_open(turn(3, status="open"))


def test_scored_turns_are_remembered_up_to_so_many_bytes() -> None:
    one = turn(1, user_text="x" * 1_000)
    job = Job(one, one, one, 0)
    jobs = ScoredJobs(2 * job.size)
    for name in "abc":
        other = replace(one, turn_id=name)
        jobs.put(Job(other, other, other, 0))
    assert jobs.take("a") is None
    assert jobs.take("c") is not None
    assert jobs.take("c") is None
    assert jobs._held.total == job.size


def test_memory_counts_real_bytes() -> None:
    plain, emoji = turn(1, user_text="a" * 1000), turn(1, user_text="\U0001f600" + "a" * 999)
    assert memory_of(emoji) - memory_of(plain) > 2_900
    deep: list[Any] = []
    for _ in range(10_000):
        deep = [deep]
    assert memory_of(turn(1, tool_calls=[ToolCall("deep", {"x": deep})])) > 500_000
