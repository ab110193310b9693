"""What RFC 9110 and 9112 leave to intermediaries: what the proxy adds, keeps and removes, and who ends what.

One exchange is one exchange: nothing leaks into another and nothing is lost, whatever peers send.
"""

from __future__ import annotations

import json
import socket
import threading
from typing import Any

import h11
import pytest
from agents.h11_agent import H11Agent, Request, Wire
from agents.scenarios import METADATA_KEY, URI
from e2e.raw_http import RawConnection, exchange
from e2e.transparency.sockets import connect, raw_answer
from support.patience import PATIENCE_S
from support.proxy import Proxy

SEND: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "SendStreamingMessage",
    "params": {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}},
}
EVENTS = b"text/event-stream"


async def stream(wire: Wire, *pieces: bytes) -> None:
    """Begin a response without a length: in chunks, each piece in one."""
    wire.send(h11.Response(status_code=200, headers=[(b"content-type", EVENTS)]))
    for piece in pieces:
        wire.send(h11.Data(data=piece))
        await wire.writer.drain()


def answer_with(agent: H11Agent, raw: bytes) -> None:
    async def behave(wire: Wire, request: Request) -> None:
        await wire.read_body(request)
        wire.writer.write(raw)
        await wire.writer.drain()
        raise ConnectionResetError  # h11 does not know of what was sent

    agent.behave = behave


# ── requests ────────────────────────────────────────────────────────────────────────────────────────────────


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


def test_a_request_without_a_host_is_served(plain_agent: H11Agent, plain_proxy: Proxy) -> None:
    """The agent gets its own in any case."""
    assert raw_answer(plain_proxy.url, b"GET /a HTTP/1.1\r\nconnection: close\r\n\r\n").endswith(b"/a 0")
    assert plain_agent.requests[0].header(b"host") == [plain_agent.url.removeprefix("http://").encode()]


SMUGGLED = b"GET /smuggled HTTP/1.1\r\nhost: evil\r\nauthorization: Bearer evil\r\n\r\n"


@pytest.mark.parametrize("named", ["content-length", "Content-Length, keep-alive", "transfer-encoding", "host"])
def test_connection_cannot_name_what_frames_a_request(named: str, plain_agent: H11Agent, plain_proxy: Proxy) -> None:
    assert exchange(plain_proxy.url, "POST /a HTTP/1.1", [("Connection", named)], SMUGGLED).body == b"/a %d" % len(
        SMUGGLED
    )
    assert exchange(plain_proxy.url, "GET /b HTTP/1.1", []).body == b"/b 0"
    assert [(request.target, request.body) for request in plain_agent.requests] == [(b"/a", SMUGGLED), (b"/b", b"")]
    assert plain_agent.requests[0].header(b"content-length") == [b"%d" % len(SMUGGLED)]


def test_connection_cannot_take_credentials_or_the_content_type_out(plain_agent: H11Agent, plain_proxy: Proxy) -> None:
    kept = [("Authorization", "Bearer x"), ("Content-Type", "a/b")]
    named = ("Connection", "authorization, x-mine, content-type")
    exchange(plain_proxy.url, "POST /a HTTP/1.1", [named, *kept, ("X-Mine", "1")], b"{}")
    found = [plain_agent.requests[0].header(name) for name in (b"authorization", b"content-type", b"x-mine")]
    assert found == [[b"Bearer x"], [b"a/b"], []]


def test_a_body_behind_a_request_for_the_card_goes_nowhere(plain_agent: H11Agent, plain_proxy: Proxy) -> None:
    with RawConnection(plain_proxy.url) as connection:
        connection.send("GET /.well-known/agent-card.json HTTP/1.1", [("Content-Length", "100")], b"")
        assert connection.read_head().status == 200
    assert exchange(plain_proxy.url, "POST /next HTTP/1.1", [], b"{}").body == b"/next 2"
    assert all(request.whole and not request.body for request in plain_agent.card_requests)
    assert [(request.target, request.body) for request in plain_agent.requests] == [(b"/next", b"{}")]


OFFER = b"Connection: Upgrade, HTTP2-Settings\r\nHost: x\r\nHTTP2-Settings: AAEAAEAAAAIAAAAB\r\nUpgrade: h2c\r\n"
BODY = b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"t"}}'
FRAMED = {
    "length": b"Content-Length: %d\r\n\r\n%b" % (len(BODY), BODY),
    "chunked": b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY),
}


@pytest.mark.parametrize("framing", FRAMED)
@pytest.mark.parametrize("size", [1, 100, 10_000])
def test_an_offer_to_upgrade_loses_nothing(framing: str, size: int, plain_agent: H11Agent, plain_proxy: Proxy) -> None:
    """As the JDK's client makes it with every request over plain http, here in packets of any size, two on a way."""
    request = b"POST /a HTTP/1.1\r\n" + OFFER + FRAMED[framing]
    last = request.replace(b"Upgrade, HTTP2", b"close, Upgrade, HTTP2")
    with connect(plain_proxy.url) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for part in (request, last):
            for at in range(0, len(part), size):
                connection.sendall(part[at : at + size])
        assert connection.makefile("rb").read().count(b"/a %d" % len(BODY)) == 2
    assert [request.body for request in plain_agent.requests] == [BODY] * 2
    assert plain_agent.requests[0].header(b"upgrade") == plain_agent.requests[0].header(b"http2-settings") == []


