"""Not a byte changes on the way: requests as the agent gets them, responses as the client gets them."""

from __future__ import annotations

import pytest
from agents.replay_agent import Received, ReplayAgent
from agents.scenarios import URI
from e2e.raw_http import Headers, RawConnection, RawResponse, exchange
from support.recordings import EXTENSION_HEADERS, Recording, names

PER_CONNECTION = {"host", "connection"}

ADDED_BY_PROXY = {*EXTENSION_HEADERS, "traceparent", "tracestate"}

# Cards and redirects name the agent's address, so they are rewritten.
REWRITTEN = {name for name in names() if "card" in name} | {"not-found"}
UNCHANGED = [name for name in names() if name not in REWRITTEN]
WITHOUT_EXTENSION = [name for name in UNCHANGED if URI.encode() not in Recording.load(name).response_body]
STREAMS = [name for name in UNCHANGED if Recording.load(name).streams]


Played = tuple[RawResponse, Received]


def play(replay: ReplayAgent, url: str, recording: Recording, headers: Headers) -> Played:
    replay.prepare(recording.answer())
    response = exchange(url, recording.request_line, headers, recording.request_body)
    (request,) = replay.received
    return response, request


def assert_same_response(proxied: RawResponse, direct: RawResponse) -> None:
    assert direct.complete
    assert proxied.complete
    assert proxied.status_line == direct.status_line
    assert proxied.end_to_end_headers == direct.end_to_end_headers
    assert proxied.body == direct.body


def assert_same_request(proxied: Received, direct: Received) -> None:
    assert proxied.request_line == direct.request_line
    assert proxied.body == direct.body
    sent = sorted(header for header in direct.headers if header[0] not in PER_CONNECTION)
    got = sorted(header for header in proxied.headers if header[0] not in PER_CONNECTION)
    assert [header for header in sent if header not in got] == []
    for header in sent:
        got.remove(header)
    assert {name for name, _ in got} <= ADDED_BY_PROXY


@pytest.mark.parametrize(("asking", "recorded"), [(True, UNCHANGED), (False, WITHOUT_EXTENSION)])
def test_recorded_traffic(
    asking: bool, recorded: list[str], replay: ReplayAgent, replay_proxy_url: str, subtests: pytest.Subtests
) -> None:
    for name in recorded:
        with subtests.test(name):
            recording = Recording.load(name).renewed()
            headers = recording.request_headers(asking=asking)
            direct = play(replay, replay.url, recording, headers)
            proxied = play(replay, replay_proxy_url, recording, headers)
            assert direct[0].body == recording.response_body
            assert_same_response(proxied[0], direct[0])
            assert_same_request(proxied[1], direct[1])


@pytest.mark.parametrize("asking", [True, False])
def test_events_arrive_one_by_one(
    asking: bool, replay: ReplayAgent, replay_proxy_url: str, subtests: pytest.Subtests
) -> None:
    """The agent sends an event only after the client has the one before: whoever holds one back stalls here."""
    for name in STREAMS:
        with subtests.test(name):
            recording = Recording.load(name).renewed()
            replay.prepare(recording.answer(paced=True))
            headers = recording.request_headers(asking=asking)
            with RawConnection(replay_proxy_url) as connection:
                connection.send(recording.request_line, headers, recording.request_body)
                response = connection.read_head()
                pieces = connection.pieces()
                for number, chunk in enumerate(recording.chunks, start=1):
                    while response.body.count(b"\r\n\r\n") < number:
                        next(pieces)
                    assert not asking or response.body.endswith(chunk)
                    replay.release()
                assert list(pieces) == []
                assert response.complete
