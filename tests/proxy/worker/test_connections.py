"""The connections to PostgreSQL that the page Operations counts on: of a proxy with several agents, and of a worker."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import psycopg
from a2a_eval_proxy.app import run_proxy
from a2a_eval_proxy.settings.parsing import AGENTS
from a2a_eval_proxy.settings.settings import Settings
from agents.replay_agent import Answer, ReplayAgent
from support.patience import PATIENCE_S
from support.postgres_server import PostgresServer
from support.prefork import COMMAND
from support.processes import ChildProcess

PROXY, WORKER = 4, 4
COUNT = (
    "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND datname = current_database()"
    " AND application_name <> 'sampler'"
)


async def most(url: str, work: Awaitable[None]) -> int:
    """The most connections that were open at one time while `work` was done, and at its end."""
    task, found = asyncio.ensure_future(work), 0
    async with await psycopg.AsyncConnection.connect(url, autocommit=True, application_name="sampler") as connection:
        while True:
            done = task.done()
            found = max(found, *await (await connection.execute(COUNT)).fetchone() or (0,))
            if done:
                await task
                return found


@asynccontextmanager
async def proxy(url: str) -> AsyncIterator[tuple[httpx.AsyncClient, httpx.AsyncClient]]:
    """Clients of a proxy with five agents that does not score: of its data and of its admin port."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"message": {"messageId": "m", "parts": [{"text": "hi"}]}}})
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    with ReplayAgent() as agent:
        agent.prepare(Answer([head.encode() + body.encode()]))
        settings = Settings(
            agents=AGENTS.parse(",".join(f"agent-{number}={agent.url}" for number in range(5))),
            listen="127.0.0.1:0",
            admin="127.0.0.1:0",
            otlp=None,
            store=url,
            evaluate=False,
        )
        async with (
            run_proxy(settings) as running,
            httpx.AsyncClient(base_url=running.url, timeout=PATIENCE_S) as data,
            httpx.AsyncClient(base_url=running.admin_url, timeout=PATIENCE_S) as admin,
        ):
            yield data, admin


async def test_a_proxy_and_a_worker_open_no_more_than_the_page_says(postgres: PostgresServer) -> None:
    url = postgres.new_store()
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
    request = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}

    async with proxy(url) as (data, admin):

        async def traffic() -> None:
            turns = (
                data.post(f"/agents/agent-{number % 5}/", json=request, headers={"a2a-version": "1.0"})
                for number in range(100)
            )
            answers = await asyncio.gather(*turns, *(admin.get("/api/turns", params={"q": "hi"}) for _ in range(30)))
            assert {answer.status_code for answer in answers} == {200}
            await admin.post("/api/flush", params={"timeout": PATIENCE_S})

        assert 1 < await most(url, traffic()) <= PROXY

    async def scoring() -> None:
        with ChildProcess([COMMAND, "worker", "--store", url, "--concurrency", "16"]) as worker:
            await asyncio.to_thread(worker.wait_for, "worker ready")
            async with await psycopg.AsyncConnection.connect(url, autocommit=True, application_name="sampler") as own:
                async with asyncio.timeout(PATIENCE_S):
                    pending = "SELECT count(*) FROM turns WHERE status = 'pending'"
                    while (await (await own.execute(pending)).fetchone()) != (0,):
                        await asyncio.sleep(0.01)

    assert 1 < await most(url, scoring()) <= WORKER


def test_the_page_counts_with_these() -> None:
    page = (Path(__file__).parents[3] / "deploy" / "README.md").read_text("utf-8")
    (said,) = re.findall(r"\*\*Connections to PostgreSQL\.\*\*.*?\n- ", page, re.DOTALL)
    numbers = " ".join(said.split())
    assert f"at most {PROXY}" in numbers
    assert f"a worker at most {WORKER}," in numbers
    assert f"40 x 2 x {PROXY} + 2 x {WORKER} = {80 * PROXY + 2 * WORKER}" in numbers
    assert f"workers take {2 * PROXY + 2 * WORKER}." in numbers
