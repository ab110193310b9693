"""A client that does not ask sees, through the proxy, what it sees without: value for value, but for ids."""

from __future__ import annotations

import json
import queue
import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from agents.recording_agent import VERBS, build_app, build_ungated_app
from agents.serving import ServerThread
from e2e.contracts import GetProxy
from e2e.raw_http import Headers, RawResponse, exchange
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from support.patience import awaited
from support.processes import ChildProcess
from support.provision import python_environment
from support.raw_a2a import BINDINGS
from support.recordings import anonymous, respelt

EXTENSION = Path(__file__).parents[3] / "extension"
RPC_METHODS = {
    "1.0": {
        "send": "SendMessage",
        "stream": "SendStreamingMessage",
        "get": "GetTask",
        "list": "ListTasks",
        "cancel": "CancelTask",
        "webhook": "CreateTaskPushNotificationConfig",
    },
    "0.3": {
        "send": "message/send",
        "stream": "message/stream",
        "get": "tasks/get",
        "cancel": "tasks/cancel",
        "webhook": "tasks/pushNotificationConfig/set",
    },
}


@dataclass(frozen=True)
class Client:
    """Speaks one version over one binding to the agent, or to the proxy, at `url`, with these headers."""

    url: str
    version: str
    binding: str
    headers: tuple[tuple[str, str], ...] = ()

    def do(self, operation: str, params: dict[str, Any], *, rpc: str = "/rpc") -> RawResponse:
        headers: Headers = [("Content-Type", "application/json"), *self.headers]
        if self.version == "1.0":
            headers.append(("A2A-Version", "1.0"))
        if self.binding == "JSONRPC":
            method = RPC_METHODS[self.version][operation]
            content: Any = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            return exchange(self.url, f"POST {rpc} HTTP/1.1", headers, json.dumps(content).encode())
        prefix = "/rest/v1" if self.version == "0.3" else "/rest"
        task = f"{prefix}/tasks/{params.get('taskId') or params.get('id')}"
        line = {
            "send": f"POST {prefix}/message:send",
            "stream": f"POST {prefix}/message:stream",
            "get": f"GET {task}",
            "list": f"GET {prefix}/tasks?includeArtifacts=true&contextId={params.get('contextId')}",
            "cancel": f"POST {task}:cancel",
            "webhook": f"POST {task}/pushNotificationConfigs",
        }[operation]
        body = json.dumps(params).encode() if operation in ("send", "stream", "webhook") else b""
        return exchange(self.url, f"{line} HTTP/1.1", headers, body)

    def say(self, text: str, *, stream: bool = False, rpc: str = "/rpc", **params: Any) -> RawResponse:
        message: dict[str, Any] = {"messageId": str(uuid.uuid4())}
        if self.version == "0.3" and self.binding == "JSONRPC":
            message |= {"role": "user", "kind": "message", "parts": [{"kind": "text", "text": text}]}
        else:
            parts = "content" if self.version == "0.3" else "parts"
            message |= {"role": "ROLE_USER", parts: [{"text": text}]}
        return self.do("stream" if stream else "send", {"message": message, **params}, rpc=rpc)


def ids(response: RawResponse) -> tuple[str, str]:
    """Task and context of an answer, in whatever shape."""
    task = re.search(rb'"(?:taskId|id)":\s*"([0-9a-f-]{36})"', response.body)
    context = re.search(rb'"contextId":\s*"([0-9a-f-]{36})"', response.body)
    assert task, response.body
    assert context, response.body
    return task[1].decode(), context[1].decode()


def same(direct: RawResponse, proxied: RawResponse) -> None:
    """What a client sees is the same, but for ids and times."""
    assert anonymous(respelt(proxied.body.decode())) == anonymous(respelt(direct.body.decode()))
    assert (proxied.status, proxied.complete) == (direct.status, direct.complete)
    assert [name for name, _ in proxied.end_to_end_headers] == [name for name, _ in direct.end_to_end_headers]


@pytest.fixture(scope="module")
def agent() -> Iterator[str]:
    with ServerThread(build_app) as server:
        yield server.url


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(("version", "binding"), BINDINGS)
def test_an_agent_by_the_recipe(
    version: str, binding: str, verb: str, stream: bool, agent: str, proxy_of: GetProxy
) -> None:
    direct, proxied = (Client(url, version, binding) for url in (agent, proxy_of(agent).url))
    text = f"{verb} {uuid.uuid4()}"

    sent = direct.say(text, stream=stream), proxied.say(text, stream=stream)

    same(sent[0], sent[1])
    if verb == "raise" and not stream:
        return  # an error, without a task
    (plain_task, plain_context), (task, context) = map(ids, sent)
    same(direct.do("get", {"id": plain_task}), proxied.do("get", {"id": task}))
    if version == "1.0":
        listed = [
            client.do("list", {"contextId": context_id, "includeArtifacts": True})
            for client, context_id in ((direct, plain_context), (proxied, context))
        ]
        same(listed[0], listed[1])
        assert b"kettle" not in listed[1].body
    if verb == "ask":
        same(direct.do("cancel", {"id": plain_task}), proxied.do("cancel", {"id": task}))
    if verb == "silent":
        return  # the task goes on, and so does the turn
    turn = proxy_of(agent).turn_of(text)
    assert len(turn["tool_calls"]) == (2 if verb in ("chunks", "late", "empty", "closing") else 1)


