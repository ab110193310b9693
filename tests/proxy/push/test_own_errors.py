"""What an agent gets from the push port where the client's webhook gives no answer, and in which order it is sent."""

from __future__ import annotations

import asyncio
import gzip
import json
import uuid
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from a2a_eval_proxy.body_memory import HeldBody
from a2a_eval_proxy.features.push import listener
from a2a_eval_proxy.features.push.listener import WebhookSender
from a2a_eval_proxy.features.push.registry import WebhookRegistry
from a2a_eval_proxy.protocol.error_bodies import LocalResponse
from a2a_eval_proxy.settings.parts import TrafficLimits
from a2a_eval_proxy.store import StoreError
from proxy.push.conftest import Endpoint, Relay, message, relaying
from proxy.push.test_relay import asking, with_hook
from support.patience import PATIENCE_S

MESSAGE = {"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "hi"}]}}


@pytest.mark.parametrize(("padding", "status"), [(3000, 413), (0, 503)])
async def test_what_is_too_large_or_has_no_store_reaches_no_webhook(
    padding: int, status: int, pushing_agent: str, endpoint: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(registry: WebhookRegistry, *_: object) -> None:
        raise StoreError("gone")

    async with relaying(pushing_agent, tmp_path / "turns.db", limits=TrafficLimits(body_bytes=2000)) as relay:
        _, _, address = await asking(relay, endpoint.url)
        if not padding:
            monkeypatch.setattr(WebhookRegistry, "get", fail)
        answer = await relay.notify(address, {**MESSAGE, "x": "x" * padding})
    assert answer.status_code == answer.json()["error"]["code"] == status
    assert endpoint.arrived.empty()


async def test_notifications_are_sent_one_at_a_time_though_their_agent_has_left(
    relay: Relay, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent that gives up after some seconds has sent it all the same: without the proxy, it is there by then."""
    monkeypatch.setattr(listener, "TURN_S", PATIENCE_S)
    first_begins, first_may_end, send = asyncio.Event(), asyncio.Event(), WebhookSender.send
    steps: list[str] = []

    async def slow(*arguments: Any) -> LocalResponse:
        steps.append("begins")
        first_begins.set()
        await first_may_end.wait()
        answer = await send(*arguments)
        steps.append("ends")
        return answer

    _, _, address = await asking(relay, endpoint.url)
    monkeypatch.setattr(WebhookSender, "send", slow)
    first = asyncio.create_task(relay.notify(f"{address}?n=1", MESSAGE))
    await asyncio.wait_for(first_begins.wait(), 60)
    body, url = json.dumps(MESSAGE).encode(), urlsplit(address)
    reader, writer = await asyncio.open_connection(url.hostname, url.port)
    try:
        writer.write(b"POST %b?n=2 HTTP/1.1\r\nhost: proxy\r\n" % url.path.encode())
        writer.write(b"expect: 100-continue\r\ncontent-length: %d\r\n\r\n" % len(body))
        async with asyncio.timeout(60):
            assert b" 100 " in await reader.readuntil(b"\r\n\r\n")  # the proxy reads it before its turn
            writer.write(body)
            writer.write_eof()
            assert await reader.read() == b""  # the proxy knows that the agent has left
    finally:
        writer.close()
        first_may_end.set()
    assert (await first).status_code == 200
    assert [(await endpoint.next()).target[-3:] for _ in range(2)] == ["n=1", "n=2"]
    assert steps[:3] == ["begins", "ends", "begins"]


@pytest.mark.parametrize("why", ["digest", "signature", "store"])
async def test_a_request_that_cannot_be_changed_passes_with_a_finding(
    relay: Relay, endpoint: Endpoint, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent notifies the webhook past the proxy, and is not asked for tool calls."""

    async def fail(registry: WebhookRegistry, *_: object, **__: object) -> None:
        raise StoreError("gone")

    if why == "store":
        monkeypatch.setattr(WebhookRegistry, "register", fail)
    headers = {"digest": {"content_digest": "sha-256=:AA==:"}, "signature": {"signature": "sig1=:AA==:"}}
    text = f"chunks {uuid.uuid4()}"
    configuration = {"taskPushNotificationConfig": {"url": endpoint.url}}
    answer = await relay.send(text, configuration, **headers.get(why, {}))
    assert relay.addresses() == []
    assert [one["url"] for one in await relay.listed(answer["result"]["task"]["id"])] == [endpoint.url]
    await endpoint.until_ended()
    turn = await relay.turn(text)
    assert turn["tool_calls"] == []
    assert "push_not_relayed" in relay.codes(turn)


async def test_what_is_too_large_to_be_read_is_refused(pushing_agent: str, tmp_path: Path) -> None:
    """It may set a webhook that is not allowed; other requests of this size pass."""
    async with relaying(pushing_agent, tmp_path / "turns.db", limits=TrafficLimits(body_bytes=2000)) as relay:
        hook = with_hook("http://10.0.0.1/")
        answer = await relay.send(f"plain {'x' * 300_000}", hook)
        assert answer["error"]["data"][0]["reason"] == "REQUEST_TOO_LARGE"
        packed = gzip.compress(json.dumps({"jsonrpc": "2.0", "method": "x", "params": ["x" * 3000]}).encode())
        answer = (await relay.client.post("/rpc", content=packed, headers={"content-encoding": "gzip"})).json()
        assert answer["error"]["data"][0]["reason"] == "REQUEST_TOO_LARGE"
        assert (await relay.send("plain", hook))["error"]["code"] == -32602
        assert (await relay.client.post("/files", content=b"\x89PNG" * 100_000)).status_code != 413


async def test_what_there_is_no_memory_to_decode_is_to_be_sent_again(
    relay: Relay, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def no_room(held: HeldBody, more: int, *, waits: bool) -> bool:
        return False

    monkeypatch.setattr(HeldBody, "room", no_room)
    headers = {"a2a-version": "1.0", "content-encoding": "gzip"}
    for path in ("/rpc", "/rest/message:send"):
        answer = await relay.client.post(path, content=gzip.compress(b'{"message": {}}'), headers=headers)
        assert answer.status_code == 503
        assert "NO_MEMORY" in answer.text


@pytest.mark.parametrize("headers", [{"signature": "sig1=:AA==:"}, {"content-encoding": "gzip"}])
async def test_other_targets_are_refused_in_requests_that_cannot_be_changed(
    headers: dict[str, str], relay: Relay
) -> None:
    params = {"message": message("ask hi"), "configuration": with_hook("http://10.0.0.1/")}
    body = json.dumps({"jsonrpc": "2.0", "id": 7, "method": "SendMessage", "params": params}).encode()
    content = gzip.compress(body) if "content-encoding" in headers else body
    answer = await relay.client.post("/rpc", content=content, headers={"a2a-version": "1.0", **headers})
    assert answer.json()["error"]["code"] == -32602


async def test_a_message_whose_webhook_cannot_be_read_passes_with_a_finding(
    pushing_agent: str, endpoint: Endpoint, tmp_path: Path
) -> None:
    async with relaying(pushing_agent, tmp_path / "turns.db", push_url=None) as relay:
        configuration = {"taskPushNotificationConfig": {"url": endpoint.url}}
        params = {"message": message("chunks of it"), "configuration": configuration}
        body = json.dumps({"jsonrpc": "2.0", "id": 7, "method": "SendMessage", "params": params}).encode("utf-16")
        await relay.client.post("/rpc", content=body, headers={"a2a-version": "1.0"})
        assert b"kettle" not in b"".join(one.body for one in await endpoint.until_ended())
        assert "not_asked" in relay.codes(await relay.turn("chunks of it"))
