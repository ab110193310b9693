"""Agents that ask a webhook whether it takes notifications before they send any: by GET, HEAD or OPTIONS."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from a2a_eval_proxy.features.push.targets import WebhookTargets
from a2a_tool_capture import METADATA_KEY, URI
from proxy.push.conftest import Endpoint, Relay, relaying
from proxy.push.test_relay import CALLS, asking, with_hook

ARTIFACT = {"artifactId": "a", "parts": [{"text": "hi"}], "metadata": {METADATA_KEY: CALLS}, "extensions": [URI]}
WITH_CALLS = {"artifactUpdate": {"taskId": "t", "contextId": "c", "artifact": ARTIFACT}}

VERIFIED = {"token": "verified"}
"""With this token the agent verifies a webhook before it takes it (`agents.recording_agent`)."""


async def test_an_agent_verifies_a_webhook_while_it_is_being_registered(
    pushing_agent: str, endpoint: Endpoint, tmp_path: Path
) -> None:
    async with relaying(pushing_agent, tmp_path / "turns.db") as relay:
        hook = with_hook(f"{endpoint.url}/sent?a=1", **VERIFIED)
        task_id = (await relay.send(f"ask {uuid.uuid4()}", hook))["result"]["task"]["id"]
        created = await relay.rpc(
            "CreateTaskPushNotificationConfig", {"taskId": task_id, "url": f"{endpoint.url}/created", **VERIFIED}
        )
        assert created["result"]["url"] == f"{endpoint.url}/created"
        verified: list[str] = []
        while len(verified) < 2:  # among the notifications
            one = await endpoint.next()
            verified += [one.target] if one.method == "GET" else []
        assert [target.partition("validationToken=")[0] for target in verified] == ["/sent?a=1&", "/created?"]


async def test_the_agent_gets_what_the_webhook_answers_to_a_request_without_a_notification(
    relay: Relay, endpoint: Endpoint
) -> None:
    _, _, address = await asking(relay, f"{endpoint.url}/hook?a=1")
    endpoint.headers = {"webhook-allowed-origin": "*", "location": endpoint.url}
    for method, body in (("GET", b"{}"), ("HEAD", b""), ("OPTIONS", b"")):
        answer = await relay.client.request(method, f"{address}?b=2", content=body, headers={"x-mine": "yes"})
        one = await endpoint.next()
        assert (one.method, one.target, one.body) == (method, "/hook?a=1&b=2", body)
        assert one.headers["x-mine"] == "yes"
        assert (answer.status_code, answer.headers["webhook-allowed-origin"]) == (200, "*")
        assert answer.content == (b"" if method == "HEAD" else endpoint.says)
        assert answer.headers["content-length"] == str(len(endpoint.says))
        assert "location" not in answer.headers
    await relay.client.request("GET", address, json=WITH_CALLS, headers={"a2a-extensions": URI})
    one = await endpoint.next()
    assert URI not in f"{one.headers} {one.body!r}"
    assert one.json["artifactUpdate"]["artifact"] == {"artifactId": "a", "parts": [{"text": "hi"}]}


async def test_a_verification_goes_to_allowed_addresses_of_known_webhooks_only(
    relay: Relay, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, _, address = await asking(relay, endpoint.url)
    assert (await relay.client.get(f"{relay.push_url}/{'x' * 32}")).status_code == 404
    monkeypatch.setattr(WebhookTargets, "allows", lambda targets, host, found: False)
    assert (await relay.client.get(address)).status_code == 403
    assert endpoint.arrived.empty()
