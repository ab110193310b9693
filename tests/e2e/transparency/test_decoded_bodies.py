"""Small bodies that decode to large ones, many at once: the proxy takes bounded memory, whichever door they use."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import h11
import httpx
import pytest
from agents.h11_agent import H11Agent, Request, Wire
from agents.scenarios import URI
from support.proxy import Proxy

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")]

BODIES, SIZE, MOST = 40, 30_000_000, 600 * 1024 * 1024


def message(text: str) -> dict[str, Any]:
    said = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}]}
    return {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": said}}


def answer(text: str, *, calls: bool = True) -> bytes:
    own = {"metadata": {f"{URI}/tool_calls": [{"name": "search"}]}, "extensions": [URI]} if calls else {}
    artifact = {"artifactId": "a", "parts": [{"text": text}], **own}
    task = {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}, "artifacts": [artifact]}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"task": task}}).encode()


PACKED_ANSWER = gzip.compress(answer("x" * SIZE))
PACKED_REQUEST = gzip.compress(json.dumps(message("x" * SIZE)).encode())
JSON = {"content-type": "application/json"}


class Agent(H11Agent):
    """Packs its answer to a request that says so."""

    def __init__(self) -> None:
        super().__init__(self._answer)

    async def _answer(self, wire: Wire, request: Request) -> None:
        pieces = []
        while isinstance(event := await wire.next_event(), h11.Data):
            pieces.append(event.data)
        request.whole = True
        is_packed = b"pack it" in b"".join(pieces)
        body = PACKED_ANSWER if is_packed else answer("short")
        coding = [(b"content-encoding", b"gzip")] if is_packed else []
        fields = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body)), *coding]
        wire.send(h11.Response(status_code=200, headers=fields))
        wire.send(h11.Data(data=body))
        wire.send(h11.EndOfMessage())


async def requests(http: httpx.AsyncClient, proxy: Proxy) -> None:
    await http.post(proxy.url, content=PACKED_REQUEST, headers={**JSON, "content-encoding": "gzip"})


async def answers(http: httpx.AsyncClient, proxy: Proxy) -> None:
    async with http.stream("POST", proxy.url, json=message("pack it"), headers={"accept-encoding": "gzip"}) as response:
        async for _ in response.aiter_raw():
            pass


DOORS: dict[str, Callable[[httpx.AsyncClient, Proxy], Awaitable[None]]] = {"requests": requests, "answers": answers}


def peak(proxy: Proxy) -> int:
    status = Path(f"/proc/{proxy.process_id}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024


@pytest.mark.parametrize("door", DOORS)
async def test_small_bodies_that_decode_to_large_ones_take_bounded_memory(door: str, tmp_path: Path) -> None:
    with Agent() as agent, Proxy(agent.url, tmp_path / "turns.db", "--negotiate", "always") as proxy:
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(timeout=None, trust_env=False, limits=limits) as http:
            await asyncio.gather(*(DOORS[door](http, proxy) for _ in range(BODIES)))
            assert (await http.post(proxy.url, json=message("hi"))).json() == json.loads(answer("short", calls=False))
        assert peak(proxy) < MOST
