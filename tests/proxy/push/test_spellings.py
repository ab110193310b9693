"""However a webhook is spelt: what a real a2a-sdk server reads is refused, relayed, or notified without tool calls."""

from __future__ import annotations

import codecs
import gzip
import itertools
import json
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from typing import Any, NamedTuple

import httpx
import pytest
import pytest_asyncio
from a2a_tool_capture import URI
from agents.recording_agent import build_ungated_app
from agents.serving import ServerThread
from proxy.push.conftest import Endpoint, Relay, message, relaying

pytestmark = pytest.mark.asyncio(loop_scope="module")

POLICIES: dict[str, dict[str, Any]] = {
    "pass": {"push_url": None},
    "other targets": {"push_allow": ("192.0.2.0/24",)},
    "relay": {},
}
RPC_1 = "CreateTaskPushNotificationConfig"
REST = "/rest/message:send"
RPC_03 = "tasks/pushNotificationConfig/set"


class Sent(NamedTuple):
    """A request as it is sent."""

    path: str
    body: bytes
    headers: dict[str, str] = {}  # noqa: RUF012  # a default that nothing changes
    in_pieces: bool = False


def rpc(method: str, params: dict[str, Any]) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": 7, "method": method, "params": params})


def first(name: str, value: str) -> Callable[[str], str]:
    """Another field before all others of each object that has a message or a URL."""
    return lambda text: text.replace('{"message"', f'{{"{name}": {value}, "message"').replace(
        '{"url"', f'{{"{name}": {value}, "url"'
    )


TEXTS: dict[str, Callable[[str], str]] = {
    "as usual": str,
    "spaced": lambda text: f"\r\n\t {text} \n\n",
    "escaped": lambda text: text.replace("onfig", "\\u006fnfig").replace('"url"', '"\\u0075rl"'),
    "snake case": lambda text: text.replace("taskPushNotificationConfig", "task_push_notification_config").replace(
        "pushNotificationConfig", "push_notification_config"
    ),
    "NaN": first("x", "NaN"),
    "infinite": first("x", "[1e999, -Infinity]"),
    "lone surrogate": first("x", '"\\ud800"'),
    "deep": first("x", "[" * 300 + "]" * 300),
    "big number": first("x", "9" * 400),
    "twice": lambda text: text.replace('"configuration"', '"configuration": null, "configuration"'),
    "twice, then null": lambda text: text.replace('"params"', '"params": {"configuration": {}}, "params"'),
    "in capitals, too": lambda text: text.replace('{"url"', '{"URL": "https://a.example/", "url"'),
    "long": lambda text: text + " " * 300_000,
}
BYTES: dict[str, Callable[[str], bytes]] = {
    "UTF-8": lambda text: text.encode(),
    "byte-order mark": lambda text: codecs.BOM_UTF8 + text.encode(),
    "UTF-16": lambda text: text.encode("utf-16"),
    "UTF-16-LE": lambda text: text.encode("utf-16-le"),
    "UTF-16-BE": lambda text: text.encode("utf-16-be"),
    "UTF-32": lambda text: text.encode("utf-32"),
    "UTF-32-BE": lambda text: text.encode("utf-32-be"),
    "surrogate": lambda text: text.replace('"parts"', '"x": "\ud800", "parts"').encode("utf-8", "surrogatepass"),
    "invalid byte": lambda text: text.encode().replace(b'"parts"', b'"x": "\xff", "parts"'),
    "gzip": lambda text: gzip.compress(text.encode()),
}
HEADERS: dict[str, dict[str, str]] = {
    "none": {},
    "gzip": {"content-encoding": "gzip"},
    "br": {"content-encoding": "br"},
    "charset": {"content-type": "application/json; charset=utf-7"},
    "plain": {"content-type": "text/plain"},
}


def of_version(version: str, params: dict[str, Any]) -> dict[str, Any]:
    if version == "1.0":
        return params
    message = {**params["message"], "role": "user", "kind": "message"}
    message["parts"] = [{"kind": "text", **part} for part in message["parts"]]
    return {**params, "message": message}


def spelt(carriers: list[Sent]) -> Iterator[tuple[str, Sent]]:
    """Every spelling once, by a name, over one carrier after the other."""
    turns = itertools.cycle(carriers)
    for name, spell in TEXTS.items():
        sent = next(turns)
        yield name, sent._replace(body=spell(sent.body.decode()).encode())
    for name, encode in BYTES.items():
        sent = next(turns)
        yield name, sent._replace(body=encode(sent.body.decode()))
    for name, more in HEADERS.items():
        sent = next(turns)
        yield f"header {name}", sent._replace(headers=sent.headers | more)


