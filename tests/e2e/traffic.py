"""Constant traffic: clients that say one thing after the other, unary and streaming, and the outcome of each."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx
from e2e.streams import HEADERS
from support.patience import PATIENCE_S
from support.raw_a2a import RPC, Wire

STREAMED = "chunks"
"""Whoever says this to the scenario agent, and streams, hears `STREAMED_TEXT`; `artifact` is answered whole."""
STREAMED_TEXT = "The quick brown fox ☃ end."


@dataclass
class Traffic:
    """What the clients said, whole answers that came, and everything else."""

    answered: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    async def goes_on(self, count: int = 20) -> None:
        """Returns when `count` more have been answered. Raises AssertionError at the first failure."""
        goal = len(self.answered) + count
        while len(self.answered) < goal:
            assert not self.failures, self.failures[0]
            self._news.clear()
            await self._news.wait()

    def answer(self, text: str) -> None:
        self.answered.append(text)
        self._news.set()

    def fail(self, text: str, reason: str) -> None:
        self.failures.append(f"{text}: {reason}")
        self._news.set()


@asynccontextmanager
async def constant_traffic(url: str, clients: int) -> AsyncIterator[Traffic]:
    """Several clients at once, each on a connection that it keeps, until the block ends; then all answers are there."""
    traffic = Traffic()
    enough = asyncio.Event()

    async def client(number: int) -> None:
        async with httpx.AsyncClient(timeout=PATIENCE_S, trust_env=False) as http:
            while not enough.is_set() and not traffic.failures:
                text = f"{STREAMED if number % 2 else 'artifact'} {uuid.uuid4()}"
                try:
                    reason = await _wrong_with(http, url, text)
                except (httpx.HTTPError, ValueError) as error:
                    reason = repr(error)
                if reason:
                    traffic.fail(text, reason)
                else:
                    traffic.answer(text)

    running = [asyncio.create_task(client(number)) for number in range(clients)]
    try:
        yield traffic
    finally:
        enough.set()
        await asyncio.gather(*running)


async def _wrong_with(http: httpx.AsyncClient, url: str, text: str) -> str:
    """Say it, and what is wrong with the answer; empty for one that is whole."""
    stream = text.startswith(STREAMED)
    content = Wire("1.0", "JSONRPC").message(text, stream=stream).body
    response = await http.post(url + RPC, content=content, headers=HEADERS)
    if response.status_code != 200:
        return f"{response.status_code} {response.text[:200]}"
    if not stream:
        answer = response.json()["result"]
        return "" if "task" in answer or "message" in answer else response.text[:200]
    events = [json.loads(line[6:])["result"] for line in response.text.split("\n") if line.startswith("data: ")]
    artifacts = [event["artifactUpdate"]["artifact"] for event in events if "artifactUpdate" in event]
    parts = [part["text"] for artifact in artifacts for part in artifact["parts"]]
    return "" if "".join(parts) == STREAMED_TEXT else f"heard {parts}"
