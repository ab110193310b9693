"""A store in an SQLite file on a real disk: restarts, foreign files, locks, a full disk."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from a2a_eval_proxy.store import Scored, SqliteStore, StoreError, TurnQuery, open_store, write_queue
from a2a_eval_proxy.store.encoding import json_text
from a2a_eval_proxy.store.schema import OUTCOMES
from a2a_eval_proxy.turn import NamedIn, TurnLinks
from support.kept import Kept, result, turn


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "turns.db"


@pytest.fixture
async def kept(path: Path) -> AsyncIterator[Kept]:
    store = SqliteStore(str(path))
    yield Kept(store)
    await asyncio.to_thread(store.close)


# ── rows ────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_every_column_of_a_turn_has_its_own_value(kept: Kept, path: Path) -> None:
    """Whatever the order in which the schema declares the columns, and whatever the order in a file."""
    links = TurnLinks("the client's span", "the parent", ((NamedIn.PARENT_TASK, "a task"),))
    ids = {"case_id": "the case", "conversation_id": "the conversation", "task_id": "the task", "trace_id": "the trace"}
    added = turn(1, **ids, run="the run", status="open", parent_span_id="the span", links=links)
    before = int(time.time())
    await kept.add(added)
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        row = dict(connection.execute("SELECT * FROM turns").fetchone())
    assert before <= row.pop("stored_at") <= time.time() + 1
    assert row == {
        "seq": 1,
        "turn_id": added.turn_id,
        "run": "the run",
        "case_id": "the case",
        "conversation_id": "the conversation",
        "task_id": "the task",
        "status": "open",
        "started_at": added.started_at,
        "ended_at": added.ended_at,
        "body": json_text(added.to_dict()),
        "evaluations": "[]",
        "trace_id": "the trace",
        "links": json_text({"parent_span_id": "the span", **links.to_dict()}),
        "agent": "http://agent",
        "size": len(json_text(added.to_dict())) + len("[]"),
        "job_id": None,
        **dict.fromkeys(OUTCOMES, 0),
    }


# ── the file ────────────────────────────────────────────────────────────────────────────────────────────────


async def test_what_was_committed_is_there_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "turns.db"
    first = Kept(SqliteStore(str(path)))
    await first.add(turn(1), turn(2))
    await first.finish(Scored("turn-0001", [result()]))
    first.store.close()
    second = Kept(SqliteStore(str(path)))
    assert await second.ids(status="pending") == ["turn-0002"]
    assert await second.ids(status="done") == ["turn-0001"]
    second.store.close()


async def test_closing_commits_what_is_queued(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "turns.db"))
    for number in range(500):
        store.add([turn(number)], lambda: None)
    store.close()
    with closing(sqlite3.connect(tmp_path / "turns.db")) as connection:
        assert connection.execute("SELECT COUNT(*) FROM turns").fetchone() == (500,)


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("open_umask")
async def test_the_file_is_for_its_owner_alone(kept: Kept, path: Path) -> None:
    await kept.add(turn(1))
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in path.parent.iterdir()}
    assert modes
    assert set(modes.values()) == {0o600}


async def test_what_was_opened_to_read_is_closed_with_the_store(kept: Kept, path: Path) -> None:
    for number in range(3):
        await kept.add(turn(number))
        assert len((await kept.store.turns(TurnQuery())).items) == number + 1
    kept.store.close()
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_a_mark_shows_other_users_and_does_not_disturb_them(path: Path) -> None:
    ours = open_store(str(path), patient=True)
    with ours.marked_in_use() as first:
        store = SqliteStore(str(path))
        same = open_store(f"sqlite:///{path}", patient=True)
        with same.marked_in_use() as second, store.marked_in_use() as third:
            SqliteStore(str(path)).close()
        with store.marked_in_use() as fourth:
            pass
        store.close()
    with ours.marked_in_use() as last:
        assert [first, second, third, fourth, last] == [False, True, True, True, False]
    nowhere, server = (
        open_store(str(path / "missing" / "x.db"), patient=True),
        open_store("postgresql://h/d", patient=True),
    )
    with nowhere.marked_in_use() as taken, server.marked_in_use() as shared:
        assert not taken
        assert not shared
    server.close()


def test_a_file_that_is_no_database_is_refused_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database, but dear to its owner" * 100)
    with pytest.raises(StoreError, match=r"notes\.txt.*not a database"):
        SqliteStore(str(path))
    assert path.read_text().startswith("not a database")


def test_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no directory"):
        SqliteStore(str(tmp_path / "missing" / "turns.db"))


@pytest.mark.parametrize("prefix", ["", "sqlite:///"])
async def test_opening_by_path_or_url(tmp_path: Path, prefix: str) -> None:
    path = tmp_path / "turns.db"
    with pytest.raises(StoreError, match="no such file"):
        open_store(f"{prefix}{path}", must_exist=True)
    assert not path.exists()
    open_store(f"{prefix}{path}").close()
    open_store(f"{prefix}{path}", must_exist=True).close()


def test_a_store_that_is_not_supported() -> None:
    with pytest.raises(StoreError, match="mysql"):
        open_store("mysql://user:secret@host/db")


def test_the_message_does_not_show_the_password() -> None:
    with pytest.raises(StoreError) as raised:
        open_store("mysql://user:secret@host/db")
    assert "secret" not in str(raised.value)


# ── trouble ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_lock_is_waited_for(kept: Kept, path: Path) -> None:
    committed = threading.Event()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        kept.store.add([turn(1)], committed.set)
        assert await kept.ids() == []  # reading goes on meanwhile
        assert not committed.is_set()
        other.execute("COMMIT")
    await asyncio.to_thread(committed.wait, 30)
    assert await kept.ids() == ["turn-0001"]


async def test_a_failed_write_is_tried_again_until_it_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A full disk: here one that may have no more pages, until it may."""
    monkeypatch.setattr(write_queue, "_RETRY_S", 0.01)
    failed = threading.Event()
    monkeypatch.setattr(write_queue.logger, "handle", lambda record: failed.set())
    store = SqliteStore(str(tmp_path / "turns.db"))
    kept = Kept(store)
    pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
    store._connection.execute(f"PRAGMA max_page_count = {pages}")
    committed = threading.Event()
    kept.store.add([turn(1, user_text="x" * 100_000)], committed.set)
    await asyncio.to_thread(failed.wait, 30)
    assert failed.is_set()
    assert not committed.is_set()
    assert await kept.ids() == []
    store._connection.execute("PRAGMA max_page_count = 1000000")
    await asyncio.to_thread(committed.wait, 30)
    assert await kept.ids() == ["turn-0001"]
    await asyncio.to_thread(kept.store.close)


