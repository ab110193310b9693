"""What the proxy answers in the agent's place: the binding's own error shape."""

from __future__ import annotations

import json
from typing import Any

import pytest
from a2a_eval_proxy.protocol import error_bodies
from a2a_eval_proxy.protocol.operations import Binding
from hypothesis import given
from hypothesis import strategies as st
from support.junk import json_values


def failed(binding: Binding, request: bytes = b"", status: int = 502) -> tuple[error_bodies.LocalResponse, Any]:
    answer = error_bodies.error(status, "UPSTREAM_UNREACHABLE", "the agent cannot be reached", binding, request)
    headers = dict(answer.headers)
    assert headers[b"content-type"] == b"application/json"
    assert int(headers[b"content-length"]) == len(answer.body)
    return answer, json.loads(answer.body)


@pytest.mark.parametrize(
    ("sent", "echoed"),
    [
        ('"a-1"', '"a-1"'),
        ("7", "7"),
        ("12345678901234567890", "12345678901234567890"),
        ("null", "null"),
        ("1.5", "1.5"),
    ],
)
def test_json_rpc_errors_echo_the_id_exactly(sent: str, echoed: str) -> None:
    answer, content = failed(Binding.JSONRPC, f'{{"jsonrpc":"2.0","id":{sent},"method":"SendMessage"}}'.encode())
    assert f'"id":{echoed},' in answer.body.decode()
    assert answer.status == 502
    assert (content["jsonrpc"], content["error"]["code"]) == ("2.0", -32603)
    assert content["error"]["message"] == "the agent cannot be reached"
    assert content["error"]["data"][0]["reason"] == "UPSTREAM_UNREACHABLE"


@pytest.mark.parametrize("request_body", [b"", b"{}", b"[]", b"not json", b"\xff", b"[" * 100_000])
def test_without_an_id_there_is_none(request_body: bytes) -> None:
    assert failed(Binding.JSONRPC, request_body)[1]["id"] is None


@pytest.mark.parametrize(
    ("status", "word"), [(502, "UNAVAILABLE"), (504, "DEADLINE_EXCEEDED"), (431, "INVALID_ARGUMENT")]
)
def test_http_json_errors_are_a_status(status: int, word: str) -> None:
    answer, content = failed(Binding.HTTP_JSON, status=status)
    assert answer.status == status
    error = content["error"]
    assert (error["code"], error["status"], error["message"]) == (status, word, "the agent cannot be reached")
    assert error["details"][0] == {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": "UPSTREAM_UNREACHABLE",
        "domain": "a2a-eval-proxy",
        "metadata": {},
    }


@given(st.binary(max_size=30) | json_values.map(lambda value: json.dumps({"id": value}).encode()))
def test_any_request_gets_an_answer(request_body: bytes) -> None:
    failed(Binding.JSONRPC, request_body)
