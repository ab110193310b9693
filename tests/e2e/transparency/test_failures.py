"""When the agent cannot answer, breaks off, or the client sends nonsense."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from agents.replay_agent import Answer, ReplayAgent
from agents.scenarios import URI
from e2e.contracts import GetAgent, GetProxy
from e2e.raw_http import RawConnection, exchange
from support.ports import held_ports
from support.proxy import Proxy
from support.raw_a2a import ASKING_HEADER, BINDINGS, Wire
from support.recordings import Recording


@pytest.fixture(scope="module")
def proxy_before_nothing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """A proxy whose agent is not there: the port is taken, but no process listens."""
    with (
        held_ports(1) as (port,),
        Proxy(f"http://127.0.0.1:{port}", tmp_path_factory.mktemp("s") / "turns.db") as proxy,
    ):
        yield proxy


# ── nobody there ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("version", ["1.0", "0.3"])
@pytest.mark.parametrize("request_id", [1, "text", None, 12345678901234567890, 0, ""])
def test_unreachable_agent_in_json_rpc(
    request_id: Any, version: str, stream: bool, proxy_before_nothing: Proxy
) -> None:
    wire = Wire(version, "JSONRPC", request_id)

    response = wire.message(f"chunks {uuid.uuid4()}", stream=stream).to(proxy_before_nothing.url)

    assert response.status == 502
    assert response.header("content-type") == "application/json"
    content = json.loads(response.body)
    assert content["jsonrpc"] == "2.0"
    assert content["id"] == request_id
    assert type(content["id"]) is type(request_id)
    assert isinstance(content["error"]["code"], int)
    assert re.match(r"the agent at http://127\.0\.0\.1:\d+ cannot be reached: ", content["error"]["message"])
    assert content["error"]["data"][0]["reason"] == "UPSTREAM_UNREACHABLE"
    assert "result" not in content


def test_unreachable_agent_has_no_card(proxy_before_nothing: Proxy) -> None:
    response = exchange(proxy_before_nothing.url, "GET /.well-known/agent-card.json HTTP/1.1", [])
    assert response.status == 502


def test_no_card_is_kept_for_an_agent_that_gives_none_any_more(replay: ReplayAgent, replay_proxy_url: str) -> None:
    card = replay.card
    for given, status in ((card, 200), (Answer([], cut=True), 502), (card, 200)):
        replay.card = given
        assert exchange(replay_proxy_url, "GET /.well-known/agent-card.json HTTP/1.1", []).status == status


# ── broken off ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("asking", [True, False])
@pytest.mark.parametrize("name", ["jsonrpc-v1.0", "jsonrpc-v0.3", "rest-v1.0", "rest-v0.3"])
@pytest.mark.parametrize("events", [1, 3])
def test_cut_stream_stays_cut(events: int, name: str, asking: bool, replay: ReplayAgent, replay_proxy_url: str) -> None:
    """The events before the cut arrive; nothing pretends that the stream ended."""
    recording = Recording.load(f"{name}-stream-chunks").renewed()
    pieces = recording.answer().pieces[:events]
    replay.prepare(Answer(pieces, cut=True))
    headers = recording.request_headers(asking=asking)

    response = exchange(replay_proxy_url, recording.request_line, headers, recording.request_body)

    assert response.status == 200
    assert response.body == b"".join(recording.chunks[:events])
    assert not response.complete


def test_cut_inside_an_event(replay: ReplayAgent, replay_proxy_url: str) -> None:
    recording = Recording.load("jsonrpc-v1.0-stream-chunks-ext").renewed()
    pieces = list(recording.answer().pieces[:3])
    half = recording.chunks[2][:200]
    replay.prepare(Answer([pieces[0], pieces[1], b"%x\r\n%b\r\n" % (len(half), half)], cut=True))

    response = exchange(
        replay_proxy_url, recording.request_line, recording.request_headers(asking=True), recording.request_body
    )

    assert response.body == b"".join(recording.chunks[:2]) + half
    assert not response.complete


@pytest.mark.parametrize("asking", [True, False])
def test_cut_answer_never_looks_whole(asking: bool, replay: ReplayAgent, replay_proxy_url: str) -> None:
    recording = Recording.load("jsonrpc-v1.0-send-artifact-ext").renewed()
    (whole,) = recording.answer().pieces
    replay.prepare(Answer([whole[:-300]], cut=True))

    response = exchange(
        replay_proxy_url, recording.request_line, recording.request_headers(asking=asking), recording.request_body
    )

    if asking:
        assert response.status == 200
        assert not response.complete
        assert recording.response_body.startswith(response.body)
    else:
        assert response.status == 502 or not response.complete
        assert b"search" not in response.body


@pytest.mark.parametrize(("version", "binding"), BINDINGS)
def test_client_that_leaves_and_comes_back(version: str, binding: str, agent: GetAgent, proxy_of: GetProxy) -> None:
    """The stream is dropped by the client while the agent works; the turn is completed by its later request."""
    upstream = agent("v1")
    proxy = proxy_of(upstream)
    wire = Wire(version, binding)
    gate = str(uuid.uuid4())
    request = wire.message(f"slow {gate}", stream=True)
    with RawConnection(proxy.url) as connection:
        connection.send(request.request_line, request.headers, request.body)
        connection.read_head()
        seen = b""
        for piece in connection.pieces():
            seen += piece
            if b"before" in seen:
                break

    httpx.post(f"{upstream}/_control/open", params={"gate": gate}, trust_env=False).raise_for_status()
    while b"completed" not in (task := wire.get(_task_id(seen, wire)).to(proxy.url)).body.lower():
        assert task.status == 200

    turn = proxy.turn_of(f"slow {gate}")
    assert turn["response_text"] == "before after"
    assert [call["name"] for call in turn["tool_calls"]] == ["search", "convert"]


def _task_id(stream: bytes, wire: Wire) -> str:
    """The id in a stream's first event."""
    event = json.loads(stream.split(b"\r\n\r\n")[0].removeprefix(b"data: "))
    event = event["result"] if wire.binding == "JSONRPC" else event
    return str(event.get("task", event)["id"])


# ── odd requests: the agent's to answer ─────────────────────────────────────────────────────────────────────────


def test_body_beyond_the_limit_passes_unread(agent: GetAgent, tmp_path: Path) -> None:
    upstream = agent("v1")
    text = f"big {uuid.uuid4()}"
    with Proxy(upstream, tmp_path / "turns.db", "--limits", "body_bytes=100000") as proxy:
        response = Wire("1.0", "JSONRPC").message(text).plus((ASKING_HEADER["1.0"], URI)).to(proxy.url)
        assert response.complete
        assert len(response.body) > 3_000_000
        turn = proxy.turn_of(text)
    assert turn["tool_calls"] == []
    assert "body_too_large" in {finding["code"] for finding in turn["findings"]}
