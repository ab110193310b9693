"""Answers of agents that are unusual, broken or at the edge of HTTP: passed on as a good proxy does, or a clear 502."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import httpx
import pytest
from agents.h11_agent import H11Agent, Request, Wire, echo
from agents.scenarios import METADATA_KEY, URI
from support.patience import PATIENCE_S
from support.proxy import Proxy

SEND = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "SendStreamingMessage",
    "params": {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}},
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[H11Agent, Proxy]]:
    with (
        H11Agent() as agent,
        Proxy(agent.url, tmp_path_factory.mktemp("store") / "turns.db", "--negotiate", "always") as proxy,
    ):
        yield agent, proxy


@pytest.fixture
def agent(served: tuple[H11Agent, Proxy]) -> H11Agent:
    served[0].behave = echo
    return served[0]


@pytest.fixture
def proxy(served: tuple[H11Agent, Proxy]) -> Iterator[Proxy]:
    """Whatever happened, there is no traceback in its log."""
    yield served[1]
    assert "Traceback" not in served[1].stderr()


def answer_with(agent: H11Agent, raw: bytes, *, close: bool = False) -> None:
    async def behave(wire: Wire, request: Request) -> None:
        await wire.read_body(request)
        wire.writer.write(raw)
        if close:
            await wire.writer.drain()
        # A connection on which more was sent than h11 knows of ends here.
        raise ConnectionResetError

    agent.behave = behave


def raw_answer(proxy: Proxy, request: bytes) -> bytes:
    host, port = proxy.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), PATIENCE_S) as connection:
        connection.sendall(request)
        received = b""
        while piece := connection.recv(65_536):
            received += piece
        return received


GET = b"GET /a HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"


@pytest.mark.parametrize(
    "fields",
    [
        b"content-length: 2\r\ncontent-length: 3\r\n",
        b"content-length: 2\r\ntransfer-encoding: chunked\r\n",
        b"transfer-encoding: gzip\r\n",
    ],
)
def test_framing_that_can_be_read_in_two_ways_is_refused(fields: bytes, agent: H11Agent, proxy: Proxy) -> None:
    answer_with(agent, b"HTTP/1.1 200 OK\r\n" + fields + b"\r\nok", close=True)
    response = httpx.get(f"{proxy.url}/a", trust_env=False)
    assert response.status_code == 502
    assert "gave no HTTP answer" in response.text


def test_a_stream_with_a_length_from_which_something_is_taken_out(agent: H11Agent, proxy: Proxy) -> None:
    artifact = {"artifactId": "a", "parts": [{"text": "answer"}], "extensions": [URI], "metadata": {METADATA_KEY: []}}
    events = b"".join(
        b"data: %b\n\n" % json.dumps({"jsonrpc": "2.0", "id": 1, "result": result}).encode()
        for result in (
            {"artifactUpdate": {"taskId": "t", "contextId": "c", "artifact": artifact}},
            {"statusUpdate": {"taskId": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}}},
        )
    )

    async def behave(wire: Wire, request: Request) -> None:
        await wire.read_body(request)
        wire.answer(events, content_type=b"text/event-stream")

    agent.behave = behave
    response = httpx.post(proxy.url, json=SEND, headers={"a2a-version": "1.0"}, trust_env=False)
    assert response.text.count("data: ") == 2
    assert "answer" in response.text
    assert URI not in response.text


@pytest.mark.parametrize(
    ("target", "expected"),
    [(b"/p?", b"/p?"), (b"/p", b"/p"), (b"http://x/p?q", b"/p?q"), (b"http://x", b"/"), (b"http://x?q", b"/?q")],
)
def test_targets_at_the_edge(target: bytes, expected: bytes, agent: H11Agent, proxy: Proxy) -> None:
    received = raw_answer(proxy, b"GET " + target + b" HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
    assert received.endswith(b"\r\n\r\n" + expected + b" 0")
