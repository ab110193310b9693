"""Webhooks through the proxy, with a real sender: the one of a2a-sdk 1.x."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path
from typing import Any

import pytest
from a2a_eval_proxy.settings.parts import Timeouts
from a2a_tool_capture import METADATA_KEY, URI
from proxy.push.conftest import Endpoint, Relay, message, relaying
from support.endpoint import Received
from support.patience import PATIENCE_S
from support.postgres_server import PostgresServer

BOUND = "e30.eyJyZXF1ZXN0X2JvZHlfc2hhMjU2IjoiMDAifQ.c2ln"
"""A JWT with the claims `{"request_body_sha256": "00"}`, which A2A's samples send."""

CALLS = [{"id": "1", "name": "search", "arguments": {"q": "kettle"}, "result": "KETTLE"}]


def with_hook(url: str, **more: Any) -> dict[str, Any]:
    return {"taskPushNotificationConfig": {"url": url, **more}, "returnImmediately": True}


async def asking(relay: Relay, url: str, **headers: str) -> tuple[str, str, str]:
    """A task that waits for its user, with a webhook: its text and id, and the address that the agent has."""
    text = f"ask {uuid.uuid4()}"
    task_id = (await relay.send(text, {}, **headers))["result"]["task"]["id"]
    await relay.rpc("CreateTaskPushNotificationConfig", {"taskId": task_id, "url": url, "id": "hook"}, **headers)
    return text, task_id, relay.addresses()[-1]


async def test_notifications_are_captured_and_reach_the_client_without_tool_calls(
    relay: Relay, endpoint: Endpoint
) -> None:
    text = f"late {uuid.uuid4()}"
    authentication = {"scheme": "Bearer", "credentials": "CREDENTIALS"}
    hook = with_hook(f"{endpoint.url}/hook?secret=1", token="TOKEN", authentication=authentication)
    task_id = (await relay.send(text, hook))["result"]["task"]["id"]
    received = await endpoint.until_ended()
    assert {(one.method, one.target) for one in received} == {("POST", "/hook?secret=1")}
    for one in received:
        assert one.headers["authorization"] == "Bearer CREDENTIALS"
        assert one.headers["x-a2a-notification-token"] == "TOKEN"
        assert one.headers["host"] == endpoint.url.removeprefix("http://")
        assert URI.encode() not in one.body
        assert b"kettle" not in one.body
    assert {value.get("taskId") or value["id"] for one in received for value in one.json.values()} == {task_id}
    turn = await relay.turn(text)
    assert [call["name"] for call in turn["tool_calls"]] == ["search", "search"]
    assert turn["state"] == "TASK_STATE_COMPLETED"
    assert turn["response_text"] == "done"
    assert relay.codes(turn) == set()


async def test_a_client_that_asked_is_notified_of_tool_calls(
    pushing_agent: str, endpoint: Endpoint, tmp_path: Path
) -> None:
    """A turn that has its answer, and of which more may be notified, does not hold up the end of the proxy."""
    patient = Timeouts(shutdown=10 * PATIENCE_S)
    async with asyncio.timeout(PATIENCE_S), relaying(pushing_agent, tmp_path / "turns.db", timeouts=patient) as relay:
        await relay.send(f"late {uuid.uuid4()}", with_hook(endpoint.url), a2a_extensions=URI)
        assert b"kettle" in b"".join(one.body for one in await endpoint.until_ended())


async def test_a_webhook_that_was_set_past_the_proxy_is_noticed_when_it_is_listed(
    relay: Relay, endpoint: Endpoint, pushing_agent: str
) -> None:
    answer = await relay.send(f"ask {uuid.uuid4()}", {})
    task = answer["result"]["task"]
    config = {"taskId": task["id"], "url": endpoint.url, "id": "theirs"}
    body = {"jsonrpc": "2.0", "id": 1, "method": "CreateTaskPushNotificationConfig", "params": config}
    created = await relay.client.post(f"{pushing_agent}/rpc", json=body, headers={"a2a-version": "1.0"})
    assert created.json()["result"]["url"] == endpoint.url
    assert [one["url"] for one in await relay.listed(task["id"])] == [endpoint.url]
    text = f"late {uuid.uuid4()}"
    continued = message(text, taskId=task["id"], contextId=task["contextId"])
    await relay.rpc("SendMessage", {"message": continued})
    turn = await relay.turn(text)
    assert turn["tool_calls"] == []
    assert "not_asked" in relay.codes(turn)


