"""A store in an SQLite file on a real disk: its schema, copies, foreign files, locks, a full disk."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sqlite3
import stat
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from signal import SIGKILL
from typing import Any

import pytest
from a2a_eval_proxy.app import run_proxy
from a2a_eval_proxy.settings.settings import Settings
from a2a_eval_proxy.store import (
    ConversationKey,
    Scored,
    ScoredConversation,
    SqliteStore,
    StoreError,
    TurnQuery,
    open_store,
)
from a2a_eval_proxy.store.base import Limits
from a2a_eval_proxy.store.schema import VERSION
from a2a_eval_proxy.store.sqlite import store as sqlite_store
from a2a_eval_proxy.turn import Turn
from support.kept import Kept, traced, turn
from support.patience import PATIENCE_S
from support.prefork import run


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
async def test_opening_by_path_or_url(path: Path, prefix: str) -> None:
    with pytest.raises(StoreError, match="no such file"):
        open_store(f"{prefix}{path}", must_exist=True)
    assert not path.exists()
    open_store(f"{prefix}{path}").close()
    open_store(f"{prefix}{path}", must_exist=True).close()


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


# ── its schema ──────────────────────────────────────────────────────────────────────────────────────────────


def content(path: Path) -> tuple[int, list[Any]]:
    """Schema version and turns of a file, read without the store."""
    with closing(sqlite3.connect(path)) as connection:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        tables = connection.execute("SELECT name FROM sqlite_master WHERE name = 'turns'").fetchall()
        return version, connection.execute("SELECT * FROM turns").fetchall() if tables else []


OPEN = """
import os, sys
from a2a_eval_proxy.store import SqliteStore
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


def test_several_processes_create_a_store_at_once(path: Path) -> None:
    done = run_program(path.parent, OPEN, path)
    assert (done.stdout.split(), done.stderr) == (["0"] * 4, "")
    assert content(path) == (VERSION, [])


