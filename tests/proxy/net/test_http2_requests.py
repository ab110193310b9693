"""Requests over HTTP/2 for an ASGI application, next to HTTP/1.1 on one port: bodies, ends and failures."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import httpx
import pytest
from a2a_eval_proxy.net import client_limits
from a2a_eval_proxy.net.client_limits import Capacity, ClientLimits
from a2a_eval_proxy.net.http2_gate import PREFACE
from a2a_eval_proxy.net.http2_requests import HttpStreams
from a2a_eval_proxy.net.http2_server import Ends
from a2a_eval_proxy.net.http2_streams import Headers, Http2Stream
from a2a_eval_proxy.net.http_server import HttpServer
from a2a_eval_proxy.net.served_request import CLIENT
from h2.errors import ErrorCodes
from h2.events import ConnectionTerminated, DataReceived, ResponseReceived, StreamEnded, StreamReset
from support import net_server
from support.patience import PATIENCE_S
from support.raw_http2 import RawClient, unchecked_connection


async def calls(stream: Http2Stream, head: Headers, ends: Ends) -> None:
    stream.send_headers([(b":status", b"200"), (b"x-from", b"grpc")], end=True)


def serving(app: Any, **limits: Any) -> AbstractAsyncContextManager[HttpServer]:
    held = ClientLimits(**limits)
    capacity, streams = Capacity(held.max_connections), HttpStreams(app, calls, held)
    return net_server.serving(app, limits=held, streams=streams, capacity=capacity, reserved_part=1)


def client_of(server: HttpServer) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=server.url, http1=False, http2=True, timeout=PATIENCE_S)


async def raw(server: HttpServer, talk: Callable[[RawClient], Any]) -> Any:
    """What a raw client makes of the server, in a thread."""

    def run() -> Any:
        with RawClient(server.address) as client:
            return talk(client)

    return await asyncio.to_thread(run)


def get(client: RawClient, stream_id: int, *, method: bytes = b"GET", end: bool = True) -> None:
    head = [(b":method", method), (b":scheme", b"http"), (b":path", b"/"), (b":authority", b"a")]
    client.h2.send_headers(stream_id, head, end_stream=end)


def status_of(client: RawClient, stream_id: int) -> bytes:
    events = client.until(stream_id, StreamEnded, StreamReset)
    return dict(next(event.headers for event in events if isinstance(event, ResponseReceived)))[b":status"]


async def whole(send: Any, status: int, headers: Any, body: bytes) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def hello(scope: Any, receive: Any, send: Any) -> None:
    headers = [(b"X-Version", scope["http_version"].encode()), (b"connection", b"close")]
    await whole(send, 200, headers, b"hello")


@pytest.mark.parametrize("size", [1, 10, 100])
async def test_both_versions_however_their_first_bytes_arrive(size):
    first = PREFACE + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
    old = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"

    def begins(address: str, content: bytes) -> bytes:
        host, _, port = address.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for start in range(0, len(content), size):
                connection.sendall(content[start : start + size])
            return connection.recv(1000)

    async with serving(hello) as server:
        assert (await asyncio.to_thread(begins, server.address, old)).startswith(b"HTTP/1.1 200 OK")
        assert (await asyncio.to_thread(begins, server.address, first))[3:4] == b"\x04", "its SETTINGS"
        async with client_of(server) as client:
            response = await client.get("/")
    assert (response.http_version, response.text, response.headers["x-version"]) == ("HTTP/2", "hello", "2")
    assert "connection" not in response.headers


async def test_connections_beyond_the_limit_are_refused():
    async with serving(hello, max_connections=1) as server, client_of(server) as client:
        assert (await client.get("/")).status_code == 200
        async with httpx.AsyncClient() as other:
            assert (await other.get(server.url)).status_code == 503
        assert (await client.get("/")).status_code == 200


async def test_requests_beyond_the_limit_are_refused():
    came = asyncio.Event()

    async def wait(scope: Any, receive: Any, send: Any) -> None:
        came.set()
        await asyncio.Event().wait()

    def ask(client: RawClient) -> tuple[bytes, dict[bytes, bytes]]:
        get(client, 1)
        get(client, 3)
        status = status_of(client, 3)
        call = client.begin(b"/a.B/C")
        return status, dict(client.until(call, ResponseReceived)[0].headers)

    async with serving(wait, max_connections=1) as server:
        status, call = await raw(server, ask)
    assert status == b"503"
    assert call[b"grpc-status"] == b"8"


@pytest.mark.parametrize(
    ("kind", "source"),
    [
        (b"application/grpc", b"grpc"),
        (b"application/grpc+proto", b"grpc"),
        (b"application/grpc-web", b"app"),
        (b"application/json", b"app"),
    ],
)
async def test_calls_of_grpc_have_a_handler_of_their_own(kind, source):
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await whole(send, 200, [(b"x-from", b"app")], b"")

    async with serving(app) as server, client_of(server) as client:
        response = await client.post("/a.B/C", headers={"content-type": kind.decode()})
    assert response.headers["x-from"].encode() == source


async def test_a_body_arrives_in_parts_and_then_waits_for_the_client():
    messages: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        while not messages or messages[-1].get("more_body"):
            messages.append(await receive())
            if len(messages) == 1:
                await send({"type": "http.response.start", "status": 200, "headers": []})
        messages.append(await receive())

    def talk(client: RawClient) -> None:
        get(client, 1, method=b"POST", end=False)
        client.h2.send_data(1, b"a")
        assert client.until(1, ResponseReceived), "before the end of the body"
        client.h2.send_data(1, b"b", end_stream=True)
        client.h2.ping(bytes(8))
        client.events()

    async with serving(app) as server:
        await raw(server, talk)
        async with asyncio.timeout(PATIENCE_S):
            while len(messages) < 3:
                await asyncio.sleep(0)
    assert messages[0] == {"type": "http.request", "body": b"a", "more_body": True}
    assert messages[1:] == [
        {"type": "http.request", "body": b"b", "more_body": False},
        {"type": "http.disconnect"},
    ]


async def test_a_response_before_the_end_of_its_request_takes_nothing_from_the_client():
    """Clients such as httpx send all, and then read: a reset would end them."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await whole(send, 413, [], b"too large")

    def talk(client: RawClient) -> list[Any]:
        get(client, 1, method=b"POST", end=False)
        events = client.until(1, StreamEnded)
        for _ in range(100):
            while client.h2.local_flow_control_window(1) < 10_000:
                events += client.events()
            client.h2.send_data(1, b"x" * 10_000)
            client.flush()
        client.h2.send_data(1, b"", end_stream=True)
        get(client, 3)
        return events + client.until(3, StreamEnded)

    async with serving(app) as server:
        assert not [event for event in await raw(server, talk) if isinstance(event, StreamReset)]