async def test_the_agent_gets_the_clients_answer_and_redirects_lead_nowhere(relay: Relay, endpoint: Endpoint) -> None:
    _, _, address = await asking(relay, f"{endpoint.url}/hook?a=1")
    endpoint.status, endpoint.headers = 307, {"location": f"{endpoint.url}/elsewhere", "x-client": "yes"}
    endpoint.says = b"said the client" * 10_000
    answer = await relay.client.put(f"{address}?b=2", content=b"\xff not JSON", headers={"x-mine": "yes"})
    assert (answer.status_code, answer.content) == (307, endpoint.says[: 64 * 1024])
    assert answer.headers["x-client"] == "yes"
    assert "location" not in answer.headers
    one = await endpoint.next()
    assert (one.method, one.target, one.body) == ("PUT", "/hook?a=1&b=2", b"\xff not JSON")
    assert one.headers["x-mine"] == "yes"
    endpoint.status = 503
    assert (await relay.notify(address, {})).status_code == 503
    await endpoint.next()
    assert endpoint.arrived.empty()  # nothing is sent again
    assert (await relay.client.post(f"{address}x", content=b"{}")).status_code == 404


@pytest.mark.parametrize(
    "signature",
    [{"x_hub_signature_256": "sha256=00"}, {"authorization": f"Bearer {BOUND}"}],
    ids=["signature", "jwt"],
)
async def test_a_signed_notification_with_tool_calls_is_withheld(
    relay: Relay, endpoint: Endpoint, signature: dict[str, str]
) -> None:
    text = f"silent {uuid.uuid4()}"
    task_id = (await relay.send(text, with_hook(endpoint.url)))["result"]["task"]["id"]
    (address,) = relay.addresses()
    artifact = {"artifactId": "a", "parts": [{"text": "hi"}], "metadata": {METADATA_KEY: CALLS}, "extensions": [URI]}
    update = {"artifactUpdate": {"taskId": task_id, "contextId": "c", "artifact": artifact}}
    plain = {"statusUpdate": {"taskId": task_id, "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}}
    assert (await relay.notify(address, update, **signature)).status_code == 422
    assert (await relay.notify(address, plain, **signature)).status_code == 200
    assert (await relay.notify(address, update, content_digest="sha-256=:AA==:")).status_code == 200
    assert (await relay.notify(address, {"last": True})).status_code == 200
    shown: list[Received] = []
    while not shown or b"last" not in shown[-1].body:
        shown.append(await endpoint.next())
    (update_shown,) = [one for one in shown if b"artifactUpdate" in one.body]
    assert update_shown.json["artifactUpdate"]["artifact"] == {"artifactId": "a", "parts": [{"text": "hi"}]}
    assert "content-digest" not in update_shown.headers
    end = {"statusUpdate": {"taskId": task_id, "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}}}
    await relay.notify(address, end)
    assert "push_withheld" in relay.codes(await relay.turn(text))


async def test_replicas_share_webhooks(pushing_agent: str, endpoint: Endpoint, postgres: PostgresServer) -> None:
    url = postgres.new_store()
    async with relaying(pushing_agent, url, turn_timeout=2.0) as one, relaying(pushing_agent, url) as other:
        text = f"silent {uuid.uuid4()}"
        task_id = (await one.send(text, with_hook(endpoint.url)))["result"]["task"]["id"]
        (address,) = one.addresses()
        await one.until_reported(task_id)
        end = {"task": {"id": task_id, "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}}}
        assert (await other.notify(one.address_at(other, address), end)).status_code == 200
        await other.proxy.flush(PATIENCE_S)
        await one.proxy.flush(PATIENCE_S)  # one of the two owns the task
        turn = await other.turn(text)
        assert turn["state"] == "TASK_STATE_COMPLETED"
        assert "incomplete" not in other.codes(turn)
        async with asyncio.timeout(PATIENCE_S):
            while one.proxy.control.open_turns:  # it learns that in time
                await asyncio.sleep(0.1)
        assert (await one.turn(text))["findings"] == turn["findings"]


@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize("method", ["SendMessage", "SendStreamingMessage"])
async def test_an_agent_that_repeats_the_webhooks_url_shows_its_clients_own(
    relay: Relay, endpoint: Endpoint, method: str, asked: bool
) -> None:
    url, text = f"{endpoint.url}/hook?a=1", f"echo {uuid.uuid4()}"
    params = {"message": message(text), "configuration": {"taskPushNotificationConfig": {"url": url}}}
    headers = {"a2a-version": "1.0", **({"a2a-extensions": URI} if asked else {})}
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    answer = await relay.client.post("/rpc", json=body, headers=headers)
    said = f"I notify {url}, as you asked"
    assert said in answer.text
    shown = b"".join(one.body for one in await endpoint.until_ended())
    assert said.encode() in shown
    turn = await relay.turn(text)
    assert turn["response_text"] == said
    task = await relay.rpc("GetTask", {"id": turn["task_id"]}, **({"a2a_extensions": URI} if asked else {}))
    assert task["result"]["artifacts"][0]["parts"] == [{"text": said}]
    (address,) = relay.addresses()
    assert address not in f"{answer.text} {shown!r} {task}"
    assert (URI in answer.text) is asked