KILLED = """
import os, signal, sqlite3, sys
from a2a_eval_proxy.store import SqliteStore
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
    assert run_program(path.parent, KILLED, path, statement).returncode == -SIGKILL
    assert content(path) == (0, [])
    SqliteStore(str(path)).close()
    assert content(path) == (VERSION, [])


@pytest.mark.parametrize("version", [VERSION + 1, 17])
async def test_a_store_of_an_unknown_version_is_refused_and_stays_as_it_is(path: Path, version: int) -> None:
    with closing(SqliteStore(str(path))) as store:
        await Kept(store).add(turn(1))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    before = path.read_bytes()
    with pytest.raises(StoreError, match=rf"turns.db: another .*schema {version}, this one has {VERSION}"):
        SqliteStore(str(path))
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("number", [0, VERSION, 99])
def test_a_database_of_another_program_is_refused(path: Path, number: int) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE customers (name TEXT)")
        connection.execute(f"PRAGMA user_version = {number}")
    with pytest.raises(StoreError, match=rf"not a store \(schema {number}\)"):
        SqliteStore(str(path))
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("customers",)]


# ── its copies ──────────────────────────────────────────────────────────────────────────────────────────────


PAGE = Path(__file__).parents[3] / "deploy" / "README.md"


async def test_the_command_for_sqlite_of_the_page_copies_a_store_in_use(tmp_path: Path) -> None:
    if shutil.which("sqlite3") is None:
        pytest.skip("no sqlite3 here: install the Debian package sqlite3")
    [line] = re.findall(r"`(sqlite3 .*?)`", PAGE.read_text("utf-8"))
    with closing(open_store(str(tmp_path / "turns.db"))) as store:
        await Kept(store).add(turn(1), turn(2))
        await asyncio.to_thread(subprocess.run, ["bash", "-ec", line], cwd=tmp_path, check=True)
    with closing(open_store(str(tmp_path / "copy.db"), must_exist=True)) as copy:
        assert await Kept(copy).ids() == ["turn-0001", "turn-0002"]


# ── a disk that is full or read-only: real ones, in a mount namespace of their own ──────────────────────────


def _can_mount() -> bool:
    if shutil.which("unshare") is None:
        return False
    command = ["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


needs_mounts = pytest.mark.skipif(not _can_mount(), reason="nothing can be mounted here: needs unshare and the right")


@contextmanager
def proxy_on(script: str, store: Path) -> Iterator[tuple[str, Path]]:
    """A proxy with that store, in a mount namespace in which `script` was run: its admin URL and its log."""
    log = store.parent.with_name("log")
    command = ["unshare", "-m", "sh", "-c", f'{script}; exec "$@"', "sh", sys.executable, "-m", "a2a_eval_proxy"]
    command += ["serve", "--upstream", "http://127.0.0.1:1", "--no-otlp", "--store", str(store)]
    command += ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--timeouts", "shutdown=1"]
    with (
        log.open("wb") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as proxy,
    ):
        try:
            assert proxy.stdout is not None
            ready = re.search(r"admin (\S+),", proxy.stdout.readline())
            assert ready, log.read_text()
            yield ready.group(1), log
        finally:
            proxy.terminate()
            assert proxy.wait(PATIENCE_S) == 0


@needs_mounts
@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("mount -t tmpfs -o size=64k tmpfs {0} && dd if=/dev/zero of={0}/full bs=4k 2>/dev/null", "full"),
        ("mount --bind {0} {0} && mount -o remount,ro,bind {0}", "Read-only file system"),
    ],
)
def test_a_proxy_starts_on_a_disk_that_cannot_be_written(tmp_path: Path, script: str, problem: str) -> None:
    folder = tmp_path / "disk"
    folder.mkdir()
    with (
        proxy_on(script.format(folder), folder / "turns.db") as (admin, log),
        urllib.request.urlopen(f"{admin}/readyz") as ready,
    ):
        assert ready.read() == b"ready\nstore: unavailable, turns wait in memory\n"
    told = log.read_text()
    assert len(re.findall("retrying", told)) == 1
    assert problem in told
    assert "Traceback" not in told


# ── retention: old turns go, and their bytes are nowhere in the files any more ──────────────────────────────


MARK = "rosebud"


def large(number: int, **fields: Any) -> Turn:
    """One that ended that number of seconds after the epoch; each has some 20 kB of text."""
    said = {"conversation_id": f"conversation-{number}", "case_id": "case", "user_text": f"{MARK}-{number:04} " * 2000}
    return turn(number, **{"started_at": float(number), "ended_at": number + 0.5, **said, **fields})


def said(number: int) -> ScoredConversation:
    key = ConversationKey("nightly", f"conversation-{number}", "case")
    return ScoredConversation(key, 1, [{"evaluator": "whole", "status": "passed", "reason": f"{MARK}-{number:04}"}])


def kept_bytes(path: Path) -> bytes:
    """Of all files of the store."""
    return b"".join(file.read_bytes() for file in sorted(path.parent.glob(f"{path.name}*")))


async def fill(store: SqliteStore, count: int) -> None:
    for number in range(count):
        store.add([large(number)], lambda: None)
        store.finish([Scored(f"turn-{number:04}", [{"evaluator": "e", "status": "passed"}])], lambda: None)
        store.finish_conversations([said(number)], lambda: None)
    await store.drained()


@pytest.fixture
async def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(sqlite_store, "BUSY_S", 0.001)
    it = SqliteStore(str(tmp_path / "turns.db"))
    yield it
    await asyncio.to_thread(it.close)


async def test_what_a_reader_kept_in_the_log_goes_the_next_time(store: SqliteStore, tmp_path: Path) -> None:
    path = tmp_path / "turns.db"
    await fill(store, 30)
    before = len(kept_bytes(path))
    with closing(sqlite3.connect(path)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT COUNT(*) FROM turns").fetchall()
        store.prune(Limits(100))
        await store.drained()
        assert await Kept(store).ids() == []
        assert f"{MARK}-0000".encode() in kept_bytes(path)
    store.prune(Limits(100))
    await store.drained()
    assert MARK.encode() not in kept_bytes(path)
    assert len(kept_bytes(path)) < before / 2


async def test_discarded_and_replaced_texts_are_gone_too(store: SqliteStore, tmp_path: Path) -> None:
    await fill(store, 20)
    store.discard([f"turn-{number:04}" for number in range(10)], lambda: None)
    store.finish([Scored("turn-0015", [], large(15, user_text="short"))], lambda: None)
    store.prune(Limits(0.1))
    await store.drained()
    await asyncio.to_thread(checkpoint, tmp_path / "turns.db")
    for number in (0, 9):
        assert f"{MARK}-{number:04}".encode() not in kept_bytes(tmp_path / "turns.db")


def checkpoint(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


async def test_serve_prunes_the_turns_of_all_agents(tmp_path: Path) -> None:
    path = tmp_path / "turns.db"
    store = SqliteStore(str(path))
    now = time.time()
    for number, name in enumerate(["orders", "refunds", "search", "gone"] * 20):
        store.add([large(number, agent_name=name, ended_at=now - 86_400 * (20 - number // 4) + 60)], lambda: None)
    await asyncio.to_thread(store.close)
    agents = [(name, {"upstream": "http://127.0.0.1:9"}) for name in ("orders", "refunds", "search")]
    settings = Settings(
        agents=tuple(agents),
        listen="127.0.0.1:0",
        admin="127.0.0.1:0",
        otlp=None,
        store=str(path),
        retain_days=10,
    )
    async with run_proxy(settings) as proxy:
        await asyncio.sleep(0)  # its first look
        await proxy.control.store.drained()
        left = Counter([item["agent_name"] for item in await proxy.turns()])
    assert left == {"orders": 10, "refunds": 10, "search": 10, "gone": 10}
