"""The agent is asked for the extension only where the proxy reads the answer and takes it out again."""

from __future__ import annotations

import gzip
import json
import uuid

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
        ("POST /", rpc("GetTask", id="guarded")),
        ("POST /", rpc("tasks/resubscribe", id="guarded")),
        ("POST /message:stream", REST_SEND),
        ("POST /acme/v1/message:send", REST_SEND),
        ("GET /tasks", b""),
        ("GET /tasks/guarded", b""),
        ("POST /tasks/guarded:cancel", b""),
        ("GET /tasks/guarded:subscribe", b""),
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
        ("POST /", rpc("SendMessage", message=MESSAGE, Configuration={"pushNotificationConfig": {"url": "u"}})),
        ("POST /", rpc("SendMessage", message=MESSAGE, configuration={"pushNotificationConfig": [{"url": "u"}]})),
        (
            "POST /",
            rpc("SendMessage", configuration={"pushNotification": {"url": "u"}})[:-2] + b',"configuration":{}}}',
        ),
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
    url = proxy_of(replay.url, "--limits", "body_bytes=1000").url
    large = rpc("SendMessage", message=MESSAGE | {"parts": [{"text": "x" * 5_000_000}]})
    assert not asked(replay, url, "POST /", [], large)
    assert asked(replay, url, "POST /", [], SEND)


# ── a task that has a webhook ───────────────────────────────────────────────────────────────────────────────


CONFIGURED = rpc("SendMessage", message=MESSAGE, configuration={"taskPushNotificationConfig": {"url": "u"}})
LEGACY_CONFIGURED = rpc("message/send", message=MESSAGE, configuration={"pushNotificationConfig": {"url": "u"}})
CREATE = rpc("CreateTaskPushNotificationConfig", taskId="TASK", url="u")


@pytest.mark.parametrize(
    ("line", "headers", "body"),
    [
        ("POST /", [], CONFIGURED),
        ("POST /", [("Content-Encoding", "gzip")], CONFIGURED),
        ("POST /", [], LEGACY_CONFIGURED),
        ("POST /message:send", [], b'{"message":{"role":"ROLE_USER"},"configuration":{"pushNotification":{}}}'),
        ("POST /", [], CREATE),
        ("POST /", [], rpc("CreateTaskPushNotificationConfig", task_id="TASK", url="u")),
        ("POST /", [], rpc("SetTaskPushNotificationConfig", parent="tasks/TASK")),
        ("POST /", [], rpc("GetTaskPushNotificationConfig", name="acme/tasks/TASK/pushNotificationConfigs/p")),
        ("POST /", [], rpc("tasks/pushNotificationConfig/set", taskId="TASK", pushNotificationConfig={"url": "u"})),
        ("POST /", [], rpc("tasks/pushNotification/set", id="TASK", pushNotificationConfig={"url": "u"})),
        ("POST /tasks/TASK/pushNotificationConfigs", [], b'{"url":"u"}'),
        ("POST /acme/v1/tasks/TASK/pushNotificationConfigs", [], b"{}"),
        ("GET /tasks/TASK/pushNotificationConfigs/p", [], b""),
    ],
)
def test_nothing_is_asked_of_a_task_that_has_a_webhook(
    line: str, headers: Headers, body: bytes, replay: ReplayAgent, replay_proxy_url: str
) -> None:
    """What the agent does next for such a task goes to the webhook, past the proxy."""
    task, other = uuid.uuid4().hex, uuid.uuid4().hex

    def of(task_id: str) -> list[tuple[str, Headers, bytes]]:
        message = MESSAGE | {"taskId": task_id}
        snake = MESSAGE | {"task_id": task_id}
        return [
            ("POST /", [], rpc("SendMessage", message=message)),
            ("POST /message:stream", [], json.dumps({"message": snake}).encode()),
            ("POST /", [], rpc("tasks/resubscribe", id=task_id)),
            (f"POST /tasks/{task_id}:cancel", [], b""),
            (f"GET /tasks/{task_id}", [], b""),
        ]

    answer = json.dumps({"result": {"task": {"id": task, "status": {"state": "TASK_STATE_INPUT_REQUIRED"}}}}).encode()
    bare = json.dumps(json.loads(answer)["result"]).encode()
    content = answer if line == "POST /" else bare
    length = b"content-length: %d\r\n\r\n" % len(content)
    body = body.replace(b"TASK", task.encode())
    body = gzip.compress(body) if headers else body
    replay.prepare(Answer([b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n" + length + content]))
    exchange(replay_proxy_url, f"{line.replace('TASK', task)} HTTP/1.1", headers, body)

    assert [asked(replay, replay_proxy_url, *request) for request in of(task)] == [False] * 5
    assert [asked(replay, replay_proxy_url, *request) for request in of(other)] == [True] * 5
