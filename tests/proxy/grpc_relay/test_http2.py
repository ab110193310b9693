"""What HTTP/2 carries next to the messages: fields byte for byte, codes, settings, GOAWAY, pings, windows, and junk."""

from __future__ import annotations

import asyncio
import gzip
from typing import Any

import grpc.aio
import pytest
from a2a.types import GetTaskRequest, Task
from a2a_tool_capture import METADATA_KEY, URI
from google.protobuf.json_format import ParseDict
from h2.errors import ErrorCodes
from h2.events import DataReceived, Event, StreamEnded, StreamReset, TrailersReceived
from support.grpc_proxy import running_proxy
from support.patience import PATIENCE_S
from support.raw_http2 import RawClient, RawConnection, framed, raw_agent, raw_answer

pytestmark = pytest.mark.asyncio(loop_scope="module")
ECHO = b"/test.Service/UnaryUnary"
GET_TASK = b"/lf.a2a.v1.A2AService/GetTask"


def echoing(connection: RawConnection, event: Event) -> None:
    """Answer each call, once it is complete, with an empty message."""
    if isinstance(event, StreamEnded):
        connection.answer(event.stream_id, framed(b""))


async def call(address: str, path: bytes = ECHO, *fields: tuple[bytes, bytes], message: bytes = b"") -> dict[str, Any]:
    return await asyncio.to_thread(raw_answer, address, path, list(fields), message)


async def test_fields_pass_byte_for_byte_and_in_their_order(tmp_path):
    fields = [(b"x-b", b"a\tb"), (b"x-a", "é".encode()), (b"x-b", b"\x01"), (b"user-agent", b"mine"), (b"x-a", b"")]
    timeout = (b"grpc-timeout", b"99999999H")

    def answer(connection: RawConnection, event: Event) -> None:
        if isinstance(event, StreamEnded):
            connection.answer(event.stream_id, head=fields, trailers=[*fields, (b"grpc-status", b"-1")])

    async with raw_agent(answer) as (address, agents), running_proxy(f"grpc://{address}", tmp_path) as proxy:
        path = b"/test.Service/\xff"
        response = await call(proxy.grpc_address, path, timeout, *fields)
    (request,) = agents[-1].requests.values()
    assert request[:2] == [(b":scheme", b"http"), (b":authority", address.encode())]
    assert (b":path", path) in request
    assert [field for field in request if field in [timeout, *fields]] == [timeout, *fields]
    assert response["head"] == [(b":status", b"200"), (b"content-type", b"application/grpc"), *fields]
    assert response["trailers"] == [*fields, (b"grpc-status", b"-1")]


@pytest.mark.parametrize("code", [ErrorCodes.REFUSED_STREAM, ErrorCodes.ENHANCE_YOUR_CALM, 77])
async def test_the_code_of_a_reset_passes(tmp_path, code):
    def reset(connection: RawConnection, event: Event) -> None:
        if isinstance(event, StreamEnded):
            connection.h2.reset_stream(event.stream_id, code)

    async with raw_agent(reset) as (address, _), running_proxy(f"grpc://{address}", tmp_path) as proxy:
        assert await call(proxy.grpc_address) == {"body": b"", "reset": code}
        assert await call(proxy.grpc_address, GET_TASK) == {"body": b"", "reset": code}


async def test_an_agent_that_limits_streams_gets_more_connections(tmp_path):
    waiting: list[tuple[RawConnection, int]] = []

    def wait(connection: RawConnection, event: Event) -> None:
        if isinstance(event, StreamEnded) and connection.calls(ECHO):
            waiting.append((connection, event.stream_id))
        else:
            echoing(connection, event)

    limited = raw_agent(wait, max_concurrent_streams=2)
    async with limited as (address, agents), running_proxy(f"grpc://{address}", tmp_path, negotiate="never") as proxy:
        calls = [asyncio.create_task(call(proxy.grpc_address)) for _ in range(5)]
        async with asyncio.timeout(PATIENCE_S):
            while len(waiting) < 5:
                await asyncio.sleep(0.01)
        for connection, stream_id in waiting:
            connection.answer(stream_id)
            connection.flush()
        answers = await asyncio.gather(*calls)
        assert all((b"grpc-status", b"0") in answer["trailers"] for answer in answers)
        assert sorted(agent.calls(ECHO) for agent in agents if agent.calls(ECHO)) == [1, 2, 2]


async def test_after_a_goaway_open_calls_continue_and_others_go_elsewhere(tmp_path):
    waiting: list[tuple[RawConnection, int]] = []

    def answer_others(connection: RawConnection, event: Event) -> None:
        if isinstance(event, StreamEnded) and connection.calls(ECHO) and not waiting:
            waiting.append((connection, event.stream_id))
            connection.transport.write(b"\x00\x00\x08\x07\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00")
        else:
            echoing(connection, event)

    async with raw_agent(answer_others) as (address, agents):
        async with running_proxy(f"grpc://{address}", tmp_path, negotiate="never") as proxy:
            first = asyncio.create_task(call(proxy.grpc_address))
            while not waiting:
                await asyncio.sleep(0.01)
            assert (b"grpc-status", b"0") in (await call(proxy.grpc_address))["trailers"]
            ((connection, stream_id),) = waiting
            connection.answer(stream_id)
            connection.flush()
            assert (b"grpc-status", b"0") in (await first)["trailers"]
        assert [agent.calls(ECHO) for agent in agents if agent.calls(ECHO)] == [1, 1]


