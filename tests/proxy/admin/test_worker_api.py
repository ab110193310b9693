"""The port of a worker, and what the database says of the queue that all workers share."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import psycopg
import pytest
from a2a_eval_proxy.app import run_proxy
from a2a_eval_proxy.settings.settings import Settings
from a2a_eval_proxy.store.postgres.store import PostgresStore
from support.kept import Kept, turn
from support.patience import PATIENCE_S
from support.postgres_server import PostgresServer
from support.prefork import COMMAND
from support.processes import ChildProcess


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    return postgres.new_store()


def value(text: str, series: str) -> float | None:
    found = re.search(rf"^{re.escape(series)} (\S+)$", text, re.MULTILINE)
    return float(found[1]) if found else None


async def until(client: httpx.AsyncClient, series: str, wanted: float) -> str:
    async with asyncio.timeout(PATIENCE_S):
        while value(text := (await client.get("/metrics")).text, series) != wanted:
            await asyncio.sleep(0.05)
    return text


@asynccontextmanager
async def worker(url: str) -> AsyncIterator[str]:
    """A worker as the command starts it; the URL of its port."""
    command = [COMMAND, "worker", "--store", url, "--admin", "127.0.0.1:0"]
    command += ["--stalled-after", "3"]  # a third of it passes until the worker notices that its database is away
    with ChildProcess(command) as process:
        yield (await asyncio.to_thread(process.wait_for, r"admin (\S+)"))[1]


async def test_a_worker_tells_health_readiness_and_what_it_scored(url: str, postgres: PostgresServer) -> None:
    store = PostgresStore(url, for_workers=True)
    try:
        await Kept(store).add(turn(1), turn(2))
    finally:
        await asyncio.to_thread(store.close)
    async with worker(url) as admin, httpx.AsyncClient(base_url=admin) as client:
        assert (await client.get("/healthz")).text == "ok\n"
        text = await until(client, "a2a_eval_proxy_turns_scored_total", 2)
        assert value(text, 'a2a_eval_proxy_evaluations_total{evaluator="tool_error",status="passed"}') == 2
        assert re.search(r'^a2a_eval_proxy_build_info\{python="3[^"]+",version="[^"]+"\} 1.0$', text, re.MULTILINE)
        assert value(text, "process_resident_memory_bytes")
        assert (await client.get("/readyz")).text == "ready\n"
        postgres.stop()
        try:
            async with asyncio.timeout(PATIENCE_S):
                while (away := await client.get("/readyz")).status_code != 503:
                    await asyncio.sleep(0.05)
            assert away.text == "the database cannot be reached\n"
            assert (await client.get("/healthz")).status_code == 200
        finally:
            postgres.start()


async def test_every_proxy_of_a_shared_store_tells_what_waits_and_for_how_many_workers(url: str) -> None:
    settings = Settings(
        upstream="http://127.0.0.1:9", listen="127.0.0.1:0", admin="127.0.0.1:0", otlp=None, store=url, evaluate=False
    )
    store = PostgresStore(url, for_workers=True)
    try:
        await Kept(store).add(*(turn(number) for number in range(30)))
        backlog = await store.work.backlog()
        assert (backlog.turns, backlog.workers) == (30, 0)
        with psycopg.connect(url, autocommit=True) as other:
            other.execute("UPDATE turns SET stored_at = extract(epoch from now()) - 3600 WHERE turn_id = 'turn-0007'")
            other.execute("INSERT INTO workers VALUES ('a', now()), ('b', now() - interval '2 min')")
        assert 3600 <= (await store.work.backlog()).oldest_s < 3700
        async with run_proxy(settings) as proxy, httpx.AsyncClient(base_url=proxy.admin_url) as client:
            text = await until(client, "a2a_eval_proxy_pending_turns", 30)
    finally:
        await asyncio.to_thread(store.close)
    assert value(text, "a2a_eval_proxy_workers") == 1
    assert (value(text, "a2a_eval_proxy_pending_oldest_seconds") or 0) >= 3600
