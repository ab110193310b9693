"""HTTP/2 on the data port: the agent and the client get what they get over HTTP/1.1."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import httpx
import pytest
from agents.replay_agent import Answer, Received, ReplayAgent
from e2e.raw_http import HOP_BY_HOP, Headers, exchange
from e2e.transparency.test_bytes import STREAMS, UNCHANGED, assert_same_request
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    InformationalResponseReceived,
    ResponseReceived,
    StreamEnded,
    StreamReset,
)
from support.patience import PATIENCE_S
from support.raw_http2 import Fields, RawClient
from support.recordings import Recording


def one_of_each(names: Iterable[str]) -> list[str]:
    """One recording of each binding, version and operation, asking or not; where there are more, another scenario each.

    `test_bytes` has all over HTTP/1.1: what a body holds is read alike over both."""
    alike: dict[tuple[str | bool, ...], list[str]] = defaultdict(list)
    for name in names:
        alike[*name.split("-")[:3], name.endswith("-ext")].append(name)
    return [group[number % len(group)] for number, group in enumerate(alike.values())]


PLAIN = Answer([b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\nok"])


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    """One whose connections begin with the preface, and which adds no header fields of its own."""
    with httpx.Client(http1=False, http2=True, trust_env=False, timeout=PATIENCE_S) as client:
        client.headers.clear()
        yield client


def address(url: str) -> str:
    return url.removeprefix("http://")


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


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_curl_with_prior_knowledge(replay: ReplayAgent, replay_proxy_url: str) -> None:
    curl = ["curl", "-sS", "--http2-prior-knowledge", "-w", "\n%{http_version} %{http_code}"]
    if "HTTP2" not in subprocess.run(["curl", "--version"], capture_output=True, text=True, check=True).stdout:
        pytest.skip("this curl has no HTTP/2")
    replay.prepare(PLAIN)
    done = subprocess.run([*curl, "-d", "{}", replay_proxy_url], capture_output=True, text=True, timeout=PATIENCE_S)
    assert (done.stdout, done.stderr) == ("ok\n2 200", "")
    assert only(replay).body == b"{}"


def head_of(method: bytes, path: bytes, *fields: tuple[bytes, bytes]) -> Fields:
    return [(b":method", method), (b":scheme", b"http"), (b":path", path), (b":authority", b"proxy"), *fields]


def answer_to(url: str, head: Fields, body: bytes = b"") -> dict[str, Any]:
    """Status and body of a response, with the interim ones, or the code with which it was reset."""
    found: dict[str, Any] = {"body": b"", "interim": []}
    with RawClient(address(url)) as client:
        client.h2.send_headers(1, head, end_stream=not body)
        if body:
            client.h2.send_data(1, body, end_stream=True)
        for event in client.until(1, StreamEnded, StreamReset):
            if isinstance(event, InformationalResponseReceived):
                found["interim"].append(dict(event.headers)[b":status"])
            elif isinstance(event, ResponseReceived):
                found["status"] = int(dict(event.headers)[b":status"])
            elif isinstance(event, DataReceived):
                found["body"] += event.data
            elif isinstance(event, StreamReset):
                found["reset"] = event.error_code
    return found


def test_what_makes_an_http_1_request(replay: ReplayAgent, replay_proxy_url: str) -> None:
    """Cookies in parts are one field (RFC 9113, section 8.2.3); fields of one hop stay here."""
    replay.prepare(PLAIN)
    fields = [(b"cookie", b"a=1"), (b"x-a", b"1"), (b"cookie", b"b=2"), (b"te", b"trailers"), (b"x-a", b"\xe9")]
    found = answer_to(replay_proxy_url, head_of(b"PATCH", b"/a%2Fb//?x=1&y=%C3", *fields), b"text")
    assert (found["status"], found["body"]) == (200, b"ok")
    request = only(replay)
    assert request.request_line == "PATCH /a%2Fb//?x=1&y=%C3 HTTP/1.1"
    assert request.body == b"text"
    own = [
        field for field in request.headers if field[0] not in ("host", "traceparent", "tracestate", "content-length")
    ]
    assert own == [("x-a", "1"), ("x-a", "é"), ("cookie", "a=1; b=2")]


def test_a_client_that_waits_for_leave_to_send_gets_it(replay: ReplayAgent, replay_proxy_url: str) -> None:
    replay.prepare(PLAIN)
    found = answer_to(replay_proxy_url, head_of(b"POST", b"/", (b"expect", b"100-continue")), b"text")
    assert (found["interim"], found["status"]) == ([b"100"], 200)


MALFORMED: dict[str, Fields] = {
    "no path": [(b":method", b"GET"), (b":scheme", b"http")],
    "no scheme": [(b":method", b"GET"), (b":path", b"/")],
    "two paths": [*head_of(b"GET", b"/"), (b":path", b"/")],
    "a pseudo-header after others": [(b"x-a", b"1"), *head_of(b"GET", b"/")],
    "an unknown pseudo-header": [*head_of(b"GET", b"/"), (b":status", b"200")],
    "a second request in the path": head_of(b"GET", b"/ HTTP/1.1\r\nx: y"),
    "a blank in the path": head_of(b"GET", b"/a b"),
    "a blank in the method": head_of(b"GET /x HTTP/1.1", b"/"),
    "a path of another host": head_of(b"GET", b"http://other/"),
    "a field of HTTP/1.1": head_of(b"GET", b"/", (b"transfer-encoding", b"chunked")),
    "a connection": head_of(b"GET", b"/", (b"connection", b"x-a")),
    "two lengths": head_of(b"POST", b"/", (b"content-length", b"0"), (b"content-length", b"0")),
    "another length": head_of(b"POST", b"/", (b"content-length", b"1")),
    "two hosts": head_of(b"GET", b"/", (b"host", b"other")),
    "a line break": head_of(b"GET", b"/", (b"x-a", b"1\r\nx-b: 2")),
    "a capital letter": head_of(b"GET", b"/", (b"X-A", b"1")),
}


@pytest.mark.parametrize("head", MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_request_reaches_nobody(head: Fields, replay: ReplayAgent, replay_proxy_url: str) -> None:
    replay.prepare(PLAIN)
    assert answer_to(replay_proxy_url, head)["reset"] == ErrorCodes.PROTOCOL_ERROR
    assert replay.received == []


@pytest.mark.parametrize("length", [b"1", b"5", b"x", b"9" * 5000])
def test_a_body_of_another_length_ends_its_connection(
    length: bytes, replay: ReplayAgent, replay_proxy_url: str
) -> None:
    replay.prepare(PLAIN)
    with RawClient(address(replay_proxy_url)) as client:
        client.h2.send_headers(1, head_of(b"POST", b"/", (b"content-length", length)))
        client.h2.send_data(1, b"text", end_stream=True)
        events = client.events()
        while not isinstance(events[-1], ConnectionTerminated):
            events += client.events()
    assert events[-1].error_code == ErrorCodes.PROTOCOL_ERROR
    assert not any(request.body == b"text" for request in replay.received), "none is whole"


@pytest.mark.parametrize(
    ("head", "status"),
    [
        ([(b":method", b"CONNECT"), (b":authority", b"proxy")], 400),
        (head_of(b"GET", b"/\xc3\xa4"), 400),
        (head_of(b"TRACE", b"/"), 405),
        (head_of(b"GET", b"/", (b"x-large", b"x" * 70_000)), 431),
    ],
    ids=["CONNECT", "not ASCII", "TRACE", "a large header"],
)
def test_a_request_that_is_refused(head: Fields, status: int, replay: ReplayAgent, replay_proxy_url: str) -> None:
    replay.prepare(PLAIN)
    found = answer_to(replay_proxy_url, head)
    assert found["status"] == status
    assert found["body"]
    assert replay.received == []


def test_requests_on_one_connection_do_not_wait_for_each_other(replay: ReplayAgent, replay_proxy_url: str) -> None:
    """A hundred streams are open while a request is answered; each ends with its client."""
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    replay.prepare(Answer([head + b"5\r\n: hi\n\r\n", b"0\r\n\r\n"], paced=True))
    with RawClient(address(replay_proxy_url)) as client:
        streams = set(range(1, 200, 2))
        for stream_id in streams:
            client.h2.send_headers(stream_id, head_of(b"GET", b"/events"), end_stream=True)
        waiting = set(streams)
        while waiting:
            waiting -= {event.stream_id for event in client.events() if isinstance(event, DataReceived)}
        replay.answer = PLAIN
        client.h2.send_headers(201, head_of(b"GET", b"/"), end_stream=True)
        assert client.until(201, StreamEnded)
        for stream_id in streams:
            client.h2.reset_stream(stream_id, ErrorCodes.CANCEL)
        client.h2.send_headers(203, head_of(b"GET", b"/"), end_stream=True)
        assert client.until(203, StreamEnded)


def test_the_proxy_s_own_errors_have_the_shape_of_the_binding(proxy_of: Any, client: httpx.Client) -> None:
    url = proxy_of("http://127.0.0.1:9").url
    response = client.post(url, content=json.dumps({"jsonrpc": "2.0", "id": 7, "method": "SendMessage"}))
    assert (response.status_code, response.json()["id"]) == (502, 7)
