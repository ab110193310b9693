"""The store on a real disk: what is committed stays, whatever the turns hold and whoever locks the file."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import sqlite3
import stat
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from a2a_eval_proxy.capture.turn import Turn
from a2a_eval_proxy.store import Scored, SqliteStore, StoreError, TurnQuery, open_store
from a2a_eval_proxy.store import sqlite as sqlite_module
from a2a_tool_capture import Finding, ToolCall, ToolCallSource
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from junk import json_values


def turn(number: int, **fields: Any) -> Turn:
    defaults: dict[str, Any] = {
        "run": "nightly",
        "agent": "http://agent",
        "binding": "JSONRPC",
        "protocol_version": "1.0",
        "started_at": 1_763_700_000.0 + number,
        "ended_at": 1_763_700_000.5 + number,
        "status": "pending",
    }
    return Turn(f"turn-{number:04}", **{**defaults, **fields})


def result(status: str = "passed", **more: Any) -> dict[str, Any]:
    return {"evaluator": "tool_error", "status": status, **more}


class Kept:
    """A store and shorthands that wait until things are on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.store = SqliteStore(str(path))

    async def add(self, *turns: Turn) -> None:
        committed = threading.Event()
        assert self.store.add(turns, committed.set)
        await asyncio.to_thread(committed.wait, 30)
        assert committed.is_set()

    async def finish(self, *scored: Scored) -> None:
        committed = threading.Event()
        self.store.finish(scored, committed.set)
        await asyncio.to_thread(committed.wait, 30)
        assert committed.is_set()

    async def ids(self, **query: Any) -> list[str]:
        return [item["turn_id"] for item in (await self.store.turns(TurnQuery(**query))).items]


@pytest.fixture
async def kept(tmp_path: Path) -> AsyncIterator[Kept]:
    it = Kept(tmp_path / "turns.db")
    yield it
    await asyncio.to_thread(it.store.close)


# ── turns ───────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_turn_comes_back_as_it_was(kept: Kept) -> None:
    call = ToolCall("search", {"q": "ü", "n": [1, 2.5, None]}, "1", "42", None, ToolCallSource.A2A_PROTOCOL)
    original = turn(1, tool_calls=[call], findings=[Finding("odd", "seen")], user_text="hi ☃", case_id="c", state="S")
    await kept.add(original)
    stored = await kept.store.turn("turn-0001")
    assert stored == {**original.to_dict(), "status": "pending", "evaluations": []}
    assert Turn.from_dict(stored) == original


async def test_a_turn_that_is_not_there(kept: Kept) -> None:
    assert await kept.store.turn("nobody") is None


async def test_evaluations_mark_a_turn_done(kept: Kept) -> None:
    await kept.add(turn(1), turn(2))
    await kept.finish(Scored("turn-0001", [result(score=1.0)]))
    assert (await kept.store.turn("turn-0001") or {})["status"] == "done"
    assert (await kept.store.turn("turn-0001") or {})["evaluations"] == [result(score=1.0)]
    assert await kept.ids(status="pending") == ["turn-0002"]


async def test_finishing_again_replaces_the_results(kept: Kept) -> None:
    await kept.add(turn(1))
    await kept.finish(Scored("turn-0001", [result("failed"), result("skipped")]))
    await kept.finish(Scored("turn-0001", [result("passed")]))
    assert (await kept.store.turn("turn-0001") or {})["evaluations"] == [result("passed")]
    (summary,) = await kept.store.runs()
    assert (summary.passed, summary.failed, summary.skipped) == (1, 0, 0)


async def test_finishing_may_change_the_turn_itself(kept: Kept) -> None:
    await kept.add(turn(1), turn(2))
    merged = turn(1, tool_calls=[ToolCall("from_the_trace")])
    await kept.finish(Scored("turn-0001", [], merged), Scored("turn-0002", []))
    assert [len(item["tool_calls"]) for item in (await kept.store.turns(TurnQuery())).items] == [1, 0]
    assert (await kept.store.turn("turn-0001") or {})["status"] == "done"


