"""What passes between a client and its agent over HTTP, and what the proxy says where that fails."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
import pytest_asyncio
from a2a_eval_proxy.settings.parts import Timeouts, TrafficLimits
from a2a_tool_capture import METADATA_KEY, URI
from agents.replay_agent import Answer, ReplayAgent, json_answer
from support.patience import PATIENCE_S
from support.proxied import Proxied, proxied

pytestmark = pytest.mark.asyncio(loop_scope="module")

MESSAGE = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}}
TASK = {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}}
ASKS = {"a2a-extensions": URI}
OTHER = "https://example.com/other/v1"
LIMIT = 20_000


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def it(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Proxied]:
    limits = TrafficLimits(body_bytes=LIMIT, header_bytes=4_000)
    async with proxied(tmp_path_factory.mktemp("forwarder"), negotiate="always", limits=limits) as it:
        yield it


def rpc(method: str, params: Any = MESSAGE) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()


def answer(body: bytes, *fields: str, status: int = 200, left_out: int = 0) -> Answer:
    """An HTTP answer, with `left_out` bytes less than its length says."""
    head = [f"HTTP/1.1 {status} OK", *(fields or ["content-type: application/json"])]
    lines = [*head, f"content-length: {len(body) + left_out}", "", ""]
    return Answer(["\r\n".join(lines).encode() + body], cut=left_out > 0)


async def sent(it: Proxied, given: Answer, body: Any, line: str = "POST /", **headers: str) -> httpx.Response:
    it.agent.prepare(given)
    method, _, path = line.partition(" ")
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await it.data.request(method, path, content=body, headers={"a2a-version": "1.0", **named})


@pytest.mark.parametrize(
    ("line", "header", "status", "reason"),
    [("TRACE /", "", 405, "METHOD_NOT_ALLOWED"), ("POST /", "x" * 4_000, 431, "HEADERS_TOO_LARGE")],
)
async def test_what_does_not_reach_the_agent(it: Proxied, line: str, header: str, status: int, reason: str) -> None:
    response = await sent(it, answer(b"{}"), b"", line, x_mine=header)
    assert (response.status_code, it.agent.received) == (status, [])
    assert reason in response.text
    assert response.headers.get("allow", "-") in ("-", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS")


async def test_an_agent_that_is_not_understood_is_asked_no_more(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    packed = answer(b"x", "content-type: application/json", "content-encoding: br")
    async with proxied(tmp_path, negotiate="always") as it:
        response = await sent(it, packed, rpc("SendMessage"))
        assert (response.status_code, response.json()["error"]["data"][0]["reason"]) == (502, "UNREADABLE_ANSWER")
        assert (await sent(it, packed, rpc("SendMessage"))).content == b"x"
    assert "the agent is not asked for tool calls any more" in caplog.text


async def test_an_outage_is_logged_once_and_so_is_its_end(
    tmp_path: Path, port: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        writer.close()

    upstream = f"http://127.0.0.1:{port}"
    async with proxied(tmp_path, upstream=upstream) as it:
        down = [await it.data.get("/v1/tasks") for _ in range(3)]
        assert [(one.status_code, "UPSTREAM_UNREACHABLE" in one.text) for one in down] == [(502, True)] * 3
        async with await asyncio.start_server(serve, "127.0.0.1", port):
            assert [(await it.data.get("/v1/tasks")).status_code for _ in range(2)] == [404, 404]
    went, came = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert went.startswith(f"the agent at {upstream} cannot be reached: ")
    assert came == f"the agent at {upstream} answers again"


async def test_an_agent_that_answers_too_late(tmp_path: Path) -> None:
    async with proxied(tmp_path, timeouts=Timeouts(response=0.1)) as it:
        response = await sent(it, Answer([b"", b""], paced=True), rpc("SendMessage"))
        assert (response.status_code, response.json()["error"]["data"][0]["reason"]) == (504, "UPSTREAM_TIMEOUT")


JUNK = b"\x89PNG" * 1_000
DONE = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"task": TASK}}).encode()
SEND, CARD_LINE = rpc("SendMessage"), "GET /v1/extendedAgentCard"
TRACED, NAMED = {"traceparent"}, {"traceparent", "tracestate"}
ASKED = {*NAMED, "a2a-extensions"}
CONDITION = {"if-none-match": "x"}


class Row(NamedTuple):
    """A request (with a list: in pieces), the agent's answer, and what agent, client and capture get of them."""

    given: Answer = answer(DONE)
    body: Any = SEND
    line: str = "POST /"
    headers: dict[str, str] = {}  # noqa: RUF012  # never changed
    added: set[str] = ASKED
    """Which of `FIELDS` the agent gets."""
    status: int | None = 200
    """None: the answer breaks off."""
    content: bytes | str = DONE
    """What the client gets, or the reason of an error that the proxy makes."""
    codes: list[str] | None = ["no_capture"]  # noqa: RUF012  # never changed
    """Of the findings of the turn; None: there is none."""


