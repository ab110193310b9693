"""HTTP/2 on the data port: the agent and the client get what they get over HTTP/1.1."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from agents.replay_agent import Answer, Received, ReplayAgent
from e2e.raw_http import HOP_BY_HOP, exchange
from e2e.transparency.test_bytes import assert_same_request
from support.patience import PATIENCE_S
from support.recordings import Recording

RECORDED = ["jsonrpc-v1.0-send-artifact", "jsonrpc-v0.3-stream-chunks", "rest-v1.0-stream-ask", "rest-v0.3-get"]
"""Of each binding and version; `test_bytes` has all over HTTP/1.1: what a body holds is read alike over both."""


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    """One whose connections begin with the preface, and which adds no header fields of its own."""
    with httpx.Client(http1=False, http2=True, trust_env=False, timeout=PATIENCE_S) as client:
        client.headers.clear()
        yield client


def only(replay: ReplayAgent) -> Received:
    (request,) = replay.received
    return request


@pytest.mark.parametrize("asking", [True, False])
@pytest.mark.parametrize("name", RECORDED)
def test_recorded_traffic(
    name: str, asking: bool, replay: ReplayAgent, replay_proxy_url: str, client: httpx.Client
) -> None:
    """The agent sends an event only after the client has the one before: whoever holds one back stalls here."""
    recording = Recording.load(name).renewed()
    headers = recording.request_headers(asking=asking)
    replay.prepare(recording.answer())
    exchange(replay.url, recording.request_line, headers, recording.request_body)
    direct = only(replay)
    first = exchange(replay_proxy_url, recording.request_line, headers, recording.request_body)
    replay.prepare(recording.answer(paced=True))
    method, target, _ = recording.request_line.split()
    url = replay_proxy_url + target
    with client.stream(method, url, headers=headers, content=recording.request_body) as second:
        body = b""
        for piece in second.iter_raw():
            body += piece
            for _ in range(piece.count(b"\r\n\r\n")):
                replay.release()

    assert second.http_version == "HTTP/2"
    assert_same_request(only(replay), direct)
    assert (second.status_code, body) == (first.status, first.body)
    fields = sorted((name, value) for name, value in second.headers.multi_items() if name not in HOP_BY_HOP)
    assert fields == first.end_to_end_headers


def test_a_cut_of_the_agent_stays_a_cut(replay: ReplayAgent, replay_proxy_url: str, client: httpx.Client) -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    replay.prepare(Answer([head + b"5\r\n: hi\n\r\n"], cut=True))
    with (
        pytest.raises(httpx.RemoteProtocolError, match="error_code:2"),
        client.stream("GET", f"{replay_proxy_url}/events") as response,
    ):
        response.read()
