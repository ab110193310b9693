"""What RFC 9110 and 9112 leave to intermediaries: which fields the proxy adds, keeps and removes, and who ends what."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h11
import httpx
import pytest
from a2a_eval_proxy.app import run_proxy
from a2a_eval_proxy.settings.parts import Timeouts
from a2a_eval_proxy.settings.settings import Settings
from agents.h11_agent import H11Agent, Request, Wire, echo
from agents.scenarios import METADATA_KEY, URI
from e2e.raw_http import Headers, exchange
from e2e.transparency.test_odd_answers import SEND, answer_with, raw_answer
from e2e.transparency.test_slow_peers import connect
from support.patience import PATIENCE_S
from support.proxy import Proxy


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[H11Agent, Proxy]]:
    store = tmp_path_factory.mktemp("store") / "turns.db"
    with H11Agent() as agent, Proxy(agent.url, store, "--negotiate", "always") as proxy:
        yield agent, proxy


@pytest.fixture
def agent(served: tuple[H11Agent, Proxy]) -> H11Agent:
    served[0].behave = echo
    served[0].requests.clear()
    return served[0]


@pytest.fixture
def proxy(served: tuple[H11Agent, Proxy]) -> Proxy:
    return served[1]


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/api/turns", "/ui/", "/v1/traces"])
def test_the_data_port_has_no_paths_of_its_own(path: str, agent: H11Agent, proxy: Proxy) -> None:
    assert exchange(proxy.url, f"GET {path} HTTP/1.1", []).body == f"{path} 0".encode()


@pytest.mark.parametrize("line", [b"PROPFIND /a", b"QUERY /a", b"OPTIONS *", b"M-SEARCH *"])
def test_methods_that_no_binding_uses_pass(line: bytes, agent: H11Agent, proxy: Proxy) -> None:
    raw_answer(proxy, line + b" HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
    assert [b"%b %b" % (request.method, request.target) for request in agent.requests] == [line]


def test_a_request_without_a_host_is_served(agent: H11Agent, proxy: Proxy) -> None:
    """The agent gets its own in any case."""
    assert raw_answer(proxy, b"GET /a HTTP/1.1\r\nconnection: close\r\n\r\n").endswith(b"/a 0")
    assert agent.requests[0].header(b"host") == [agent.url.removeprefix("http://").encode()]


STREAM = (
    b'\xef\xbb\xbf: a comment\nretry: 1500\nid: 1\nevent: message\ndata: {"jsonrpc":"2.0",\ndata: "id":1}\n\n'
    b"\r\n\r\n: ping\r\n\r\nid\r\ndata:no space\r\nunknown: x\r\n\r\ndata: [DONE]\r\rdata\n\n"
    b'id: 2\ndata:{"text":"about %b"}\n: behind\n\ndata: not ended'
) % URI.encode()


@pytest.mark.parametrize("asking", [True, False])
def test_a_stream_of_events_arrives_byte_for_byte(asking: bool, agent: H11Agent, proxy: Proxy) -> None:
    """Comments, ids, `retry`, names of events, line ends and what is not an event, also where the proxy has asked.

    The data of an event that names the extension is written as compact JSON: as this agent does."""

    async def stream(wire: Wire, request: Request) -> None:
        await wire.read_body(request)
        wire.send(h11.Response(status_code=200, headers=[(b"content-type", b"text/event-stream")]))
        for start in range(0, len(STREAM), 11):
            wire.send(h11.Data(data=STREAM[start : start + 11]))
        wire.send(h11.EndOfMessage())

    agent.behave = stream
    headers = [("A2A-Version", "1.0"), *([("A2A-Extensions", URI)] if asking else [])]
    response = exchange(proxy.url, "POST /rpc HTTP/1.1", headers, json.dumps(SEND).encode())
    assert agent.requests[0].header(b"a2a-extensions") == [URI.encode()]
    assert response.complete
    assert response.body == STREAM


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
def test_fields_about_a_body_go_where_tool_calls_are_removed(binding: str, agent: H11Agent, proxy: Proxy) -> None:
    """Also from a response that says `no-transform`: only the proxy asked for what it removes."""
    artifact = {"artifactId": "a", "parts": [{"text": "hi"}]}
    asked_for = artifact | {"metadata": {METADATA_KEY: []}, "extensions": [URI]}
    bodies = []
    for shown in (asked_for, artifact):
        task = {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}, "artifacts": [shown]}
        result: object = {"task": task}
        content = {"jsonrpc": "2.0", "id": 1, "result": result} if binding == "JSONRPC" else result
        bodies.append(json.dumps(content, separators=(",", ":")).encode())
    kept = b"content-type: application/a2a+json\r\ncache-control: no-transform\r\netag: x\r\n"
    digests = b"content-digest: sha-256=:eA==:\r\nrepr-digest: sha-256=:eA==:\r\n"
    answer_with(
        agent, b"HTTP/1.1 200 OK\r\n%b%bcontent-length: %d\r\n\r\n%b" % (kept, digests, len(bodies[0]), bodies[0])
    )
    line, sent = ("POST /rpc", SEND | {"method": "SendMessage"})
    if binding == "HTTP+JSON":
        line, sent = "POST /message:send", SEND["params"]
    response = exchange(proxy.url, f"{line} HTTP/1.1", [("A2A-Version", "1.0")], json.dumps(sent).encode())
    assert response.body == bodies[1]
    assert response.header("content-length") == str(len(bodies[1]))
    assert response.header("content-digest") is response.header("repr-digest") is None
    assert (response.header("cache-control"), response.header("etag")) == ("no-transform", "x")
    assert response.header("content-type") == "application/a2a+json"


async def broken(wire: Wire, request: Request) -> None:
    raise ConnectionResetError


@pytest.mark.parametrize(
    ("method", "fields", "status", "word", "reason"),
    [
        ("POST", [("X-Large", "x" * 70_000)], 431, "INVALID_ARGUMENT", "HEADERS_TOO_LARGE"),
        ("POST", [], 502, "UNAVAILABLE", "UPSTREAM_FAILED"),
        ("TRACE", [], 405, "UNIMPLEMENTED", "METHOD_NOT_ALLOWED"),
    ],
)
def test_errors_of_the_proxy_name_it_and_their_reason(
    method: str, fields: Headers, status: int, word: str, reason: str, agent: H11Agent, proxy: Proxy
) -> None:
    """Not the domain of A2A: a client never takes them for errors of the agent."""
    agent.behave = broken
    info = {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": reason,
        "domain": "a2a-eval-proxy",
        "metadata": {},
    }
    rest = exchange(proxy.url, f"{method} /message:send HTTP/1.1", fields, json.dumps(SEND["params"]).encode())
    error = json.loads(rest.body)["error"]
    assert (rest.status, error["code"], error["status"], error["details"]) == (status, status, word, [info])
    rpc = exchange(proxy.url, f"{method} /rpc HTTP/1.1", fields, json.dumps(SEND).encode())
    assert rpc.status == status
    if method == "POST":
        error = json.loads(rpc.body)["error"]
        assert (error["code"], error["data"]) == (-32603, [info])
        assert json.loads(rpc.body)["id"] == (SEND["id"] if agent.requests else None)


async def test_an_agent_that_answers_too_late_is_a_504(agent: H11Agent, tmp_path: Path) -> None:
    async def silent(wire: Wire, request: Request) -> None:
        await wire.read_body(request)
        await wire.next_event()

    agent.behave = silent
    addresses: dict[str, Any] = {"listen": "127.0.0.1:0", "admin": "127.0.0.1:0", "otlp": None}
    settings = Settings(
        upstream=agent.url, store=str(tmp_path / "turns.db"), timeouts=Timeouts(response=0.1), **addresses
    )
    async with run_proxy(settings) as proxy, httpx.AsyncClient(base_url=proxy.url, trust_env=False) as client:
        rpc = await client.post("/rpc", json=SEND)
        rest = await client.get("/tasks/t")
    assert (rpc.status_code, rest.status_code) == (504, 504)
    (info,) = rpc.json()["error"]["data"]
    assert (info["reason"], info["domain"]) == ("UPSTREAM_TIMEOUT", "a2a-eval-proxy")
    error = rest.json()["error"]
    assert (error["status"], error["details"][0]["reason"]) == ("DEADLINE_EXCEEDED", "UPSTREAM_TIMEOUT")


@pytest.mark.parametrize("leaves", ["closes", "half-closes"])
@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_ends_the_request_at_the_agent(
    leaves: str, stream: bool, agent: H11Agent, proxy: Proxy
) -> None:
    """The connection to the agent closes: HTTP/1.1 has no other cancellation. A half-close counts as leaving."""
    begun, ended = threading.Event(), threading.Event()

    async def endless(wire: Wire, request: Request) -> None:
        await wire.read_body(request)
        if stream:
            wire.send(h11.Response(status_code=200, headers=[(b"content-type", b"text/event-stream")]))
            wire.send(h11.Data(data=b"data: 1\n\n"))
        begun.set()
        try:
            while await wire.reader.read(100):
                pass
        finally:
            ended.set()
        raise ConnectionResetError

    agent.behave = endless
    body = json.dumps(SEND).encode()
    with connect(proxy) as client:
        client.sendall(b"POST /rpc HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
        assert begun.wait(PATIENCE_S)
        if leaves == "half-closes":
            client.shutdown(socket.SHUT_WR)
            assert ended.wait(PATIENCE_S)
    assert ended.wait(PATIENCE_S)
