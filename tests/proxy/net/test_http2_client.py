"""Agents that misbehave over HTTP/2: the requests on their connection end, and say why."""

from __future__ import annotations

import asyncio

from a2a_eval_proxy.net.http2_client import Http2Client
from a2a_eval_proxy.net.http2_streams import Reset
from h2.events import Event, RequestReceived
from hyperframe.frame import PingFrame
from support.patience import PATIENCE_S
from support.raw_http2 import RawConnection, raw_agent

HEAD = [(b":scheme", b"http"), (b":authority", b"agent"), (b":method", b"GET"), (b":path", b"/")]


async def test_an_agent_that_floods_ends_the_requests_on_its_connection() -> None:
    def answer(connection: RawConnection, event: Event) -> None:
        if isinstance(event, RequestReceived):
            connection.transport.write(PingFrame(0).serialize() * 20_000)

    client = Http2Client(connect_timeout_s=PATIENCE_S, max_header_bytes=65_536)
    async with raw_agent(answer) as (address, connections), asyncio.timeout(PATIENCE_S):
        stream = await client.open(address, None, HEAD, end=True)
        event = await stream.next()
        assert isinstance(event, Reset)
        assert "cannot be read" in event.reason
        await client.open(address, None, HEAD, end=True)
        assert len(connections) == 2
        client.close()
