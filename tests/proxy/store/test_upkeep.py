"""`backup` and `restore` as commands, over real stores: in use, damaged, cut short, of another version."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from a2a_eval_proxy.store import StoreError, marked_in_use, open_store
from a2a_eval_proxy.store.schema import VERSION
from a2a_eval_proxy.store.sqlite import backup
from a2a_eval_proxy.store.sqlite.store import SqliteStore
from support.kept import Kept, turn
from support.postgres_server import PostgresServer
from support.prefork import run as command


def refused(done: subprocess.CompletedProcess[str], text: str) -> None:
    assert (done.returncode, done.stdout) == (2, "")
    assert text in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    """A store with three turns."""
    path = tmp_path / "turns.db"
    await fill(path, 3)
    return path


async def fill(path: Path, turns: int) -> None:
    store = SqliteStore(str(path))
    await Kept(store).add(*(turn(number, user_text="x" * 5_000) for number in range(turns)))
    store.close()


def turns_in(path: Path) -> int:
    with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as connection:
        return int(connection.execute("SELECT count(*) FROM turns").fetchone()[0])


def files(folder: Path) -> set[str]:
    return {one.name for one in folder.iterdir()}


@pytest.mark.parametrize("version", [VERSION + 1, 17])
def test_a_store_of_a_later_or_unreleased_version_is_refused_and_stays(
    version: int, path: Path, tmp_path: Path
) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    before, other = path.read_bytes(), tmp_path / "other.db"
    for work in (
        lambda: backup.back_up(str(path), other),
        lambda: backup.restore(path, str(other)),
    ):
        with pytest.raises(StoreError, match=rf"another version of a2a-eval-proxy wrote it \(schema {version}, "):
            work()
    assert path.read_bytes() == before
    assert files(tmp_path) == {"turns.db"}


def test_a_missing_store_is_not_made(tmp_path: Path) -> None:
    missing, other = str(tmp_path / "no.db"), tmp_path / "other.db"
    for work in (
        lambda: backup.back_up(missing, other),
        lambda: backup.restore(other, missing),
    ):
        with pytest.raises(StoreError, match="there is no such file"):
            work()
    assert files(tmp_path) == set()


# ── backup ──────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_backup_is_one_file_that_its_owner_reads(path: Path, tmp_path: Path) -> None:
    store = SqliteStore(str(path))  # with a write-ahead log
    try:
        await Kept(store).add(turn(7))
        done = command("backup", "--store", path, tmp_path / "before.db")
    finally:
        store.close()
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r"\S+/before.db: 4 turns, \d+ bytes\n", done.stdout)
    assert files(tmp_path) == {"turns.db", "before.db"}
    assert (tmp_path / "before.db").stat().st_mode & 0o777 == 0o600
    assert turns_in(tmp_path / "before.db") == 4


def test_a_backup_overwrites_nothing(path: Path, tmp_path: Path) -> None:
    (tmp_path / "before.db").write_text("mine")
    (tmp_path / "other.db.partial").write_text("mine")
    refused(command("backup", "--store", path, tmp_path / "before.db"), "before.db exists")
    with pytest.raises(StoreError, match="another copy is being made, or one was broken off; remove it"):
        backup.back_up(str(path), tmp_path / "other.db")
    with pytest.raises(StoreError, match="cannot be written: No such file or directory"):
        backup.back_up(str(path), tmp_path / "no" / "b.db")
    assert (tmp_path / "before.db").read_text() == (tmp_path / "other.db.partial").read_text() == "mine"


WRITER = """
import asyncio, sys
sys.path.insert(0, sys.argv[3])
from a2a_eval_proxy.store.sqlite.store import SqliteStore
from support.kept import Kept, turn

async def write():
    kept, number = Kept(SqliteStore(sys.argv[1], patient=False)), 0
    for _ in sys.stdin:
        for _ in range(20):
            ids = (f"{sys.argv[2]}-{number + each}" for each in (0, 1))
            await kept.add(*(turn(number, turn_id=one, user_text="x" * 20_000) for one in ids))  # in one transaction
            number += 2
        print(number, flush=True)

