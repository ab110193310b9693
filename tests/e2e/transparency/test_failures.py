"""When the agent cannot answer, breaks off, or the client leaves."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

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

CARD = "GET /.well-known/agent-card.json HTTP/1.1"


def test_an_agent_that_is_not_there(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """The port is taken, but no process listens."""
    with held_ports(1) as (port,), Proxy(f"http://127.0.0.1:{port}", tmp_path / "turns.db") as proxy:
        assert exchange(proxy.url, CARD, []).status == 502
        for request_id in (1, "text", None, 12345678901234567890):
            for version in ("1.0", "0.3"):
                with subtests.test(str(request_id), version=version):
                    response = Wire(version, "JSONRPC", request_id).message("hi", stream=True).to(proxy.url)
                    content = json.loads(response.body)
                    assert (response.status, response.header("content-type")) == (502, "application/json")
                    assert (content["id"], type(content["id"])) == (request_id, type(request_id))
                    assert f"http://127.0.0.1:{port} cannot be reached" in content["error"]["message"]
                    assert content["error"]["data"][0]["reason"] == "UPSTREAM_UNREACHABLE"
                    assert "result" not in content


def test_no_card_is_kept_for_an_agent_that_gives_none_any_more(replay: ReplayAgent, replay_proxy_url: str) -> None:
    card = replay.card
    for given, status in ((card, 200), (Answer([], cut=True), 502), (card, 200)):
        replay.card = given
        assert exchange(replay_proxy_url, CARD, []).status == status


@pytest.mark.parametrize("asking", [True, False])
@pytest.mark.parametrize("name", ["jsonrpc-v1.0", "rest-v0.3"])
def test_cut_stream_stays_cut(name: str, asking: bool, replay: ReplayAgent, replay_proxy_url: str) -> None:
    """What came before the cut arrives, half an event of what is not guarded too; nothing pretends that it ended."""
    recording = Recording.load(f"{name}-stream-chunks{'-ext' if asking else ''}").renewed()
    half = recording.chunks[2][:200]
    pieces = [*recording.answer().pieces[:2], b"%x\r\n%b\r\n" % (len(half), half)]
    replay.prepare(Answer(pieces, cut=True))

    response = exchange(
        replay_proxy_url, recording.request_line, recording.request_headers(asking=asking), recording.request_body
    )

    assert not response.complete
    assert response.body == b"".join(recording.chunks[:2]) + (half if asking else b"")


@pytest.mark.parametrize("asking", [True, False])
def test_cut_answer_never_looks_whole(asking: bool, replay: ReplayAgent, replay_proxy_url: str) -> None:
    recording = Recording.load("jsonrpc-v1.0-send-artifact-ext").renewed()
    (whole,) = recording.answer().pieces
    replay.prepare(Answer([whole[:-300]], cut=True))

    response = exchange(
        replay_proxy_url, recording.request_line, recording.request_headers(asking=asking), recording.request_body
    )

    if asking:
        assert (response.status, response.complete) == (200, False)
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
    event = json.loads(seen.split(b"\r\n\r\n")[0].removeprefix(b"data: "))
    event = event["result"] if binding == "JSONRPC" else event
    task_id = str(event.get("task", event)["id"])
    while b"completed" not in (task := wire.get(task_id).to(proxy.url)).body.lower():
        assert task.status == 200

    turn = proxy.turn_of(f"slow {gate}")
    assert turn["response_text"] == "before after"
    assert [call["name"] for call in turn["tool_calls"]] == ["search", "convert"]


def test_body_beyond_the_limit_passes_unread(agent: GetAgent, tmp_path: Path) -> None:
    text = f"big {uuid.uuid4()}"
    with Proxy(agent("v1"), tmp_path / "turns.db", "--limits", "body_bytes=100000") as proxy:
        response = Wire("1.0", "JSONRPC").message(text).plus((ASKING_HEADER["1.0"], URI)).to(proxy.url)
        turn = proxy.turn_of(text)
    assert response.complete
    assert len(response.body) > 3_000_000
    assert turn["tool_calls"] == []
    assert "body_too_large" in {finding["code"] for finding in turn["findings"]}
