"""What the proxy leaves to clients and agents of HTTP/1.1: names, targets, who reads first, and who ends what."""

from __future__ import annotations

import asyncio
import hashlib
import json
import socket
import threading
from typing import Any

import h11
import pytest
from agents.h11_agent import H11Agent, Request, Wire
from e2e.raw_http import RawConnection, exchange
from e2e.transparency.sockets import connect, raw_answer, until_closed
from support.patience import PATIENCE_S
from support.proxy import Proxy

SEND: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "SendStreamingMessage",
    "params": {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}},
}


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/api/turns", "/ui/", "/v1/traces"])
def test_the_data_port_has_no_paths_of_its_own(path: str, plain_agent: H11Agent, plain_proxy: Proxy) -> None:
    assert exchange(plain_proxy.url, f"GET {path} HTTP/1.1", []).body == f"{path} 0".encode()


@pytest.mark.parametrize(
    ("line", "received"),
    [
        *(
            (line, line)
            for line in (b"PROPFIND /a", b"QUERY /a", b"OPTIONS *", b"M-SEARCH *", b"GET /p?", b"GET //d//s")
        ),
        *((line, line) for line in (b"GET /tasks/a%2Fb%20c?x=%C3%A4&t=a+b%2B", b"GET /x/", b"GET /%7Et~;p=1:cancel")),
        (b"GET http://x/p?q", b"GET /p?q"),
        (b"GET http://x?q", b"GET /?q"),
    ],
)
def test_methods_and_targets_are_not_normalised(
    line: bytes, received: bytes, plain_agent: H11Agent, plain_proxy: Proxy
) -> None:
    raw_answer(plain_proxy.url, line + b" HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
    assert [b"%b %b" % (request.method, request.target) for request in plain_agent.requests] == [received]


def test_a_body_behind_a_request_for_the_card_goes_nowhere(plain_agent: H11Agent, plain_proxy: Proxy) -> None:
    with RawConnection(plain_proxy.url) as connection:
        connection.send("GET /.well-known/agent-card.json HTTP/1.1", [("Content-Length", "100")], b"")
        assert connection.read_head().status == 200
    assert exchange(plain_proxy.url, "POST /next HTTP/1.1", [], b"{}").body == b"/next 2"
    assert all(request.whole and not request.body for request in plain_agent.card_requests)
    assert [(request.target, request.body) for request in plain_agent.requests] == [(b"/next", b"{}")]


@pytest.mark.parametrize("leaves", ["closes", "half-closes"])
@pytest.mark.parametrize("streams", [True, False])
def test_a_client_that_leaves_ends_the_request_at_the_agent(
    leaves: str, streams: bool, plain_agent: H11Agent, plain_proxy: Proxy
) -> None:
    """The connection to the agent closes: HTTP/1.1 has no other cancellation. A half-close counts as leaving."""
    begun, ended = threading.Event(), threading.Event()

    async def endless(wire: Wire, request: Request) -> None:
        await wire.read_body(request)
        if streams:
            wire.send(h11.Response(status_code=200, headers=[(b"content-type", b"text/event-stream")]))
            wire.send(h11.Data(data=b"data: 1\n\n"))
        begun.set()
        try:
            while await wire.reader.read(100):
                pass
        finally:
            ended.set()
        raise ConnectionResetError

    plain_agent.behave = endless
    body = json.dumps(SEND).encode()
    with connect(plain_proxy.url) as client:
        client.sendall(b"POST /rpc HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
        assert begun.wait(PATIENCE_S)
        if leaves == "half-closes":
            client.shutdown(socket.SHUT_WR)
            assert ended.wait(PATIENCE_S)
    assert ended.wait(PATIENCE_S)


async def answers_while_it_reads(wire: Wire, heard: threading.Event) -> None:
    """Begins its response at once, reads once the client has heard that, and ends with a digest of what came."""
    wire.send(h11.Response(status_code=200, headers=[(b"transfer-encoding", b"chunked")]), h11.Data(data=b"begun "))
    await asyncio.to_thread(heard.wait, PATIENCE_S)
    digest = hashlib.sha256()
    while isinstance(event := await wire.next_event(), h11.Data):
        digest.update(event.data)
    wire.send(h11.Data(data=digest.hexdigest().encode()), h11.EndOfMessage())


def test_an_upload_arrives_whole_at_an_agent_that_answers_meanwhile(plain_agent: H11Agent, plain_proxy: Proxy) -> None:
    heard = threading.Event()
    plain_agent.behave = lambda wire, _: answers_while_it_reads(wire, heard)
    body = bytes(range(256)) * 160_000  # more than is kept on the way
    head = b"POST /rpc HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nconnection: close\r\n"
    head += b"content-length: %d\r\n\r\n" % len(body)
    with connect(plain_proxy.url) as client:
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