# ── responses ───────────────────────────────────────────────────────────────────────────────────────────────

STREAM = (
    b'\xef\xbb\xbf: a comment\nretry: 1500\nid: 1\nevent: message\ndata: {"jsonrpc":"2.0",\ndata: "id":1}\n\n'
    b"\r\n\r\n: ping\r\n\r\nid\r\ndata:no space\r\nunknown: x\r\n\r\ndata: [DONE]\r\rdata\n\n"
    b'id: 2\ndata:{"text":"about %b"}\n: behind\n\ndata: not ended'
) % URI.encode()


@pytest.mark.parametrize("asking", [True, False])
def test_a_stream_of_events_arrives_byte_for_byte(asking: bool, plain_agent: H11Agent, plain_proxy: Proxy) -> None:
    """Comments, ids, `retry`, names of events, line ends and what is not an event, also where the proxy has asked.

    The data of an event that names the extension is written as compact JSON: as this agent does."""

    async def behave(wire: Wire, request: Request) -> None:
        await wire.read_body(request)
        await stream(wire, *(STREAM[start : start + 11] for start in range(0, len(STREAM), 11)))
        wire.send(h11.EndOfMessage())

    plain_agent.behave = behave
    headers = [("A2A-Version", "1.0"), *([("A2A-Extensions", URI)] if asking else [])]
    response = exchange(plain_proxy.url, "POST /rpc HTTP/1.1", headers, json.dumps(SEND).encode())
    assert plain_agent.requests[0].header(b"a2a-extensions") == [URI.encode()]
    assert response.complete
    assert response.body == STREAM


@pytest.mark.parametrize(("method", "frame"), [("SendMessage", b"%b"), ("SendStreamingMessage", b"data: %b\n\n")])
def test_fields_about_a_body_go_where_tool_calls_are_removed(
    method: str, frame: bytes, plain_agent: H11Agent, plain_proxy: Proxy
) -> None:
    """Also from a response that says `no-transform`: only the proxy asked for what it removes."""
    artifact = {"artifactId": "a", "parts": [{"text": "hi"}]}
    bodies = []
    for shown in (artifact | {"metadata": {METADATA_KEY: []}, "extensions": [URI]}, artifact):
        task = {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}, "artifacts": [shown]}
        content = {"jsonrpc": "2.0", "id": 1, "result": {"task": task}}
        bodies.append(frame % json.dumps(content, separators=(",", ":")).encode())
    media_type = EVENTS.decode() if method == SEND["method"] else "application/json"
    kept = {"content-type": media_type, "cache-control": "no-transform", "etag": "x"}
    digests = ["content-digest", "repr-digest"]
    wrong = {"content-length": str(len(bodies[0])), **dict.fromkeys(digests, "sha-256=:eA==:")}
    head = "".join(f"{name}: {value}\r\n" for name, value in {**kept, **wrong}.items())
    answer_with(plain_agent, f"HTTP/1.1 200 OK\r\n{head}\r\n".encode() + bodies[0])

    body = json.dumps(SEND | {"method": method}).encode()
    response = exchange(plain_proxy.url, "POST /rpc HTTP/1.1", [("A2A-Version", "1.0")], body)

    assert response.complete
    assert response.body == bodies[1]
    assert response.header("content-length") in (None, str(len(bodies[1])))
    assert [response.header(name) for name in digests] == [None] * len(digests)
    assert {name: response.header(name) for name in kept} == kept


@pytest.mark.parametrize(
    "fields",
    [
        b"content-length: 2\r\ncontent-length: 3\r\n",
        b"content-length: 2\r\ntransfer-encoding: chunked\r\n",
        b"transfer-encoding: gzip\r\n",
    ],
)
def test_framing_that_can_be_read_in_two_ways_is_refused(
    fields: bytes, plain_agent: H11Agent, plain_proxy: Proxy
) -> None:
    answer_with(plain_agent, b"HTTP/1.1 200 OK\r\n" + fields + b"\r\nok")
    assert exchange(plain_proxy.url, "GET /a HTTP/1.1", []).status == 502


@pytest.mark.parametrize("is_cut", [False, True])
def test_a_body_of_unknown_length_ends_with_the_connection_of_http_1_0(
    is_cut: bool, plain_agent: H11Agent, plain_proxy: Proxy
) -> None:
    """A cut is no end."""
    pieces = (b"data: one\n\n", b"data: " + b"x" * 500_000 + b"\n\n")

    async def behave(wire: Wire, request: Request) -> None:
        await stream(wire, *pieces)
        if is_cut:
            raise ConnectionResetError
        wire.send(h11.EndOfMessage())

    plain_agent.behave = behave
    request = b"GET /a HTTP/1.0\r\nconnection: keep-alive\r\n\r\n"
    if is_cut:
        with pytest.raises(ConnectionResetError):
            raw_answer(plain_proxy.url, request)
        return
    head, _, body = raw_answer(plain_proxy.url, request).partition(b"\r\n\r\n")
    assert b"transfer-encoding" not in head.lower()
    assert b"\r\nconnection: close" in head.lower()
    assert body == b"".join(pieces)


# ── errors and ends ─────────────────────────────────────────────────────────────────────────────────────────


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
            await stream(wire, b"data: 1\n\n")
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