FIELDS = {*ASKED, *CONDITION, "range"}
FAILED = {"status": 502, "content": "UPSTREAM_FAILED", "codes": ["upstream_failed"]}


async def pieces(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


ROWS = {
    "nothing": Row(Answer([b""], cut=True), **FAILED),
    "no HTTP": Row(Answer([b"junk\r\n\r\n"], cut=True), **FAILED),
    "breaks off": Row(answer(b'{"x', left_out=9), headers=ASKS, status=None, codes=["upstream_cut"]),
    "unreadable": Row(
        answer(b"x" * 30_000 + URI.encode(), "content-type: text/plain"),
        status=502,
        content="UNREADABLE_ANSWER",
        codes=["unreadable_answer"],
    ),
    "in pieces": Row(body=[b"{", SEND[1:]]),
    "too large": Row(
        body=[b"{", b" " * 2 * LIMIT, SEND[1:]],
        added=NAMED,
        codes=["request_too_large", "no_capture"],
    ),
    "junk": Row(body=[JUNK, JUNK], added=NAMED, codes=None),
    "bodiless": Row(
        answer(b"", status=204, left_out=5), status=204, content=b"", codes=["no_answer", "malformed_response"]
    ),
    "poll": Row(body=rpc("GetTask", {"id": "other"}), added=ASKED - {"tracestate"}, codes=None),
    "range": Row(headers={"range": "bytes=0-1"}, added={*NAMED, "range"}, codes=["no_capture"]),
    "file": Row(body=JUNK, line="POST /files", headers=CONDITION, added={*NAMED, *CONDITION}, codes=None),
    "own card": Row(body=b"", line=CARD_LINE, headers=CONDITION, added=TRACED, content=DONE, codes=None),
}


@pytest.mark.parametrize("name", ROWS)
async def test_an_exchange(it: Proxied, name: str) -> None:
    row, it.run = ROWS[name], name.replace(" ", "-")
    body = pieces(*row.body) if isinstance(row.body, list) else row.body
    response = None
    with suppress(httpx.RemoteProtocolError):
        response = await sent(it, row.given, body, row.line, a2a_eval_run=it.run, **row.headers)
    (received,) = it.agent.received
    assert received.body == (b"".join(row.body) if isinstance(row.body, list) else row.body)
    assert FIELDS & {field for field, _ in received.headers} == row.added
    if row.status is None or response is None:
        assert row.status is response is None
    else:
        shown = response.content if isinstance(row.content, bytes) else response.json()["error"]["data"][0]["reason"]
        assert (response.status_code, shown) == (row.status, row.content)
    await it.flushed()
    turns = await it.turns()
    assert [[one["code"] for one in turn["findings"]] for turn in turns] == ([] if row.codes is None else [row.codes])
    for turn in turns:
        (one,) = (await it.get(f"/api/turns/{turn['turn_id']}/wire"))["exchanges"]
        problem = next((code for code in row.codes or () if code.startswith(("upstream", "unreadable"))), None)
        assert (one["opens_turn"], one["request"]["method"], one["problem"]) == (True, "POST", problem)


@pytest.mark.parametrize("name", ["a2a-extensions", "x-a2a-extensions"])
@pytest.mark.parametrize(("headers", "expected"), [({}, OTHER), (ASKS, f"{URI}, {OTHER}")])
async def test_fields_for_the_client(it: Proxied, name: str, headers: dict[str, str], expected: str) -> None:
    given = answer(DONE, f"location: {it.agent.url}/x", f"{name}: {URI}, {OTHER}")
    response = await sent(it, given, SEND, host="proxy", **headers)
    assert (response.headers["location"], response.headers[name]) == ("http://proxy/x", expected)


@pytest.mark.parametrize(
    ("method", "frame", "kind"),
    [("SendMessage", b"%b", "application/json"), ("SendStreamingMessage", b"data: %b\n\n", "text/event-stream")],
)
async def test_fields_about_a_body_go_where_tool_calls_are_removed(
    it: Proxied, method: str, frame: bytes, kind: str
) -> None:
    """Also from a response that says `no-transform`: only the proxy asked for what it removes."""
    artifact = {"artifactId": "a", "metadata": {METADATA_KEY: []}, "extensions": [URI], "parts": [{"text": "hi"}]}
    result = {"task": TASK | {"artifacts": [artifact]}}
    body = frame % json.dumps({"jsonrpc": "2.0", "id": 1, "result": result}).encode()
    kept = {"content-type": kind, "cache-control": "no-transform", "etag": "x"}
    wrong = {"content-digest": "sha-256=:eA==:", "repr-digest": "sha-256=:eA==:"}
    given = answer(body, *(f"{name}: {value}" for name, value in {**kept, **wrong}.items()))
    response = await sent(it, given, rpc(method))
    assert URI not in response.text
    assert "hi" in response.text
    assert {name: value for name, value in response.headers.items() if name in {**kept, **wrong}} == kept


async def test_cards_are_rewritten_and_kept_for_nobody(it: Proxied, caplog: pytest.LogCaptureFixture) -> None:
    card = {"name": "agent", "url": f"{it.agent.url}/rpc", "preferredTransport": "JSONRPC"}
    given, known = answer(json.dumps(card).encode()), "GET /.well-known/"
    for it.agent.card, status in ((given, 200), (Answer([b""], cut=True), 502), (given, 200)):
        response = await sent(it, answer(b"{}"), b"", f"{known}agent-card.json", host="proxy")
        assert response.status_code == status
    legacy = await sent(it, given, b"", f"{known}agent.json", host="proxy")
    assert legacy.json() == response.json()
    extended = await sent(it, given, b"", CARD_LINE, host="proxy")
    assert response.json()["url"] == extended.json()["url"] == "http://proxy/rpc"
    assert "could not be read" not in caplog.text
    packed = answer(b"x", "content-encoding: br")
    assert (await sent(it, packed, b"", CARD_LINE)).content == b"x"
    assert "the extended agent card could not be read; its URLs may lead past the proxy" in caplog.messages


@pytest.mark.parametrize(
    ("limit", "reason", "beginning"),
    [
        ("client_header", "header_timeout", b"GET / HTTP/1.1\r\n"),
        ("client_body", "body_timeout", b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nhalf"),
    ],
)
async def test_a_client_that_stops_in_the_middle_is_cut_off_and_counted(
    tmp_path: Path, limit: str, reason: str, beginning: bytes
) -> None:
    async with proxied(tmp_path, timeouts=Timeouts(**{limit: 0.01})) as it:
        reader, writer = await asyncio.open_connection(it.data.base_url.host, it.data.base_url.port)
        writer.write(beginning)
        async with asyncio.timeout(PATIENCE_S):
            await reader.read()
        writer.close()
        assert f'client_errors_total{{reason="{reason}"}} 1.0' in (await it.admin.get("/metrics")).text


@pytest.mark.parametrize(
    ("mode", "declares", "asks"),
    [("declared", True, True), ("declared", False, False), ("always", False, True), ("never", True, False)],
)
async def test_whether_the_agent_is_asked_in_the_trace_of_the_client(
    tmp_path: Path, mode: str, declares: bool, asks: bool
) -> None:
    trace_id = "0af7651916cd43dd8448eb211c80319c"
    trace = {"traceparent": f"00-{trace_id}-b7ad6b7169203331-01", "tracestate": "a=1,b=2"}
    with ReplayAgent() as agent:
        agent.card = json_answer({"capabilities": {"extensions": [{"uri": URI}] if declares else []}})
        async with proxied(tmp_path, agent, negotiate=mode) as it:
            await it.data.get("/.well-known/agent-card.json")  # which tells the proxy what it declares
            await sent(it, answer(DONE), SEND, **trace)
            (received,) = agent.received
            found = {name: value for name, value in received.headers if name in {*trace, "a2a-extensions"}}
            await it.flushed()
            (turn,) = await it.turns()
    assert found == trace | (ASKS if asks else {})
    assert (turn["capture"]["declared"], turn["trace_id"]) == (declares, trace_id)