async def test_an_application_waits_for_a_client_that_does_not_read():
    sent = 0

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal sent
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(100):
            await send({"type": "http.response.body", "body": b"x" * 10_000, "more_body": True})
            sent += 1

    def talk(client: RawClient) -> int:
        get(client, 1)
        received = 0
        while received < 65_535:
            received += sum(len(event.data) for event in client.events() if isinstance(event, DataReceived))
        client.h2.ping(bytes(8))
        client.events()
        return sent

    async with serving(app) as server:
        assert await raw(server, talk) == 7, "65,535 bytes, and what waits"


async def test_a_client_that_reads_nothing_is_cut_off():
    left = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x" * 100_000, "more_body": True})
        await send({"type": "http.response.body", "body": b"x"})
        left.set()

    def talk(client: RawClient) -> int:
        get(client, 1)
        return int(client.until(1, StreamReset)[-1].error_code)

    async with serving(app, send_timeout_s=0.01) as server:
        assert await raw(server, talk) == ErrorCodes.INTERNAL_ERROR
        assert server.clients.limits.broken_limits == {"send_timeout": 1}
        async with asyncio.timeout(PATIENCE_S):
            await left.wait()


async def test_a_client_that_reads_nothing_loses_its_connection_where_others_wait(monkeypatch):
    """Its other requests would have others wait for as long again."""
    monkeypatch.setattr(client_limits, "TAKEN_WITHIN_S", 0.01)
    monkeypatch.setattr(Capacity, "bodies_wait", True)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await whole(send, 200, [], b"x" * 100_000)

    def talk(client: RawClient) -> Any:
        for stream_id in (1, 3, 5):
            get(client, stream_id)
        events = client.events()
        while not isinstance(events[-1], ConnectionTerminated):
            events += client.events()
        return [event for event in events if isinstance(event, StreamReset)], events[-1].error_code

    async with serving(app) as server:
        assert await raw(server, talk) == ([], ErrorCodes.ENHANCE_YOUR_CALM)
        assert server.clients.limits.broken_limits == {"send_timeout": 1}


