"""Clients see their own URLs of webhooks again, and which configuration a request deletes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from a2a_eval_proxy.features.push.rewriting import RelayAddresses
from a2a_eval_proxy.protocol.webhooks import deleted_config

OURS = RelayAddresses("https://proxy.example/push")
ID = "A" * 31 + "-"


@pytest.mark.parametrize("slash", ["/", "\\/"])
def test_responses_show_the_clients_url_again(slash: str) -> None:
    body = json.dumps({"result": [{"id": "c", "url": OURS.address(ID)}, {"url": OURS.address("B" * 32)}, 1.50]})
    spelt = body.replace("/", slash).encode()
    assert OURS.ids_in(spelt) == [ID, "B" * 32]
    other = OURS.address("B" * 32).replace("/", slash).encode()
    restored = OURS.restored(spelt, {ID: 'https://client.example/"'})
    assert json.loads(restored)["result"][0]["url"] == 'https://client.example/"'
    assert other in restored
    assert OURS.config_ids(json.loads(body)) == {ID: "c"}


@pytest.mark.parametrize(
    ("method", "path", "payload", "deleted"),
    [
        ("DELETE", "/v1/tasks/t/pushNotificationConfigs/c", None, "c"),
        ("GET", "/v1/tasks/t/pushNotificationConfigs/c", None, None),
        ("POST", "/", {"method": "DeleteTaskPushNotificationConfig", "params": {"taskId": "t", "id": "c"}}, "c"),
        (
            "POST",
            "/",
            {
                "method": "tasks/pushNotificationConfig/delete",
                "params": {"id": "t", "pushNotificationConfigId": "c"},
            },
            "c",
        ),
        ("POST", "/", {"method": "GetTaskPushNotificationConfig", "params": {"id": "c"}}, None),
        ("POST", "/", [], None),
    ],
)
def test_which_configuration_is_deleted(method: str, path: str, payload: Any, deleted: str | None) -> None:
    assert deleted_config(method, path, json.dumps(payload).encode()) == deleted
