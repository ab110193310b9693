"""Stand-ins for the APIs of other providers, over loopback: what they demand and refuse, without a model."""

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
