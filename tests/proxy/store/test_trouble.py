"""A store that is away, damaged, gone or locked, at the start of a proxy and under traffic, which passes."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shutil
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from a2a_eval_proxy.errors import UNREACHABLE
from a2a_eval_proxy.runs.drive import AgentOptions, run_suite
from a2a_eval_proxy.runs.run_result import RunWatch, Terms
from a2a_eval_proxy.settings.parts import Timeouts
from a2a_eval_proxy.store import (
    ConversationKey,
    ScoredConversation,
    SqliteStore,
    Store,
    StoreError,
    open_store,
    write_queue,
)
from a2a_eval_proxy.store.sqlite import store as sqlite_store
from a2a_eval_proxy.store.sqlite.store import PAGE_BYTES, identity, moved_aside
from a2a_eval_proxy.store.webhooks import Webhook
from a2a_eval_proxy.threads import MOST_WAITING
from agents.scenario_agent import scenario_agent
from support.commands import ended
from support.kept import Kept, turn
from support.patience import PATIENCE_S
from support.postgres_server import PostgresServer
from support.proxied import Proxied, proxied
from tool_call_evaluators.suite import parse_suite

pytestmark = pytest.mark.filterwarnings("error")


async def metric(it: Proxied, name: str) -> float:
    found = re.search(rf"^a2a_eval_proxy_store_{name} (\S+)$", (await it.admin.get("/metrics")).text, re.MULTILINE)
    assert found
    return float(found.group(1))


async def runs(it: Proxied) -> list[tuple[int, int]]:
    """Turns of each run, and how many are pending."""
    return [(run["turns"], run["pending"]) for run in (await it.get("/api/runs"))["items"]]


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not true():
            await asyncio.sleep(0.01)


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_queue, "RETRY_S", 0.05)


def traffic(store: str | Path, **settings: Any) -> AbstractAsyncContextManager[Proxied]:
    return proxied(Path(), store=str(store), **settings)


def damage(path: Path, page: int = 2, size: int = 40_000) -> None:
    """Garbage over pages of the file, from one on; of its write-ahead log nothing is left."""
    with path.open("r+b") as file:
        file.seek((page - 1) * PAGE_BYTES)
        file.write(b"\xde\xad\xbe\xef" * (size // 4))
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def full_of_turns(path: Path, count: int = 300) -> None:
    store = SqliteStore(str(path))
    store.add([turn(number, user_text="x" * 200) for number in range(count)], lambda: None)
    store.close()


# ── at the start ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("fast")
async def test_a_proxy_serves_while_the_database_is_away_and_stores_when_it_is_there(
    postgres: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    url = postgres.new_database()
    postgres.stop()
    try:
        async with traffic(url, evaluate=False) as it:
            ready = await it.admin.get("/readyz")
            assert (ready.status_code, ready.text) == (200, "ready\nstore: unavailable, turns wait in memory\n")
            await it.talks()
            assert await metric(it, "up") == 0
            assert await metric(it, "failures_total") >= 1
            refused = await it.admin.get("/api/runs")
            assert refused.status_code == 503
            assert "cannot be read" in refused.json()["error"]
            postgres.start()
            await until(lambda: it.proxy.control.store.health.problem is None)
            await it.proxy.flush(PATIENCE_S)
            assert await runs(it) == [(1, 1)]
            assert (await it.admin.get("/readyz")).text == "ready\n"
            assert await metric(it, "up") == 1
    finally:
        postgres.stop()
        postgres.start()
    told = [record.getMessage() for record in caplog.records if "retrying" in record.getMessage()]
    assert len(told) == 1
    assert "Traceback" not in caplog.text


@pytest.mark.usefixtures("fast")
async def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What an earlier process left is scored when whoever is responsible brings the store back."""
    path = tmp_path / "notes.txt"
    full_of_turns(path, 3)
    away = path.rename(tmp_path / "away.db")
    path.write_text("dear to its owner" * 1_000)
    async with traffic(path) as it:
        await it.talks()
        assert (await it.admin.get("/readyz")).status_code == 200
        assert (await it.admin.get("/api/runs")).status_code == 503
        assert await metric(it, "up") == 0
        assert path.read_text().startswith("dear to its owner")
        away.rename(path)
        await until(lambda: it.proxy.control.serving.metrics.turns_scored == 4)
        assert await runs(it) == [(4, 0)]
    assert {entry.name for entry in tmp_path.iterdir()} == {"notes.txt"}
    (told,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert "file is not a database" in told


@pytest.mark.parametrize(
    "spoil", [damage, partial(damage, page=3), lambda path: os.truncate(path, path.stat().st_size // 2)]
)
async def test_a_damaged_store_is_moved_aside_at_the_start(
    tmp_path: Path, spoil: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "turns.db"
    full_of_turns(path)
    spoil(path)
    damaged = path.read_bytes()
    async with traffic(path) as it:
        await until(
            lambda: it.proxy.control.store.health.replaced == 1 and it.proxy.control.store.health.problem is None
        )
        await it.talks()
        await it.proxy.flush(PATIENCE_S)
        assert await runs(it) == [(1, 0)]
        assert await metric(it, "replaced_total") == 1
    (aside,) = tmp_path.glob("turns.db.damaged-*Z")
    assert aside.read_bytes()[PAGE_BYTES:] == damaged[PAGE_BYTES:]  # the first page counts changes
    assert f"it was moved to {aside}" in caplog.text
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize(
    ("page", "command"),
    [(1, "export"), (2, "evaluate --suite suite.yaml"), (3, "compare nightly nightly")],
)
def test_commands_leave_a_damaged_store_where_it_is(
    tmp_path: Path,
    page: int,
    command: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What a proxy does so that traffic is kept would here be an empty result, and another file under the name."""
    path = tmp_path / "turns.db"
    full_of_turns(path)
    damage(path, page)
    (tmp_path / "suite.yaml").write_text("suite: s\nevaluators: [tool_error]")
    monkeypatch.chdir(tmp_path)
    assert ended(command, "--store", str(path)) == 2
    out, err = capsys.readouterr()
    assert re.fullmatch(r"a2a-eval-proxy: store .* (malformed|file is not a database).*\n", err)
    assert out == ""
    assert not list(tmp_path.glob("*.damaged-*"))


@pytest.mark.parametrize("command", ["evaluate", "run --agent AGENT --run r"])
def test_a_command_that_cannot_write_a_damaged_store_ends_and_leaves_it(
    tmp_path: Path,
    command: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Its reads do not meet the damage: it is in an index that only writes look into."""
    path = tmp_path / "turns.db"
    store = SqliteStore(str(path))
    store.add([turn(number, status="pending") for number in range(3)], lambda: None)
    store.close()
    with closing(sqlite3.connect(path)) as connection:
        (page,) = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'sqlite_autoindex_turns_1'"
        ).fetchone()
    damage(path, page, PAGE_BYTES)
    damaged = path.read_bytes()
    (tmp_path / "suite.yaml").write_text(
        "suite: s\nevaluators: [tool_error]\ncases: [{id: a, turns: [{user: chunks}, {user: chunks}]}]"
    )
    monkeypatch.chdir(tmp_path)
    with scenario_agent() as agent:
        suite = ["suite.yaml"] if command.startswith("run") else ["--suite", "suite.yaml"]
        assert ended(command.replace("AGENT", agent.url), *suite, "--store", str(path)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert re.search(r"(?m)^a2a-eval-proxy: store .*malformed.*restore a backup.*$", err)
    assert ("turn(s) are lost" in err) is command.startswith("run")
    assert "Traceback" not in err
    part = slice((page - 1) * PAGE_BYTES, page * PAGE_BYTES)
    assert path.read_bytes()[part] == damaged[part]
    assert not list(tmp_path.glob("*.damaged-*"))


async def test_what_will_not_pass_ends_the_start(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no directory"):
        async with traffic(tmp_path / "missing" / "t.db"):
            pass


# ── under traffic ───────────────────────────────────────────────────────────────────────────────────────────


async def test_a_store_that_is_deleted_is_made_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "turns.db"
    async with traffic(path) as it:
        await it.talks()
        await it.proxy.flush(PATIENCE_S)
        for file in tmp_path.iterdir():
            file.unlink()
        refused = await it.admin.get("/api/runs")
        assert refused.status_code == 503
        assert "unable to open" in refused.json()["error"]
        assert not path.exists(), "reading makes no file"
        await it.talks()
        await it.proxy.flush(PATIENCE_S)
        assert await runs(it) == [(1, 0)]
        assert await metric(it, "replaced_total") == 1
    assert "was deleted or replaced while in use" in caplog.text
    assert "Traceback" not in caplog.text
    with closing(open_store(str(path), must_exist=True)) as store:
        assert len(await Kept(store).ids()) == 1


async def test_a_store_that_is_damaged_under_traffic_is_moved_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "turns.db"
    full_of_turns(path)
    async with traffic(path) as it:
        await it.proxy.flush(PATIENCE_S)
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        with path.open("r+b") as file:
            file.write(b"\xde\xad\xbe\xef" * 50_000)
        await it.talks()
        assert (await it.admin.get("/api/runs")).status_code in (200, 503)
        await until(
            lambda: it.proxy.control.store.health.replaced >= 1 and it.proxy.control.store.health.problem is None
        )
        await it.talks()
        await it.proxy.flush(PATIENCE_S)
        assert (await it.admin.get("/api/runs")).status_code == 200
    assert list(tmp_path.glob("turns.db.damaged-*Z"))
    assert "Traceback" not in caplog.text


def test_the_file_that_another_process_made_in_place_of_the_damaged_one_stays(tmp_path: Path) -> None:
    path = tmp_path / "turns.db"
    full_of_turns(path, 1)
    damaged = identity(str(path))
    moved_aside(str(path), damaged, "it is malformed")
    full_of_turns(path, 2)
    assert "another process moved it" in moved_aside(str(path), damaged, "it is malformed")
    with closing(open_store(str(path), must_exist=True)) as store:
        assert len(asyncio.run(Kept(store).ids())) == 2
    assert len(list(tmp_path.glob("turns.db.damaged-*Z"))) == 1


# ── under a run ─────────────────────────────────────────────────────────────────────────────────────────────

SUITE = """
suite: s
evaluators: [tool_error, {tool_trajectory: {scope: conversation}}]
cases:
  - {id: a, repeat: 3, expect: {tool_calls: []}, turns: [{user: message me}]}
"""

FULL = "CREATE TRIGGER full BEFORE INSERT ON turns BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END"


def execute(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(statement)


@pytest.mark.usefixtures("fast")
def test_run_ends_when_the_disk_stays_full_and_is_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path, suite = tmp_path / "turns.db", tmp_path / "suite.yaml"
    suite.write_text(SUITE)
    with scenario_agent() as agent:
        run = f"run {suite} --agent {agent.url} --store {path} --allow-no-capture --run"
        assert ended(run, "before") == 0
        execute(path, FULL)
        monkeypatch.setattr(write_queue, "PATIENCE_S", 0.2)
        assert ended(run, "now") == 3
        sentence = capsys.readouterr().err.splitlines()[-1]
        assert re.search(r"database or disk is full, for 0\.2 s; repeat .*; 3 turn\(s\) are lost$", sentence)
        execute(path, "DROP TRIGGER full")
        execute(path, FULL.replace("INSERT ON turns", "INSERT ON conversations"))
        assert ended(run, "now") == 3  # its turns are stored
        sentence = capsys.readouterr().err.splitlines()[-1]
        assert sentence.endswith("(to resume the run, repeat the command of `run` with --run now --resume)")
        execute(path, "DROP TRIGGER full")
        assert ended(run, "now", "--resume") == 0
    execute(path, FULL.replace("INSERT", "UPDATE"))
    assert ended(f"evaluate --suite {suite} --store {path} --run now --allow-no-capture") == 3
    assert "database or disk is full, for 0.2 s; repeat the command" in capsys.readouterr().err


@pytest.mark.usefixtures("fast")
async def test_a_run_passes_when_its_database_comes_back(postgres: PostgresServer) -> None:
    """It goes when the first turn is scored: further turns are to be written, and conversations to be read."""
    url, starting = postgres.new_database(), []

    class Stops(RunWatch):
        def scored(self, *_: object) -> None:
            if not starting:
                postgres.stop()
                starting.append(asyncio.get_running_loop().run_in_executor(None, postgres.start))

    with scenario_agent() as agent:
        options = AgentOptions(agent.url, concurrency=1)
        result = await run_suite(
            parse_suite(SUITE), options, url, "now", terms=Terms(allow_no_capture=True), watch=Stops()
        )
    await starting[0]
    assert result.verdict.passed, result.verdict.reasons
    assert len(result.report.turns) == 3


@pytest.mark.usefixtures("fast")
@pytest.mark.parametrize("gone", ["database", "file", "directory"])
async def test_a_run_ends_when_its_store_goes_and_stays_away(
    gone: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the middle: a turn is scored, many others are still to come."""
    many = SUITE.replace("repeat: 3", "repeat: 100")
    monkeypatch.setattr(write_queue, "PATIENCE_S", 0.2)
    postgres: PostgresServer | None = request.getfixturevalue("postgres") if gone == "database" else None
    url = postgres.new_database() if postgres else str(tmp_path / "store/turns.db")

    class Takes(RunWatch):
        taken = False

        def scored(self, *_: object) -> None:
            if not self.taken:
                self.taken = True
                take()

    def take() -> None:
        if postgres:
            postgres.stop()
        elif gone == "file":
            Path(url).unlink()
        else:
            shutil.rmtree(Path(url).parent)

    Path(tmp_path, "store").mkdir()
    try:
        with scenario_agent() as agent, pytest.raises(StoreError) as ended:
            await run_suite(parse_suite(many), AgentOptions(agent.url, concurrency=1), url, "now", watch=Takes())
    finally:
        if postgres:
            postgres.start()
    assert ended.value.exit_code == UNREACHABLE
    why = ", for 0.2 s; repeat" if postgres else "its file was deleted or replaced while in use"
    assert why in str(ended.value)
    assert postgres or not Path(url).exists(), "it makes no other file"


# ── the end ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_database_that_stops_answering_does_not_hold_up_the_end(
    postgres: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    url = postgres.new_database()
    async with AsyncExitStack() as proxy:
        it = await proxy.enter_async_context(traffic(url, evaluate=False, timeouts=Timeouts(shutdown=0.1)))
        await it.talks()
        await it.proxy.flush(PATIENCE_S)
        with psycopg.connect(url) as other:
            other.execute("LOCK TABLE turns IN ACCESS EXCLUSIVE MODE")
            await it.talks()
            await proxy.aclose()
    assert "1 turn(s) are lost" in caplog.text


async def test_an_error_that_is_none_of_the_database_ends_the_store(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "turns.db"))
    key = ConversationKey("nightly", "c", "x")
    store.finish_conversations([ScoredConversation(key, 2**70, [])], lambda: None)
    with pytest.raises(StoreError, match="a write failed for a reason of this program; report it: OverflowError"):
        await store.drained()
    assert store.health.remarks == ["store: nothing more is written, see the log; restart the proxy"]
    assert not store.add([turn(1)], lambda: None)
    store.close()


# ── a store that another process keeps locked: who waits for it, how many, and what is left undone ──────────


Connection = sqlite3.Connection | psycopg.Connection[tuple[object, ...]]


@pytest.fixture
async def store(location: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Store]:
    """Which waits for long where it is locked."""
    monkeypatch.setattr(sqlite_store, "BUSY_S", 60.0)
    store = open_store(location)
    yield store
    await asyncio.to_thread(store.close)


@pytest.fixture(params=["sqlite", "postgres"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "turns.db")
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.new_store()


@pytest.fixture
def lock(store: Store, location: str) -> Iterator[Connection]:
    """Of another process; ends with `rollback`."""
    if "://" in location:
        with closing(psycopg.connect(location)) as server:
            server.execute("LOCK TABLE webhooks")
            yield server
    else:
        with closing(sqlite3.connect(location)) as file:
            file.execute("BEGIN IMMEDIATE")
            yield file


def webhook(name: str) -> Webhook:
    return Webhook(name, "http://client.example", 0, 1)


@pytest.mark.parametrize("location", ["sqlite"], indirect=True)
async def test_only_the_stores_own_threads_wait_for_it(store: Store, lock: Connection) -> None:
    """The event loop's threads resolve names, for one."""
    changes = [asyncio.create_task(store.webhooks.add(webhook(f"{number}"))) for number in range(40)]
    async with asyncio.timeout(60):
        await asyncio.get_running_loop().getaddrinfo("localhost", 80)
        assert await store.webhooks.get("0") is None  # reads go on, too
    assert not any(change.done() for change in changes)
    lock.rollback()
    await asyncio.gather(*changes)
    assert await store.webhooks.get("39") == webhook("39")


async def test_a_bounded_number_of_operations_waits(
    store: Store, lock: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = [asyncio.create_task(store.webhooks.add(webhook(f"{number}"))) for number in range(MOST_WAITING)]
    await asyncio.sleep(0)
    with pytest.raises(StoreError, match="wait"):
        await store.webhooks.add(webhook("further"))
    for change in changes[1:]:
        change.cancel()
    with suppress(asyncio.CancelledError):
        await asyncio.gather(*changes[1:])
    lock.rollback()
    await changes[0]
    await store.webhooks.add(webhook("later"))


async def test_a_change_is_not_made_once_its_caller_gave_up(store: Store, lock: Connection) -> None:
    """It has reported that it was not made."""
    for name in ("at the lock", "behind it"):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(store.webhooks.add(webhook(name)), 0.05)
    lock.rollback()
    await store.webhooks.add(webhook("last"))
    assert [await store.webhooks.get(name) for name in ("at the lock", "behind it")] == [None, None]
