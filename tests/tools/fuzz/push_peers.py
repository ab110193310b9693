"""The agent and the clients' endpoints of a push round: one server on loopback, which notes what arrives."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

from .push_plan import IN_ORDER, STATUS, Webhook
from .raw_server import RawServer, response

_SLOW_S = 0.1
_AT_ONCE_S = 0.5
_HUGE = b"h" * 300_000
_BROKEN = {
    "closes": b"",
    "garbage": b"\0\xff nonsense\r\n\r\n",
    "cut": b"HTTP/1.1 200 Said\r\nx-from: peer\r\nconnection: close\r\ncontent-length: 99\r\n\r\ncut",
}
"""What endpoints answer that is no whole response."""


@dataclass(frozen=True)
class Arrival:
    """A notification at a client's endpoint; `token` is that of the endpoint, `headers` have lower-case names."""

    token: str
    method: str
    headers: dict[str, str]
    body: bytes


class Peers(RawServer):
    def __init__(self, webhooks: dict[str, Webhook]) -> None:
        super().__init__()
        self.webhooks = webhooks
        self.addresses: dict[str, str] = {}
        """The URL that the agent was given for each webhook, by its token."""
        self.arrived: list[Arrival] = []
        self.overlapping: set[str] = set()
        """Tokens of endpoints that got a notification while they had not answered another that came at once."""
        self.sent: dict[str, float] = {}
        """When the agent last sent a notification, by its name. A second later the proxy may send the next one."""
        self._busy: Counter[str] = Counter()

    async def answer(self, head: str, body: bytes) -> bytes:
        first, *lines = head.rstrip().split("\r\n")
        method, target, _ = first.split(" ")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        if hook := re.match(r"/hook/([^/?]+)", target):
            return await self._endpoint(Arrival(hook[1], method, headers, body))
        try:
            return self._agent(json.loads(body))
        except ValueError:
            return response(b"", 404)

    async def _endpoint(self, arrival: Arrival) -> bytes:
        self.arrived.append(arrival)
        token, in_order = arrival.token, arrival.method in IN_ORDER
        if self._busy[token] and in_order:
            self.overlapping.add(token)
        at_once = time.monotonic() - self.sent.get(arrival.headers.get("x-note", ""), 0.0) < _AT_ONCE_S
        reaction = self.webhooks[token].reaction
        self._busy[token] += at_once and in_order
        try:
            await asyncio.sleep(_SLOW_S if reaction == "slow" else 0.002)
        finally:
            self._busy[token] -= at_once and in_order
        if reaction in _BROKEN:
            return _BROKEN[reaction]
        fields = ["x-from: peer"]
        if reaction == "redirect":
            fields.append(f"location: {self.url}/hook/{token}?again")
        return response(_HUGE if reaction == "huge" else b"ok", STATUS.get(reaction, 200), *fields)

    def _agent(self, request: Any) -> bytes:
        params = request.get("params", request)
        text = json.dumps(params)
        named = re.search(r'client-of-([\w-]+)|"taskId": "([^"]+)"', text)
        webhook = self.webhooks[next(filter(None, named.groups())) if named else ""]
        url = re.search(r'"url": "([^"]+)"', text)
        if url is not None:
            self.addresses[webhook.token] = url[1]
        result = _result(webhook, params, url[1] if url else "")
        if webhook.answer == "garbage":
            return response(b"\0 neither JSON nor anything")
        if webhook.shape == "rest":
            return response(json.dumps(result.get("result", result)).encode())
        content = json.dumps({"jsonrpc": "2.0", "id": request["id"], **result}).encode()
        if webhook.shape == "stream":
            return response(b"data: " + content + b"\n\n", media_type="text/event-stream")
        return response(content)


def _result(webhook: Webhook, params: Any, url: str) -> dict[str, Any]:
    legacy = webhook.shape.endswith("0.3")
    if webhook.answer == "error":
        return {"error": {"code": -32603, "message": "no"}}
    if webhook.shape.startswith("create"):
        return {"result": {} if url == "" else params}
    if webhook.answer == "message":
        kind, held = "message", {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "hi"}]}
    else:
        kind, held = "task", {"id": webhook.token, "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}
        if webhook.answer == "echo":
            held["artifacts"] = [{"artifactId": "a", "parts": [{"text": f"I notify {url} then"}]}]
    return {"result": {**held, "kind": kind} if legacy else {kind: held}}
