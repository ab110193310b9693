"""A listening port inside our own event loop."""

from __future__ import annotations

import asyncio
import re
import socket
from typing import Any
from unittest.mock import Mock

import httpx
import pytest
from a2a_eval_proxy.errors import ListenError
from a2a_eval_proxy.net.client_limits import Capacity, ClientLimits
from a2a_eval_proxy.net.http1_connection import Http1Connection
from a2a_eval_proxy.net.http1_messages import RequestParser
from a2a_eval_proxy.net.http_server import HttpServer
from a2a_eval_proxy.net.served_request import ServedRequest
from support.net_server import hello, serving
from support.patience import PATIENCE_S


@pytest.mark.parametrize(("address", "prefix"), [("127.0.0.1:0", "http://127.0.0.1:"), ("[::1]:0", "http://[::1]:")])
async def test_it_serves_from_start_to_stop(address: str, prefix: str) -> None:
    server = HttpServer(hello, address, shutdown_timeout_s=1)
    assert server.url.startswith(prefix)
    await server.start()
    async with httpx.AsyncClient() as client:
        response = await client.get(server.url)
        assert response.text == "hello"
        assert [(name, value) for name, value in response.headers.items() if name in ("x-from", "server", "date")] == [
            ("x-from", "app")
        ]
    url = server.url
    await server.stop()
    async with httpx.AsyncClient() as client:
        with pytest.raises(httpx.ConnectError):
            await client.get(url)


async def test_an_idle_connection_is_closed_in_time() -> None:
    async with serving(hello, limits=ClientLimits(keep_alive_s=0)) as server:
        reader, writer = await asyncio.open_connection(*server.address.split(":"))
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        async with asyncio.timeout(PATIENCE_S):
            assert b"200 OK" in await reader.read()  # to the end
        writer.close()


async def test_who_is_being_served_is_told_that_the_connection_ends() -> None:
    came, go_on = asyncio.Event(), asyncio.Event()

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        came.set()
        await go_on.wait()
        await hello(scope, receive, send)

    async with serving(slow) as server, httpx.AsyncClient() as client:
        request = asyncio.create_task(client.get(server.url))
        await came.wait()
        server.retire()
        go_on.set()
        assert (await request).headers["connection"] == "close"
        assert (await client.get(server.url)).headers["connection"] == "close"


async def test_what_is_cut_at_the_end_is_told_once_and_is_no_error_of_the_application(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def endless(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"begun", "more_body": True})
        await asyncio.Event().wait()

    server = HttpServer(endless, "127.0.0.1:0", shutdown_timeout_s=1)
    await server.start()
    async with (
        httpx.AsyncClient() as client,
        client.stream("GET", server.url) as one,
        client.stream("GET", server.url) as two,
    ):
        assert [response.status_code for response in (one, two)] == [200, 200]
        await server.stop()
    assert [record.getMessage() for record in caplog.records] == [
        f"{server.url}: 2 request(s) were still being answered and are cut off"
    ]


async def test_an_expectation_is_met_before_the_response() -> None:
    async def whole(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"hi"})

    async with serving(whole) as server:
        reader, writer = await asyncio.open_connection(*server.address.split(":"))
        writer.write(b"POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\nx")
        answer = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi"
        assert await reader.readexactly(len(answer)) == answer
        writer.close()
        await writer.wait_closed()


