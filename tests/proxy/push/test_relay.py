"""Webhooks through the proxy, with a real sender: the one of a2a-sdk 1.x."""

from __future__ import annotations

import uuid

from a2a_tool_capture import URI
from proxy.push.conftest import Endpoint, Relay


async def test_notifications_are_captured_and_reach_the_client_without_tool_calls(
    relay: Relay, endpoint: Endpoint
) -> None:
    text = f"late {uuid.uuid4()}"
    config = {
        "url": f"{endpoint.url}/hook?secret=1",
        "token": "TOKEN",
        "authentication": {"scheme": "Bearer", "credentials": "CREDENTIALS"},
    }
    answer = await relay.send(text, {"taskPushNotificationConfig": config, "returnImmediately": True})
    task_id = answer["result"]["task"]["id"]
    received = await endpoint.until_ended()
    assert {(one.method, one.target) for one in received} == {("POST", "/hook?secret=1")}
    for one in received:
        assert one.headers["authorization"] == "Bearer CREDENTIALS"
        assert one.headers["x-a2a-notification-token"] == "TOKEN"
        assert URI.encode() not in one.body
        assert b"kettle" not in one.body
    assert {value.get("taskId") or value["id"] for one in received for value in one.json.values()} == {task_id}
    turn = await relay.turn(text)
    assert [call["name"] for call in turn["tool_calls"]] == ["search", "search"]
    assert turn["state"] == "TASK_STATE_COMPLETED"
    assert turn["response_text"] == "done"
    assert relay.codes(turn) == set()
