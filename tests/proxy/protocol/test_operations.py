"""Which operation a request is, over either binding, in either protocol version."""

from __future__ import annotations

import json
from typing import Any

import pytest
from a2a_eval_proxy.protocol.operations import (
    Binding,
    Operation,
    decode_json,
    encoded,
    is_generation_mismatch,
    parsed_request,
    rest_request,
    rpc_method,
    rpc_request,
    user_message,
)
from a2a_tool_capture import URI
from hypothesis import given
from hypothesis import strategies as st
from support.junk import json_objects, json_values
from support.recordings import Recording, names

RECORDED_OPERATIONS = {
    "send": Operation.SEND,
    "stream": Operation.STREAM,
    "get": Operation.GET,
    "list": Operation.LIST,
    "subscribe": Operation.SUBSCRIBE,
    "cancel": Operation.CANCEL,
    "extcard": Operation.EXTENDED_CARD,
    "pushset": Operation.PUSH_CONFIG,
}

OF_A_TASK = (Operation.GET, Operation.SUBSCRIBE, Operation.CANCEL, Operation.PUSH_CONFIG)


def recorded_operation(name: str) -> Operation:
    return RECORDED_OPERATIONS[name.split("-")[2]]


# ── recorded requests ───────────────────────────────────────────────────────────────────────────────────────


def test_recorded_json_rpc_requests(subtests: pytest.Subtests) -> None:
    for name in names("jsonrpc-v*"):
        with subtests.test(name):
            body = Recording.load(name).request_body
            request = rpc_request(json.loads(body))
            assert request is not None
            assert (request.operation, request.binding) == (recorded_operation(name), Binding.JSONRPC)
            assert (request.message is not None) == (request.operation in (Operation.SEND, Operation.STREAM))
            assert bool(request.task_id) == (request.operation in OF_A_TASK)
            beginning = rpc_method(body)
            known = request.operation is not Operation.PUSH_CONFIG
            assert (beginning and beginning.operation) == (request.operation if known else None)
            assert beginning is None or beginning.legacy == request.legacy


def test_recorded_rest_requests(subtests: pytest.Subtests) -> None:
    for name in names("rest-v*"):
        with subtests.test(name):
            method, target, _ = Recording.load(name).request_line.split(" ")
            path, _, query = target.partition("?")
            request = rest_request(method, path, query.encode())
            assert request is not None
            assert (request.operation, request.binding) == (recorded_operation(name), Binding.HTTP_JSON)
            assert bool(request.task_id) == (request.operation in OF_A_TASK)


# ── HTTP+JSON ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("mount", ["", "/a2a/rest", "/tenant-1", "/v1"])
@pytest.mark.parametrize(
    ("method", "path", "operation"),
    [
        ("POST", "/message:send", Operation.SEND),
        ("POST", "/message:stream", Operation.STREAM),
        ("GET", "/tasks/urn:a ü", Operation.GET),
        ("GET", "/tasks", Operation.LIST),
        ("POST", "/tasks/urn:a ü:cancel", Operation.CANCEL),
        ("GET", "/tasks/urn:a ü:subscribe", Operation.SUBSCRIBE),
        ("POST", "/tasks/urn:a ü:subscribe", Operation.SUBSCRIBE),
        ("GET", "/extendedAgentCard", Operation.EXTENDED_CARD),
        ("GET", "/v1/card", Operation.EXTENDED_CARD),
        ("GET", "/agent/authenticatedExtendedCard", Operation.EXTENDED_CARD),
    ],
)
def test_paths(mount: str, method: str, path: str, operation: Operation) -> None:
    request = rest_request(method, mount + path, b"")
    assert request is not None
    assert request.operation is operation
    assert request.task_id == ("urn:a ü" if "urn" in path else "")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/"),
        ("POST", "/"),
        ("GET", "/message:send"),
        ("POST", "/message:send/"),
        ("POST", "/messages:send"),
        ("POST", "/tasks"),
        ("DELETE", "/tasks/t-1"),
        ("GET", "/tasks/t-1:cancel"),
        ("POST", "/tasks//pushNotificationConfigs"),
        ("POST", "/extendedAgentCard"),
        ("GET", "/tasks/"),
    ],
)
def test_paths_that_are_none_of_ours(method: str, path: str) -> None:
    assert rest_request(method, path, b"") is None


