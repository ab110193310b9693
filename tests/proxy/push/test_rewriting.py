"""Webhooks are replaced at their place, whatever the spelling, and no other byte changes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from a2a_eval_proxy.protocol.operations import A2ARequest, rest_request, rpc_request
from a2a_eval_proxy.push.rewriting import RelayAddresses, deleted_config, replaced, webhooks_in
from hypothesis import given
from hypothesis import strategies as st
from support.junk import json_values

OURS = RelayAddresses("https://proxy.example/push")
ID = "A" * 31 + "-"
URL = "https://client.example/hook?a=1"
MESSAGE = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": '{"url": "https://not.example"}'}]}

SENT: list[tuple[str, dict[str, Any]]] = [
    ("SendMessage", {"message": MESSAGE, "configuration": {"taskPushNotificationConfig": {"url": URL, "token": "t"}}}),
    ("SendStreamingMessage", {"configuration": {"task_push_notification_config": {"id": "c", "url": URL}}}),
    ("message/send", {"configuration": {"blocking": False, "pushNotificationConfig": {"url": URL}}}),
    ("message/stream", {"configuration": {"push_notification_config": {"url": URL}}, "message": MESSAGE}),
    ("CreateTaskPushNotificationConfig", {"taskId": "t", "url": URL, "authentication": {"scheme": "Bearer"}}),
    ("tasks/pushNotificationConfig/set", {"taskId": "t", "pushNotificationConfig": {"id": "c", "url": URL}}),
]


def request_of(body: Any) -> A2ARequest:
    request = rpc_request(body)
    assert request is not None
    return request


@pytest.mark.parametrize("spaced", [None, 2])
@pytest.mark.parametrize(("method", "params"), SENT)
def test_a_webhook_in_a_json_rpc_request(method: str, params: dict[str, Any], spaced: int | None) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    text = json.dumps(body, indent=spaced)
    (place,) = webhooks_in(text, request_of(body))
    assert place.webhook.url == URL
    assert place.webhook.config_id in ("", "c")
    assert text[place.start : place.end] == json.dumps(URL)
    address = OURS.address(ID)
    assert replaced(text, [place], [address]) == text.replace(json.dumps(URL), json.dumps(address))


@pytest.mark.parametrize(
    ("line", "body"),
    [
        ("/message:send", {"configuration": {"pushNotification": {"url": URL}}}),
        ("/v1/message:stream", {"configuration": {"taskPushNotificationConfig": {"url": URL}}}),
        ("/tasks/t/pushNotificationConfigs", {"url": URL}),
        (
            "/v1/tasks/t/pushNotificationConfigs",
            {"config": {"name": "x", "pushNotificationConfig": {"id": "c", "url": URL}}},
        ),
    ],
)
def test_a_webhook_in_an_http_json_request(line: str, body: dict[str, Any]) -> None:
    request = rest_request("POST", line, b"")
    assert request is not None
    (place,) = webhooks_in(json.dumps(body), request)
    assert place.webhook.url == URL


def test_the_spelling_of_the_rest_stays() -> None:
    text = (
        ' {"method":"SendMessage" , "params":\n{"n":1.50e3,"configuration":{"taskPushNotificationConfig":'
        '{"ur\\u006c" :\t"https:\\/\\/client.example" ,"token":"\\u00e9"}}},"url":"https://x"} '
    )
    (place,) = webhooks_in(text, request_of(json.loads(text)))
    assert place.webhook.url == "https://client.example"
    assert replaced(text, [place], ["X"]) == text.replace('"https:\\/\\/client.example"', '"X"')


def test_every_webhook_of_a_request_is_found() -> None:
    """Servers differ in which of two fields of a name they read."""
    text = (
        '{"method": "message/send", "params": {"configuration": {"pushNotificationConfig": {"url": "a", "url": "b"},'
        ' "push_notification_config": {"url": "c"}}}}'
    )
    assert [place.webhook.url for place in webhooks_in(text, request_of(json.loads(text)))] == ["a", "b", "c"]


@given(json_values)
def test_no_request_is_too_odd(value: Any) -> None:
    body = {"method": "CreateTaskPushNotificationConfig", "params": value}
    text = json.dumps(body)
    places = webhooks_in(text, request_of(body))
    assert json.loads(replaced(text, places, [place.webhook.url for place in places])) == json.loads(text)


@given(st.text(max_size=40))
def test_what_is_not_json_is_an_error_of_its_own(text: str) -> None:
    request = request_of({"method": "CreateTaskPushNotificationConfig"})
    try:
        webhooks_in(text, request)
    except ValueError:
        pass


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
    assert deleted_config(method, path, payload) == deleted
