"""A store in an SQLite file on a real disk: restarts, foreign files, locks, a full disk."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from a2a_eval_proxy.store import SqliteStore, StoreError, TurnQuery, open_store
from support.kept import Kept, traced, turn


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "turns.db"


@pytest.fixture
async def kept(path: Path) -> AsyncIterator[Kept]:
    store = SqliteStore(str(path))
    yield Kept(store)
    await asyncio.to_thread(store.close)


# ── the file ────────────────────────────────────────────────────────────────────────────────────────────────


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


@pytest.mark.parametrize("prefix", ["", "sqlite:///"])
async def test_opening_by_path_or_url(tmp_path: Path, prefix: str) -> None:
    path = tmp_path / "turns.db"
    with pytest.raises(StoreError, match="no such file"):
        open_store(f"{prefix}{path}", must_exist=True)
    assert not path.exists()
    open_store(f"{prefix}{path}").close()
    open_store(f"{prefix}{path}", must_exist=True).close()


# ── trouble ─────────────────────────────────────────────────────────────────────────────────────────────────


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


async def test_a_large_group_leaves_nothing_in_temporary_files(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite would keep copies of pages for the undoing of a statement; they have texts of turns."""
    found: list[str] = []

    def watched(sql: str) -> None:
        if sql == "COMMIT":
            files = [file.readlink() for file in Path("/proc/self/fd").iterdir() if file.is_symlink()]
            found.extend(file.name for file in files if file.name.startswith("etilqs"))

    traced(monkeypatch, watched)
    store = SqliteStore(str(path))
    kept = Kept(store)
    for start in range(0, 640, 64):
        await kept.add(*(turn(start + number, user_text="x" * 3_000) for number in range(64)))
    await asyncio.to_thread(store.close)
    assert found == []
