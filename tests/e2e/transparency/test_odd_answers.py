"""Answers of agents that are unusual, broken or at the edge of HTTP: passed on as a good proxy does, or a clear 502."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import h11
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


@pytest.mark.parametrize("status", [b"000", b"099", b"600", b"999"])
def test_a_status_outside_of_http_is_an_error_of_the_agent(status: bytes, agent: H11Agent, proxy: Proxy) -> None:
    """RFC 9110, section 15: such a status is not valid. It is not an interim answer either."""
    answer_with(agent, b"HTTP/1.1 %b Odd\r\ncontent-length: 3\r\n\r\nodd" % status)
    received = raw_answer(proxy, GET)
    assert received.startswith(b"HTTP/1.1 502 ")
    assert b"the answer has the status %b; expected 100 to 599" % status in received


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


def test_an_agent_that_closes_connections_without_a_word_loses_hardly_a_request(agent: H11Agent, proxy: Proxy) -> None:
    """It closes each connection right behind its answer, and announces nothing.

    One request may cross with the first close; from then on the proxy knows.
    """
    agent.behave = closing
    with httpx.Client(base_url=proxy.url, trust_env=False) as client:
        statuses = [client.post("/a", content=b"{}").status_code for _ in range(480)]
    assert statuses.count(200) >= 479


async def closing(wire: Wire, request: Request) -> None:
    await wire.read_body(request)
    wire.answer(b"ok")
    await wire.writer.drain()
    raise ConnectionResetError


def test_strays_behind_an_answer_reach_nobody(agent: H11Agent, proxy: Proxy) -> None:
    """They come in one packet with it: those that come after the next request look like its answer."""

    async def behave(wire: Wire, request: Request) -> None:
        await wire.read_body(request)
        length = (b"content-length", b"%d" % len(request.target))
        events = (h11.Response(status_code=200, headers=[length]), h11.Data(data=request.target), h11.EndOfMessage())
        answer = b"".join(wire.http.send(event) or b"" for event in events)
        wire.writer.write(answer + b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nstray")

    agent.behave = behave
    with httpx.Client(base_url=proxy.url, trust_env=False) as client:
        for number in range(100):
            assert client.post(f"/{number}", content=b"{}").text == f"/{number}"


def test_a_card_made_for_one_client_is_not_for_a_shared_cache(agent: H11Agent, proxy: Proxy) -> None:
    """Its URLs come from the request: a cache must not give them to others."""
    card = f"{proxy.url}/.well-known/agent-card.json"
    first, second = (
        httpx.get(card, headers={"x-forwarded-host": host}, trust_env=False) for host in ("a.example", "b.example")
    )
    assert "a.example" in first.text
    assert "b.example" in second.text
    assert first.headers["cache-control"] == "private, max-age=60"
    assert {"forwarded", "x-forwarded-host"} <= {name.strip() for name in first.headers["vary"].split(",")}


@pytest.mark.parametrize(
    ("target", "expected"),
    [(b"/p?", b"/p?"), (b"/p", b"/p"), (b"http://x/p?q", b"/p?q"), (b"http://x", b"/"), (b"http://x?q", b"/?q")],
)
def test_targets_at_the_edge(target: bytes, expected: bytes, agent: H11Agent, proxy: Proxy) -> None:
    received = raw_answer(proxy, b"GET " + target + b" HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
    assert received.endswith(b"\r\n\r\n" + expected + b" 0")
