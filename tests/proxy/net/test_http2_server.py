"""Peers that misbehave over HTTP/2: each ends its own connection, or request, and no other one."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from a2a_eval_proxy.net.client_limits import Capacity, ClientLimits
from a2a_eval_proxy.net.http2_client import Http2Client
from a2a_eval_proxy.net.http2_server import Ends
from a2a_eval_proxy.net.http2_streams import Headers, Http2Stream, Reset
from h2.errors import ErrorCodes
from h2.events import ConnectionTerminated, Event, RequestReceived, ResponseReceived, StreamEnded
from hpack import Encoder
from hyperframe.frame import ContinuationFrame, DataFrame, HeadersFrame, PingFrame
from support import net_server
from support.patience import PATIENCE_S
from support.raw_http2 import PREFACE, RawClient, RawConnection, raw_agent

HEAD = [(b":method", b"POST"), (b":scheme", b"http"), (b":authority", b"a")]
OK = [(b":status", b"200")]


class Handler:
    """Answers /now at once, begins to answer /begin, waits for a body of /wait, and then for the client to leave."""

    def __init__(self) -> None:
        self.requests = 0
        self.open: set[Http2Stream] = set()

    async def __call__(self, stream: Http2Stream, head: Headers, ends: Ends) -> None:
        self.requests += 1
        path = dict(head.fields)[b":path"]
        if path in (b"/now", b"/begin"):
            stream.send_headers(OK, end=path == b"/now")
        if path == b"/now":
            return
        stream.on_silent = lambda: stream.send_headers([(b":status", b"408")], end=True)
        self.open.add(stream)
        try:
            if path == b"/wait":
                await stream.next()
            await asyncio.Event().wait()
        finally:
            self.open.discard(stream)


@asynccontextmanager
async def serving(
    capacity: Capacity | None = None, **limits: float
) -> AsyncIterator[tuple[str, Handler, ClientLimits]]:
    handler, held = Handler(), ClientLimits(**limits)  # type: ignore[arg-type]  # seconds
    async with net_server.serving(None, limits=held, streams=handler, capacity=capacity) as server:
        yield server.address, handler, held


def end_of(client: RawClient) -> int:
    """The code with which the server ends the connection."""
    while True:
        for event in client.events():
            if isinstance(event, ConnectionTerminated):
                assert event.error_code is not None
                return event.error_code


def answered(address: str) -> dict[bytes, bytes]:
    """The head of a response."""
    with RawClient(address) as client:
        return dict(client.until(client.begin(b"/now", end=True), ResponseReceived)[0].headers)


def send_raw(address: str, data: bytes) -> bytes:
    """Send bytes, and return the answer up to the end of the connection, with bytes on the way even when it ends."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as connection:
        answer = b""
        try:
            connection.sendall(data)
            while part := connection.recv(65_536):
                answer += part
        except ConnectionError:
            pass
    return answer


async def test_requests_that_are_reset_at_once_end_the_connection():
    """CVE-2023-44487."""

    def reset_all(address: str) -> int:
        with RawClient(address) as client:
            try:
                while True:
                    for _ in range(20):
                        stream_id = client.begin(b"/wait")
                        client.h2.reset_stream(stream_id, ErrorCodes.CANCEL)
                    client.h2.ping(bytes(8))
                    client.flush()
                    for event in client.events():
                        if isinstance(event, ConnectionTerminated):
                            return event.error_code or 0
            except ConnectionError:
                return -1

    async with serving() as (address, handler, _):
        code = await asyncio.to_thread(reset_all, address)
        assert code in (ErrorCodes.ENHANCE_YOUR_CALM, -1)
        assert handler.requests < 400
        assert not handler.open
        assert (await asyncio.to_thread(answered, address))[b":status"] == b"200"


async def test_requests_whose_responses_began_may_be_reset_at_any_rate():
    """A client that leaves its event streams."""

    def reset_all(address: str) -> None:
        with RawClient(address) as client:
            for _ in range(500):
                stream_id = client.begin(b"/begin")
                assert client.until(stream_id, ResponseReceived)
                client.h2.reset_stream(stream_id, ErrorCodes.CANCEL)

    async with serving() as (address, handler, _):
        await asyncio.to_thread(reset_all, address)
        assert handler.requests == 500


def block(parts: list[bytes]) -> bytes:
    """A header block without an end."""
    frames = [HeadersFrame(1, parts[0]), *(ContinuationFrame(1, part) for part in parts[1:])]
    return b"".join(frame.serialize() for frame in frames)


UNFINISHED = block([b"x"])


@pytest.mark.parametrize("sent", [b"", PREFACE[:10], PREFACE[:24], PREFACE + UNFINISHED, PREFACE + UNFINISHED[:5]])
async def test_a_header_that_never_ends_is_timed_out(sent):
    async with serving(header_timeout_s=0.01) as (address, _, limits):
        await asyncio.to_thread(send_raw, address, sent)
        assert limits.broken_limits == {"header_timeout": 1}


IDLE = HeadersFrame(1, Encoder().encode([*HEAD, (b":path", b"/idle")]), flags=["END_HEADERS"])


@pytest.mark.parametrize(
    "begun", [block([b"x" * 8_000]), IDLE.serialize() + DataFrame(1, b"x" * 8_000).serialize()], ids=["head", "body"]
)
async def test_what_nobody_has_taken_is_bounded_for_all_clients(begun):
    async with serving(capacity=Capacity(held_bytes=5_000)) as (address, _, limits):
        connections = [await asyncio.open_connection(*address.split(":")) for _ in range(2)]
        for _, writer in connections:
            writer.write(PREFACE + begun)
        async with asyncio.timeout(PATIENCE_S):
            while not limits.broken_limits["no_memory"]:
                await asyncio.sleep(0)
        assert (await asyncio.to_thread(answered, address))[b":status"] == b"200"
        for _, writer in connections:
            writer.close()


async def test_a_connection_without_requests_is_closed_and_told_so():
    def idle(address: str) -> int:
        with RawClient(address) as client:
            assert client.until(client.begin(b"/now", end=True), StreamEnded)
            return end_of(client)

    async with serving(keep_alive_s=0.01) as (address, _, limits):
        assert await asyncio.to_thread(idle, address) == ErrorCodes.NO_ERROR
        assert not limits.broken_limits


# ── agents that misbehave: the requests on their connection end, and say why ────────────────────────────────


TO_AGENT = [(b":scheme", b"http"), (b":authority", b"agent"), (b":method", b"GET"), (b":path", b"/")]


async def test_an_agent_that_floods_ends_the_requests_on_its_connection() -> None:
    def answer(connection: RawConnection, event: Event) -> None:
        if isinstance(event, RequestReceived):
            connection.transport.write(PingFrame(0).serialize() * 20_000)

    client = Http2Client(connect_timeout_s=PATIENCE_S, max_header_bytes=65_536)
    async with raw_agent(answer) as (address, connections), asyncio.timeout(PATIENCE_S):
        stream = await client.open(address, None, TO_AGENT, end=True)
        event = await stream.next()
        assert isinstance(event, Reset)
        assert "cannot be read" in event.reason
        await client.open(address, None, TO_AGENT, end=True)
        assert len(connections) == 2
        client.close()