@pytest.mark.parametrize(
    ("query", "included"),
    [
        (b"includeArtifacts=true", True),
        (b"pageSize=5&includeArtifacts=true", True),
        (b"includeArtifacts=false", False),
        (b"", False),
    ],
)
def test_whether_a_list_includes_artifacts(query: bytes, included: bool) -> None:
    request = rest_request("GET", "/tasks", query)
    assert request is not None
    assert request.includes_artifacts is included


@given(st.sampled_from(["GET", "POST", "PUT"]), st.text(), st.binary(max_size=20))
def test_any_path_can_be_asked_about(method: str, path: str, query: bytes) -> None:
    for candidate in (path, f"/tasks/{path}", f"{path}/message:send"):
        request = rest_request(method, candidate, query)
        assert request is None or request.binding is Binding.HTTP_JSON


# ── JSON-RPC ────────────────────────────────────────────────────────────────────────────────────────────────


def rpc(method: Any, params: Any = None) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        {"method": "whatever"},
        {"jsonrpc": "2.0"},
        rpc(["SendMessage"]),
        rpc({"SendMessage": 1}),
        rpc(None),
        "SendMessage",
    ],
)
def test_what_is_no_request(body: Any) -> None:
    assert rpc_request(body) is None


@pytest.mark.parametrize(
    ("beginning", "operation"),
    [
        (b'{"jsonrpc":"2.0","method":"SendMessage","params":{"mess', Operation.SEND),
        (b'{ "method" : "message/stream" , "params"', Operation.STREAM),
        (b'{"params":{"id":"t"},"method":"tasks/get"', Operation.GET),
        (b'{"jsonrpc":"2.0","id":1,"params":{', None),
        (b'{"method":"Unknown"', None),
        (b'{"method":["SendMessage"]', None),
        (b"", None),
        (b"\xff\xfe", None),
    ],
)
def test_the_beginning_of_a_request_too_large_to_keep(beginning: bytes, operation: Operation | None) -> None:
    request = rpc_method(beginning)
    assert (request.operation if request else None) is operation


@pytest.mark.parametrize("key", ["message", "request"])  # 0.3's proto names the field `request`
def test_the_users_message(key: str) -> None:
    assert user_message({key: {"messageId": "m", "taskId": "t"}}) == {"messageId": "m", "taskId": "t"}
    assert user_message({key: {"message_id": "m", "task_id": "t"}}) == {"messageId": "m", "taskId": "t"}


@pytest.mark.parametrize("params", [None, [], {}, {"message": None}, {"message": "hi"}, {"message": []}])
def test_no_message(params: Any) -> None:
    assert user_message(params) is None


ASKING = {"messageId": "m", "extensions": [URI]}
SEND, CREATE = "SendMessage", "CreateTaskPushNotificationConfig"
OVER_REST = rest_request("POST", "/message:send", b"")
READ: list[tuple[Any, dict[str, Any]]] = [
    (rpc(SEND, {"message": ASKING}), {"asks": True, "legacy": False, "message": ASKING}),
    (rpc("message/send", {"message": {"messageId": "m"}}), {"asks": False, "legacy": True, "returns_at_once": False}),
    (rpc(SEND, {"message": {**ASKING, "taskId": "t"}}), {"named_task": "t"}),
    (rpc(SEND, {"message": {**ASKING, "taskId": 1}}), {"named_task": ""}),
    (rpc(SEND, {"message": {"extensions": URI}}), {"asks": False}),
    (
        rpc(SEND, {"configuration": {"returnImmediately": True, "ifGenerationMatch": "7"}}),
        {"returns_at_once": True, "if_generation": 7},
    ),
    (rpc(SEND, {"configuration": {"blocking": False}}), {"returns_at_once": True, "if_generation": 0, "message": None}),
    (rpc("GetTask", {"id": "t", "currentGeneration": "5"}), {"task_id": "t", "is_long_poll": True}),
    (rpc("GetTask", {"id": "t"}), {"task_id": "t", "is_long_poll": False, "includes_artifacts": False}),
    (rpc("CancelTask", {"id": "t", "currentGeneration": "5"}), {"is_long_poll": False}),
    (rpc("CancelTask", {"id": 7}), {"task_id": ""}),
    (rpc("ListTasks", {"includeArtifacts": True}), {"includes_artifacts": True}),
    (rpc("ListTasks", {"includeArtifacts": "yes"}), {"includes_artifacts": False}),
    (rpc(CREATE, {"taskId": "t"}), {"operation": Operation.PUSH_CONFIG, "has_webhook": True, "task_id": "t"}),
    (rpc(CREATE, {"parent": "tasks/t/x"}), {"task_id": "t"}),
    (rpc(CREATE, {"taskId": 7}), {"task_id": ""}),
    (rpc("whatever", {"id": "t"}), {"operation": Operation.OTHER}),
    (rpc("", {"id": "t"}), {"operation": Operation.OTHER}),
    ({"method": "message/send", "params": {}}, {"operation": Operation.SEND}),
    ([rpc(SEND, {"message": ASKING})], {"operation": Operation.BATCH, "asks": True}),
    ([rpc(SEND, {"message": {}}), 1], {"operation": Operation.BATCH, "asks": False}),
]