async def test_when_the_disk_does_not_keep_up_turns_are_refused(
    kept: Kept, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("a2a_eval_proxy.store.write_queue.MAX_QUEUED", 3)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        taken = [kept.store.add([turn(number)], lambda: None) for number in range(200)]
        other.execute("COMMIT")
    assert taken[0]
    assert not taken[-1]
    await kept.store.drained()
    assert len(await kept.ids(limit=1000)) == taken.count(True)


# ── what a turn costs ───────────────────────────────────────────────────────────────────────────────────────


async def test_a_large_group_leaves_nothing_in_temporary_files(kept: Kept) -> None:
    """SQLite would keep copies of pages for the undoing of a statement; they have texts of turns."""
    found: list[str] = []

    def watched(sql: str) -> None:
        if sql == "COMMIT":
            files = [file.readlink() for file in Path("/proc/self/fd").iterdir() if file.is_symlink()]
            found.extend(file.name for file in files if file.name.startswith("etilqs"))

    kept.store._connection.set_trace_callback(watched)
    for start in range(0, 640, 64):
        await kept.add(*(turn(start + number, user_text="x" * 3_000) for number in range(64)))
    assert found == []


LARGE = """
import resource, sys
from a2a_eval_proxy.store import Scored, SqliteStore
from a2a_eval_proxy.store.base import Limits
from support.kept import Kept, turn
import asyncio

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

async def main():
    store = SqliteStore(sys.argv[1])
    for start in range(0, 60, 4):
        await Kept(store).add(*(turn(number, user_text="x" * 1_000_000) for number in range(start, start + 4)))
    before = peak()
    store.finish([Scored(f"turn-{number:04}", []) for number in range(60)], lambda: None)
    store.prune(Limits(2e9))
    await store.drained()
    print(peak() - before, await Kept(store).ids())
    store.close()

asyncio.run(main())
"""


def test_results_and_deletions_of_large_turns_take_no_memory_for_their_texts(tmp_path: Path) -> None:
    command = [sys.executable, "-c", LARGE, str(tmp_path / "turns.db")]
    tests = str(Path(__file__).parents[2])
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": tests})
    assert done.returncode == 0, done.stderr
    more_kb, ids = done.stdout.split(maxsplit=1)
    assert ids == "[]\n"
    assert int(more_kb) < 30_000


async def test_a_conversation_and_a_task_over_many_parts_of_the_table(kept: Kept) -> None:
    ids = {"conversation_id": "conversation-1", "task_id": "task-1"}
    others = {"conversation_id": "another one-1", "task_id": "another task-1"}  # the same last characters
    for start in range(0, 6_000, 500):
        await kept.add(*(turn(n, **(others if n % 200 else ids)) for n in range(start, start + 500)))
    mine = [f"turn-{number:04}" for number in range(0, 6_000, 200)]
    assert await kept.ids(conversation="conversation-1") == mine
    assert await kept.ids(conversation="conversation-1", run="nightly", limit=3) == mine[:3]
    assert await kept.ids(conversation="conversation-1", cursor="2201") == mine[12:]
    assert await kept.ids(conversation="conversation-1", run="another") == []
    earlier = await kept.store.earlier(turn(5_000, **ids), 2)
    assert [item["turn_id"] for item in earlier] == ["turn-4600", "turn-4800"]
    assert [item["turn_id"] for item in await kept.store.of_task("task-1", "http://agent", 2)] == [
        "turn-5600",
        "turn-5800",
    ]


async def test_lookups_do_not_read_the_whole_run(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    for start in range(0, 5_000, 1_000):
        await kept.add(*(turn(n, conversation_id=f"c-{n}", task_id=f"t-{n}") for n in range(start, start + 1_000)))
    connect, steps = sqlite3.connect, []

    def watched(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection = connect(*arguments, **options)
        connection.set_progress_handler(lambda: steps.append(1), 100)
        return connection

    monkeypatch.setattr(sqlite3, "connect", watched)
    assert len(await kept.ids(conversation="c-17", run="nightly")) == 1
    assert len(await kept.store.of_task("t-4000", "http://agent", 5)) == 1
    assert await kept.store.earlier(turn(4_000, conversation_id="c-4000"), 5) == []
    assert len(steps) * 100 < 2_000
