"""The fuzzer's agent: what it takes for a request that was on its way."""

from __future__ import annotations

import asyncio

import pytest
from fuzz.agent import Agent
from fuzz.ledger import Fault, Ledger
from fuzz.sockets import Line
from fuzz.values import Answer, Answered, Exchange, ReadBody, Request, Send, Step, Unasked, token_of

A, B = token_of(0, 1), token_of(0, 2)
STRAY = (Send(b"stray"), Unasked(at_once=False))


def exchange(token: bytes, *steps: Step) -> Exchange:
    return Exchange(token, Request(b"POST", b"/f/" + token, (), b"body", ()), Answer(200, b"", steps))


def request(token: bytes, port: int) -> bytes:
    return b"POST /f/%b HTTP/1.1\r\nhost: 127.0.0.1:%d\r\ncontent-length: 4\r\n\r\nbody" % (token, port)


async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """The proxy, as far as the agent asks it what it has seen."""
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 405 No\r\ncontent-length: 0\r\n\r\n")
    writer.close()


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
async def test_a_request_sent_before_the_stray_was_seen_is_not_in_doubt(before: bool) -> None:
    """It may come in one piece with the end of the body before it."""
    ledger = Ledger()
    for item in (exchange(A, ReadBody(), Answered(), *STRAY), exchange(B, ReadBody(), Answered())):
        ledger.open(item)
    async with Agent(ledger) as agent, await asyncio.start_server(refuse, "127.0.0.1", 0) as proxy:
        agent.proxy_port = proxy.sockets[0].getsockname()[1]
        line = await Line.connect(agent.port)
        following = request(B, agent.port)
        await line.send(request(A, agent.port) + (following if before else b""))
        assert await line.receive() == b"stray"
        while not agent._watching:
            await asyncio.sleep(0)
        await agent.watched()
        if not before:
            await line.send(following)
            while not ledger.findings:
                await asyncio.sleep(0)
        line.close()
    assert [finding.fault for finding in ledger.findings] == ([] if before else [Fault.DOUBTFUL])
