"""What turns of a run look like on the wire: stored with them, redacted, bounded, on their pages and in the report."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a_eval_proxy.cli import cli
from a2a_eval_proxy.demo.agent import run_agent
from a2a_eval_proxy.privacy.policy import NO_PRIVACY, Privacy, privacy_of
from a2a_eval_proxy.privacy.redactor import parse_rules
from a2a_eval_proxy.runs import drive
from a2a_eval_proxy.runs.drive import AgentOptions, run_suite
from a2a_eval_proxy.runs.turn_wire import MAX_TURN_BYTES, TurnWire
from a2a_eval_proxy.store import open_store
from a2a_eval_proxy.ui.store_pages import store_pages
from agents.grpc_agent import GrpcAgent, grpc_agent
from click.testing import CliRunner
from tool_call_evaluators.suite import parse_suite

ASKED = "Where is order ORD-1001? I am ann@example.com."
SUITE = f"""\
suite: orders
evaluators: [{{tool_trajectory: {{mode: in_order}}}}]
cases:
  - id: status
    turns: [{{user: {json.dumps(ASKED)}, expect: {{tool_calls: [{{name: cancel_order, arguments: null}}]}}}}]
"""
SECRET = "Bearer abcdefgh12345678"


@pytest.fixture
async def agent(tmp_path: Path) -> AsyncIterator[AgentOptions]:
    async with run_agent(tmp_path / "shop.db") as url:
        yield AgentOptions(url, {"Authorization": SECRET})


@pytest.fixture
def location(tmp_path: Path) -> str:
    return str(tmp_path / "turns.db")


async def wires(agent: AgentOptions, location: str, privacy: Privacy = NO_PRIVACY, text: str = SUITE) -> list[Any]:
    """Those of the turns of a run; None for a turn without one."""
    result = await run_suite(parse_suite(text), agent, location, "nightly", privacy=privacy)
    store = open_store(location, must_exist=True)
    try:
        return [await store.wire(turn["turn_id"]) for turn in result.report.turns]
    finally:
        await asyncio.to_thread(store.close)


async def test_a_stream_is_kept_event_by_event_without_credentials(agent: AgentOptions, location: str) -> None:
    (wire,) = await wires(agent, location)
    (exchange,) = wire["exchanges"]
    assert wire["complete"]
    assert exchange["opens_turn"]
    assert ASKED in exchange["request"]["body"]["text"]
    assert ["Authorization", "***"] in exchange["request"]["headers"]
    assert (exchange["response"]["status"], exchange["problem"]) == (200, None)
    events = exchange["response"]["events"]
    assert len(events) > 2
    assert all(event["text"].startswith("data: {") for event in events)
    assert "find_customer" in "".join(event["text"] for event in events)
    assert 0 < events[0]["offset_s"] <= events[-1]["offset_s"] <= exchange["end_s"]
    assert SECRET not in json.dumps(wire)


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
async def test_a_response_that_is_no_stream_is_kept_whole(agent: AgentOptions, location: str, binding: str) -> None:
    options = AgentOptions(agent.url, binding=binding, streaming=False)
    (wire,) = await wires(options, location)
    body = wire["exchanges"][0]["response"]["body"]
    assert "find_customer" in json.dumps(json.loads(body["text"]))
    assert body["bytes"] == sum(piece["bytes"] for piece in wire["exchanges"][0]["response"]["pieces"])


@pytest.mark.parametrize("streaming", [True, False])
async def test_messages_of_grpc_are_kept_as_json(location: str, streaming: bool) -> None:
    served: AbstractAsyncContextManager[GrpcAgent] = grpc_agent()
    async with served as agent:
        options = AgentOptions(f"grpc://{agent.address}", {"Authorization": SECRET}, streaming=streaming)
        text = "suite: one\nevaluators: []\ncases: [{id: a, turns: [{user: artifact hi}]}]"
        (wire,) = await wires(options, location, text=text)
    first = wire["exchanges"][0]
    assert first["request"]["target"].endswith("/SendStreamingMessage" if streaming else "/SendMessage")
    assert "artifact hi" in json.dumps(json.loads(first["request"]["body"]["text"]))
    assert all(json.loads(event["text"]) for event in first["response"]["events"])
    assert SECRET not in json.dumps(wire)


async def test_rules_of_redaction_apply(agent: AgentOptions, location: str) -> None:
    (wire,) = await wires(agent, location, privacy_of(parse_rules("email"), None))
    assert "ann@example.com" not in json.dumps(wire)
    assert "[email]" in wire["exchanges"][0]["request"]["body"]["text"]


@pytest.mark.parametrize(
    "privacy",
    [privacy_of((), None, no_content=True), privacy_of(parse_rules([{"path": "$.user_text"}]), None)],
    ids=["no content", "rules by path"],
)
async def test_without_content_there_is_none(agent: AgentOptions, location: str, privacy: Privacy) -> None:
    assert await wires(agent, location, privacy) == [None]


async def test_a_run_has_a_limit(agent: AgentOptions, location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drive, "MAX_RUN_BYTES", 1)
    options = AgentOptions(agent.url, concurrency=1)
    first, *others = await wires(options, location, text=SUITE.replace("id: status", "id: status\n    repeat: 3"))
    assert first is not None
    assert others == [None, None]


def test_a_turn_has_a_limit_and_keeps_its_beginning() -> None:
    wire = TurnWire("turn-1")
    for number in range(1_000):
        if seen := wire.request("POST", f"/{number}", [], b"x" * 1_000):
            seen.response(200, [(b"content-type", b"application/json")])
            seen.data(b"y" * 10_000)
            seen.end("")
    kept = json.loads(wire.as_json(NO_PRIVACY))
    assert 10 < len(kept["exchanges"]) < 100
    assert (kept["complete"], kept["exchanges"][0]["request"]["target"]) == (True, "/0")
    big = TurnWire("turn-2")
    seen = big.request("POST", "/", [], b"x" * 2 * MAX_TURN_BYTES)
    assert seen is not None
    seen.response(200, [(b"content-type", b"text/event-stream; charset=utf-8")])
    for _ in range(100):
        seen.data(b"data: " + b"z" * MAX_TURN_BYTES + b"\n\ndata: 1\n\n")
    seen.end("ReadError")
    assert len(text := big.as_json(NO_PRIVACY)) < 1.5 * MAX_TURN_BYTES
    assert json.loads(text)["exchanges"][0]["problem"] == "ReadError"


async def test_an_agent_that_breaks_off_is_on_the_wire(location: str) -> None:
    async def broken(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if head.startswith(b"GET"):
            card = json.dumps(
                {
                    "name": "broken", "description": "", "version": "1", "skills": [], "defaultInputModes": [],
                    "defaultOutputModes": [], "capabilities": {"streaming": True},
                    "supportedInterfaces": [{"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
                }
            ).encode()  # fmt: skip
            writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%b" % (len(card), card))
        else:
            event = b'data: {"jsonrpc":"2.0","id":1,"result":{"task":{"id":"t","contextId":"c","status":{"state":1}}}}'
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 999\r\n\r\n")
            writer.write(event + b"\n\ndata: {")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(broken, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        (wire,) = await wires(AgentOptions(url, timeout_s=5), location)
    first = wire["exchanges"][0]
    assert first["problem"] == "RemoteProtocolError"
    assert first["response"]["events"][-1]["text"] == "data: {"


async def test_the_page_of_a_turn_shows_it_from_the_store(agent: AgentOptions, location: str) -> None:
    result = await run_suite(parse_suite(SUITE), agent, location, "nightly")
    turn_id = result.report.turns[0]["turn_id"]
    async with (
        store_pages(location, 0) as served,
        httpx.AsyncClient(trust_env=False, follow_redirects=True) as browser,
    ):
        base = served.link.partition("/login")[0]
        await browser.get(served.link)
        page = (await browser.get(f"{base}/turns/{turn_id}/wire")).text
        assert "POST / → 200" in page
        assert 'id="call-1"' in page
        turn = (await browser.get(f"{base}/turns/{turn_id}")).text
        assert f"{turn_id}/wire#call-1" in turn
        items = (await browser.get(f"{base}/api/turns/{turn_id}/timeline")).json()["items"]
        (exchange,) = [item for item in items if item["kind"] == "exchange"]
        assert (exchange["name"], exchange["failed"]) == ("POST /", False)
        assert exchange["start_s"] <= exchange["first_byte_s"] <= exchange["end_s"] <= 5.0


async def test_the_report_has_it_on_request(agent: AgentOptions, location: str, tmp_path: Path) -> None:
    suite, page = tmp_path / "suite.yaml", tmp_path / "report" / "report.html"
    suite.write_text(SUITE, "utf-8")
    to = ["--store", location, "--run", "nightly", "--report", str(page.parent)]

    async def command(*words: str) -> str:
        done = await asyncio.to_thread(CliRunner().invoke, cli, words)
        assert done.exit_code == 1, done.output
        return done.output

    await command("run", str(suite), "--agent", agent.url, *to)
    assert "Raw wire" not in page.read_text("utf-8")
    evaluate = ["evaluate", "--suite", str(suite), "--report-wire", *to]
    await command(*evaluate)
    (shown,) = re.findall(
        '<details class="seen" id="seen-0-1">.*?</section>\n*</details>', page.read_text("utf-8"), re.DOTALL
    )
    assert "Raw wire of status, turn 1: failed" in re.sub("<.*?>", "", shown)
    assert "POST / → 200" in shown
    assert "ann@example.com" in shown
    assert "stored under other rules" in await command(*evaluate, "--redact", "email")
    assert "Raw wire" not in page.read_text("utf-8")
    refused = await asyncio.to_thread(CliRunner().invoke, cli, evaluate[:-2])
    assert "name its directory with --report DIR" in str(refused.exception)
