"""HTTP/2 on a port next to HTTP/1.1: requests for an ASGI application, and peers that misbehave, each for itself."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import httpx
import pytest
from a2a_eval_proxy.net import client_limits
from a2a_eval_proxy.net.client_limits import Capacity, ClientLimits
from a2a_eval_proxy.net.http2_client import Http2Client
from a2a_eval_proxy.net.http2_requests import HttpStreams
from a2a_eval_proxy.net.http2_server import Ends
from a2a_eval_proxy.net.http2_streams import Headers, Http2Stream, Reset
from a2a_eval_proxy.net.http_server import HttpServer
from a2a_eval_proxy.net.served_request import CLIENT
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    RequestReceived,
    ResponseReceived,
    StreamEnded,
    StreamReset,
)
from hpack import Encoder
from hyperframe.frame import ContinuationFrame, DataFrame, HeadersFrame, PingFrame
from support import net_server
from support.patience import PATIENCE_S
from support.raw_http2 import PREFACE, RawClient, RawConnection, raw_agent, unchecked_connection

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


# ── requests for an ASGI application: bodies, ends and failures ─────────────────────────────────────────────


async def calls(stream: Http2Stream, head: Headers, ends: Ends) -> None:
    stream.send_headers([(b":status", b"200"), (b"x-from", b"grpc")], end=True)


def serving_app(app: Any, **limits: Any) -> AbstractAsyncContextManager[HttpServer]:
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
    old = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"

    def begins(address: str, content: bytes) -> bytes:
        host, _, port = address.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for start in range(0, len(content), size):
                connection.sendall(content[start : start + size])
            return connection.recv(1000)

    async with serving_app(hello) as server:
        assert (await asyncio.to_thread(begins, server.address, old)).startswith(b"HTTP/1.1 200 OK")
        assert (await asyncio.to_thread(begins, server.address, PREFACE))[3:4] == b"\x04", "its SETTINGS"
        async with client_of(server) as client:
            response = await client.get("/")
    assert (response.http_version, response.text, response.headers["x-version"]) == ("HTTP/2", "hello", "2")
    assert "connection" not in response.headers


async def test_connections_beyond_the_limit_are_refused():
    async with serving_app(hello, max_connections=1) as server, client_of(server) as client:
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

    async with serving_app(wait, max_connections=1) as server:
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

    async with serving_app(app) as server, client_of(server) as client:
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

    async with serving_app(app) as server:
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

    async with serving_app(app) as server:
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

    async with serving_app(app) as server:
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

    async with serving_app(app, send_timeout_s=0.01) as server:
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

    async with serving_app(app) as server:
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

    async with serving_app(app, body_timeout_s=0.01) as server:
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

    async with serving_app(app) as server:
        assert await raw(server, talk) == (ErrorCodes.INTERNAL_ERROR if begun else b"500")
        assert server.clients.limits.broken_limits == {"internal_error": 1}
    assert "RuntimeError" in caplog.text


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_responses_without_a_body(method):
    async def app(scope: Any, receive: Any, send: Any) -> None:
        status = 204 if method == "GET" else 200
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", b"5")]})
        await send({"type": "http.response.body", "body": b"hello"})

    async with serving_app(app) as server, client_of(server) as client:
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

    async with serving_app(app) as server:
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

    async with serving_app(hello) as server:
        assert await raw(server, talk) == ([b"200", b"200"], 2**31 - 1)
        async with client_of(server) as client:
            assert (await client.get("/")).status_code == 200


async def test_an_open_response_finishes_when_the_server_stops():
    came, go_on = asyncio.Event(), asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        came.set()
        await go_on.wait()
        await hello(scope, receive, send)

    async with serving_app(app) as server:
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
