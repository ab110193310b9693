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


METHODS = {
    "1.0": {
        "send": "SendMessage",
        "stream": "SendStreamingMessage",
        "get": "GetTask",
        "list": "ListTasks",
        "cancel": "CancelTask",
    },
    "0.3": {"send": "message/send", "stream": "message/stream", "get": "tasks/get", "cancel": "tasks/cancel"},
}


@dataclass
class Wire:
    """How to say things in one protocol version and binding, at these paths of the agent."""

    version: str
    binding: str
    request_id: Any = field(default=1)
    rpc: str = RPC
    rest: str = REST

    def message(self, text: str, *, stream: bool = False, **more: Any) -> RawRequest:
        """A user's message, streaming or blocking, with more parameters."""
        part, role = ({"text": text}, "ROLE_USER")
        key = "parts"
        message: dict[str, Any] = {"messageId": str(uuid.uuid4())}
        if self.version == "0.3" and self.binding == "JSONRPC":
            part, role = ({"kind": "text", "text": text}, "user")
            message["kind"] = "message"
        elif self.version == "0.3":
            key = "content"
        message |= {"role": role, key: [part]}
        operation = "stream" if stream else "send"
        return self._request(operation, f"POST /message:{operation}", {"message": message, **more})

    def get(self, task_id: str) -> RawRequest:
        """The task as it is now."""
        return self._request("get", f"GET /tasks/{task_id}", {"id": task_id})

    def list(self, context_id: str) -> RawRequest:
        """The tasks of a conversation, with their artifacts; 1.0 only."""
        line = f"GET /tasks?includeArtifacts=true&contextId={context_id}"
        return self._request("list", line, {"contextId": context_id, "includeArtifacts": True})

    def cancel(self, task_id: str) -> RawRequest:
        """End the task."""
        return self._request("cancel", f"POST /tasks/{task_id}:cancel", {"id": task_id})

    def _request(self, operation: str, line: str, params: dict[str, Any]) -> RawRequest:
        """`line`: that of HTTP+JSON, below the path of the binding."""
        headers = [("A2A-Version", "1.0")] if self.version == "1.0" else []
        content: dict[str, Any] | None = params if "/message:" in line else None
        method, path = line.split()
        path = self.rest + ("/v1" if self.version == "0.3" else "") + path
        if self.binding == "JSONRPC":
            method, path = "POST", self.rpc
            name = METHODS[self.version][operation]
            content = {"jsonrpc": "2.0", "id": self.request_id, "method": name, "params": params}
        if content is None:
            return RawRequest(f"{method} {path} HTTP/1.1", headers)
        headers.append(("Content-Type", "application/json"))
        return RawRequest(f"{method} {path} HTTP/1.1", headers, json.dumps(content).encode())