async def test_finishing_what_is_not_there_harms_nobody(kept: Kept) -> None:
    await kept.finish(Scored("nobody", [result()]))
    assert await kept.ids() == []


async def test_a_turn_added_twice_is_one(kept: Kept) -> None:
    await kept.add(turn(1, user_text="first"))
    await kept.add(turn(1, user_text="second"))
    assert [item["user_text"] for item in (await kept.store.turns(TurnQuery())).items] == ["first"]


async def test_a_turn_scored_before_it_is_written_is_done_at_once(kept: Kept) -> None:
    committed = threading.Event()
    scores = {"turn-0001": [result()], "turn-0002": None}
    kept.store.add([turn(1), turn(2)], committed.set, lambda one: scores[one.turn_id])
    await asyncio.to_thread(committed.wait, 30)
    found = (await kept.store.turns(TurnQuery())).items
    assert [(item["status"], len(item["evaluations"])) for item in found] == [("done", 1), ("pending", 0)]


# ── finding them again ──────────────────────────────────────────────────────────────────────────────────────


async def test_selecting(kept: Kept) -> None:
    await kept.add(
        turn(1, run="a", conversation_id="c1", case_id="x"),
        turn(2, run="a", conversation_id="c2"),
        turn(3, run="b", conversation_id="c1", case_id="y"),
    )
    await kept.finish(Scored("turn-0003", []))
    assert await kept.ids(run="a") == ["turn-0001", "turn-0002"]
    assert await kept.ids(conversation="c1") == ["turn-0001", "turn-0003"]
    assert await kept.ids(case="y") == ["turn-0003"]
    assert await kept.ids(run="a", conversation="c1") == ["turn-0001"]
    assert await kept.ids(status="done") == ["turn-0003"]
    assert await kept.ids(run="nobody") == []


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
async def test_paging_sees_every_turn_once_in_order(kept: Kept, limit: int) -> None:
    await kept.add(*(turn(number) for number in range(7)))
    found: list[str] = []
    cursor: str | None = None
    pages = 0
    while True:
        page = await kept.store.turns(TurnQuery(limit=limit, cursor=cursor))
        found += [item["turn_id"] for item in page.items]
        pages += 1
        assert len(page.items) <= limit
        cursor = page.next_cursor
        if cursor is None:
            break
    assert found == [f"turn-{number:04}" for number in range(7)]
    assert pages == math.ceil(7 / limit)


async def test_turns_that_come_while_paging_are_on_later_pages(kept: Kept) -> None:
    await kept.add(turn(1), turn(2))
    page = await kept.store.turns(TurnQuery(limit=1))
    await kept.add(turn(3))
    assert await kept.ids(cursor=page.next_cursor) == ["turn-0002", "turn-0003"]


@pytest.mark.parametrize("cursor", ["", "x", "-1", "²", "1; DROP TABLE turns", "1.5"])
async def test_a_cursor_of_ones_own_making(kept: Kept, cursor: str) -> None:
    with pytest.raises(ValueError, match="next_cursor"):
        await kept.store.turns(TurnQuery(cursor=cursor))


@pytest.mark.parametrize("limit", [-5, 0, 10**6])
async def test_a_limit_out_of_range_is_brought_into_it(kept: Kept, limit: int) -> None:
    await kept.add(turn(1), turn(2))
    assert 1 <= len((await kept.store.turns(TurnQuery(limit=limit))).items) <= 2


async def test_values_are_never_part_of_the_statement(kept: Kept) -> None:
    name = "'; DROP TABLE turns; --"
    await kept.add(turn(1, run=name, conversation_id=name, case_id=name))
    assert await kept.ids(run=name, conversation=name, case=name) == ["turn-0001"]


