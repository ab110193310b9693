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
from support.recordings import Recording, anonymous, names, respelt

ASKED = names("*-ext")


# Answers about a task whose creator asked; they were recorded for requests that did not ask themselves.
def replay_unasked(recording: Recording, replay: ReplayAgent, url: str) -> RawResponse:
    """The recorded answer, got by a client that does not ask."""
    replay.prepare(recording.answer())
    return exchange(url, recording.request_line, recording.request_headers(asking=False), recording.request_body)


@pytest.mark.parametrize("name", ASKED)
def test_answer_is_the_one_of_an_agent_never_asked(name: str, replay: ReplayAgent, replay_proxy_url: str) -> None:
    """Compared with the recording of the same request by a client that did not ask: ids and times aside."""
    response = replay_unasked(Recording.load(name).renewed(), replay, replay_proxy_url)

    never_asked = Recording.load(name.removesuffix("-ext")).response_body
    assert response.complete
    assert anonymous(respelt(response.body.decode())) == anonymous(respelt(never_asked.decode()))


def strip(value: object) -> object:
    """An obvious reimplementation: drop the key, the URI, and what they leave empty."""
    if isinstance(value, list):
        return [strip(item) for item in value]
    if not isinstance(value, dict):
        return value
    out = {}
    for key, item in value.items():
        if key == "metadata" and isinstance(item, dict) and any(name.startswith(URI) for name in item):
            item = {name: entry for name, entry in item.items() if not name.startswith(URI)}
            if not item:
                continue
        if key == "extensions" and isinstance(item, list) and URI in item:
            item = [uri for uri in item if uri != URI]
            if not item and value.get("description") != "":
                continue
        out[key] = strip(item)
    return out


@pytest.mark.parametrize("name", ["jsonrpc-v1.0", "jsonrpc-v0.3", "rest-v1.0", "rest-v0.3"])
def test_who_asked_for_a_task_sees_it_later(name: str, replay: ReplayAgent, replay_proxy_url: str) -> None:
    """The agent shows a task's calls to whoever gets it; a client that asked at the start may see them."""
    creation = Recording.load(f"{name}-send-artifact-ext").renewed()
    task = Recording.load(f"{name}-get").renewed()
    created_id = _task_id(creation.response_body)
    later = Recording(task.name, task.text.replace(_task_id(task.response_body), created_id))
    replay.prepare(creation.answer())
    exchange(replay_proxy_url, creation.request_line, creation.request_headers(asking=True), creation.request_body)

    same = replay_unasked(later, replay, replay_proxy_url)
    other = replay_unasked(task.renewed(), replay, replay_proxy_url)

    assert same.body == later.response_body
    assert URI.encode() not in other.body


def _task_id(body: bytes) -> str:
    content = json.loads(body)
    content = content.get("result", content)
    return content.get("task", content)["id"]


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


@pytest.mark.parametrize("stream", [True, False])
def test_activation_header_of_v03_agents(stream: bool, agent: GetAgent, proxy_of: GetProxy) -> None:
    """A 0.3 server echoes activated extensions in a response header: only for the client that asked."""
    upstream = agent("v0.3")
    proxy = proxy_of(upstream)
    wire = Wire("0.3", "JSONRPC")

    def echoed(url: str, *, asking: bool) -> str | None:
        request = wire.message(f"artifact {uuid.uuid4()}", stream=stream)
        if asking:
            request = request.plus((ASKING_HEADER["0.3"], URI))
        return request.to(url).header("x-a2a-extensions")

    assert echoed(upstream, asking=True) == (None if stream else URI)
    assert echoed(proxy.url, asking=True) == echoed(upstream, asking=True)
    assert echoed(proxy.url, asking=False) is None


STORED = {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}}
UNREADABLE = [
    ("a batch", b'[{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"t"}}]'),
    ("a method of the agent's own", b'{"jsonrpc":"2.0","id":1,"method":"acme/last","params":{}}'),
    ("compressed", gzip.compress(b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"t"}}')),
    ("no json", b"{'id': 1}"),
]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("what", "sent"), UNREADABLE, ids=[name for name, _ in UNREADABLE])
def test_answers_to_requests_that_capture_does_not_read(
    what: str, sent: bytes, stream: bool, replay: ReplayAgent, replay_proxy_url: str
) -> None:
    task = STORED | {"artifacts": [{"artifactId": "a", "metadata": {f"{URI}/tool_calls": []}, "extensions": [URI]}]}
    answer: object = {"jsonrpc": "2.0", "id": 1, "result": task}
    clean: object = {"jsonrpc": "2.0", "id": 1, "result": STORED | {"artifacts": [{"artifactId": "a"}]}}
    if what == "a batch":
        answer, clean = [answer], [clean]
    media_type, frame = (b"text/event-stream", b"data: %b\n\n") if stream else (b"application/json", b"%b")
    body = frame % json.dumps(answer).encode()
    head = b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n" % (media_type, len(body))
    replay.prepare(Answer([head + body]))

    response = exchange(replay_proxy_url, "POST / HTTP/1.1", [("Content-Type", "application/json")], sent)

    assert response.body == frame % json.dumps(clean, separators=(",", ":")).encode()


def test_other_extensions_stay(replay: ReplayAgent, replay_proxy_url: str) -> None:
    """Only this extension is guarded; what else the agent says in the same places passes."""
    other = "https://example.com/other/v1"
    artifact = {
        "artifactId": "a",
        "parts": [{"text": f"the words {URI} are mere text here"}],
        "metadata": {f"{URI}/tool_calls": [{"name": "x"}], f"{other}/k": 1},
        "extensions": [URI, other],
    }
    task = {"id": str(uuid.uuid4()), "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"task": task | {"artifacts": [artifact]}}}).encode()
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\na2a-extensions: %b, %b\r\ncontent-length: %d\r\n\r\n"
    replay.prepare(Answer([head % (URI.encode(), other.encode(), len(body)) + body]))

    response = Wire("1.0", "JSONRPC").message(f"message {uuid.uuid4()}").to(replay_proxy_url)

    got = json.loads(response.body)["result"]["task"]["artifacts"][0]
    assert got == artifact | {"metadata": {f"{other}/k": 1}, "extensions": [other]}
    assert response.header("a2a-extensions") == other
