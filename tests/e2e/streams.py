"""Streams that are open at the same time, each half sent, until the test opens the agent's gate."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
from support.raw_a2a import RPC, Wire

HEADERS = {"A2A-Version": "1.0", "Content-Type": "application/json"}


def said(gate: str, number: int) -> str:
    """What the user says in that stream."""
    return f"slow {gate} {number}"


async def _stream(http: httpx.AsyncClient, url: str, gate: str, number: int, half_way: asyncio.Semaphore) -> str:
    """The text of one whole stream; signals when its first half is there."""
    body = Wire("1.0", "JSONRPC").message(said(gate, number), stream=True).body
    text = ""
    async with http.stream("POST", url + RPC, content=body, headers=HEADERS) as response:
        response.raise_for_status()
        async for line in response.aiter_lines():
            if not line.startswith("data: "):
                continue
            update = json.loads(line[6:])["result"].get("artifactUpdate")
            if update:
                text += "".join(part["text"] for part in update["artifact"]["parts"])
                if not update.get("append"):
                    half_way.release()
    return text


@asynccontextmanager
async def open_streams(url: str, gate: str, count: int) -> AsyncIterator[list[asyncio.Task[str]]]:
    """Tasks that return the text of each stream, when the first half of every one has come."""
    half_way = asyncio.Semaphore(0)
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(timeout=90, limits=limits, trust_env=False) as http:
        streams = [asyncio.create_task(_stream(http, url, gate, number, half_way)) for number in range(count)]
        for _ in range(count):
            await half_way.acquire()
        yield streams


async def open_gate(agent: str, gate: str) -> None:
    """Let the agent continue with what waits there."""
    async with httpx.AsyncClient(trust_env=False) as http:
        (await http.post(f"{agent}/_control/open", params={"gate": gate})).raise_for_status()
