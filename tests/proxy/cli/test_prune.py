"""`prune`: old turns deleted by hand, of a store in SQLite or PostgreSQL."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from a2a_eval_proxy.store import open_store
from support.kept import Kept, turn
from support.postgres_server import PostgresServer
from support.prefork import run

prune = partial(run, "prune", "--store")


@pytest.fixture(params=["sqlite", "postgres"])
async def location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store with ten turns, of which the first ended ten days ago, and each other one a day later."""
    if request.param == "sqlite":
        location = str(tmp_path / "turns.db")
    else:
        server: PostgresServer = request.getfixturevalue("postgres")
        location = server.new_store()
    store = open_store(location)
    now = datetime.now(UTC)
    turns = [turn(number) for number in range(1, 11)]
    for number, one in enumerate(turns):
        ended = now - timedelta(days=10 - number, hours=1)
        one.started_at, one.ended_at = ended.timestamp() - 60, ended.timestamp()
        one.user_text = f"{number}" * 200_000
    await Kept(store).add(*turns)
    store.close()
    return location


async def left(location: str) -> list[str]:
    store = open_store(location)
    ids = await Kept(store).ids()
    store.close()
    return ids


async def test_turns_go_by_age_and_the_oldest_until_the_rest_fits(location: str) -> None:
    assert prune(location, "--retain-days", "7").stdout == "deleted 4 turns; 6 are left\n"
    assert await left(location) == [f"turn-{number:04}" for number in range(5, 11)]
    assert prune(location, "--retain-days", "7").stdout == "deleted 0 turns; 6 are left\n"
    done = prune(location, "--retain-mb", "1")
    assert (done.returncode, done.stderr) == (0, "")
    ids = await left(location)
    assert ids == [f"turn-{number:04}" for number in range(11 - len(ids), 11)]
    if not location.startswith("postgres"):  # which compresses them
        assert 0 < len(ids) < 6
        assert Path(location).stat().st_size <= 1_000_000
