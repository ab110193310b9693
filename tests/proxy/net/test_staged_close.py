"""How a client's connection is closed, on each event loop, with and without TLS."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
import threading
from pathlib import Path
from typing import Any

import pytest
from a2a_eval_proxy.net import client_connection
from a2a_eval_proxy.net.http_server import HttpServer
from support.certificates import Authority
from support.net_server import serving
from support.patience import PATIENCE_S

pytestmark = pytest.mark.timeout(method="thread")  # uvloop does not wake up for a signal

LARGE = b"x" * 3_000_000


async def answer_at_once(scope: Any, receive: Any, send: Any) -> None:
    """A large response that does not wait for the request's body."""
    length = b"%d" % len(LARGE)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", length)]})
    await send({"type": "http.response.body", "body": LARGE})


async def only_a_header(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def connect(server: HttpServer, tls: ssl.SSLContext | None = None) -> socket.socket:
    """A blocking client, for a thread."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
    client.settimeout(PATIENCE_S)
    client.connect(("127.0.0.1", int(server.address.rpartition(":")[2])))
    return client if tls is None else tls.wrap_socket(client, server_hostname="127.0.0.1")


def upload(server: HttpServer, tls: ssl.SSLContext | None, size: int) -> bytes:
    """What comes back to who sends all of a body before reading."""
    with connect(server, tls) as client:
        client.sendall(b"POST / HTTP/1.1\r\nhost: h\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % size)
        client.sendall(bytes(size))
        return read_all(client)


def read_all(client: socket.socket) -> bytes:
    received = bytearray()
    while data := client.recv(8192):
        received += data
    return bytes(received)


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
async def test_an_answer_before_the_end_of_the_request_arrives(secure: bool, tmp_path: Path) -> None:
    authority = Authority(tmp_path / "authority")
    mine = ssl.create_default_context(cafile=str(authority.ca)) if secure else None
    async with serving(answer_at_once, tls=authority.server() if secure else None) as server:
        received = await asyncio.to_thread(upload, server, mine, 10_000_000)
        assert received.startswith(b"HTTP/1.1 200 ")
        assert received.endswith(b"\r\n\r\n" + LARGE)
        assert not server.clients.limits.broken_limits


async def test_who_reads_nothing_does_not_see_the_end_of_its_response() -> None:
    """To a client of HTTP/1.0, a mere close would be the end of a body."""

    async def without_length(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": LARGE * 10, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async with serving(without_length) as server:
        server.clients.limits.send_timeout_s = 0.0
        with connect(server) as client:
            client.sendall(b"GET / HTTP/1.0\r\n\r\n")
            while not server.clients.limits.broken_limits or server.connections:
                await asyncio.sleep(0.01)
            with pytest.raises(ConnectionResetError):
                await asyncio.to_thread(read_all, client)
        assert server.clients.limits.broken_limits == {"send_timeout": 1}


async def test_a_client_that_goes_on_sending_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_connection, "CLOSE_WITHIN_S", 0.0)
    monkeypatch.setattr(client_connection, "QUIET_S", 1.0)

    pace = threading.Event()

    def never_stops() -> None:
        with connect(server) as client:
            client.sendall(b"no request\r\n\r\n")
            while True:
                client.sendall(b"x")
                pace.wait(0.01)

    async with serving(only_a_header) as server:
        with pytest.raises(ConnectionError):
            await asyncio.to_thread(never_stops)
        assert server.clients.limits.broken_limits["close_ignored"] == 1


async def test_a_client_that_does_nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_connection, "QUIET_S", 0.05)

    async with serving(only_a_header) as server:
        with connect(server) as client:
            client.sendall(b"GET / HTTP/1.0\r\n\r\n")
            assert (await asyncio.to_thread(read_all, client)).startswith(b"HTTP/1.1 204 ")
            while server.connections:
                await asyncio.sleep(0)
        assert not server.clients.limits.broken_limits


@pytest.mark.parametrize("how", ["closes", "resets"])
async def test_a_client_that_leaves_meanwhile_leaves_nothing_behind(how: str) -> None:
    async with serving(answer_at_once) as server:
        for _ in range(20):
            with connect(server) as client:
                client.sendall(b"GET / HTTP/1.0\r\n\r\nmore")
                await asyncio.to_thread(client.recv, 100 if how == "resets" else len(LARGE))
                if how == "resets":
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        while server.connections:
            await asyncio.sleep(0)
        assert not server.clients.limits.broken_limits


async def test_a_header_that_waits_for_its_body_ends_with_the_connection() -> None:
    errors: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))

    async def begin_and_abort(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for connection in [*server.clients.connections]:
            connection.abort()

    async with serving(begin_and_abort) as server:
        with pytest.raises(ConnectionResetError):
            await asyncio.to_thread(upload, server, None, 0)
        while server.connections:
            await asyncio.sleep(0)
    assert not errors
