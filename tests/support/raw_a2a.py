"""A2A requests as raw HTTP, for tests that need every header in their hands."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field
from typing import Any

from e2e.raw_http import Headers, RawResponse, exchange

RPC = "/a2a/jsonrpc"
REST = "/a2a/rest"

BINDINGS = [(version, binding) for version in ("1.0", "0.3") for binding in ("JSONRPC", "HTTP+JSON")]
ASKING_HEADER = {"1.0": "A2A-Extensions", "0.3": "X-A2A-Extensions"}
"""The header a client of that version activates extensions with."""


@dataclass
class RawRequest:
    """Request line, headers and body, ready for `RawConnection.send`."""

    request_line: str
    headers: Headers
    body: bytes = b""

    def plus(self, *headers: tuple[str, str]) -> RawRequest:
        return RawRequest(self.request_line, [*self.headers, *headers], self.body)

    def to(self, url: str) -> RawResponse:
        return exchange(url, self.request_line, self.headers, self.body)


@dataclass
class Wire:
    """How to say things in one protocol version and binding."""

    version: str
    binding: str
    request_id: Any = field(default=1)

    def message(self, text: str, *, stream: bool = False) -> RawRequest:
        """A user's message, streaming or blocking."""
        part, role = ({"text": text}, "ROLE_USER")
        key = "parts"
        message: dict[str, Any] = {"messageId": str(uuid.uuid4())}
        if self.version == "0.3" and self.binding == "JSONRPC":
            part, role = ({"kind": "text", "text": text}, "user")
            message["kind"] = "message"
        elif self.version == "0.3":
            key = "content"
        message |= {"role": role, key: [part]}
        if self.binding == "JSONRPC":
            methods = {"1.0": ("SendMessage", "SendStreamingMessage"), "0.3": ("message/send", "message/stream")}
            return self._rpc(methods[self.version][stream], {"message": message})
        prefix = "/v1" if self.version == "0.3" else ""
        return self._post(f"{REST}{prefix}/message:{'stream' if stream else 'send'}", {"message": message})

    def get(self, task_id: str) -> RawRequest:
        """The task as it is now."""
        if self.binding == "JSONRPC":
            return self._rpc({"1.0": "GetTask", "0.3": "tasks/get"}[self.version], {"id": task_id})
        prefix = "/v1" if self.version == "0.3" else ""
        return RawRequest(f"GET {REST}{prefix}/tasks/{task_id} HTTP/1.1", self._headers())

    def _rpc(self, method: str, params: dict[str, Any]) -> RawRequest:
        return self._post(RPC, {"jsonrpc": "2.0", "id": self.request_id, "method": method, "params": params})

    def _post(self, path: str, content: Any) -> RawRequest:
        headers = [*self._headers(), ("Content-Type", "application/json")]
        return RawRequest(f"POST {path} HTTP/1.1", headers, json.dumps(content).encode())

    def _headers(self) -> Headers:
        return [("A2A-Version", "1.0")] if self.version == "1.0" else []
