"""Retention: old turns go, and their bytes are nowhere in the files any more."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from a2a_eval_proxy.app import run_proxy
from a2a_eval_proxy.settings.settings import Settings
from a2a_eval_proxy.store import ConversationKey, Scored, ScoredConversation, SqliteStore
from a2a_eval_proxy.store.base import Limits
from a2a_eval_proxy.store.sqlite import file
from a2a_eval_proxy.turn import Turn
from support.kept import Kept
from support.kept import turn as kept_turn

MARK = "rosebud"


def turn(number: int, **fields: Any) -> Turn:
    """One that ended that number of seconds after the epoch; each has some 20 kB of text."""
    said = {"conversation_id": f"conversation-{number}", "case_id": "case", "user_text": f"{MARK}-{number:04} " * 2000}
    return kept_turn(number, **{"started_at": float(number), "ended_at": number + 0.5, **said, **fields})


def said(number: int) -> ScoredConversation:
    key = ConversationKey("nightly", f"conversation-{number}", "case")
    return ScoredConversation(key, 1, [{"evaluator": "whole", "status": "passed", "reason": f"{MARK}-{number:04}"}])


def kept_bytes(path: Path) -> bytes:
    """Of all files of the store."""
    return b"".join(file.read_bytes() for file in sorted(path.parent.glob(f"{path.name}*")))


async def fill(store: SqliteStore, count: int) -> None:
    for number in range(count):
        store.add([turn(number)], lambda: None)
        store.finish([Scored(f"turn-{number:04}", [{"evaluator": "e", "status": "passed"}])], lambda: None)
        store.finish_conversations([said(number)], lambda: None)
    await store.drained()


@pytest.fixture
async def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(file, "BUSY_TIMEOUT_S", 0.001)
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
    store.finish([Scored("turn-0015", [], turn(15, user_text="short"))], lambda: None)
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
        store.add([turn(number, agent_name=name, ended_at=now - 86_400 * (20 - number // 4) + 60)], lambda: None)
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
