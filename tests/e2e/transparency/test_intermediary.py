"""What the proxy leaves to clients and agents of HTTP/1.1: names, targets, who reads first, and who ends what."""

from __future__ import annotations

import asyncio
import hashlib
import json
import socket
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx
import pytest
from agents.raw_server import RawServer
from agents.replay_agent import ReplayAgent, json_answer
from e2e.raw_http import RawConnection, exchange
from support.patience import PATIENCE_S
from support.proxy import Proxy

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Agent(RawServer):
    def __init__(self, talk: Talk) -> None:
        self.talk = talk  # type: ignore[method-assign,assignment]


def connect(url: str) -> socket.socket:
    return socket.create_connection(("127.0.0.1", httpx.URL(url).port or 0), PATIENCE_S)


def until_closed(connection: socket.socket) -> bytes:
    return b"".join(iter(lambda: connection.recv(65_536), b""))


OWN = ("/healthz", "/readyz", "/metrics", "/api/turns", "/ui/", "/v1/traces")
"""Paths of other ports."""
AS_THEY_ARE = [
    *(f"GET {path}" for path in OWN),
    *("PROPFIND /a", "QUERY /a", "OPTIONS *", "M-SEARCH *", "GET /p?", "GET //d//s", "GET /x/"),
    *("GET /tasks/a%2Fb%20c?x=%C3%A4&t=a+b%2B", "GET /%7Et~;p=1:cancel"),
]


@pytest.mark.parametrize(
    ("line", "received"),
    [*((line, line) for line in AS_THEY_ARE), ("GET http://x/p?q", "GET /p?q"), ("GET http://x?q", "GET /?q")],
)
def test_methods_and_targets_are_not_normalised(
    line: str, received: str, replay: ReplayAgent, replay_proxy_url: str
) -> None:
    replay.prepare(json_answer({}))
    with connect(replay_proxy_url) as client:
        client.sendall(f"{line} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".encode())
        assert until_closed(client).endswith(b"{}")
    assert [request.request_line for request in replay.received] == [f"{received} HTTP/1.1"]


def test_a_body_behind_a_request_for_the_card_goes_nowhere(replay: ReplayAgent, replay_proxy_url: str) -> None:
    replay.prepare(json_answer({}))
    with RawConnection(replay_proxy_url) as connection:
        connection.send("GET /.well-known/agent-card.json HTTP/1.1", [("Content-Length", "100")], b"")
        assert connection.read_head().status == 200
    assert exchange(replay_proxy_url, "POST /next HTTP/1.1", [], b"[]").body == b"{}"
    assert "content-length" not in dict(replay.card_request.headers)
    assert [(request.request_line, request.body) for request in replay.received] == [("POST /next HTTP/1.1", b"[]")]


STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n5\r\n: hi\n\r\n"


@pytest.mark.parametrize("answer", [b"", STREAM], ids=["no answer", "a stream"])
def test_a_client_that_leaves_ends_the_request_at_the_agent(answer: bytes, tmp_path: Path) -> None:
    """The connection to the agent closes: HTTP/1.1 has no other cancellation. A half-close counts as leaving."""
    begun, ended = threading.Event(), threading.Event()

    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        begun.set()
        try:
            while await reader.read(65_536):
                pass
        finally:
            ended.set()

    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
    request = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": {"message": message}}
    body = json.dumps(request).encode()
    with Agent(endless) as agent, Proxy(agent.url, tmp_path / "turns.db", "--negotiate", "always") as proxy:
        for half in (False, True):
            begun.clear()
            ended.clear()
            with connect(proxy.url) as client:
                client.sendall(b"POST /rpc HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
                assert begun.wait(PATIENCE_S)
                if half:
                    client.shutdown(socket.SHUT_WR)
                    assert ended.wait(PATIENCE_S)
            assert ended.wait(PATIENCE_S)


def test_an_upload_arrives_whole_at_an_agent_that_answers_meanwhile(tmp_path: Path) -> None:
    """It begins its response at once, and reads once the client has heard that."""
    heard = threading.Event()
    body = bytes(range(256)) * 160_000  # more than is kept on the way

    async def answers_first(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n6\r\nbegun \r\n")
        await asyncio.to_thread(heard.wait, PATIENCE_S)
        digest = hashlib.sha256(await reader.readexactly(len(body))).hexdigest()
        writer.write(b"40\r\n%b\r\n0\r\n\r\n" % digest.encode())

    head = b"POST /rpc HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nconnection: close\r\n"
    head += b"content-length: %d\r\n\r\n" % len(body)
    with (
        Agent(answers_first) as agent,
        Proxy(agent.url, tmp_path / "turns.db", "--negotiate", "always") as proxy,
        connect(proxy.url) as client,
    ):
        sending = threading.Thread(target=client.sendall, args=(head + body,))
        sending.start()
        answer = b""
        while b"begun" not in answer:
            answer += client.recv(65_536)
        assert sending.is_alive()
        heard.set()
        answer += until_closed(client)
        sending.join(PATIENCE_S)
    assert hashlib.sha256(body).hexdigest().encode() in answer
    assert answer.endswith(b"0\r\n\r\n")
