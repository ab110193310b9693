"""A store in an SQLite file on a real disk: restarts, foreign files, locks, a full disk."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from a2a_eval_proxy.store import Scored, SqliteStore, StoreError, open_store, write_queue
from support.kept import Kept, result, turn


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "turns.db"


@pytest.fixture
async def kept(path: Path) -> AsyncIterator[Kept]:
    store = SqliteStore(str(path))
    yield Kept(store)
    await asyncio.to_thread(store.close)


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


def test_a_file_that_is_no_database_is_refused_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database, but dear to somebody" * 100)
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
    monkeypatch.setattr(write_queue, "MAX_QUEUED", 3)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        taken = [kept.store.add([turn(number)], lambda: None) for number in range(200)]
        other.execute("COMMIT")
    assert taken[0]
    assert not taken[-1]
    await kept.store.drained()
    assert len(await kept.ids(limit=1000)) == taken.count(True)
