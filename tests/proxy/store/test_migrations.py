"""Stores of earlier revisions open: real ones, copied as SQL; several processes at once, and killed in the middle."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest
from a2a_eval_proxy.store import StoreError, TurnQuery, every_turn
from a2a_eval_proxy.store.sqlite.migrations import MIGRATIONS, NEWEST, OLDEST
from a2a_eval_proxy.store.sqlite.store import SqliteStore
from support.prefork import run

DATA = Path(__file__).parents[2] / "data"
STORES = {2: ("03cd7de", 15), 3: ("a858469", 16), 4: ("aeab0d8", 16)}
"""Schema version of each kept store, the revision that wrote it, and the number of its turns."""


@pytest.fixture(params=STORES)
def version(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def path(tmp_path: Path, version: int) -> Path:
    path = tmp_path / "turns.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript((DATA / f"store-schema-{version}.sql").read_text("utf-8"))
    return path


def content(path: Path) -> tuple[int, list[tuple[str, str]]]:
    """Schema version and turns of a file, read without the store."""
    with closing(sqlite3.connect(path)) as connection:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        return version, connection.execute("SELECT turn_id, body FROM turns ORDER BY seq").fetchall()


def schema(path: Path) -> tuple[list[str], list[object]]:
    """Indexes as SQL, and the columns of each table."""
    with closing(sqlite3.connect(path)) as connection:
        indexes = connection.execute("SELECT sql FROM sqlite_master WHERE sql LIKE 'CREATE INDEX%'").fetchall()
        tables = ("turns", "annotations", "webhooks", "deliveries", "conversations", "judge_answers")
        columns = [connection.execute(f"PRAGMA table_info({table})").fetchall() for table in tables]
        return sorted(re.sub(r"\s+", " ", sql) for (sql,) in indexes), columns


async def test_an_earlier_store_opens_with_all_its_content(path: Path, version: int, tmp_path: Path) -> None:
    before, turns = content(path)
    assert (before, len(turns)) == (version, STORES[version][1])
    store = SqliteStore(str(path))
    try:
        read = [item async for item in every_turn(store, TurnQuery())]
        assert [item["turn_id"] for item in read] == [turn_id for turn_id, _ in turns]
        task_ids = [json.loads(body)["task_id"] for _, body in turns]
        assert sum(map(bool, task_ids)) > 10
        for (turn_id, _), task_id in zip(turns, task_ids, strict=True):
            assert not task_id or turn_id in [item["turn_id"] for item in await store.of_task(task_id, 5)]
        assert sum(result["status"] == "passed" for item in read for result in item["evaluations"]) > 0
        assert [run.name for run in await store.runs()] == ["demo"]
        assert await store.judge_cache.get("0" * 64) == {"value": {"passed": True}, "model": "sample"}
    finally:
        await asyncio.to_thread(store.close)
    SqliteStore(str(tmp_path / "new.db")).close()
    assert content(path) == (NEWEST, turns)
    assert schema(path) == schema(tmp_path / "new.db")


@pytest.mark.parametrize("version", [3])
async def test_an_open_turn_of_an_earlier_store_is_taken_over(path: Path) -> None:
    store = SqliteStore(str(path))
    try:
        assert [item["turn_id"] for item in await store.take_over(0, 5)] == ["turn-open"]
    finally:
        await asyncio.to_thread(store.close)


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


def opened_at_once(*paths: Path) -> tuple[list[str], str]:
    """Exit codes and errors of four processes that open a store at the same moment, for each store."""
    done = run_program(paths[0].parent, OPEN, *paths)
    return done.stdout.split(), done.stderr


def test_several_processes_migrate_at_once(path: Path) -> None:
    _, turns = content(path)
    assert opened_at_once(path) == (["0"] * 4, "")
    assert content(path) == (NEWEST, turns)


def test_several_processes_create_a_store_at_once(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.db" for number in range(3)]
    assert opened_at_once(*paths) == (["0"] * 12, "")
    assert [content(path) for path in paths] == [(NEWEST, [])] * 3


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


@pytest.mark.parametrize("statement", ["CREATE INDEX turns_conversation", "PRAGMA user_version = "])
def test_a_process_that_is_killed_in_the_middle_leaves_the_store_as_it_was(
    path: Path, version: int, statement: str
) -> None:
    before = content(path)
    done = run_program(path.parent, KILLED, path, statement)
    assert (done.returncode, done.stderr) == (-signal.SIGKILL, "")
    assert content(path) == before
    SqliteStore(str(path)).close()
    assert content(path) == (NEWEST, before[1])


@pytest.mark.parametrize("version", [3])
def test_a_store_of_a_later_version_is_refused(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {NEWEST + 1}")
    before = content(path)
    with pytest.raises(StoreError, match=rf"schema {NEWEST + 1}.*up to {NEWEST}\); upgrade"):
        SqliteStore(str(path))
    assert content(path) == before


@pytest.mark.parametrize("number", [0, 1, 2, NEWEST, 99])
def test_a_database_of_another_program_is_refused(tmp_path: Path, number: int) -> None:
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE customers (name TEXT)")
        connection.execute(f"PRAGMA user_version = {number}")
    with pytest.raises(StoreError, match=rf"not a store \(schema {number}\)"):
        SqliteStore(str(path))
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("customers",)]


def test_versions_ascend_without_gap() -> None:
    assert list(MIGRATIONS) == list(range(OLDEST + 1, NEWEST + 1))
