"""A store with shorthands that wait until things are committed, and turns to put into it."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Collection, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import pytest
from a2a_eval_proxy.store import Scored, ScoredConversation, Store, TurnQuery
from a2a_eval_proxy.store.base import Evaluations
from a2a_eval_proxy.turn import Turn
from support.patience import PATIENCE_S


def turn(number: int, **fields: Any) -> Turn:
    """A closed turn, not scored yet."""
    defaults: dict[str, Any] = {
        "turn_id": f"turn-{number:04}",
        "run": "nightly",
        "agent": "http://agent",
        "binding": "JSONRPC",
        "protocol_version": "1.0",
        "started_at": 1_763_700_000.0 + number,
        "ended_at": 1_763_700_000.5 + number,
        "shown_by": "extension",
        "status": "pending",
    }
    return Turn(**{**defaults, **fields})


def result(status: str = "passed", **more: Any) -> dict[str, Any]:
    return {"evaluator": "tool_error", "status": status, **more}


def traced(monkeypatch: pytest.MonkeyPatch, watch: Callable[[str], object]) -> None:
    """SQLite connections that are opened from now on report each statement."""

    class Traced(sqlite3.Connection):
        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, **named)
            self.set_trace_callback(watch)

    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Traced))


class Kept:
    """A store and what tests do with it."""

    def __init__(self, store: Store) -> None:
        self.store = store

    async def add(
        self, *turns: Turn, results: Mapping[str, Evaluations] = MappingProxyType({}), held: Collection[str] = ()
    ) -> None:
        committed = threading.Event()
        assert self.store.add(turns, committed.set, results, held)
        await _awaited(committed)

    async def finish(self, *scored: Scored) -> None:
        committed = threading.Event()
        self.store.finish(scored, committed.set)
        await _awaited(committed)

    async def finish_conversations(self, *scored: ScoredConversation) -> None:
        committed = threading.Event()
        self.store.finish_conversations(scored, committed.set)
        await _awaited(committed)

    async def pages(self, **query: Any) -> list[list[str]]:
        """The ids on each page; the pages end."""
        found: list[list[str]] = []
        cursor: str | None = None
        while cursor is not None or not found:
            page = await self.store.turns(TurnQuery(**query, cursor=cursor))
            found.append([item["turn_id"] for item in page.items])
            cursor = page.next_cursor
            assert len(found) < 100
        return found

    async def ids(self, **query: Any) -> list[str]:
        return [item["turn_id"] for item in (await self.store.turns(TurnQuery(**query))).items]


async def _awaited(committed: threading.Event) -> None:
    await asyncio.to_thread(committed.wait, PATIENCE_S)
    assert committed.is_set()
