"""Constant traffic: clients that say one thing after the other, unary and streaming, and have whole answers."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx
from e2e.streams import HEADERS
from support.patience import PATIENCE_S
from support.raw_a2a import RPC, Wire


@dataclass
class Traffic:
    """What the clients said and was answered."""

    answered: list[str] = field(default_factory=list)
    news: asyncio.Event = field(default_factory=asyncio.Event)

    async def goes_on(self, count: int = 20) -> None:
        """Returns when `count` more have been answered."""
        goal = len(self.answered) + count
        while len(self.answered) < goal:
            self.news.clear()
            await self.news.wait()


@asynccontextmanager
async def constant_traffic(url: str, clients: int) -> AsyncIterator[Traffic]:
    """Several clients at once, each on a connection that it keeps, until the block ends; then all answers are there.

    The first that has no whole answer ends the block, with its error."""
    traffic, enough = Traffic(), asyncio.Event()

    async def client(stream: bool) -> None:
        async with httpx.AsyncClient(timeout=PATIENCE_S, trust_env=False) as http:
            while not enough.is_set():
                text = f"{'chunks' if stream else 'artifact'} {uuid.uuid4()}"
                content = Wire("1.0", "JSONRPC").message(text, stream=stream).body
                response = await http.post(url + RPC, content=content, headers=HEADERS)
                assert (response.status_code, response.text.count("TASK_STATE_COMPLETED")) == (200, 1), response.text
                traffic.answered.append(text)
                traffic.news.set()

    async with asyncio.TaskGroup() as running:
        for number in range(clients):
            running.create_task(client(stream=number % 2 == 1))
        yield traffic
        enough.set()
