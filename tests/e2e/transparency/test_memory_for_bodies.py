"""Large bodies at the same time: their senders wait where the proxy has no room, and every client gets its response."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import h11
import httpx
import pytest
from agents.h11_agent import H11Agent, Request, Wire
from agents.scenarios import URI
from support.patience import PATIENCE_S
from support.proxy import Proxy

CLIENTS, SIZE = 8, 9_000_000
OWN = {"metadata": {f"{URI}/tool_calls": [{"name": "search"}]}, "extensions": [URI]}


def answer(text: str, *, calls: bool) -> bytes:
    artifact = {"artifactId": "a", "parts": [{"text": text}]} | (OWN if calls else {})
    task = {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}, "artifacts": [artifact]}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"task": task}}, separators=(",", ":")).encode()


class Answers(H11Agent):
    """Answers when all clients have asked, with a text of `SIZE` or that of the request, in the given framing."""

    def __init__(self) -> None:
        super().__init__(self._answer)
        self.chunked = False
        self._arrived = 0
        self._all = asyncio.Event()

    async def _answer(self, wire: Wire, request: Request) -> None:
        pieces = []
        while isinstance(event := await wire.next_event(), h11.Data):
            pieces.append(event.data)
        request.whole = True
        content = json.loads(b"".join(pieces))
        text = content["params"]["message"]["parts"][0]["text"]
        self._arrived += 1
        if self._arrived == CLIENTS:
            self._arrived = 0
            self._all.set()
            self._all = asyncio.Event()
        else:
            await self._all.wait()
        asked = bool(request.header(b"a2a-extensions"))
        body = answer(text if len(text) > 10 else "x" * SIZE, calls=asked)
        framing = (b"transfer-encoding", b"chunked") if self.chunked else (b"content-length", b"%d" % len(body))
        wire.send(h11.Response(status_code=200, headers=[(b"content-type", b"application/json"), framing]))
        for start in range(0, len(body), 1_000_000):
            wire.send(h11.Data(data=body[start : start + 1_000_000]))
            await wire.writer.drain()
        wire.send(h11.EndOfMessage())


@pytest.fixture(scope="module")
def agent() -> Iterator[Answers]:
    with Answers() as agent:
        yield agent


@pytest.fixture(scope="module")
def proxy(agent: Answers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    with Proxy(agent.url, tmp_path_factory.mktemp("store") / "turns.db", "--negotiate", "always") as proxy:
        yield proxy


@pytest.mark.parametrize("chunked", [True, False])
@pytest.mark.parametrize("echoed", [True, False])
async def test_every_client_gets_its_large_answer(echoed: bool, chunked: bool, agent: Answers, proxy: Proxy) -> None:
    agent.chunked = chunked
    text = "y" * SIZE if echoed else "hi"
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}]}
    request = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    expected = answer(text if echoed else "x" * SIZE, calls=False)
    async with httpx.AsyncClient(timeout=PATIENCE_S, trust_env=False) as http:
        sent = (http.post(proxy.url, json=request) for _ in range(CLIENTS))
        responses = await asyncio.gather(*sent, return_exceptions=True)
    told = [one.status_code if isinstance(one, httpx.Response) else repr(one) for one in responses]
    assert told == [200] * CLIENTS
    assert all(isinstance(one, httpx.Response) and one.content == expected for one in responses)