asyncio.run(write())
"""


def test_backups_while_two_processes_write_are_whole(path: Path, tmp_path: Path) -> None:
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), name, str(Path(__file__).parents[2])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in "ab"
    ]

    def write() -> None:
        for writer in writers:
            assert writer.stdin is not None
            writer.stdin.write("\n")
            writer.stdin.flush()

    def wait() -> None:
        for writer in writers:
            assert writer.stdout is not None
            assert writer.stdout.readline()

    try:
        write()
        wait()
        counts = []
        for number in range(4):
            write()
            target = tmp_path / f"{number}.db"
            backup.back_up(str(path), target)
            wait()
            with closing(sqlite3.connect(target)) as copy:
                assert copy.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
                found = dict(copy.execute("SELECT substr(turn_id, 1, 1), count(*) FROM turns GROUP BY 1").fetchall())
            assert found["a"] % 2 == found["b"] % 2 == 0  # no transaction in halves
            counts.append(found["a"] + found["b"])
        assert counts == sorted(counts)
        assert counts[0] < counts[-1]
    finally:
        for writer in writers:
            writer.kill()
            writer.communicate()


# ── restore ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_restored_store_is_read_without_a_word(path: Path, tmp_path: Path) -> None:
    backup.back_up(str(path), tmp_path / "before.db")
    backup.restore(tmp_path / "before.db", str(path))
    exported = command("export", "--store", path)
    assert (exported.returncode, exported.stdout.count("\n"), exported.stderr) == (0, 3, "")


async def test_restore_replaces_the_file_to_which_a_link_leads(path: Path, tmp_path: Path) -> None:
    backup.back_up(str(path), tmp_path / "before.db")
    await fill(tmp_path / "elsewhere.db", 1)
    link = tmp_path / "link.db"
    link.symlink_to(tmp_path / "elsewhere.db")
    said, _, former = backup.restore(tmp_path / "before.db", str(link)).partition("; the former store is ")
    assert link.is_symlink()
    assert said == f"{link}: 3 turns"
    assert (turns_in(tmp_path / "elsewhere.db"), turns_in(Path(former))) == (3, 1)


async def test_a_restored_store_is_that_of_the_backup_and_the_former_one_is_kept(path: Path, tmp_path: Path) -> None:
    backup.back_up(str(path), tmp_path / "before.db")
    await fill(path, 5)
    done = command("restore", tmp_path / "before.db", "--store", path)
    assert (done.returncode, done.stderr) == (0, "")
    former = Path(re.fullmatch(rf"{path}: 3 turns; the former store is (\S+)\n", done.stdout)[1])  # type: ignore[index]
    assert (turns_in(path), turns_in(former)) == (3, 5)
    assert files(tmp_path) == {"turns.db", "before.db", former.name}
    assert path.stat().st_mode & 0o777 == 0o600
    await fill(path, 10)  # it is written as any other
    assert turns_in(path) == 10
    done = command("restore", tmp_path / "before.db", "--store", tmp_path / "new.db")
    assert done.stdout == f"{tmp_path / 'new.db'}: 3 turns\n"


async def test_a_log_that_a_deleted_store_left_is_not_read_into_the_new_one(path: Path, tmp_path: Path) -> None:
    backup.back_up(str(path), tmp_path / "before.db")
    store = SqliteStore(str(path))
    try:
        await Kept(store).add(*(turn(number) for number in range(10, 30)))
        left = Path(f"{path}-wal").read_bytes()
    finally:
        store.close()
    path.unlink()
    Path(f"{path}-wal").write_bytes(left)
    assert backup.restore(tmp_path / "before.db", str(path)) == f"{path}: 3 turns"
    assert not Path(f"{path}-wal").exists()
    assert [one.read_bytes() for one in tmp_path.glob("*.before-*-wal")] == [left]
    await fill(path, 3)
    assert turns_in(path) == 3


@contextmanager
def opened_by(path: Path, how: str) -> Iterator[None]:
    if how == "mark":
        with marked_in_use(str(path)):
            yield
        return
    store = SqliteStore(str(path))
    try:
        yield
    finally:
        store.close()


@pytest.mark.parametrize("how", ["a proxy that could not open it yet", "a command"])
async def test_a_store_in_use_is_not_replaced(path: Path, tmp_path: Path, how: str) -> None:
    backup.back_up(str(path), tmp_path / "before.db")
    await fill(path, 5)
    with opened_by(path, "mark" if "proxy" in how else "command"):
        refused(command("restore", tmp_path / "before.db", "--store", path), "is in use; stop the proxies and commands")
    assert turns_in(path) == 5
    assert files(tmp_path) == {"turns.db", "before.db"}


def test_a_backup_that_is_cut_short_or_changed_is_refused(tmp_path: Path, path: Path) -> None:
    whole = tmp_path / "before.db"
    backup.back_up(str(path), whole)
    content = whole.read_bytes()
    broken = tmp_path / "broken.db"
    cuts = [content[:cut] for cut in (0, 50, 99, 4096, len(content) // 2, len(content) - 4096, len(content) - 1)]
    for other in (*cuts, b"text", bytes(len(content)), content[:4096] + bytes(len(content) - 4096)):
        broken.write_bytes(other)
        with pytest.raises(StoreError) as raised:
            backup.restore(broken, str(path))
        assert "\n" not in str(raised.value)
        assert turns_in(path) == 3
        assert files(tmp_path) == {"turns.db", "before.db", "broken.db"}
    refused(command("restore", broken, "--store", path), "is damaged")


async def test_a_damaged_store_is_what_a_backup_is_for(tmp_path: Path, path: Path) -> None:
    backup.back_up(str(path), tmp_path / "before.db")
    damaged = path.read_bytes()[:4096] + b"junk" * 5_000
    path.write_bytes(damaged)
    with pytest.raises(StoreError, match="damaged"):
        backup.back_up(str(path), tmp_path / "copy.db")
    done = command("restore", tmp_path / "before.db", "--store", path)
    assert (done.returncode, done.stderr) == (0, "")
    assert turns_in(path) == 3
    former = min(tmp_path.glob("*.before-*"))
    assert former.read_bytes() == damaged


def test_postgresql_has_tools_of_its_own(postgres: PostgresServer, tmp_path: Path) -> None:
    url = postgres.new_database()
    refused(command("backup", "--store", url, tmp_path / "b"), "for PostgreSQL use pg_dump")
    refused(command("restore", tmp_path / "b", "--store", url), "for PostgreSQL use pg_restore")


def test_the_commands_for_postgresql_of_the_page_restore_a_store(postgres: PostgresServer, tmp_path: Path) -> None:
    if missing := [name for name in ("pg_dump", "createdb", "pg_restore") if shutil.which(name) is None]:
        pytest.skip(f"no {missing[0]} here: install the Debian package postgresql-client")
    url = postgres.new_database()
    store = open_store(url)
    asyncio.run(Kept(store).add(turn(1), turn(2)))
    store.close()
    page = (Path(__file__).parents[3] / "deploy" / "README.md").read_text("utf-8")
    lines = re.findall(r"^(?:pg_dump|createdb|pg_restore) .*$", page, re.MULTILINE)
    assert [line.split()[0] for line in lines] == ["pg_dump", "createdb", "pg_restore"]
    before = url.rpartition("/")[0] + "/turns_before"
    variables = {**os.environ, "STORE": url, "STORE_BEFORE": before}
    for line in lines:
        subprocess.run(["bash", "-ec", line], cwd=tmp_path, env=variables, check=True)
    restored = open_store(before, must_exist=True)
    try:
        assert asyncio.run(Kept(restored).ids()) == ["turn-0001", "turn-0002"]
    finally:
        restored.close()
