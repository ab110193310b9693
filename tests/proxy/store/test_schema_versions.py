"""The schema of a SQLite store: created by several processes at once, or by one that is killed; other ones refused."""

from __future__ import annotations

import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from signal import SIGKILL
from typing import Any

import pytest
from a2a_eval_proxy.store import StoreError
from a2a_eval_proxy.store.schema import VERSION
from a2a_eval_proxy.store.sqlite.store import SqliteStore
from support.kept import Kept, turn
from support.prefork import run


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    """A store with a turn."""
    path = tmp_path / "turns.db"
    kept = Kept(SqliteStore(str(path)))
    await kept.add(turn(1))
    kept.store.close()
    return path


def content(path: Path) -> tuple[int, list[Any]]:
    """Schema version and turns of a file, read without the store."""
    with closing(sqlite3.connect(path)) as connection:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        tables = connection.execute("SELECT name FROM sqlite_master WHERE name = 'turns'").fetchall()
        return version, connection.execute("SELECT * FROM turns").fetchall() if tables else []


OPEN = """
import os, sys
from a2a_eval_proxy.store.sqlite.store import SqliteStore
read, write = os.pipe()
processes = []
for _ in range(4):
    pid = os.fork()
    if not pid:
        os.close(write)
        os.read(read, 1)  # all come to the end of the pipe at the same moment
        SqliteStore(sys.argv[1]).close()
        sys.exit()
    processes.append(pid)
os.close(read)
os.close(write)
for pid in processes:
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


def run_program(folder: Path, text: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs a Python program in a process of its own."""
    program = folder / "program.py"
    program.write_text(text, "utf-8")
    return run(*arguments, program=program)


def test_several_processes_create_a_store_at_once(tmp_path: Path) -> None:
    path = tmp_path / "turns.db"
    done = run_program(tmp_path, OPEN, path)
    assert (done.stdout.split(), done.stderr) == (["0"] * 4, "")
    assert content(path) == (VERSION, [])


KILLED = """
import os, signal, sqlite3, sys
from a2a_eval_proxy.store.sqlite.store import SqliteStore
connect = sqlite3.connect
def watched(*args, **options):
    connection = connect(*args, **options)
    connection.set_trace_callback(lambda sql: sql.startswith(sys.argv[2]) and os.kill(os.getpid(), signal.SIGKILL))
    return connection
sqlite3.connect = watched
SqliteStore(sys.argv[1])
"""


@pytest.mark.parametrize("statement", ["CREATE INDEX turns_", "PRAGMA user_version = "])
def test_a_process_that_is_killed_while_it_creates_a_store_leaves_none(path: Path, statement: str) -> None:
    new = path.with_name("new.db")
    assert run_program(path.parent, KILLED, new, statement).returncode == -SIGKILL
    assert content(new) == (0, [])
    SqliteStore(str(new)).close()
    assert content(new) == (VERSION, [])


@pytest.mark.parametrize("version", [VERSION + 1, 17])
def test_a_store_of_an_unknown_version_is_refused_and_stays_as_it_is(path: Path, version: int) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    before = path.read_bytes()
    with pytest.raises(StoreError, match=rf"turns.db: another .*schema {version}, this one has {VERSION}"):
        SqliteStore(str(path))
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("number", [0, VERSION, 99])
def test_a_database_of_another_program_is_refused(tmp_path: Path, number: int) -> None:
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE customers (name TEXT)")
        connection.execute(f"PRAGMA user_version = {number}")
    with pytest.raises(StoreError, match=rf"not a store \(schema {number}\)"):
        SqliteStore(str(path))
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("customers",)]