async def test_trailers_of_a_client_pass(tmp_path):
    def call_with_trailers(address: str) -> list[Any]:
        with RawClient(address) as client:
            stream_id = client.begin(ECHO)
            client.h2.send_data(stream_id, framed(b""))
            client.h2.send_headers(stream_id, [(b"x-last", b"1")], end_stream=True)
            client.flush()
            return client.until(stream_id, StreamEnded, StreamReset)

    trailers: list[Any] = []

    def answer(connection: RawConnection, event: Event) -> None:
        if isinstance(event, TrailersReceived):
            trailers.extend(event.headers)
        echoing(connection, event)

    async with raw_agent(answer) as (address, _), running_proxy(f"grpc://{address}", tmp_path) as proxy:
        seen = await asyncio.to_thread(call_with_trailers, proxy.grpc_address)
    assert isinstance(seen[-1], StreamEnded)
    assert trailers == [(b"x-last", b"1")]


async def test_a_cut_connection_of_the_agent_is_unavailable(tmp_path):
    def cut(connection: RawConnection, event: Event) -> None:
        if isinstance(event, StreamEnded):
            connection.transport.abort()

    async with raw_agent(cut) as (address, _), running_proxy(f"grpc://{address}", tmp_path) as proxy:
        assert (b"grpc-status", b"14") in (await call(proxy.grpc_address))["head"]


@pytest.mark.parametrize("path", [b"/test.Service/Unknown", GET_TASK])
async def test_an_upload_goes_at_the_pace_of_the_agent(tmp_path, path):
    """Of what a client sends, the agent that takes nothing holds no more than the windows."""

    def take_nothing(connection: RawConnection, event: Event) -> None:
        """h2 opens no window unless it is asked to."""
        if not connection.calls(path):
            echoing(connection, event)

    def sent(address: str) -> int:
        """How many bytes a client that sends forever can send before it must wait."""
        with RawClient(address) as client:
            stream_id, total = client.begin(path), 0
            client.h2.send_data(stream_id, framed(b"x" * 10))
            client.flush()
            client._socket.settimeout(1)
            try:
                while True:
                    while window := min(client.h2.local_flow_control_window(stream_id), 16_384):
                        client.h2.send_data(stream_id, b"x" * window)
                        total += window
                    client.events()
            except TimeoutError:
                return total

    async with (
        raw_agent(take_nothing) as (address, agents),
        running_proxy(f"grpc://{address}", tmp_path, negotiate="always") as proxy,
    ):
        assert await asyncio.to_thread(sent, proxy.grpc_address) < 4 * 65_536
        assert [agent.calls(path) for agent in agents if agent.calls(path)] == [1]


async def test_compressed_messages_are_read_and_cut(tmp_path):
    artifact = {"artifactId": "a", "parts": [{"text": "x"}], "extensions": [URI], "metadata": {METADATA_KEY: []}}
    task = ParseDict({"id": "t", "artifacts": [artifact]}, Task()).SerializeToString()

    compressed = framed(gzip.compress(task), 1)

    def answer(connection: RawConnection, event: Event) -> None:
        if isinstance(event, DataReceived):
            connection.answer(event.stream_id, compressed, head=[(b"grpc-encoding", b"gzip")])

    async with (
        raw_agent(answer) as (address, agents),
        running_proxy(f"grpc://{address}", tmp_path, negotiate="always") as proxy,
    ):
        message = GetTaskRequest(id="t").SerializeToString()
        offers = (b"grpc-accept-encoding", b"identity, snappy, gzip")
        plain = await call(proxy.grpc_address, GET_TASK, offers, message=message)
        asking = await call(
            proxy.grpc_address, GET_TASK, (b"a2a-extensions", URI.encode()), (b"authorization", b"x"), message=message
        )
    assert Task.FromString(plain["body"][5:]).artifacts[0].parts[0].text == "x"
    assert URI.encode() not in plain["body"]
    assert asking["body"] == compressed
    assert (offers[0], b"identity,gzip") in [field for one in agents for r in one.requests.values() for field in r]


async def test_a_field_that_could_end_a_shared_connection_ends_its_call_alone(proxy):
    for field in [(b"X-Upper", b"1"), (b"x", b"a\nb"), (b"x y", b"1")]:
        assert await call(proxy.grpc_address, ECHO, field) == {"body": b"", "reset": ErrorCodes.PROTOCOL_ERROR}
    async with grpc.aio.insecure_channel(proxy.grpc_address) as channel:
        assert await channel.unary_unary(ECHO.decode())(b"x") == b"x"
