"""HTTP/2 on the data port: the agent and the client get what they get over HTTP/1.1."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

import httpx
import pytest
from agents.replay_agent import Answer, Received, ReplayAgent
from e2e.raw_http import HOP_BY_HOP, Headers, exchange
from e2e.transparency.test_bytes import STREAMS, UNCHANGED, assert_same_request
from support.patience import PATIENCE_S
from support.recordings import Recording


def one_of_each(names: Iterable[str]) -> list[str]:
    """One recording of each binding, version and operation, asking or not; where there are more, another scenario each.

    `test_bytes` has all over HTTP/1.1: what a body holds is read alike over both."""
    alike: dict[tuple[str | bool, ...], list[str]] = defaultdict(list)
    for name in names:
        alike[*name.split("-")[:3], name.endswith("-ext")].append(name)
    return [group[number % len(group)] for number, group in enumerate(alike.values())]


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    """One whose connections begin with the preface, and which adds no header fields of its own."""
    with httpx.Client(http1=False, http2=True, trust_env=False, timeout=PATIENCE_S) as client:
        client.headers.clear()
        yield client


def answered(client: httpx.Client, url: str, recording: Recording, headers: Headers) -> httpx.Response:
    method, target, _ = recording.request_line.split()
    response = client.request(method, url + target, headers=headers, content=recording.request_body)
    assert response.http_version == "HTTP/2"
    return response


def only(replay: ReplayAgent) -> Received:
    (request,) = replay.received
    return request


@pytest.mark.parametrize("name", one_of_each(UNCHANGED))
def test_recorded_traffic(name: str, replay: ReplayAgent, replay_proxy_url: str, client: httpx.Client) -> None:
    recording = Recording.load(name).renewed()
    headers = recording.request_headers(asking=False)
    replay.prepare(recording.answer())
    exchange(replay.url, recording.request_line, headers, recording.request_body)
    direct = only(replay)
    first = exchange(replay_proxy_url, recording.request_line, headers, recording.request_body)
    replay.prepare(recording.answer())
    second = answered(client, replay_proxy_url, recording, headers)

    assert_same_request(only(replay), direct)
    assert (second.status_code, second.content) == (first.status, first.body)
    fields = sorted((name, value) for name, value in second.headers.multi_items() if name not in HOP_BY_HOP)
    assert fields == first.end_to_end_headers


@pytest.mark.parametrize("asking", [True, False])
@pytest.mark.parametrize("name", one_of_each(STREAMS))
def test_events_arrive_one_by_one(
    name: str, asking: bool, replay: ReplayAgent, replay_proxy_url: str, client: httpx.Client
) -> None:
    """The agent sends an event only after the client has the one before: whoever holds one back stalls here."""
    recording = Recording.load(name).renewed()
    replay.prepare(recording.answer(paced=True))
    method, target, _ = recording.request_line.split()
    headers = recording.request_headers(asking=asking)
    with client.stream(method, replay_proxy_url + target, headers=headers, content=recording.request_body) as response:
        pieces, body = response.iter_raw(), b""
        for number in range(1, len(recording.chunks) + 1):
            while body.count(b"\r\n\r\n") < number:
                body += next(pieces)
            replay.release()
        assert list(pieces) == []


def test_a_cut_of_the_agent_stays_a_cut(replay: ReplayAgent, replay_proxy_url: str, client: httpx.Client) -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    replay.prepare(Answer([head + b"5\r\n: hi\n\r\n"], cut=True))
    with (
        pytest.raises(httpx.RemoteProtocolError, match="error_code:2"),
        client.stream("GET", f"{replay_proxy_url}/events") as response,
    ):
        response.read()


def test_an_upload_in_parts_and_a_large_response(
    replay: ReplayAgent, replay_proxy_url: str, client: httpx.Client
) -> None:
    """Many times what fits into a window, both ways."""
    content = bytes(range(256)) * 4096 * 4
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/octet-stream\r\ncontent-length: %d\r\n\r\n" % len(content)
    replay.prepare(Answer([head, content]))
    parts = (content[start : start + 100_000] for start in range(0, len(content), 100_000))
    response = client.post(f"{replay_proxy_url}/upload", content=parts)
    assert response.content == content
    assert only(replay).body == content