async def test_runs_in_numbers(kept: Kept) -> None:
    await kept.add(turn(1, run="a"), turn(2, run="a"), turn(3, run="b"), turn(4, run="a", ended_at=None))
    await kept.finish(
        Scored("turn-0001", [result("passed"), result("failed"), result("skipped")]),
        Scored("turn-0003", [result("errored"), result("scored")]),
    )
    one, other = await kept.store.runs()
    assert (one.name, one.turns, one.pending) == ("a", 3, 2)
    assert (one.passed, one.failed, one.errored, one.skipped) == (1, 1, 0, 1)
    assert (one.started_at, one.ended_at) == (turn(1).to_dict()["started_at"], turn(2).to_dict()["ended_at"])
    assert (other.name, other.turns, other.pending, other.errored) == ("b", 1, 0, 1)
    assert await kept.store.runs("b") == [other]
    assert await kept.store.runs("nobody") == []


# ── anything an agent may say ───────────────────────────────────────────────────────────────────────────────

LONE_SURROGATE = "\ud800"  # legal in JSON, but not in UTF-8
ODD_TEXTS = [LONE_SURROGATE, "a\x00b", "\U0001f600", "'\"\\", "x" * 100_000]


@pytest.mark.parametrize("text", ODD_TEXTS)
async def test_texts_of_any_kind(kept: Kept, text: str) -> None:
    await kept.add(turn(1, user_text=text, response_text=text, tool_calls=[ToolCall(text, {text: text}, text, text)]))
    stored = await kept.store.turn("turn-0001") or {}
    kept_text = "\ufffd" if text == LONE_SURROGATE else text
    assert (stored["user_text"], stored["tool_calls"][0]["arguments"]) == (kept_text, {kept_text: kept_text})
    assert json.dumps(stored, ensure_ascii=False, allow_nan=False).encode()


@pytest.mark.parametrize("field", ["conversation_id", "task_id", "case_id", "run", "trace_id"])
@pytest.mark.parametrize("text", ODD_TEXTS)
async def test_ids_of_any_kind(kept: Kept, field: str, text: str) -> None:
    """Ids come from the wire too. One that cannot be stored must not stop the others."""
    await kept.add(turn(1, **{field: text}))
    await kept.add(turn(2))
    assert await kept.ids() == ["turn-0001", "turn-0002"]
    if field in ("conversation_id", "case_id", "run"):
        assert await kept.ids(**{field.removesuffix("_id"): text}) == ["turn-0001"]


@pytest.mark.parametrize("number", [2**63, 2**64, -(2**63) - 1, 10**300, 1e308, -0.0, math.inf, math.nan])
async def test_numbers_of_any_size(kept: Kept, number: float) -> None:
    await kept.add(turn(1, tool_calls=[ToolCall("pay", {"eur": number, "note": LONE_SURROGATE})]), turn(2))
    await kept.finish(Scored("turn-0001", [result()]))
    stored = await kept.store.turn("turn-0001") or {}
    assert stored["tool_calls"][0]["arguments"]["eur"] == (number if math.isfinite(number) else None)
    assert json.dumps(stored, ensure_ascii=False, allow_nan=False).encode()
    (summary,) = await kept.store.runs()
    assert (summary.turns, summary.passed) == (2, 1)


ENDLESS: dict[str, Any] = {"deeper": []}
ENDLESS["deeper"].append(ENDLESS)


@pytest.mark.parametrize(
    "details", [{"seen": {1, 2}}, {"when": object()}, {"big": 10**30}, {1: 2}, {"text": LONE_SURROGATE}, ENDLESS]
)
async def test_an_evaluator_with_odd_details_stops_nobody(kept: Kept, details: Any) -> None:
    await kept.add(turn(1), turn(2))
    await kept.finish(Scored("turn-0001", [result(details=details)]), Scored("turn-0002", [result()]))
    assert await kept.ids(status="done") == ["turn-0001", "turn-0002"]
    assert len(await kept.store.runs()) == 1


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(json_values, min_size=1, max_size=3))
async def test_any_arguments_can_be_kept(tmp_path_factory: pytest.TempPathFactory, values: list[Any]) -> None:
    kept = Kept(tmp_path_factory.mktemp("store") / "turns.db")
    await kept.add(*(turn(n, tool_calls=[ToolCall("x", {"v": value})]) for n, value in enumerate(values)))
    assert len(await kept.ids()) == len(values)
    assert json.dumps((await kept.store.turns(TurnQuery())).items, ensure_ascii=False, allow_nan=False).encode()
    assert len(await kept.store.runs()) == 1
    await asyncio.to_thread(kept.store.close)


