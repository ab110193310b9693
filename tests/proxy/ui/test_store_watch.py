"""A store that other processes write, followed by polling: a real SQLite file, and PostgreSQL."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from a2a_eval_proxy.features.pages.store_pages import StoreWatch
from a2a_eval_proxy.store import Scored, Store, open_store
from a2a_eval_proxy.telemetry.event_bus import EventBus, Listener
from a2a_eval_proxy.turn import Turn
from support.turn_samples import result, turn


class Followed:
    """A store that is read, and one of another process that writes to the same place."""

    def __init__(self, location: str) -> None:
        self.writing: Store = open_store(location)
        self.reading: Store = open_store(location, must_exist=True)
        self.bus = EventBus()
        self.watch = StoreWatch(self.reading, self.bus)

    async def add(self, *names: str, scored: bool = True) -> None:
        turns = [Turn.from_dict(turn(name, run="r", start=n, status="pending")) for n, name in enumerate(names)]
        results = {one.turn_id: [result("tool_error", 1.0)] for one in turns if scored}
        self.writing.add(turns, lambda: None, results)
        await self.writing.drained()

    async def finish(self, name: str) -> None:
        self.writing.finish([Scored(name, [result("tool_error", 1.0)])], lambda: None)
        await self.writing.drained()

    async def news(self, listener: Listener) -> list[tuple[str, str]]:
        await self.watch.poll()
        return [(event.name, json.loads(event.data)["turn_id"]) for event in listener.now().events]

    def close(self) -> None:
        self.writing.close()
        self.reading.close()


@pytest_asyncio.fixture(params=["sqlite", "postgres"])
async def followed(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Followed]:
    in_file = request.param == "sqlite"
    made = Followed(str(tmp_path / "turns.db") if in_file else request.getfixturevalue("postgres").new_store())
    yield made
    await asyncio.to_thread(made.close)


async def test_turns_of_other_processes_become_events_the_oldest_first(followed):
    """One that waits to be scored is closed, and later done."""
    await followed.add("before")
    with followed.bus.listen() as listener:
        assert await followed.news(listener) == []
        await followed.add("a", "b")
        assert await followed.news(listener) == [("turn.done", "a"), ("turn.done", "b")]
        await followed.add("c", scored=False)
        assert await followed.news(listener) == [("turn.closed", "c")]
        await followed.add("d")
        assert await followed.news(listener) == [("turn.done", "d")]
        await followed.finish("c")
        assert await followed.news(listener) == [("turn.done", "c")]
        assert await followed.news(listener) == []
