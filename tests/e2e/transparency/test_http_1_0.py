"""Clients that speak HTTP/1.0 get bodies they can read: with a length, or up to the end of the connection."""

from __future__ import annotations

from collections.abc import Iterator

import h11
import pytest
from agents.h11_agent import H11Agent, Request, Wire, echo
from e2e.transparency.test_slow_peers import connect
from support.proxy import Proxy

PIECES = (b"data: one\n\n", b"data: two\n\n", b"data: " + b"x" * 500_000 + b"\n\n")


@pytest.fixture(scope="module")
def agent() -> Iterator[H11Agent]:
    with H11Agent() as agent:
        yield agent


@pytest.fixture(scope="module")
def proxy(agent: H11Agent, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    with Proxy(agent.url, tmp_path_factory.mktemp("store") / "turns.db") as proxy:
        yield proxy


def begin(wire: Wire) -> None:
    """A stream without a length: in chunks."""
    wire.send(h11.Response(status_code=200, headers=[(b"content-type", b"text/event-stream")]))


async def stream(wire: Wire, request: Request) -> None:
    await wire.read_body(request)
    begin(wire)
    for piece in PIECES:
        wire.send(h11.Data(data=piece))
        await wire.writer.drain()
    wire.send(h11.EndOfMessage())


async def cut(wire: Wire, request: Request) -> None:
    await wire.read_body(request)
    begin(wire)
    wire.send(h11.Data(data=PIECES[0]))
    await wire.writer.drain()
    raise ConnectionResetError


def answer(proxy: Proxy, request: bytes) -> tuple[bytes, bytes]:
    """Header and body up to the end. Raises ConnectionError where the connection is reset."""
    received = b""
    with connect(proxy) as client:
        client.sendall(request)
        while data := client.recv(65_536):
            received += data
    head, _, body = received.partition(b"\r\n\r\n")
    return head.lower(), body


@pytest.mark.parametrize("more", [b"", b"connection: keep-alive\r\n"], ids=["", "keep-alive"])
def test_a_body_of_unknown_length_ends_with_the_connection(more: bytes, agent: H11Agent, proxy: Proxy) -> None:
    agent.behave = stream
    head, body = answer(proxy, b"GET /a HTTP/1.0\r\n%b\r\n" % more)
    assert b"transfer-encoding" not in head
    assert b"content-length" not in head
    assert b"\r\nconnection: close" in head
    assert body == b"".join(PIECES)


def test_a_cut_is_no_end(agent: H11Agent, proxy: Proxy) -> None:
    agent.behave = cut
    with pytest.raises(ConnectionResetError):
        answer(proxy, b"GET /a HTTP/1.0\r\n\r\n")


def test_a_length_stays(agent: H11Agent, proxy: Proxy) -> None:
    agent.behave = echo
    head, body = answer(proxy, b"GET /a HTTP/1.0\r\n\r\n")
    assert b"\r\ncontent-length: 4" in head
    assert body == b"/a 0"