# ── the file ────────────────────────────────────────────────────────────────────────────────────────────────


async def test_what_was_committed_is_there_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "turns.db"
    first = Kept(path)
    await first.add(turn(1), turn(2))
    await first.finish(Scored("turn-0001", [result()]))
    first.store.close()
    second = Kept(path)
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


async def test_drained_means_on_disk(kept: Kept) -> None:
    for number in range(50):
        kept.store.add([turn(number)], lambda: None)
    await kept.store.drained()
    assert len(await kept.ids()) == 50


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("open_umask")
async def test_the_file_is_for_its_owner_alone(kept: Kept) -> None:
    await kept.add(turn(1))
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in kept.path.parent.iterdir()}
    assert modes
    assert set(modes.values()) == {0o600}


def database(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def test_another_programs_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    database(path, "CREATE TABLE customers (name TEXT)")
    before = path.read_bytes()
    with pytest.raises(StoreError, match=r"other\.db.*no store of this version"):
        SqliteStore(str(path))
    assert path.read_bytes()[100:] == before[100:]  # the header says WAL, the content is as it was


def test_a_store_of_another_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "turns.db"
    SqliteStore(str(path)).close()
    database(path, "PRAGMA user_version = 99")
    with pytest.raises(StoreError, match="schema 99, expected 2"):
        SqliteStore(str(path))


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


async def test_a_lock_is_waited_for(kept: Kept) -> None:
    committed = threading.Event()
    with closing(sqlite3.connect(kept.path, isolation_level=None)) as other:
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
    monkeypatch.setattr(sqlite_module, "_RETRY_S", 0.01)
    failed = threading.Event()
    monkeypatch.setattr(logging.getLogger(sqlite_module.__name__), "handle", lambda record: failed.set())
    kept = Kept(tmp_path / "turns.db")
    pages = kept.store._connection.execute("PRAGMA page_count").fetchone()[0]
    kept.store._connection.execute(f"PRAGMA max_page_count = {pages}")
    committed = threading.Event()
    kept.store.add([turn(1, user_text="x" * 100_000)], committed.set)
    await asyncio.to_thread(failed.wait, 30)
    assert failed.is_set()
    assert not committed.is_set()
    assert await kept.ids() == []
    kept.store._connection.execute("PRAGMA max_page_count = 1000000")
    await asyncio.to_thread(committed.wait, 30)
    assert await kept.ids() == ["turn-0001"]
    await asyncio.to_thread(kept.store.close)


async def test_when_the_disk_does_not_keep_up_turns_are_refused(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_module, "MAX_QUEUED", 3)
    with closing(sqlite3.connect(kept.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        taken = [kept.store.add([turn(number)], lambda: None) for number in range(200)]
        other.execute("COMMIT")
    assert taken[0]
    assert not taken[-1]
    await kept.store.drained()
    assert len(await kept.ids(limit=1000)) == taken.count(True)


async def test_many_at_once(kept: Kept) -> None:
    numbers = list(range(1000))
    for start in range(0, 1000, 37):
        kept.store.add([turn(n) for n in numbers[start : start + 37]], lambda: None)
    kept.store.finish([Scored(f"turn-{n:04}", [result()]) for n in numbers], lambda: None)
    await kept.store.drained()
    assert await kept.ids(status="done", limit=1000) == [f"turn-{n:04}" for n in numbers]
