"""The agent is asked for the extension only where the proxy reads the answer and takes it out again."""

from __future__ import annotations

import gzip
import json

import httpx
import pytest
from agents.replay_agent import Answer, ReplayAgent
from agents.scenarios import URI
from e2e.contracts import GetProxy
from e2e.raw_http import Headers, exchange

NAMES = ("a2a-extensions", "x-a2a-extensions")
OK = Answer([b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"])


def asked(replay: ReplayAgent, url: str, line: str, headers: Headers, body: bytes) -> bool:
    """Whether the agent was asked, and that it was not asked by half."""
    replay.prepare(OK)
    assert exchange(url, f"{line} HTTP/1.1", headers, body).status == 200
    (received,) = replay.received
    assert received.body == body
    values = [value for name, value in received.headers if name in NAMES]
    assert set(values) <= {URI}
    return bool(values)


def rpc(method: str, **params: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()


MESSAGE = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
SEND = rpc("SendMessage", message=MESSAGE)
REST_SEND = json.dumps({"message": MESSAGE}).encode()


@pytest.mark.parametrize(
    ("line", "body"),
    [
        ("POST /", SEND),
        ("POST /", rpc("GetTask", id="t")),
        ("POST /", rpc("tasks/resubscribe", id="t")),
        ("POST /message:stream", REST_SEND),
        ("POST /acme/v1/message:send", REST_SEND),
        ("GET /tasks", b""),
        ("GET /tasks/t", b""),
        ("POST /tasks/t:cancel", b""),
        ("GET /tasks/t:subscribe", b""),
    ],
)
def test_what_is_guarded_is_asked_in(line: str, body: bytes, replay: ReplayAgent, replay_proxy_url: str) -> None:
    assert asked(replay, replay_proxy_url, line, [], body)


@pytest.mark.parametrize(
    ("line", "body"),
    [
        ("GET /tasks/a%2Fb", b""),
        ("GET /tasks/t/", b""),
        ("GET /tasks/", b""),
        ("GET /history/t", b""),
        ("GET /tasks/t/artifacts/a", b""),
        ("PUT /tasks/t", b"{}"),
        ("PATCH /tasks/t", b"{}"),
        ("DELETE /tasks/t", b""),
        ("OPTIONS /tasks", b""),
        ("GET /", b""),
        ("GET /extendedAgentCard", b""),
        ("POST /", rpc("agent/getAuthenticatedExtendedCard")),
        ("POST /", rpc("acme/history", id="t")),
        ("POST /", b"[" + SEND + b"]"),
        ("POST /", b"{'method': 'SendMessage'}"),
        ("POST /", b""),
        ("POST /files", b"not json"),
        ("POST /", rpc("CreateTaskPushNotificationConfig", taskId="t", url="http://127.0.0.1:9/")),
        ("POST /", rpc("tasks/pushNotificationConfig/set", taskId="t")),
        ("POST /", rpc("tasks/pushNotificationConfig/get", id="t")),
        ("POST /", rpc("ListTaskPushNotificationConfigs", taskId="t")),
        ("POST /", rpc("SendMessage", message=MESSAGE, configuration={"task_push_notification_config": {"url": "u"}})),
        ("POST /", rpc("message/stream", message=MESSAGE, configuration={"pushNotificationConfig": {"url": "u"}})),
        ("POST /tasks/t/pushNotificationConfigs", b'{"url":"http://127.0.0.1:9/"}'),
        ("POST /v1/tasks/t/pushNotificationConfigs", b"{}"),
        ("GET /tasks/t/pushNotificationConfigs/p", b""),
        ("DELETE /tasks/t/pushNotificationConfigs/p", b""),
        ("POST /message:send", json.dumps({"message": MESSAGE, "configuration": {"pushNotification": {}}}).encode()),
    ],
)
def test_nothing_else_is(line: str, body: bytes, replay: ReplayAgent, replay_proxy_url: str) -> None:
    assert not asked(replay, replay_proxy_url, line, [], body)


def test_a_range_of_an_answer_is_not_asked_for(replay: ReplayAgent, replay_proxy_url: str) -> None:
    assert not asked(replay, replay_proxy_url, "GET /tasks/t", [("Range", "bytes=100-200")], b"")


@pytest.mark.parametrize(("coding", "readable"), [("gzip", True), ("br", False)])
def test_a_compressed_request_is_asked_in_where_it_can_be_read(
    coding: str, readable: bool, replay: ReplayAgent, replay_proxy_url: str
) -> None:
    assert asked(replay, replay_proxy_url, "POST /", [("Content-Encoding", coding)], gzip.compress(SEND)) is readable


@pytest.mark.parametrize("webhook", [True, False])
@pytest.mark.parametrize("size", [100_000, 3_000_000])
def test_a_request_in_pieces_is_read_to_its_end_first(
    size: int, webhook: bool, replay: ReplayAgent, replay_proxy_url: str
) -> None:
    """A webhook may come last."""
    configuration = {"pushNotificationConfig": {"url": "http://127.0.0.1:9/"}} if webhook else {}
    long = MESSAGE | {"parts": [{"text": "x" * size}]}
    body = rpc("SendMessage", message=long, configuration=configuration)
    replay.prepare(OK)

    pieces = iter([body[:10], body[10:-10], body[-10:]])
    response = httpx.post(replay_proxy_url, content=pieces, trust_env=False)

    assert response.content == b"{}"
    (received,) = replay.received
    assert received.body == body
    assert any(name in NAMES for name, _ in received.headers) is not webhook


@pytest.mark.usefixtures("replay_proxy_url")  # for the card
def test_a_request_too_large_to_read_is_not_asked_in(replay: ReplayAgent, proxy_of: GetProxy) -> None:
    url = proxy_of(replay.url, "--max-body-bytes", "1000").url
    large = rpc("SendMessage", message=MESSAGE | {"parts": [{"text": "x" * 5_000_000}]})
    assert not asked(replay, url, "POST /", [], large)
    assert asked(replay, url, "POST /", [], SEND)
