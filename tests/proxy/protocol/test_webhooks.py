"""Webhooks in requests: found where every agent reads them, an error where some agents would, and replaced in place."""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable
from typing import Any

import pytest
from a2a_eval_proxy.protocol.webhooks import UnclearWebhookError, may_be_json, replaced, webhooks_in
from hypothesis import given
from hypothesis import strategies as st
from support.junk import json_values

URL = "https://client.example/hook?a=1"
MESSAGE = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": '{"url": "https://not.example"}'}]}
FIELDS = [
    "taskPushNotificationConfig",
    "task_push_notification_config",
    "pushNotificationConfig",
    "push_notification_config",
    "pushNotification",
    "push_notification",
]
"""Of 1.0, of 0.3 and of 0.3's proto, in both spellings that servers accept."""

SENT: list[tuple[str, dict[str, Any]]] = [
    *(("SendMessage", {"message": MESSAGE, "configuration": {field: {"id": "c", "url": URL}}}) for field in FIELDS),
    ("message/stream", {"configuration": {"blocking": False, "pushNotificationConfig": {"url": URL}}, "message": {}}),
    ("CreateTaskPushNotificationConfig", {"taskId": "t", "url": URL, "authentication": {"scheme": "Bearer"}}),
    ("tasks/pushNotificationConfig/set", {"taskId": "t", "pushNotificationConfig": {"id": "c", "url": URL}}),
    ("tasks/pushNotification/set", {"id": "t", "pushNotificationConfig": {"url": URL}}),
]


def rpc(method: str, params: Any) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})


SEND = rpc("SendMessage", {"message": MESSAGE, "configuration": {"taskPushNotificationConfig": {"url": URL}}})


@pytest.mark.parametrize("spaced", [None, 2])
@pytest.mark.parametrize(("method", "params"), SENT)
def test_a_webhook_in_a_json_rpc_request(method: str, params: dict[str, Any], spaced: int | None) -> None:
    text = json.dumps(json.loads(rpc(method, params)), indent=spaced)
    (place,) = webhooks_in(text.encode())
    assert place.webhook.url == URL
    assert place.webhook.config_id in ("", "c", "t")
    assert text[place.start : place.end] == json.dumps(URL)
    assert replaced(text, [place], ["https://x"]) == text.replace(json.dumps(URL), '"https://x"')


@pytest.mark.parametrize(
    ("is_config", "body"),
    [
        (False, {"configuration": {"pushNotification": {"url": URL}}}),
        (False, {"configuration": {"taskPushNotificationConfig": {"url": URL}}}),
        (True, {"url": URL}),
        (True, {"config": {"name": "x", "pushNotificationConfig": {"id": "c", "url": URL}}}),
    ],
)
def test_a_webhook_in_an_http_json_request(is_config: bool, body: dict[str, Any]) -> None:
    (place,) = webhooks_in(json.dumps(body).encode(), is_config=is_config)
    assert place.webhook.url == URL


def test_the_spelling_of_the_rest_stays() -> None:
    text = (
        ' {"method":"SendMessage" , "params":\n{"n":1.50e3,"configuration":{"taskPushNotificationConfig":'
        '{"ur\\u006c" :\t"https:\\/\\/client.example" ,"token":"\\u00e9"}}},"url":"https://x"} '
    )
    (place,) = webhooks_in(text.encode())
    assert place.webhook.url == "https://client.example"
    assert replaced(text, [place], ["X"]) == text.replace('"https:\\/\\/client.example"', '"X"')


def test_both_names_of_a_webhook_are_found() -> None:
    """Servers differ in which of them they read."""
    configuration = {"pushNotificationConfig": {"url": "a"}, "taskPushNotificationConfig": {"url": "b"}}
    body = rpc("message/send", {"configuration": configuration}).encode()
    assert [place.webhook.url for place in webhooks_in(body)] == ["a", "b"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\n",
        b'"pushNotificationConfig"',
        b"\x89PNG\r\n otification",
        rpc("SendMessage", None).encode(),
        rpc(
            "SendMessage", {"configuration": None, "message": {"metadata": {"pushNotification": {"url": URL}}}}
        ).encode(),
        rpc("SendMessage", {"configuration": {"pushNotificationConfig": None, "blocking": True}}).encode(),
        rpc("SendMessage", {"configuration": {"pushNotificationConfig": {"url": ""}}}).encode(),
        rpc("SendMessage", {"message": {"parts": [{"text": "What is a pushNotification? \\u0041"}]}}).encode(),
        rpc("GetTaskPushNotificationConfig", {"taskId": "t", "id": "c"}).encode(),
        rpc("tasks/pushNotificationConfig/get", {"id": "t", "pushNotificationConfigId": "c"}).encode(),
        rpc("ListTaskPushNotificationConfigs", {"taskId": "t"}).encode(),
        b"[" + rpc("SendMessage", {"message": MESSAGE}).encode() + b"]",
        b"{'method': 'SendMessage'}",
        b'{"params": {}, "params": {}}',
    ],
)
def test_no_webhook(body: bytes) -> None:
    assert webhooks_in(body) == []


