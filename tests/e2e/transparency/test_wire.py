"""One exchange on the wire is one exchange: nothing leaks into another and nothing is lost, whatever peers send."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from agents.h11_agent import H11Agent, echo
from support.patience import PATIENCE_S
from support.proxy import Proxy


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[H11Agent, Proxy]]:
    with H11Agent() as agent, Proxy(agent.url, tmp_path_factory.mktemp("store") / "turns.db") as proxy:
        yield agent, proxy


@pytest.fixture
def agent(served: tuple[H11Agent, Proxy]) -> Iterator[H11Agent]:
    """Nothing received yet; at the end nothing that is no HTTP."""
    agent, _ = served
    agent.behave = echo
    agent.requests.clear()
    agent.card_requests.clear()
    agent.errors.clear()
    yield agent
    assert agent.errors == []


@pytest.fixture
def proxy(served: tuple[H11Agent, Proxy]) -> Proxy:
    return served[1]


def connect(url: str) -> socket.socket:
    host, port = url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), PATIENCE_S)


def read_answer(file: socket.SocketIO) -> tuple[int, bytes]:
    """Status and body of a response with a length."""
    status = int(file.readline().split()[1])
    length = 0
    while line := file.readline().strip():
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    return status, file.read(length)


def send(proxy: Proxy, *parts: bytes, answers: int = 1) -> list[tuple[int, bytes]]:
    """Send parts, each in a packet of its own where the system lets us; read as many answers."""
    with connect(proxy.url) as connection, connection.makefile("rb") as file:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for part in parts:
            connection.sendall(part)
        return [read_answer(file) for _ in range(answers)]  # type: ignore[arg-type]  # a buffered one


SECOND = b"GET /smuggled HTTP/1.1\r\nhost: evil\r\nauthorization: Bearer evil\r\n\r\n"


@pytest.mark.parametrize("named", ["content-length", "Content-Length, keep-alive", "transfer-encoding", "host"])
def test_connection_cannot_name_what_frames_a_request(named: str, agent: H11Agent, proxy: Proxy) -> None:
    head = f"POST /a HTTP/1.1\r\nhost: x\r\nconnection: {named}\r\ncontent-length: {len(SECOND)}\r\n\r\n"
    assert send(proxy, head.encode() + SECOND) == [(200, b"/a %d" % len(SECOND))]
    assert send(proxy, b"GET /b HTTP/1.1\r\nhost: x\r\n\r\n") == [(200, b"/b 0")]
    assert [(request.target, request.body) for request in agent.requests] == [(b"/a", SECOND), (b"/b", b"")]
    assert agent.requests[0].header(b"content-length") == [b"%d" % len(SECOND)]


def test_connection_cannot_take_credentials_or_the_content_type_out(agent: H11Agent, proxy: Proxy) -> None:
    fields = b"connection: authorization, x-mine, content-type\r\nauthorization: Bearer x\r\nx-mine: 1\r\n"
    send(proxy, b"POST /a HTTP/1.1\r\nhost: x\r\n" + fields + b"content-type: a/b\r\ncontent-length: 2\r\n\r\n{}")
    (request,) = agent.requests
    assert request.header(b"authorization") == [b"Bearer x"]
    assert request.header(b"content-type") == [b"a/b"]
    assert request.header(b"x-mine") == []


@pytest.mark.parametrize("method", [b"GET", b"HEAD"])
def test_a_body_behind_a_request_for_the_card_goes_nowhere(method: bytes, agent: H11Agent, proxy: Proxy) -> None:
    body = b"x" * 100
    request = method + b" /.well-known/agent-card.json HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n"
    with connect(proxy.url) as connection, connection.makefile("rb") as file:
        connection.sendall(request + body)
        assert int(file.readline().split()[1]) == 200
    assert send(proxy, b"POST /next HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}") == [(200, b"/next 2")]
    assert all(request.whole and not request.body for request in agent.card_requests)
    assert [(request.target, request.body) for request in agent.requests] == [(b"/next", b"{}")]


OFFER = b"Connection: Upgrade, HTTP2-Settings\r\nHost: x\r\nHTTP2-Settings: AAEAAEAAAAIAAAAB\r\nUpgrade: h2c\r\n"
BODY = b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"t"}}'
OFFERED = {
    "length": b"POST /a HTTP/1.1\r\n%bContent-Length: %d\r\n\r\n%b" % (OFFER, len(BODY), BODY),
    "chunked": b"POST /a HTTP/1.1\r\n%bTransfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n"
    % (OFFER, len(BODY), BODY),
}


@pytest.mark.parametrize("framing", OFFERED)
@pytest.mark.parametrize("size", [1, 7, 100, 10_000])
def test_an_offer_to_upgrade_loses_nothing(framing: str, size: int, agent: H11Agent, proxy: Proxy) -> None:
    """As the JDK's client makes it with every request over plain http, here in packets of any size, two on a way."""
    request = OFFERED[framing]
    parts = [request[at : at + size] for at in range(0, len(request), size)]
    assert send(proxy, *parts, *parts, answers=2) == [(200, b"/a %d" % len(BODY))] * 2
    assert [request.body for request in agent.requests] == [BODY] * 2
    assert agent.requests[0].header(b"upgrade") == agent.requests[0].header(b"http2-settings") == []


def test_an_offer_with_an_expectation(agent: H11Agent, proxy: Proxy) -> None:
    head, _, body = OFFERED["length"].partition(b"\r\n\r\n")
    with connect(proxy.url) as connection, connection.makefile("rb") as file:
        connection.sendall(head + b"\r\nExpect: 100-continue\r\n\r\n")
        assert file.readline().startswith(b"HTTP/1.1 100 ")
        assert file.readline() == b"\r\n"
        connection.sendall(body)
        assert read_answer(file) == (200, b"/a %d" % len(BODY))  # type: ignore[arg-type]  # a buffered one


def test_trace_is_refused(agent: H11Agent, proxy: Proxy) -> None:
    """Its answer would show the client the credentials that the proxy adds."""
    ((status, _),) = send(proxy, b"TRACE /a HTTP/1.1\r\nhost: x\r\n\r\n")
    assert status == 405
    assert agent.requests == []
