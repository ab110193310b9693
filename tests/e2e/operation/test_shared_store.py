"""Many proxies, one store: whoever is killed, no stored turn is lost and each is scored exactly once."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from pathlib import Path

import pytest
from e2e.contracts import GetAgent
from e2e.shared_store import EVALUATORS, Fleet, Said, fleet, keep_talking
from support.postgres_server import PostgresServer

TURNS, BATCH = 200, 20
SEED = 7
DEADLINE_S = 100
"""Longest wait for what is pending in the end."""


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_no_turn_is_lost_and_each_is_scored_once(
    agent: GetAgent, postgres: PostgresServer, tmp_path: Path
) -> None:
    said = [Said(), Said()]
    kills = random.Random(SEED)
    async with fleet(postgres.new_database(), agent("v1"), tmp_path) as running:
        members = [*running.proxies, *running.workers]
        news: asyncio.Queue[int] = asyncio.Queue()

        async def kill_now_and_then() -> None:
            """The first time all workers at once, in the middle of a job; then whoever it hits."""
            await until_a_job_is_under_way(running)
            await asyncio.gather(*(worker.kill() for worker in running.workers))
            running.go.touch()
            confirmed = next_kill = 0
            while more := await news.get():
                confirmed += more
                if confirmed >= next_kill:
                    next_kill = confirmed + kills.randint(TURNS // 20, TURNS // 8)
                    await kills.choice(members).kill()

        killing = asyncio.create_task(kill_now_and_then())
        talking = [
            keep_talking(proxy, what, TURNS // 2, BATCH, news.put_nowait)
            for proxy, what in zip(running.proxies, said, strict=True)
        ]
        await asyncio.gather(*talking)
        news.put_nowait(0)  # and whoever was killed last is there again
        await killing
        await until_all_is_scored(running)
        rows = running.rows("SELECT body::json->>'user_text', status, evaluations FROM turns")
        conversations = running.rows("SELECT turns, evaluations FROM conversations")
        jobs = running.rows("SELECT id FROM jobs")

    kept = {text for what in said for text in what.kept}
    unsure = {text for what in said for text in what.unsure}
    stored = [text for text, *_ in rows]
    assert len(kept) >= TURNS
    assert len(stored) == len(set(stored))
    assert kept <= set(stored) <= kept | unsure
    assert Counter(status for _, status, _ in rows) == {"done": len(rows)}
    assert all(sorted(one["evaluator"] for one in json.loads(results)) == EVALUATORS for *_, results in rows)
    assert Counter(turns for turns, _ in conversations) == {1: len(rows)}
    assert jobs == []
    assert any("is tried again" in worker.told for worker in running.workers)


async def until_a_job_is_under_way(running: Fleet) -> None:
    while not await asyncio.to_thread(running.rows, "SELECT FROM jobs WHERE due_at > now()"):
        await asyncio.sleep(0.01)


async def until_all_is_scored(running: Fleet) -> None:
    """Turns, conversations, and the jobs themselves."""
    left = (
        "SELECT (SELECT count(*) FROM turns WHERE status = 'pending'), (SELECT count(*) FROM jobs),"
        " (SELECT count(*) FROM turns) - (SELECT count(*) FROM conversations)"
    )
    async with asyncio.timeout(DEADLINE_S):
        while await asyncio.to_thread(running.rows, left) != [(0, 0, 0)]:
            await asyncio.sleep(0.05)
