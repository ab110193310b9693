"""The schema of a SQLite store: created and upgraded by several processes at once, or killed; unknown ones refused."""

from __future__ import annotations

import sqlite3
import subprocess
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from signal import SIGKILL
from typing import Any

import pytest
from a2a_eval_proxy.store import StoreError
from a2a_eval_proxy.store.schema import FIRST_VERSION, SQLITE
from a2a_eval_proxy.store.sqlite import file
from a2a_eval_proxy.store.sqlite.store import SqliteStore
from support.kept import Kept, turn
from support.prefork import run

NOW = SQLITE.version
LATER = NOW + 1

UPGRADED = f"""
from dataclasses import replace
from a2a_eval_proxy.store.sqlite import file
statements = (
    "ALTER TABLE turns ADD COLUMN mood TEXT NOT NULL DEFAULT 'calm'",
    "CREATE INDEX turns_mood ON turns (mood)",
)
file.SQLITE = replace(file.SQLITE, migrations={{**file.SQLITE.migrations, {LATER}: statements}})
"""
"""Begins a program of the next version."""


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


def set_version(path: Path, version: int) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")


OPEN = """
import os, sys
from a2a_eval_proxy.store.sqlite.store import SqliteStore
for path in sys.argv[1:]:
    read, write = os.pipe()
    processes = []
    for _ in range(4):
        pid = os.fork()
        if not pid:
            os.close(write)
            os.read(read, 1)  # all come to the end of the pipe at the same moment
            SqliteStore(path).close()
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


def test_several_processes_create_stores_at_once(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.db" for number in range(3)]
    done = run_program(tmp_path, OPEN, *paths)
    assert (done.stdout.split(), done.stderr) == (["0"] * 12, "")
    assert [content(path) for path in paths] == [(NOW, [])] * 3


def test_several_processes_upgrade_a_store_at_once(path: Path) -> None:
    _, turns = content(path)
    done = run_program(path.parent, UPGRADED + OPEN, path)
    assert (done.stdout.split(), done.stderr) == (["0"] * 4, "")
    assert content(path) == (LATER, [(*row, "calm") for row in turns])


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
def test_a_process_that_is_killed_in_the_middle_leaves_the_store_as_it_was(path: Path, statement: str) -> None:
    before = content(path)
    done = run_program(path.parent, UPGRADED + KILLED, path, statement)
    assert (done.returncode, done.stderr) == (-SIGKILL, "")
    assert content(path) == before
    new = path.with_name("new.db")
    assert run_program(path.parent, KILLED, new, statement).returncode == -SIGKILL
    assert content(new) == (0, [])
    SqliteStore(str(new)).close()
    assert content(new) == (NOW, [])


@pytest.mark.parametrize("version", [1, FIRST_VERSION - 1, LATER])
def test_a_store_of_an_unknown_version_is_refused_and_stays_as_it_is(path: Path, version: int) -> None:
    set_version(path, version)
    before = path.read_bytes()
    for patient in (False, True):
        with pytest.raises(StoreError, match=rf"turns.db: another .*schema {version}, this one has {NOW}"):
            SqliteStore(str(path), patient=patient)._open()
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("number", [0, 1, NOW, 99])
def test_a_database_of_another_program_is_refused(tmp_path: Path, number: int) -> None:
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE customers (name TEXT)")
        connection.execute(f"PRAGMA user_version = {number}")
    with pytest.raises(StoreError, match=rf"not a store \(schema {number}\)"):
        SqliteStore(str(path))
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("customers",)]


def test_a_store_two_versions_behind_takes_every_step(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = {
        **SQLITE.migrations,
        LATER: ("ALTER TABLE turns ADD COLUMN a TEXT",),
        LATER + 1: ("ALTER TABLE turns ADD COLUMN b TEXT",),
    }
    monkeypatch.setattr(file, "SQLITE", replace(SQLITE, migrations=steps))
    SqliteStore(str(path)).close()
    version, (row,) = content(path)
    assert (version, row[-2:]) == (LATER + 1, (None, None))


def test_a_store_of_the_first_version_is_the_same_as_a_new_one_after_its_upgrade(tmp_path: Path) -> None:
    def tables(path: Path) -> list[Any]:
        with closing(sqlite3.connect(path)) as connection:
            names = connection.execute("SELECT name FROM sqlite_master ORDER BY name").fetchall()
            columns = [
                *connection.execute("PRAGMA table_info(turns)"),
                *connection.execute("PRAGMA table_info(conversations)"),
            ]
            return [*names, *columns, *connection.execute("SELECT * FROM turns")]

    old, new = tmp_path / "old.db", tmp_path / "new.db"
    for path in (old, new):
        SqliteStore(str(path)).close()
    with closing(sqlite3.connect(old)) as connection:
        for statement in (
            "DROP TABLE verdicts",
            "DROP TABLE calibrations",
            "DROP TABLE wires",
            "DROP TABLE turn_names",
            "DROP INDEX turns_trace",
            "ALTER TABLE turns DROP COLUMN trace_id",
            "ALTER TABLE turns DROP COLUMN links",
            "ALTER TABLE webhooks DROP COLUMN agent_name",
            "DROP INDEX turns_agent",
            "DROP INDEX turns_task",
            "ALTER TABLE turns DROP COLUMN agent",
            "ALTER TABLE turns DROP COLUMN size",
            "CREATE INDEX turns_task ON turns (seq >> 11, substr(task_id, -8)) WHERE task_id != ''",
            "DROP TABLE conversations",
            "CREATE TABLE conversations (run TEXT NOT NULL, conversation_id TEXT NOT NULL, case_id TEXT NOT NULL,"
            " turns INTEGER NOT NULL, evaluations TEXT NOT NULL, passed INTEGER NOT NULL, failed INTEGER NOT NULL,"
            " errored INTEGER NOT NULL, skipped INTEGER NOT NULL,"
            " PRIMARY KEY (run, conversation_id, case_id))",
            "CREATE INDEX conversations_id ON conversations (conversation_id)",
            "INSERT INTO conversations VALUES ('nightly', 'c', '', 2, '[]', 1, 0, 0, 0)",
        ):
            connection.execute(statement)
        connection.commit()
    set_version(old, FIRST_VERSION)
    SqliteStore(str(old)).close()
    assert tables(old) == tables(new)
    assert content(old) == (NOW, [])
    with closing(sqlite3.connect(old)) as connection:
        kept = connection.execute("SELECT * FROM conversations").fetchall()
    assert kept == [("nightly", "c", "", 2, "[]", 1, 0, 0, 0, "")]