@pytest.fixture(scope="module")
def ungated_agent() -> Iterator[str]:
    with ServerThread(build_ungated_app) as server:
        yield server.url


@pytest.fixture(scope="module")
def legacy_agent() -> Iterator[str]:
    command = [python_environment("a2a-0.3"), "-m", "agents.v03_recording_agent"]
    with ChildProcess(command, environment={"PYTHONPATH": str(EXTENSION)}) as process:
        yield process.wait_for(r"listening on (\S+)")[1]


@pytest.mark.installs
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("verb", ["plain", "chunks", "silent", "snapshot", "ask", "empty"])
def test_an_agent_of_the_0_3_sdk(verb: str, stream: bool, legacy_agent: str, proxy_of: GetProxy) -> None:
    direct, proxied = (Client(url, "0.3", "JSONRPC") for url in (legacy_agent, proxy_of(legacy_agent).url))

    sent = direct.say(verb, stream=stream, rpc="/"), proxied.say(verb, stream=stream, rpc="/")

    same(sent[0], sent[1])
    got = [
        client.do("get", {"id": ids(response)[0]}, rpc="/")
        for client, response in zip((direct, proxied), sent, strict=True)
    ]
    same(got[0], got[1])


# ── webhooks ────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Webhook:
    """Where an agent's notifications arrive."""

    url: str
    arrived: queue.SimpleQueue[bytes]

    def until_settled(self) -> list[str]:
        """All that came, anonymous, up to the end of the agent's work."""
        bodies: list[bytes] = []
        while not bodies or not re.search(rb"COMPLETED|FAILED|completed|failed", bodies[-1]):
            awaited(self.arrived, bodies)
        return [anonymous(respelt(body.decode())) for body in bodies]


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    arrived: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    async def take(request: Request) -> Response:
        arrived.put(await request.body())
        return Response()

    with ServerThread(lambda url: Starlette(routes=[Route("/", take, methods=["POST"])])) as server:
        yield Webhook(server.url, arrived)


SPELLINGS = {
    ("1.0", "JSONRPC"): ["taskPushNotificationConfig", "task_push_notification_config"],
    ("1.0", "HTTP+JSON"): ["taskPushNotificationConfig", "task_push_notification_config"],
    ("0.3", "JSONRPC"): ["pushNotificationConfig", "push_notification_config"],
    ("0.3", "HTTP+JSON"): ["pushNotification", "push_notification"],
}


@pytest.mark.parametrize("verb", ["plain", "late", "only"])
@pytest.mark.parametrize(
    ("version", "binding", "spelling"), [(*route, name) for route, names in SPELLINGS.items() for name in names]
)
def test_a_webhook_that_comes_with_the_message_is_told_no_calls(
    version: str, binding: str, spelling: str, verb: str, agent: str, proxy_of: GetProxy, webhook: Webhook
) -> None:
    told = []
    for url in (agent, proxy_of(agent).url):
        response = Client(url, version, binding).say(verb, configuration={spelling: {"url": webhook.url}})
        assert response.status == 200, response.body
        told.append(webhook.until_settled())

    assert told[0] == told[1]


@pytest.mark.parametrize("gated", [True, False])
@pytest.mark.parametrize(("version", "binding"), BINDINGS)
def test_a_webhook_set_by_its_method_is_told_no_calls(
    version: str, binding: str, gated: bool, agent: str, ungated_agent: str, proxy_of: GetProxy, webhook: Webhook
) -> None:
    told = []
    direct = agent if gated else ungated_agent
    for url in (direct, proxy_of(direct).url):
        client = Client(url, version, binding)
        task, context = ids(client.say("ask"))
        if version == "1.0":
            webhook_set = client.do("webhook", {"taskId": task, "id": "hook", "url": webhook.url})
        elif binding == "JSONRPC":
            webhook_set = client.do("webhook", {"taskId": task, "pushNotificationConfig": {"url": webhook.url}})
        else:
            params = {"parent": f"tasks/{task}", "configId": "hook", "config": {"pushNotificationConfig": {}}}
            params["config"] = {"name": "hook", "pushNotificationConfig": {"id": "hook", "url": webhook.url}}
            webhook_set = client.do("webhook", params | {"taskId": task})
        assert b"error" not in webhook_set.body, webhook_set.body
        Client(url, "1.0", "JSONRPC").do(
            "send",
            {
                "message": {
                    "messageId": str(uuid.uuid4()),
                    "role": "ROLE_USER",
                    "parts": [{"text": "late"}],
                    "taskId": task,
                    "contextId": context,
                }
            },
        )
        told.append(webhook.until_settled())

    assert told[0] == told[1]
    assert "kettle" not in "".join(told[1])


# ── who asked ───────────────────────────────────────────────────────────────────────────────────────────────
