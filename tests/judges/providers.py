"""Stand-ins for the APIs of other providers, over loopback: what they demand, refuse and answer, without a model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from judges.fake_api import KEY, FakeApi, Reply, fails

AZURE_BASE = "/openai/deployments/judge"
AZURE_QUERY = "api-version=2024-10-21"


class AzureApi(FakeApi):
    """As Azure OpenAI: the deployment in the path, the API version in the query, the key in `api-key`."""

    def _complaint(self, scope: Any, body: bytes) -> Reply | None:
        headers = dict(scope["headers"])
        if scope["path"] != f"{AZURE_BASE}/chat/completions" or scope["query_string"].decode() != AZURE_QUERY:
            return fails(404, "Resource not found", "404")
        if headers.get(b"api-key", b"").decode() != KEY or b"authorization" in headers:
            return fails(401, "Access denied due to invalid subscription key or wrong API endpoint.", "401")
        return None


class StrictApi(FakeApi):
    """Refuses members of the request with an error that names them, as reasoning models and small servers do."""

    def __init__(self, *replies: Any, refused: Mapping[str, str], named: bool = True) -> None:
        super().__init__(*replies)
        self._refused, self._named = refused, named

    def _complaint(self, scope: Any, body: bytes) -> Reply | None:
        request = json.loads(body)
        for member, message in self._refused.items():
            if member in request:
                error = {"message": message, "type": "invalid_request_error", "code": "unsupported_value"}
                error |= {"param": member} if self._named else {}
                return Reply(400, json.dumps({"error": error}).encode())
        return None


class AnthropicApi(FakeApi):
    """As Anthropic's Messages API. A reply is the text of the answer, or a Reply."""

    def _complaint(self, scope: Any, body: bytes) -> Reply | None:
        headers = dict(scope["headers"])
        if (scope["method"], scope["path"]) != ("POST", "/v1/messages"):
            return _anthropic_error(404, "not_found_error", "Not Found")
        if headers.get(b"x-api-key", b"").decode() != KEY:
            return _anthropic_error(401, "authentication_error", "invalid x-api-key")
        if b"anthropic-version" not in headers or not json.loads(body).get("max_tokens"):
            return _anthropic_error(400, "invalid_request_error", "max_tokens: Field required")
        return None


def anthropic_says(value: Any) -> Reply:
    """A message of Anthropic's API with 100 input and 20 output tokens."""
    text = value if isinstance(value, str) else json.dumps(value)
    body = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-stand-in-2026",
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 100, "output_tokens": 20},
    }
    return Reply(body=json.dumps(body).encode())


def anthropic_fails(status: int, kind: str, message: str, **headers: str) -> Reply:
    reply = _anthropic_error(status, kind, message)
    reply.headers = {name.replace("_", "-"): value for name, value in headers.items()}
    return reply


def _anthropic_error(status: int, kind: str, message: str) -> Reply:
    return Reply(status, json.dumps({"type": "error", "error": {"type": kind, "message": message}}).encode())
