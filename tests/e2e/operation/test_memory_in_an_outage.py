"""The memory of a whole proxy while its store is away."""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from agents.serving import ServerThread
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from support.patience import PATIENCE_S
from support.proxy import Proxy

CLIENTS, ROUNDS, SIZE = 8, 8, 4_000_000
MOST_MB = 480
"""A container has 512. It was 600 when each holder of bytes had a limit of its own."""


async def repeat(request: Request) -> Response:
    """Answer with a Message of the user's text."""
    asked = await request.json()
    message = {"messageId": "m", "role": "ROLE_AGENT", "parts": asked["params"]["message"]["parts"]}
    return JSONResponse({"jsonrpc": "2.0", "id": 1, "result": {"message": message}})


def app(url: str) -> Starlette:
    return Starlette(routes=[Route("/", repeat, methods=["POST"])])


def memory_mb(proxy: Proxy) -> float:
    found = re.search(r"^Pss:\s+(\d+) kB", Path(f"/proc/{proxy.process_id}/smaps_rollup").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) / 1024


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="Linux shows the memory of a process")
async def test_large_messages_while_the_store_is_away_fit_into_the_container(tmp_path: Path) -> None:
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x" * SIZE}]}
    request = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    content, taken = json.dumps(request).encode(), []
    store = tmp_path / "turns.db"
    with ServerThread(app) as agent, Proxy(agent.url, store, "--log-level", "warning") as proxy:
        with closing(sqlite3.connect(store, isolation_level=None)) as other:
            other.execute("BEGIN EXCLUSIVE")

            async def send(http: httpx.AsyncClient) -> None:
                for _ in range(ROUNDS):
                    response = await http.post(proxy.url, content=content)
                    assert (response.status_code, len(response.content) > SIZE) == (200, True)
                    taken.append(await asyncio.to_thread(memory_mb, proxy))

            async with httpx.AsyncClient(timeout=PATIENCE_S, trust_env=False) as http:
                await asyncio.gather(*(send(http) for _ in range(CLIENTS)))
            other.execute("ROLLBACK")
        proxy.flush()
    assert max(taken) < MOST_MB
