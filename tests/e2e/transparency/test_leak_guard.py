"""A client that did not ask for the extension gets what the agent would have sent it: nothing of the extension."""

from __future__ import annotations

import gzip
import json
import uuid

import pytest
from agents.replay_agent import Answer, ReplayAgent
from agents.scenarios import URI
from e2e.contracts import GetAgent, GetProxy
from e2e.raw_http import RawResponse, exchange
from support.raw_a2a import ASKING_HEADER, BINDINGS, Wire
from support.recordings import Recording


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(("version", "binding"), BINDINGS)
def test_ungated_agent_does_not_leak_through(
    version: str, binding: str, stream: bool, agent: GetAgent, proxy_of: GetProxy
) -> None:
    """Agents that report calls to everyone are cleaned too, and still captured."""
    upstream = agent("v1-ungated")
    proxy = proxy_of(upstream)
    wire = Wire(version, binding)
    text = f"chunks {uuid.uuid4()}"

    direct = wire.message(f"chunks {uuid.uuid4()}", stream=stream).to(upstream)
    response = wire.message(text, stream=stream).to(proxy.url)

    assert b"tool-call-capture" in direct.body
    assert response.status == 200
    assert b"tool-call-capture" not in response.body
    assert [call["name"] for call in proxy.turn_of(text)["tool_calls"]] == ["search", "convert"]


def _task_id(body: bytes) -> str:
    content = json.loads(body)
    content = content.get("result", content)
    return content.get("task", content)["id"]


def _unasked(recording: Recording, replay: ReplayAgent, url: str) -> RawResponse:
    """The recorded answer, got by a client that does not ask."""
    replay.prepare(recording.answer())
    return exchange(url, recording.request_line, recording.request_headers(asking=False), recording.request_body)


@pytest.mark.parametrize("name", ["jsonrpc-v1.0", "jsonrpc-v0.3", "rest-v1.0", "rest-v0.3"])
def test_who_asked_for_a_task_sees_it_later(name: str, replay: ReplayAgent, replay_proxy_url: str) -> None:
    """The agent shows a task's calls to whoever gets it; a client that asked at the start may see them."""
    creation = Recording.load(f"{name}-send-artifact-ext").renewed()
    task = Recording.load(f"{name}-get").renewed()
    later = Recording(name, task.text.replace(_task_id(task.response_body), _task_id(creation.response_body)))
    replay.prepare(creation.answer())
    exchange(replay_proxy_url, creation.request_line, creation.request_headers(asking=True), creation.request_body)

    same = _unasked(later, replay, replay_proxy_url)
    other = _unasked(task.renewed(), replay, replay_proxy_url)

    assert same.body == later.response_body
    assert URI.encode() not in other.body


@pytest.mark.parametrize("stream", [True, False])
def test_activation_header_of_v03_agents(stream: bool, agent: GetAgent, proxy_of: GetProxy) -> None:
    """A 0.3 server echoes activated extensions in a response header: only for the client that asked."""
    upstream = agent("v0.3")
    proxy = proxy_of(upstream)
    plain = Wire("0.3", "JSONRPC").message(f"artifact {uuid.uuid4()}", stream=stream)
    asking = plain.plus((ASKING_HEADER["0.3"], URI))
    found = [request.to(url).header("x-a2a-extensions") for request, url in ((asking, upstream), (asking, proxy.url))]
    assert found == [None if stream else URI] * 2
    assert plain.to(proxy.url).header("x-a2a-extensions") is None


REQUEST = b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"t"}}'
UNREADABLE = {
    "a batch": b"[%b]" % REQUEST,
    "a method of the agent's own": REQUEST.replace(b"GetTask", b"acme/last"),
    "compressed": gzip.compress(REQUEST),
    "no json": b"{'id': 1}",
}
OTHER = "https://example.com/other/v1"


@pytest.mark.parametrize(("media_type", "frame"), [("text/event-stream", "data: %s\n\n"), ("application/json", "%s")])
@pytest.mark.parametrize("sent", UNREADABLE.values(), ids=UNREADABLE)
def test_answers_to_requests_that_capture_does_not_read(
    sent: bytes, media_type: str, frame: str, replay: ReplayAgent, replay_proxy_url: str
) -> None:
    """Only this extension is guarded; what else the agent says in the same places passes."""
    shown = {"artifactId": "a", "metadata": {f"{OTHER}/k": 1}, "extensions": [OTHER], "parts": [{"text": URI}]}
    given = shown | {"metadata": {f"{URI}/tool_calls": [], **shown["metadata"]}, "extensions": [URI, OTHER]}
    bodies = []
    for artifact in (given, shown):
        task = {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}, "artifacts": [artifact]}
        answer = {"jsonrpc": "2.0", "id": 1, "result": task}
        bodies.append(frame % json.dumps([answer] if sent[:1] == b"[" else answer, separators=(",", ":")))
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {media_type}\r\na2a-extensions: {URI}, {OTHER}\r\n"
    replay.prepare(Answer([f"{head}content-length: {len(bodies[0])}\r\n\r\n{bodies[0]}".encode()]))

    response = exchange(replay_proxy_url, "POST / HTTP/1.1", [("Content-Type", "application/json")], sent)

    assert response.body.decode() == bodies[1]
    assert response.header("a2a-extensions") == OTHER
