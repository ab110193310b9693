"""Forty agents behind one proxy, one of which hangs, floods, resets or closes: the others have what they need."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from a2a_eval_proxy.app import RunningProxy, run_proxy
from a2a_eval_proxy.memory import share
from a2a_eval_proxy.settings.options import load
from a2a_eval_proxy.settings.settings import Settings
from agents.stepwise_agent import RPC_PATH, stepwise_agent
from support.patience import PATIENCE_S
from support.proxy import Proxy

MB = 1024 * 1024
GOOD = [f"good-{number}" for number in range(39)]
FLOOD_MB = 2 * share(1) // (5 * MB)
"""Of three floods, more than the proxy may take."""
AT_ONCE = 7
"""Agents that are asked at the same time."""

Behaviour = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, megabytes: int = FLOOD_MB) -> None:
    """One JSON string of this size."""
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    writer.write(head % (megabytes * MB))
    for number in range(megabytes):
        writer.write(b'"' + b"x" * (MB - 1) if number == 0 else b"x" * MB)
        await writer.drain()


async def swallow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Takes a request of any size, and never answers."""
    while await reader.read(MB):
        pass


async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


async def close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{")


@asynccontextmanager
async def hostile(behaviour: Behaviour) -> AsyncIterator[str]:
    """The URL of an agent with a card, whose other answers are the behaviour."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await behaviour(reader, writer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        server.close()


@pytest.fixture(scope="module")
def good() -> Iterator[str]:
    with stepwise_agent() as agent:
        yield agent.url


class Forty(NamedTuple):
    proxy: RunningProxy | Proxy
    client: httpx.AsyncClient

    async def ask(self, name: str) -> httpx.Response:
        message = {"messageId": name, "role": "ROLE_USER", "parts": [{"text": f"for {name}"}]}
        body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
        url = f"{self.proxy.url}/agents/{name}{RPC_PATH}"
        async with self.client.stream("POST", url, json=body, headers={"a2a-version": "1.0"}) as response:
            async for _ in response.aiter_bytes():
                pass
            return response

    async def all_good_answer(self) -> None:
        answers = await asyncio.gather(*map(self.ask, GOOD[:AT_ONCE]))
        answers += [await self.ask(name) for name in GOOD]
        assert {answer.status_code for answer in answers} == {200}


@asynccontextmanager
async def forty(good: str, folder: Path, behaviour: Behaviour) -> AsyncIterator[Forty]:
    async with AsyncExitStack() as stack:
        bad = await stack.enter_async_context(hostile(behaviour))
        agents = {name: {"upstream": good, "negotiate": "always"} for name in GOOD}
        agents["bad"] = {"upstream": bad, "negotiate": "always"}
        ports = {"listen": "127.0.0.1:0", "admin": "127.0.0.1:0", "otlp": False}
        given = {
            **ports,
            "store": str(folder / "turns.db"),
            "agents": agents,
            "timeouts": {"shutdown": 1},
            "limits": {"body_bytes": 8 * MB},
        }
        proxy = await stack.enter_async_context(run_proxy(load(Settings, given)))
        limits = httpx.Limits(max_keepalive_connections=0)
        timeout = httpx.Timeout(PATIENCE_S)
        client = httpx.AsyncClient(trust_env=False, limits=limits, timeout=timeout)
        yield Forty(proxy, await stack.enter_async_context(client))


async def turns_of(proxy: RunningProxy) -> list[dict[str, Any]]:
    await proxy.flush(PATIENCE_S)
    return [turn for turn in await proxy.turns() if turn["agent_name"] != "bad"]


@pytest.mark.parametrize(
    ("behaviour", "at_once"),
    [(reset, 5), (close, 5), (partial(flood, megabytes=80), 1)],
    ids=["reset", "close", "flood"],
)
async def test_an_agent_that_breaks_off_or_floods_costs_the_others_nothing(
    good: str, tmp_path: Path, behaviour: Behaviour, at_once: int
) -> None:
    async with forty(good, tmp_path, behaviour) as agents:
        bad = [asyncio.create_task(agents.ask("bad")) for _ in range(at_once)]
        await agents.all_good_answer()
        outcomes = await asyncio.gather(*bad, return_exceptions=True)
        turns = await turns_of(agents.proxy)
    if at_once > 1:
        assert all(isinstance(one, httpx.HTTPError) or one.status_code == 502 for one in outcomes), outcomes
    assert len(turns) == len(GOOD) + AT_ONCE
    assert {(turn["status"], len(turn["tool_calls"])) for turn in turns} == {("done", 1)}


async def test_floods_of_requests_and_responses_stay_within_the_bound_of_memory(good: str, tmp_path: Path) -> None:
    """The most resident memory that the process has had, with three floods from one agent, while two clients send as
    much as another one takes."""
    agents = [f"{name}={good}" for name in GOOD]
    async with hostile(flood) as floods, hostile(swallow) as swallows:
        every = ",".join([*agents, f"bad={floods}", f"worse={swallows}"])
        proxy = await asyncio.to_thread(Proxy(every, tmp_path / "turns.db", "--negotiate", "always").__enter__)
        try:
            async with httpx.AsyncClient(trust_env=False, timeout=httpx.Timeout(PATIENCE_S)) as client:
                forty = Forty(proxy, client)

                async def send_much() -> None:
                    async def body() -> AsyncIterator[bytes]:
                        yield b'{"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"x": "'
                        for _ in range(FLOOD_MB):
                            yield b"x" * MB

                    await client.post(f"{proxy.url}/agents/worse{RPC_PATH}", content=body())

                under_way = [asyncio.create_task(forty.ask("bad")) for _ in range(3)]
                under_way += [asyncio.create_task(send_much()) for _ in range(2)]
                await forty.all_good_answer()
                await asyncio.wait(under_way[:3])
                await forty.all_good_answer()
                for one in under_way:
                    one.cancel()
                await asyncio.gather(*under_way, return_exceptions=True)
            status = Path(f"/proc/{proxy.process_id}/status").read_text("ascii")
        finally:
            await asyncio.to_thread(proxy.__exit__, None, None, None)
    most = int(status.partition("VmHWM:")[2].split()[0]) * 1024
    assert most < share(1), f"{most / MB:.0f} of {share(1) / MB:.0f} MiB"