async def test_who_has_its_response_does_not_have_the_next_request_go_on() -> None:
    second_came, first_has_read = asyncio.Event(), asyncio.Event()

    async def early(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/second":
            second_came.set()
            await first_has_read.wait()
        await hello(scope, receive, send)
        if scope["path"] == "/first":
            await second_came.wait()
            assert await receive() == {"type": "http.disconnect"}
            first_has_read.set()

    async with serving(early) as server:
        reader, writer = await asyncio.open_connection(*server.address.split(":"))
        writer.write(b"POST /first HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody")
        writer.write(b"POST /second HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n")
        async with asyncio.timeout(PATIENCE_S):
            for _ in range(2):
                assert (await reader.readuntil(b"\r\n")) == b"HTTP/1.1 200 OK\r\n"
                assert (await reader.readuntil(b"0\r\n\r\n")).endswith(b"hello\r\n0\r\n\r\n")
        writer.close()


async def test_small_writes_are_not_held_back() -> None:
    """asyncio turns Nagle's algorithm off only where the listener says TCP; else every answer takes 40 ms more."""
    held_back: list[int] = []

    async def look(scope: Any, receive: Any, send: Any) -> None:
        for one in server.clients.connections:
            client = one.transport.get_extra_info("socket")
            held_back.append(client.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        await hello(scope, receive, send)

    async with serving(look) as server:
        assert await status_of(server, GET) == 200
    assert held_back == [1]


def test_an_address_in_use() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        address = f"127.0.0.1:{other.getsockname()[1]}"
        with pytest.raises(ListenError, match=f"cannot listen on {address}: Address already in use"):
            HttpServer(hello, address, shutdown_timeout_s=1)


async def test_a_header_far_too_large_is_refused() -> None:
    async with serving(hello, limits=ClientLimits(max_header_bytes=1000)) as server:
        reader, writer = await asyncio.open_connection(*server.address.split(":"))
        writer.write(b"GET / HTTP/1.1\r\nx: " + b"x" * 265_000)
        assert (await reader.readline()).startswith(b"HTTP/1.1 431 ")
        writer.close()
        await writer.wait_closed()


async def status_of(server: HttpServer, request: bytes) -> int:
    """What a new connection that sends `request` is answered with."""
    reader, writer = await asyncio.open_connection(*server.address.split(":"))
    writer.write(request)
    status = int((await reader.readline()).split()[1])
    writer.close()
    await writer.wait_closed()
    return status


GET = b"GET / HTTP/1.1\r\nhost: h\r\n\r\n"


@pytest.mark.parametrize("faulty", [(RequestParser, "on_header"), (RequestParser, "feed"), (ServedRequest, "run")])
async def test_a_fault_of_the_proxy_is_not_blamed_on_the_client(
    faulty: tuple[type, str], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = ClientLimits()
    async with serving(hello, limits=limits) as server:
        with monkeypatch.context() as fault:
            fault.setattr(*faulty, lambda: None)  # each gets more arguments
            assert await status_of(server, GET) == 500
        assert await status_of(server, b"GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n") == 400
    assert limits.broken_limits == {"internal_error": 1, "bad_request": 1}
    assert "TypeError" in caplog.text


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        ([], "a request got no response"),
        ([{"type": "http.response.body", "body": b"hello"}], "before the header"),
        ([{"type": "http.response.start", "status": 200, "headers": [(b"x", b"a\r\nb: c")]}], "line break"),
        ([{"type": "http.response.pathsend", "path": "/"}], "unexpected ASGI message 'http.response.pathsend'"),
    ],
    ids=["nothing", "a body", "a line break", "another message"],
)
async def test_a_fault_of_the_application_is_a_500(
    sent: list[dict[str, Any]], says: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(scope: Any, receive: Any, send: Any) -> None:
        for message in sent:
            await send(message)

    limits = ClientLimits()
    async with serving(fail, limits=limits) as server:
        assert await status_of(server, GET) == 500
    assert limits.broken_limits == {"internal_error": 1}
    assert says in caplog.text


async def test_a_connection_that_cannot_be_checked_ends_without_the_server(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(hello) as server:
        reader, writer = await asyncio.open_connection(*server.address.split(":"))
        with monkeypatch.context() as fault:
            fault.setattr(Http1Connection, "check_requests", lambda: None)
            async with asyncio.timeout(PATIENCE_S):
                with pytest.raises(ConnectionResetError):
                    await reader.read()
        writer.close()
        assert "could not be checked" in caplog.text
        assert await status_of(server, GET) == 200


@pytest.mark.parametrize(
    ("beginning", "reason", "answer"),
    [
        (b"", "header_timeout", b""),
        (b"GET / HTTP/1.1\r\nhost: ", "header_timeout", b"408"),
        (b"\r\n", "header_timeout", b"408"),
        (GET + b"GET / HTTP/1.1\r\n", "header_timeout", b"200 408"),
        (b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\nhalf", "body_timeout", b"408"),
        (b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n", "body_timeout", b"408"),
    ],
    ids=["silent", "half a header", "a blank line", "half a second header", "half a body", "half a chunked body"],
)
async def test_a_client_that_stops_in_the_middle_is_cut_off(beginning: bytes, reason: str, answer: bytes) -> None:
    async def read_all(scope: Any, receive: Any, send: Any) -> None:
        while (await receive()).get("more_body"):
            pass
        await hello(scope, receive, send)

    limits, transport = ClientLimits(), Mock(spec=asyncio.Transport)
    transport.get_extra_info.return_value = None
    transport.is_closing.return_value, transport.get_write_buffer_size.return_value = False, 0
    connection = Http1Connection(read_all, Capacity().port(limits))
    connection.connection_made(transport)
    connection.data_received(beginning)
    for _ in range(10):  # until the application has answered or waits for more
        await asyncio.sleep(0)
    connection.check(asyncio.get_running_loop().time() + limits.header_timeout_s)
    received = b"".join(call.args[0] for call in transport.write.mock_calls)
    assert re.findall(rb"HTTP/1.1 (\d+)", received) == answer.split()
    assert limits.broken_limits == {reason: 1}


async def test_a_header_comes_before_its_body() -> None:
    came = asyncio.Event()

    async def wait(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await came.wait()
        await send({"type": "http.response.body", "body": b""})

    async with serving(wait) as server:
        assert await status_of(server, b"GET / HTTP/1.1\r\nhost: h\r\n\r\n") == 200
        came.set()


async def test_a_client_that_sends_slowly_is_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limits count its silence, not how long its request takes."""
    loop = asyncio.get_running_loop()
    now = loop.time()
    arrived: asyncio.Queue[bytes] = asyncio.Queue()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        more = True
        while more:
            part = await receive()
            more = part["more_body"]
            arrived.put_nowait(part["body"])
        await hello(scope, receive, send)

    async with serving(app, limits=ClientLimits(body_timeout_s=5)) as server:
        reader, writer = await asyncio.open_connection(*server.address.split(":"))
        with monkeypatch.context() as patch:
            patch.setattr(loop, "time", lambda: now)
            writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n")
            for number in range(4):
                writer.write(b"x")
                assert await arrived.get() == b"x", number
                now += 4
                for connection in server.clients.connections:
                    connection.check(now)
        assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
        writer.close()