@pytest.mark.parametrize(("body", "known"), READ)
def test_what_a_request_holds(body: Any, known: dict[str, Any]) -> None:
    found = parsed_request(None, json.dumps(body).encode())
    assert found.request is not None
    asks = {"asks": found.asks}
    assert {name: asks.get(name, getattr(found.request, name, None)) for name in known} == known


def test_a_body_over_rest_is_read_and_what_cannot_be_is_the_agents() -> None:
    assert OVER_REST is not None
    found = parsed_request(OVER_REST, json.dumps({"message": ASKING}).encode())
    assert (found.asks, found.request) == (True, OVER_REST)
    assert OVER_REST.message == ASKING
    polled = parsed_request(rest_request("GET", "/tasks/t", b"currentGeneration=5"), b"").request
    assert polled is not None
    assert polled.is_long_poll
    assert [parsed_request(None, body).request for body in (b"", b"{", b"[]")] == [None] * 3
    assert [parsed_request(None, body).is_too_large for body in (None, b"[" + b"0," * 10**7 + b"0]")] == [True] * 2


@pytest.mark.parametrize(
    ("error", "is_one"),
    [
        ({"code": -32010}, True),
        ({"code": 412, "details": [1, {"reason": "TASK_GENERATION_MISMATCH"}]}, True),
        ({"data": [{"reason": "TASK_GENERATION_MISMATCH"}]}, True),
        ({"code": -32001, "data": {"reason": "TASK_GENERATION_MISMATCH"}}, False),
        ("-32010", False),
    ],
)
def test_errors_for_another_generation_of_a_task(error: Any, is_one: bool) -> None:
    assert is_generation_mismatch(error) is is_one


@given(json_objects | json_values)
def test_any_json_can_be_asked_about(body: Any) -> None:
    request = rpc_request(body)
    assert request is None or request.binding is Binding.JSONRPC
    assert rpc_method(json.dumps(body).encode()) is None or True
    user_message(body)


# ── JSON ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b'{"a": [1, 2.5, null]}', {"a": [1, 2.5, None]}),
        (b'"\\ud800"', "\ud800"),
        (b"[Infinity, -Infinity, NaN]", ["inf", "-inf", "nan"]),
        (b"[18446744073709551615, 18446744073709551617]", [2**64 - 1, float(2**64)]),
        (b"[18446744073709551615, 18446744073709551617, NaN]", [2**64 - 1, float(2**64), "nan"]),
        (b"[-9223372036854775808, -9223372036854775809, NaN]", [-(2**63), -float(2**63), "nan"]),
        (b"\xef\xbb\xbf{}", {}),
    ],
)
def test_decoding(body: bytes, value: Any) -> None:
    assert repr(decode_json(body)) == repr(value)
    assert encoded(value, b"otherwise") in (b"otherwise", json.dumps(value, separators=(",", ":")).encode())
    assert encoded({"a": 1}, b"otherwise") == b'{"a":1}'


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"{}{}", b"[" * 100_000 + b"]" * 100_000, b"1" * 5000])
def test_what_cannot_be_decoded_is_a_value_error(body: bytes) -> None:
    with pytest.raises(ValueError):
        decode_json(body)