UNCLEAR = {
    "byte-order mark": codecs.BOM_UTF8 + SEND.encode(),
    **{name: SEND.encode(name) for name in ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be")},
    "invalid byte": SEND.replace('"text"', '"\udcff"').encode("utf-8", "surrogateescape"),
    "invalid byte in a name": SEND.replace("Notif", "Not\udcffif").encode("utf-8", "surrogateescape"),
    "surrogate": SEND.replace('"text"', '"\ud800"').encode("utf-8", "surrogatepass"),
    "twice: params": SEND.replace('"params"', '"params": {}, "params"').encode(),
    "twice: method": SEND.replace('"method"', '"method": "GetTask", "method"').encode(),
    "twice: configuration": SEND.replace('"configuration"', '"configuration": {}, "configuration"').encode(),
    "twice: config": SEND.replace('"taskP', '"taskPushNotificationConfig": null, "taskP').encode(),
    "twice: url": SEND.replace('"url": "https://c', '"url": "https://x", "url": "https://c').encode(),
    "twice, escaped": SEND.replace('"params"', '"par\\u0061ms": {}, "params"').encode(),
    **{
        f"case: {name}": SEND.replace(f'"{name}"', f'"{name[0].upper()}{name[1:]}"').encode()
        for name in ("params", "configuration", "taskPushNotificationConfig", "url", "method")
    },
    "case: all": SEND.upper().encode(),
    "case: folded": SEND.replace('"params"', '"param\u017f"').encode(),
    "case: Turkish": SEND.replace("Notification", "Not\u0131f\u0130cation").encode(),
    "case: escaped": SEND.replace('"url"', '"\\u0055rl"').encode(),
    "kebab case": SEND.replace("taskPushNotificationConfig", "push-notification-config").encode(),
    "another name": SEND.replace("taskPushNotificationConfig", "pushNotificationConfigs").encode(),
    "list of configs": rpc("SendMessage", {"configuration": {"pushNotificationConfig": [{"url": URL}]}}).encode(),
    "config is text": rpc("SendMessage", {"configuration": {"pushNotificationConfig": URL}}).encode(),
    "no url": rpc("SendMessage", {"configuration": {"pushNotificationConfig": {"uri": URL}}}).encode(),
    "url is a list": rpc("SendMessage", {"configuration": {"pushNotificationConfig": {"url": [URL]}}}).encode(),
    "params is a list": rpc("SendMessage", [{"configuration": {"pushNotificationConfig": {"url": URL}}}]).encode(),
    "batch": f"[{SEND}]".encode(),
    "something follows": f"{SEND}{SEND}".encode(),
    "comment": f"/* JSON5 */ {SEND}".encode(),
    "comment within": SEND.replace('"params"', '/**/ "params"').encode(),
    "single quotes": SEND.replace('"', "'").encode(),
    "no quotes": SEND.replace('"configuration"', "configuration").encode(),
    "cut": SEND[:-1].encode(),
    "other space": f"\u00a0{SEND}".encode(),
    "nested": rpc(
        "CreateTaskPushNotificationConfig", {"config": {"config": {"config": {"config": {"config": {"url": URL}}}}}}
    ).encode(),
    "too many values": SEND.replace('"message"', f'"x": [{"1," * 600_000}1], "message"').encode(),
}


@pytest.mark.parametrize("name", UNCLEAR)
def test_what_only_some_agents_read_is_an_error(name: str) -> None:
    assert may_be_json(UNCLEAR[name])
    with pytest.raises(UnclearWebhookError):
        webhooks_in(UNCLEAR[name])


@pytest.mark.parametrize(
    ("content_type", "is_clear"),
    [
        (b"application/json", True),
        (b"application/json; charset=UTF-8", True),
        (b'application/json; charset="utf-8"', True),
        (b"application/json; charset=utf-7", False),
        (b"application/json;charset = utf-16", False),
        (b"application/json; charset=utf-8; charset=utf-7", False),
    ],
)
def test_another_charset_is_an_error(content_type: bytes, is_clear: bool) -> None:
    if is_clear:
        assert webhooks_in(SEND.encode(), content_type=content_type)
    else:
        with pytest.raises(UnclearWebhookError, match="charset"):
            webhooks_in(b"{}", content_type=content_type)


# ── any spelling, and any reader ────────────────────────────────────────────────────────────────────────


def members(pairs: list[tuple[str, Any]], *, first: bool, fold: bool) -> dict[str, Any]:
    """An object as a reader has it that takes the first or the last of two fields, and may ignore case."""
    found = [(key.casefold() if fold else key, value) for key, value in (reversed(pairs) if first else pairs)]
    return dict(found)


READERS: list[Callable[[bytes], Any]] = [
    lambda body, errors=errors, codec=codec, first=first, fold=fold: json.JSONDecoder(  # type: ignore[misc]
        object_pairs_hook=lambda pairs: members(pairs, first=first, fold=fold), strict=False
    ).raw_decode(body.decode(codec, errors).lstrip("\ufeff\0 \n"))[0]
    for errors in ("ignore", "replace")
    for codec in ("utf-8", "utf-16", "utf-16-be", "utf-32")
    for first in (False, True)
    for fold in (False, True)
]


def url_read_by(reader: Callable[[bytes], Any], body: bytes) -> Any:
    """The webhook that an agent with this reader takes from a SendMessage."""
    value = reader(body)
    for names in (["params"], ["configuration"], FIELDS, ["url"]):
        if not isinstance(value, dict):
            return None
        value = next((value[key] for name in names for key in (name, name.casefold()) if value.get(key)), None)
    return value


def spelt(name: str) -> st.SearchStrategy[str]:
    """The name as a JSON string, perhaps with escapes or in another case."""
    char = [st.sampled_from([one, one, one, one, one.upper(), f"\\u{ord(one):04x}"]) for one in name]
    return st.just(f'"{name}"') | st.tuples(*char).map(lambda found: f'"{"".join(found)}"')


LEVELS: list[tuple[list[str], list[str]]] = [
    (
        ["params"],
        ["null", "{}", "[]", '{"configuration": null}', f'{{"configuration": {{"{FIELDS[0]}": {{"url": "a"}}}}}}'],
    ),
    (["configuration"], ["null", "{}", "1", f'{{"{FIELDS[2]}": {{"url": "b"}}}}', f'{{"{FIELDS[1]}": null}}']),
    (FIELDS, ["null", "{}", '{"url": ""}', '{"url": "c"}', '[{"url": "d"}]', '"e"']),
    (["url"], ["null", '""', '"f"', "1"]),
]
"""The names of the fields that lead to a webhook, from without, and values of further ones of this name."""


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    """A SendMessage with a webhook, with further fields and odd bytes in it."""
    text = json.dumps(URL)
    for names, others in reversed(LEVELS):
        fields = [(draw(st.sampled_from(names)), text)]
        fields += draw(st.lists(st.tuples(st.sampled_from(names), st.sampled_from(others)), max_size=1))
        order = draw(st.permutations(fields))
        text = f"{{{', '.join(f'{draw(spelt(name))}: {value}' for name, value in order)}}}"
    if draw(st.integers(0, 2)):
        return text.encode()
    body = text.encode(draw(st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-16-be", "utf-32"])))
    at = draw(st.integers(0, len(body)))
    return body[:at] + draw(st.sampled_from([b"", b"\xff", b"\0", b" ", b"/**/"])) + body[at:]


@given(requests())
def test_what_any_reader_takes_for_a_webhook_is_found_or_an_error(body: bytes) -> None:
    try:
        found = {place.webhook.url for place in webhooks_in(body)}
    except UnclearWebhookError:
        return
    for reader in READERS:
        try:
            url = url_read_by(reader, body)
        except ValueError:
            continue
        assert not (isinstance(url, str) and url) or url in found


@given(json_values)
def test_no_request_is_too_odd(value: Any) -> None:
    text = rpc("CreateTaskPushNotificationConfig", value)
    try:
        places = webhooks_in(text.encode())
    except UnclearWebhookError:
        return
    assert json.loads(replaced(text, places, [place.webhook.url for place in places])) == json.loads(text)


@given(st.binary(max_size=60) | st.text(max_size=40).map(str.encode))
def test_any_bytes_are_read_or_an_error_of_its_own(body: bytes) -> None:
    for is_config in (False, True):
        try:
            webhooks_in(body, is_config=is_config)
        except UnclearWebhookError:
            pass
