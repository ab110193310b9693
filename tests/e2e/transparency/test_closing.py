"""The proxy closes a client's connection in stages (RFC 9112, section 9.6): no answer is lost to a reset."""

from __future__ import annotations

import select
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from agents.h11_agent import H11Agent, Request, Wire, echo
from e2e.transparency.test_slow_peers import GET, connect
from support.patience import PATIENCE_S
from support.proxy import Proxy

LARGE = 2_000_000
SURPLUS = bytes(400_000)
"""More than the proxy reads ahead of an answer: a part stays in its socket."""


@pytest.fixture(scope="module")
def agent() -> Iterator[H11Agent]:
    with H11Agent() as agent:
        yield agent


@pytest.fixture(scope="module")
def proxy(agent: H11Agent, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    with Proxy(agent.url, tmp_path_factory.mktemp("store") / "turns.db") as proxy:
        yield proxy


@pytest.fixture(autouse=True)
def _forget(agent: H11Agent) -> None:
    agent.behave = echo


async def large(wire: Wire, request: Request) -> None:
    """Answers once it has read the request."""
    await wire.read_body(request)
    wire.answer(b"x" * LARGE, content_type=b"text/plain")


def early(status: int) -> Callable[[Wire, Request], object]:
    """An agent that answers with `status` before it has read the body."""

    async def behave(wire: Wire, request: Request) -> None:
        wire.answer(b"early", status=status, content_type=b"text/plain")
        await wire.read_body(request)

    return behave


def slow_client(proxy: Proxy) -> socket.socket:
    """A connection whose kernel takes little of an answer that is not read."""
    host, port = proxy.url.removeprefix("http://").split(":")
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
    client.settimeout(PATIENCE_S)
    client.connect((host, int(port)))
    return client


def read_all(client: socket.socket, piece: int = 65_536) -> bytes:
    """Everything up to an end in order. Raises ConnectionError where the connection is reset."""
    received = bytearray()
    while data := client.recv(piece):
        received += data
    return bytes(received)


def head_and_body(answer: bytes) -> tuple[bytes, bytes]:
    head, _, body = answer.partition(b"\r\n\r\n")
    return head, body


@pytest.mark.parametrize(
    "request_", [b"GET /a HTTP/1.0\r\n\r\n", GET.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n") % b"a"]
)
def test_a_slow_reader_gets_all_of_its_answer_though_it_sent_too_much(
    request_: bytes, agent: H11Agent, proxy: Proxy
) -> None:
    agent.behave = large
    with slow_client(proxy) as client:
        client.sendall(request_ + SURPLUS)
        head, body = head_and_body(read_all(client, 8192))
    assert head.startswith(b"HTTP/1.1 200 ")
    assert len(body) == LARGE


def open_files(proxy: Proxy) -> int:
    return len(list(Path(f"/proc/{proxy.process_id}/fd").iterdir()))


def test_connections_that_are_refused_are_bounded_too(agent: H11Agent, tmp_path: Path) -> None:
    limits = "--limits", "client_connections=1"
    with Proxy(agent.url, tmp_path / "turns.db", *limits) as proxy, connect(proxy) as first, ExitStack() as crowd:
        first.sendall(GET % b"a")
        assert first.recv(12) == b"HTTP/1.1 200"
        before = open_files(proxy)
        for _ in range(200):
            with suppress(ConnectionResetError):  # the proxy may be faster than `connect`
                last = crowd.enter_context(connect(proxy))
        assert select.select([last], [], [], PATIENCE_S)[0]
        assert open_files(proxy) - before < 50
