"""Agents that misbehave over HTTP/2: the requests on their connection end, and say why."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from a2a_eval_proxy.net.http2_client import Http2Client
from a2a_eval_proxy.net.http2_streams import Reset
from h2.events import Event, RequestReceived
from hyperframe.frame import ContinuationFrame, HeadersFrame, PingFrame, PushPromiseFrame, SettingsFrame
from support.patience import PATIENCE_S
from support.raw_http2 import RawConnection, raw_agent

HEAD = [(b":scheme", b"http"), (b":authority", b"agent"), (b":method", b"GET"), (b":path", b"/")]

FLOODS = {
    "pings": lambda stream_id: PingFrame(0).serialize() * 20_000,
    "settings": lambda stream_id: SettingsFrame(0).serialize() * 20_000,
    "frames of a header": lambda stream_id: (
        HeadersFrame(stream_id).serialize() + ContinuationFrame(stream_id).serialize() * 100
    ),
    "bytes of a header": lambda stream_id: (
        HeadersFrame(stream_id).serialize() + ContinuationFrame(stream_id, b"x" * 16_384).serialize() * 20
    ),
    "a push": lambda stream_id: PushPromiseFrame(stream_id, 2, b"\x88", flags={"END_HEADERS"}).serialize(),
    "a frame too large": lambda stream_id: b"\xff\xff\xff" + bytes(6),
}


@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS.keys())
async def test_an_agent_that_floods_ends_the_requests_on_its_connection(flood: Callable[[int], bytes]):
    def answer(connection: RawConnection, event: Event) -> None:
        if isinstance(event, RequestReceived):
            connection.transport.write(flood(event.stream_id))

    client = Http2Client(connect_timeout_s=PATIENCE_S, max_header_bytes=65_536)
    async with raw_agent(answer) as (address, connections), asyncio.timeout(PATIENCE_S):
        stream = await client.open(address, None, HEAD, end=True)
        event = await stream.next()
        assert isinstance(event, Reset)
        assert "cannot be read" in event.reason
        await client.open(address, None, HEAD, end=True)
        assert len(connections) == 2
        client.close()