def message_requests(text: str, url: str) -> Iterator[tuple[str, Sent]]:
    """Messages that set a webhook, by a name."""
    params = {"message": message(text), "configuration": {"taskPushNotificationConfig": {"url": url}}}
    old = of_version("0.3", {**params, "configuration": {"pushNotificationConfig": {"url": url}}})
    new, of_0_3 = {"a2a-version": "1.0"}, {"a2a-version": "0.3"}
    plain, rest = rpc("SendMessage", params).encode(), json.dumps(params).encode()
    yield from spelt(
        [Sent("/rpc", plain, new), Sent("/rpc", rpc("message/send", old).encode(), of_0_3), Sent(REST, rest, new)]
    )
    yield "in pieces", Sent("/rpc", b" " + codecs.BOM_UTF8 + plain, new, in_pieces=True)
    yield "whole in pieces", Sent("/rpc", b" \n" + plain, new, in_pieces=True)
    yield "batch", Sent("/rpc", b"[" + plain + b"]", new)
    for path in ("/%6Dessage%3Asend", "/message:send/", "/tenant/message:send", "//message:send"):
        yield f"path {path}", Sent(f"/rest{path}", rest, new)
    request = {**old["message"], "role": "ROLE_USER", "content": [{"text": text}]}
    for field in ("pushNotification", "push_notification"):
        body = json.dumps({"request": request, "configuration": {field: {"url": url}}}).encode()
        yield f"HTTP+JSON 0.3 {field}", Sent("/rest/v1/message:send", body, of_0_3)


def config_requests(task_id: str, url: str) -> Iterator[tuple[str, Sent]]:
    """Requests that set a webhook of a task, by a name."""
    old = rpc(RPC_03, {"taskId": task_id, "pushNotificationConfig": {"url": url}}).encode()
    new, rest = {"a2a-version": "1.0"}, json.dumps({"url": url}).encode()
    yield from spelt(
        [
            Sent("/rpc", rpc(RPC_1, {"url": url, "taskId": task_id}).encode(), new),
            Sent("/rpc", old, {"a2a-version": "0.3"}),
            Sent(f"/rest/tasks/{task_id}/pushNotificationConfigs", rest, new),
        ]
    )
    for path in ("%70ushNotificationConfigs", "pushNotificationConfigs/"):
        yield f"path {path}", Sent(f"/rest/tasks/{task_id}/{path}", rest, new)


MESSAGES = [name for name, _ in message_requests("", "")]
CONFIGS = [name for name, _ in config_requests("", "")]


@pytest.fixture(scope="module")
def ungated_agent() -> Iterator[str]:
    with ServerThread(build_ungated_app) as server:
        yield server.url


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def relays(ungated_agent: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[dict[str, Relay]]:
    folder = tmp_path_factory.mktemp("spellings")
    async with AsyncExitStack() as stack:
        yield {
            policy: await stack.enter_async_context(relaying(ungated_agent, folder / policy, **more))
            for policy, more in POLICIES.items()
        }


async def sent(relay: Relay, request: Sent) -> httpx.Response:
    async def pieces() -> AsyncIterator[bytes]:
        for at in range(len(request.body)):
            yield request.body[at : at + 1]

    content = pieces() if request.in_pieces else request.body
    headers = {"content-type": "application/json", **request.headers}
    return await relay.client.post(request.path, content=content, headers=headers, follow_redirects=True)


async def webhooks_at(agent: str, task_id: str) -> list[str]:
    """The URLs of the webhooks that the agent has for a task."""
    async with httpx.AsyncClient(base_url=agent, trust_env=False) as client:
        body = rpc("ListTaskPushNotificationConfigs", {"taskId": task_id})
        answer = await client.post("/rpc", content=body, headers={"a2a-version": "1.0"})
        return [config["url"] for config in answer.json().get("result", {}).get("configs", [])]


def task_in(answer: httpx.Response) -> dict[str, Any] | None:
    """The task that a response shows, if it is none about a failure."""
    try:
        found = answer.json()
    except ValueError:
        return None
    if not isinstance(found, dict):
        return None
    found = found.get("result", found)
    task = found.get("task", found)
    return task if isinstance(task, dict) and "contextId" in task else None


async def assert_policy_holds(relays: dict[str, Relay], policy: str, agent: str, task: Any, endpoint: Endpoint) -> None:
    """Continue the task, and see what its webhooks get."""
    relay, webhooks = relays[policy], await webhooks_at(agent, task["id"])
    if policy == "other targets":
        assert webhooks == []
    elif policy == "relay":
        assert all(url.startswith(relay.push_url) for url in webhooks)
    continued = message("late again", taskId=task["id"], contextId=task["contextId"])
    answer = await relay.rpc("SendMessage", {"message": continued})
    assert URI not in json.dumps(answer)
    if webhooks:
        assert URI.encode() not in b"".join([one.body for one in await endpoint.until_ended()])


@pytest.mark.parametrize("name", MESSAGES)
@pytest.mark.parametrize("policy", POLICIES)
async def test_a_webhook_in_a_message(
    policy: str, name: str, relays: dict[str, Relay], ungated_agent: str, endpoint: Endpoint
) -> None:
    request = dict(message_requests(f"ask {uuid.uuid4()}", endpoint.url))[name]
    answer = await sent(relays[policy], request)
    assert URI not in answer.text
    if (task := task_in(answer)) is not None:
        await assert_policy_holds(relays, policy, ungated_agent, task, endpoint)


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("policy", POLICIES)
async def test_a_webhook_of_a_request_of_its_own(
    policy: str, name: str, relays: dict[str, Relay], ungated_agent: str, endpoint: Endpoint
) -> None:
    relay = relays[policy]
    task = (await relay.send(f"ask {uuid.uuid4()}", {}))["result"]["task"]
    answer = await sent(relay, dict(config_requests(task["id"], endpoint.url))[name])
    assert URI not in answer.text
    await assert_policy_holds(relays, policy, ungated_agent, task, endpoint)
