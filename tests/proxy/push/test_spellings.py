"""Webhooks in every place of a request, before a real a2a-sdk server: relayed or refused, and never left to the agent.

Which spellings of a body are read, and which are refused, is tested where that is decided (`protocol.webhooks`).
"""

from __future__ import annotations

import codecs
import gzip
import json
import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any, NamedTuple

import httpx
import pytest
import pytest_asyncio
from a2a_tool_capture import URI
from agents.recording_agent import build_ungated_app
from agents.serving import ServerThread
from proxy.push.conftest import Endpoint, Relay, message, relaying

pytestmark = pytest.mark.asyncio(loop_scope="module")

REST = "/rest/message:send"
NEW, OLD = {"a2a-version": "1.0"}, {"a2a-version": "0.3"}


class Sent(NamedTuple):
    """A request as it is sent."""

    path: str
    body: bytes
    headers: dict[str, str]
    in_pieces: bool = False


def rpc(method: str, params: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}).encode()


def message_requests(text: str, url: str) -> dict[str, Sent]:
    """Messages that set a webhook, by a name."""
    said = message(text)
    params = {"message": said, "configuration": {"taskPushNotificationConfig": {"url": url}}}
    plain, rest = rpc("SendMessage", params), json.dumps(params).encode()
    of_0_3 = {**said, "role": "user", "kind": "message", "parts": [{"kind": "text", "text": text}]}
    old = rpc("message/send", {"message": of_0_3, "configuration": {"pushNotificationConfig": {"url": url}}})
    request = {**of_0_3, "role": "ROLE_USER", "content": [{"text": text}]}
    return {
        "JSON-RPC 1.0": Sent("/rpc", plain, NEW),
        "JSON-RPC 0.3": Sent("/rpc", old, OLD),
        "HTTP+JSON 1.0": Sent(REST, rest, NEW),
        **{
            f"HTTP+JSON 0.3 {field}": Sent(
                "/rest/v1/message:send",
                json.dumps({"request": request, "configuration": {field: {"url": url}}}).encode(),
                OLD,
            )
            for field in ("pushNotification", "push_notification")
        },
        "batch": Sent("/rpc", b"[" + plain + b"]", NEW),
        "long": Sent("/rpc", plain + b" " * 300_000, NEW),
        "UTF-16": Sent("/rpc", plain.decode().encode("utf-16"), NEW),
        "text": Sent(REST, rest, {**NEW, "content-type": "text/plain"}),
        "no gzip": Sent("/rpc", plain, {**NEW, "content-encoding": "gzip"}),
        "gzip": Sent("/rpc", gzip.compress(plain), {**NEW, "content-encoding": "gzip"}),
        "gzip, unsaid": Sent("/rpc", gzip.compress(plain), NEW),
        "in pieces": Sent("/rpc", b" " + codecs.BOM_UTF8 + plain, NEW, in_pieces=True),
        "whole in pieces": Sent("/rpc", b" \n" + plain, NEW, in_pieces=True),
        **{
            f"path {path}": Sent(f"/rest{path}", rest, NEW)
            for path in ("/%6Dessage%3Asend", "/message:send/", "/tenant/message:send", "//message:send")
        },
    }


def config_requests(task_id: str, url: str) -> dict[str, Sent]:
    """Requests that set a webhook of a task, by a name."""
    old = {"taskId": task_id, "pushNotificationConfig": {"url": url}}
    return {
        "JSON-RPC 1.0": Sent("/rpc", rpc("CreateTaskPushNotificationConfig", {"url": url, "taskId": task_id}), NEW),
        "JSON-RPC 0.3": Sent("/rpc", rpc("tasks/pushNotificationConfig/set", old), OLD),
        **{
            f"path {name}": Sent(f"/rest/tasks/{task_id}/{name}", json.dumps({"url": url}).encode(), NEW)
            for name in ("pushNotificationConfigs", "%70ushNotificationConfigs", "pushNotificationConfigs/")
        },
    }


@pytest.fixture(scope="module")
def ungated_agent() -> Iterator[str]:
    with ServerThread(build_ungated_app) as server:
        yield server.url


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def relay(ungated_agent: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Relay]:
    async with relaying(ungated_agent, tmp_path_factory.mktemp("spellings") / "turns.db") as relay:
        yield relay


async def sent(relay: Relay, request: Sent) -> httpx.Response:
    async def pieces() -> AsyncIterator[bytes]:
        for at in range(len(request.body)):
            yield request.body[at : at + 1]

    content = pieces() if request.in_pieces else request.body
    headers = {"content-type": "application/json", **request.headers}
    return await relay.client.post(request.path, content=content, headers=headers, follow_redirects=True)


async def assert_relayed(relay: Relay, agent: str, task: Any, endpoint: Endpoint) -> None:
    """The agent has no webhook past the proxy, and those of the task get no tool calls when it is continued."""
    async with httpx.AsyncClient(base_url=agent, trust_env=False) as client:
        body = rpc("ListTaskPushNotificationConfigs", {"taskId": task["id"]})
        answer = await client.post("/rpc", content=body, headers=NEW)
    webhooks = answer.json().get("result", {}).get("configs", [])
    assert all(config["url"].startswith(relay.push_url) for config in webhooks)
    continued = message("late again", taskId=task["id"], contextId=task["contextId"])
    assert URI not in json.dumps(await relay.rpc("SendMessage", {"message": continued}))
    if webhooks:
        assert URI.encode() not in b"".join([one.body for one in await endpoint.until_ended()])


@pytest.mark.parametrize("name", message_requests("", ""))
async def test_a_webhook_in_a_message(name: str, relay: Relay, ungated_agent: str, endpoint: Endpoint) -> None:
    answer = await sent(relay, message_requests(f"ask {uuid.uuid4()}", endpoint.url)[name])
    assert URI not in answer.text
    if "contextId" in answer.text:
        found = answer.json()
        found = found.get("result", found)
        await assert_relayed(relay, ungated_agent, found.get("task", found), endpoint)


@pytest.mark.parametrize("name", config_requests("", ""))
async def test_a_webhook_of_a_request_of_its_own(
    name: str, relay: Relay, ungated_agent: str, endpoint: Endpoint
) -> None:
    task = (await relay.send(f"ask {uuid.uuid4()}", {}))["result"]["task"]
    answer = await sent(relay, config_requests(task["id"], endpoint.url)[name])
    assert URI not in answer.text
    await assert_relayed(relay, ungated_agent, task, endpoint)
