"""Notifications in the raw wire of their turns."""

from __future__ import annotations

import json
import uuid
from typing import Any

import httpx
from proxy.push.conftest import Endpoint, Relay
from proxy.push.test_relay import with_hook


async def wire(relay: Relay, turn_id: str) -> list[dict[str, Any]]:
    async with httpx.AsyncClient(base_url=relay.proxy.admin_url, trust_env=False, timeout=60) as admin:
        answer = await admin.get(f"/api/turns/{turn_id}/wire")
        page = await admin.get(f"/turns/{turn_id}/wire")
    assert "Notification" in page.text
    return list(answer.json()["exchanges"])


async def test_the_raw_wire_has_what_the_agent_sent_and_what_it_got_without_secrets(
    relay: Relay, endpoint: Endpoint
) -> None:
    text = f"echo {uuid.uuid4()}"
    authentication = {"scheme": "Bearer", "credentials": "CREDENTIALS"}
    await relay.send(text, with_hook(endpoint.url, token="TOKEN", authentication=authentication))
    count = len(await endpoint.until_ended())
    turn = await relay.turn(text)
    exchanges = await wire(relay, turn["turn_id"])
    found = [one for one in exchanges if one["notification"]]
    assert [one["response"]["status"] for one in found].count(200) == count
    assert [one["notification"] for one in exchanges if one["opens_turn"]] == [False]
    assert {(one["request"]["method"], one["request"]["target"]) for one in found} == {("POST", "/push/***")}
    answers = {(one["response"]["status"], one["response"]["body"]["text"]) for one in found}
    assert answers <= {(200, "said the client"), (204, "")}  # one that has calls alone is not passed on
    assert all(0 < one["offset_s"] <= one["response"]["offset_s"] <= one["end_s"] for one in found)
    assert all(["authorization", "***"] in one["request"]["headers"] for one in found)
    assert "TASK_STATE_COMPLETED" in found[-1]["request"]["body"]["text"]
    shown = json.dumps(found)
    assert not any(one.rpartition("/")[2] in json.dumps(exchanges) for one in relay.addresses())
    assert f"I notify {relay.push_url}/***, as you asked" in shown
    secrets = ["TOKEN", "CREDENTIALS", endpoint.url, *(one.rpartition("/")[2] for one in relay.addresses())]
    assert [secret for secret in secrets if secret in shown] == []
