"""Forty agents behind one proxy, one of which hangs, floods, resets or closes: the others have what they need."""

from __future__ import annotations

import asyncio
import itertools
import json
import socket
import struct
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from a2a_eval_proxy.app import RunningProxy, run_proxy
from a2a_eval_proxy.loop_time import PART_BYTES
from a2a_eval_proxy.memory import bound
from a2a_eval_proxy.protocol.long_texts import LongTexts
from a2a_eval_proxy.protocol.sse import SseEvent
from a2a_eval_proxy.relay.body_memory import SMALL_BYTES
from a2a_eval_proxy.relay.tap import Tap
from a2a_eval_proxy.settings import Settings
from a2a_eval_proxy.settings.options import load
from a2a_tool_capture.merge import MAX_TEXT_CHARS
from a2a_tool_capture.spec import METADATA_KEY, URI
from agents.stepwise_agent import RPC_PATH, stepwise_agent
from support.patience import PATIENCE_S
from support.proxy import Proxy

MB = 1024 * 1024
GOOD = [f"good-{number}" for number in range(39)]
FLOOD_MB = 2 * bound() // (5 * MB)
"""Of three floods, more than the proxy may take."""
SHARE = 16
"""How many requests may be under way in these tests: of one agent, half."""

Behaviour = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()  # until the proxy leaves


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