async def test_a_body_that_stops_gets_a_408():
    async def app(scope: Any, receive: Any, send: Any) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    def talk(client: RawClient) -> bytes:
        get(client, 1, method=b"POST", end=False)
        client.h2.send_data(1, b"a")
        return status_of(client, 1)

    async with serving(app, body_timeout_s=0.01) as server:
        assert await raw(server, talk) == b"408"
        assert server.clients.limits.broken_limits == {"body_timeout": 1}


@pytest.mark.parametrize(
    ("headers", "begun"), [([], True), (None, False), ([(b"x", b"a\nb")], False), ([(b"a b", b"x")], False)]
)
async def test_a_fault_of_the_application(headers, begun, caplog):
    """Also a response that HTTP/2 cannot carry."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if headers is not None:
            await send({"type": "http.response.start", "status": 200, "headers": headers})
        raise RuntimeError("a fault")

    def talk(client: RawClient) -> Any:
        get(client, 1)
        events = client.until(1, StreamEnded, StreamReset)
        return events[-1].error_code if begun else dict(events[0].headers)[b":status"]

    async with serving(app) as server:
        assert await raw(server, talk) == (ErrorCodes.INTERNAL_ERROR if begun else b"500")
        assert server.clients.limits.broken_limits == {"internal_error": 1}
    assert "RuntimeError" in caplog.text


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_responses_without_a_body(method):
    async def app(scope: Any, receive: Any, send: Any) -> None:
        status = 204 if method == "GET" else 200
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", b"5")]})
        await send({"type": "http.response.body", "body": b"hello"})

    async with serving(app) as server, client_of(server) as client:
        response = await client.request(method, "/")
    assert (response.headers["content-length"], response.content) == ("5", b"")


async def test_a_client_that_resets_its_stream_is_noticed():
    came, left = asyncio.Event(), asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        client = scope["extensions"][CLIENT]
        client.watch()
        came.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if client.gone:
                left.set()

    def talk(client: RawClient) -> None:
        get(client, 1)
        while not came.is_set():
            client.h2.ping(bytes(8))
            client.events()
        client.h2.reset_stream(1, ErrorCodes.CANCEL)
        client.flush()

    async with serving(app) as server:
        await raw(server, talk)
        async with asyncio.timeout(PATIENCE_S):
            await left.wait()


async def test_a_server_that_retires_asks_its_clients_to_connect_again():
    """It serves what they still send; those that do not connect again lose nothing."""

    def talk(client: RawClient) -> tuple[list[bytes], int]:
        get(client, 1)
        statuses = [status_of(client, 1)]
        server.retire()
        get(client, 3)
        events = client.events()
        while not isinstance(events[-1], ConnectionTerminated):
            events += client.events()
        statuses += [dict(event.headers)[b":status"] for event in events if isinstance(event, ResponseReceived)]
        return statuses, events[-1].last_stream_id or 0

    async with serving(hello) as server:
        assert await raw(server, talk) == ([b"200", b"200"], 2**31 - 1)
        async with client_of(server) as client:
            assert (await client.get("/")).status_code == 200


async def test_an_open_response_finishes_when_the_server_stops():
    came, go_on = asyncio.Event(), asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        came.set()
        await go_on.wait()
        await hello(scope, receive, send)

    async with serving(app) as server:
        reader, writer = await asyncio.open_connection(*server.address.split(":"))
        h2 = unchecked_connection(client_side=True)  # to write alone: after GOAWAY, h2 reads no more
        head = [(b":method", b"GET"), (b":scheme", b"http"), (b":path", b"/"), (b":authority", b"h")]
        h2.send_headers(1, head, end_stream=True)
        writer.write(h2.data_to_send())
        await came.wait()
        stopping = asyncio.create_task(server.stop())
        await asyncio.sleep(0)
        go_on.set()
        async with asyncio.timeout(PATIENCE_S):
            assert b"hello" in await reader.read()  # to the end
            await stopping
        writer.close()
