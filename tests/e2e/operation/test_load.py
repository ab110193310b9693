"""Many streams at once: every client gets every event, every turn is captured."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from pathlib import Path

import pytest
from e2e.contracts import GetAgent
from e2e.streams import open_gate, open_streams, said
from support.proxy import Proxy

STREAMS = 300


async def stream_all(url: str, upstream: str, gate: str) -> list[str]:
    async with open_streams(url, gate, STREAMS) as streams:
        await open_gate(upstream, gate)
        return await asyncio.gather(*streams)


@pytest.mark.slow
def test_hundreds_of_open_streams_complete(agent: GetAgent, tmp_path: Path) -> None:
    upstream = agent("v1")
    gate = str(uuid.uuid4())
    with Proxy(upstream, tmp_path / "turns.db", "--run", "load") as proxy:
        texts = asyncio.run(stream_all(proxy.url, upstream, gate))
        proxy.flush()
        turns = proxy.turns(run="load", limit=100)

    assert Counter(texts) == {"before after": STREAMS}
    assert {turn["user_text"] for turn in turns} == {said(gate, number) for number in range(STREAMS)}
    assert len(turns) == STREAMS
    assert Counter(len(turn["tool_calls"]) for turn in turns) == {2: STREAMS}
    assert Counter(turn["response_text"] for turn in turns) == {"before after": STREAMS}