async def chatter(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Many events at once."""
    await reader.readuntil(b"\r\n\r\n")
    update = {
        "taskId": "t",
        "contextId": "c",
        "append": True,
        "artifact": {"artifactId": "a", "parts": [{"text": "w"}]},
    }
    event = b"data: %b\n\n" % json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"artifactUpdate": update}}).encode()
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n" + 2000 * event)
    await writer.drain()


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

    async def ask(self, name: str, *, keeps: bool = False) -> httpx.Response:
        message = {"messageId": name, "role": "ROLE_USER", "parts": [{"text": f"for {name}"}]}
        body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
        url = f"{self.proxy.url}/agents/{name}{RPC_PATH}"
        async with self.client.stream("POST", url, json=body, headers={"a2a-version": "1.0"}) as response:
            if keeps:
                await response.aread()
            async for _ in response.aiter_bytes():
                pass
            return response

    async def all_good_answer(self) -> None:
        answers = await asyncio.gather(*map(self.ask, GOOD[: SHARE // 2 - 1]))
        answers += [await self.ask(name) for name in GOOD]
        assert {answer.status_code for answer in answers} == {200}


@asynccontextmanager
async def forty(good: str, folder: Path, behaviour: Behaviour, **others: Any) -> AsyncIterator[Forty]:
    async with AsyncExitStack() as stack:
        bad = await stack.enter_async_context(hostile(behaviour))
        agents = {name: {"upstream": good, "negotiate": "always"} for name in GOOD}
        agents["bad"] = {"upstream": bad, "negotiate": "always"}
        ports = {"listen": "127.0.0.1:0", "admin": "127.0.0.1:0", "otlp": False, "max_client_connections": SHARE}
        given = {**ports, "store": str(folder / "turns.db"), "agents": agents, "shutdown_timeout": 1, **others}
        proxy = await stack.enter_async_context(run_proxy(load(Settings, given)))
        limits = httpx.Limits(max_keepalive_connections=0)
        timeout = httpx.Timeout(PATIENCE_S)
        client = httpx.AsyncClient(trust_env=False, limits=limits, timeout=timeout)
        yield Forty(proxy, await stack.enter_async_context(client))


async def turns_of(proxy: RunningProxy) -> list[dict[str, Any]]:
    await proxy.flush(PATIENCE_S)
    return [turn for turn in await proxy.turns() if turn["agent_name"] != "bad"]


async def test_an_agent_that_hangs_has_half_of_the_requests_at_most(good: str, tmp_path: Path) -> None:
    async with forty(good, tmp_path, hang) as agents:
        hanging = [asyncio.create_task(agents.ask("bad")) for _ in range(SHARE // 2)]
        while agents.proxy.serving.metrics.agent_requests["bad"] < len(hanging):
            await asyncio.sleep(0)
        refused = await agents.ask("bad")
        assert refused.status_code == 503
        await agents.all_good_answer()
        assert agents.proxy.serving.metrics.agent_refusals == {"bad": 1}
        turns = await turns_of(agents.proxy)
        for one in hanging:
            one.cancel()
        await asyncio.gather(*hanging, return_exceptions=True)
    assert {(turn["agent_name"], turn["user_text"]) for turn in turns} == {(name, f"for {name}") for name in GOOD}
    assert {(turn["status"], len(turn["tool_calls"])) for turn in turns} == {("done", 1)}


def posts(heads: list[bytes]) -> int:
    return sum(head.startswith(b"POST") for head in heads)


@pytest.mark.parametrize("behaviour", [reset, close])
async def test_an_agent_that_breaks_off_costs_the_others_nothing(
    good: str, tmp_path: Path, behaviour: Behaviour
) -> None:
    async with forty(good, tmp_path, behaviour) as agents:
        bad = [asyncio.create_task(agents.ask("bad")) for _ in range(5)]
        await agents.all_good_answer()
        outcomes = await asyncio.gather(*bad, return_exceptions=True)
        assert all(isinstance(one, httpx.HTTPError) or one.status_code == 502 for one in outcomes), outcomes
        turns = await turns_of(agents.proxy)
    assert len(turns) == len(GOOD) + SHARE // 2 - 1
    assert {(turn["status"], len(turn["tool_calls"])) for turn in turns} == {("done", 1)}


def counted_rounds() -> Callable[[], int]:
    """Returns the number of the round of this event loop, from now on."""
    number, loop = 0, asyncio.get_running_loop()

    def count() -> None:
        nonlocal number
        number += 1
        loop.call_soon(count)

    count()
    return lambda: number


async def test_in_a_round_of_the_event_loop_only_a_part_of_a_long_stream_is_read(
    good: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: Counter[int] = Counter()
    events, this_round = Tap.events, counted_rounds()

    def counted(tap: Tap, found: list[SseEvent], *details: Any) -> None:
        read[this_round()] += sum(len(event.raw) for event in found)
        events(tap, found, *details)

    monkeypatch.setattr(Tap, "events", counted)
    async with forty(good, tmp_path, chatter) as agents:
        answers = await asyncio.gather(*(agents.ask("bad") for _ in range(3)))
    assert {answer.status_code for answer in answers} == {200}
    assert sum(read.values()) > 500_000
    assert max(read.values()) <= 2 * PART_BYTES  # one of a stream that is waited for, and the beginning of another one


@pytest.mark.parametrize("asks", [False, True])
@pytest.mark.parametrize("form", ["whole", "chunks", "event"])
async def test_in_a_round_of_the_event_loop_only_a_part_of_a_large_document_is_read(
    good: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, asks: bool
) -> None:
    """The client gets the whole text, without calls that it did not ask for, and the turn has both."""
    text, read, feed = "word " * (MB // 4), Counter[int](), LongTexts.feed
    this_round, number = counted_rounds(), itertools.count()

    async def write_much(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        calls = {METADATA_KEY: [{"name": "look", "arguments": {"a": 1}}]}
        artifact = {"artifactId": "a", "parts": [{"text": text}], "extensions": [URI], "metadata": calls}
        done = {"id": f"t-{next(number)}", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"task": done | {"artifacts": [artifact]}}}).encode()
        media_type = b"text/event-stream" if form == "event" else b"application/json"
        body = b"data: %b\n\n" % body if form == "event" else body
        length = b"content-length: %d\r\n" % len(body) if form == "whole" else b""
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\n%b\r\n%b" % (media_type, length, body))
        await writer.drain()

    def counted(texts: LongTexts, part: bytes) -> None:
        read[this_round()] += len(part)
        feed(texts, part)

    monkeypatch.setattr(LongTexts, "feed", counted)
    async with forty(good, tmp_path, write_much) as agents:
        agents.client.headers["a2a-extensions"] = URI if asks else ""
        answers = await asyncio.gather(*(agents.ask("bad", keeps=True) for _ in range(2)))
        turns: list[dict[str, Any]] = []
        async with asyncio.timeout(PATIENCE_S):
            while len(turns) < len(answers):  # the clients have their answers before capture has read them
                await agents.proxy.flush(PATIENCE_S)
                turns = [turn for turn in await agents.proxy.turns() if turn["agent_name"] == "bad"]
    for answer in answers:
        (artifact,) = json.loads(answer.content.removeprefix(b"data: "))["result"]["task"]["artifacts"]
        assert artifact.pop("parts") == [{"text": text}]
        assert set(artifact) == ({"artifactId", "extensions", "metadata"} if asks else {"artifactId"})
    assert [len(turn["response_text"]) for turn in turns] == [MAX_TEXT_CHARS] * 2
    assert [[call["name"] for call in turn["tool_calls"]] for turn in turns] == [["look"]] * 2
    assert sum(read.values()) > 2 * len(text)
    assert max(read.values()) <= SMALL_BYTES


async def test_an_agent_that_floods_leaves_the_others_memory(good: str, tmp_path: Path) -> None:
    async with forty(good, tmp_path, partial(flood, megabytes=80), max_body_bytes=8 * MB) as agents:
        pool = agents.proxy.lines["bad"].traffic.relay._bodies._pool
        assert pool is not None
        flooded = [asyncio.create_task(agents.ask("bad")) for _ in range(1)]
        await agents.all_good_answer()
        await asyncio.gather(*flooded, return_exceptions=True)
        assert pool.total == 0
        turns = await turns_of(agents.proxy)
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
    assert most < bound(), f"{most / MB:.0f} of {bound() / MB:.0f} MiB"
