"""The agent and the clients' endpoints of a push round: one raw server on loopback, which notes what arrives."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import Counter
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from .push_plan import IN_ORDER, STATUS, Webhook

_SLOW_S = 0.1
_AT_ONCE_S = 0.5
_HUGE = b"h" * 300_000
_HEAD = b"\r\n\r\n"


@dataclass(frozen=True)
class Arrival:
    """A notification at a client's endpoint; `token` is that of the endpoint, `headers` have lower-case names."""

    token: str
    method: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Peers:
    """`port` is where they listen."""

    webhooks: dict[str, Webhook]
    addresses: dict[str, str] = field(default_factory=dict)
    """The URL that the agent was given for each webhook, by its token."""
    arrived: list[Arrival] = field(default_factory=list)
    overlapping: set[str] = field(default_factory=set)
    """Tokens of endpoints that got a notification while they had not answered another that came at once."""
    sent: dict[str, float] = field(default_factory=dict)
    """When the agent last sent a notification, by its name. A second later the proxy may send the next one."""
    port: int = 0

    async def __aenter__(self) -> Self:
        self._busy: Counter[str] = Counter()
        self._open: set[asyncio.StreamWriter] = set()
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=1 << 16)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.hang_up()

    async def hang_up(self) -> None:
        """End all connections, and take no more."""
        self._server.close()
        for writer in list(self._open):
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            while head := await reader.readuntil(_HEAD):
                method, target, headers = _parsed(head)
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                match = re.match(r"/hook/([^/?]+)", target)
                if match:
                    await self._endpoint(Arrival(match[1], method, headers, body), writer)
                else:
                    writer.write(self._agent(body))
                await writer.drain()
        except (asyncio.IncompleteReadError, OSError):
            pass  # the proxy closed
        finally:
            self._open.discard(writer)
            writer.close()

    async def _endpoint(self, arrival: Arrival, writer: asyncio.StreamWriter) -> None:
        self.arrived.append(arrival)
        token = arrival.token
        webhook = self.webhooks[token]
        if self._busy[token] and arrival.method in IN_ORDER:
            self.overlapping.add(token)
        at_once = time.monotonic() - self.sent.get(arrival.headers.get("x-note", ""), 0.0) < _AT_ONCE_S
        self._busy[token] += at_once and arrival.method in IN_ORDER
        try:
            await asyncio.sleep(_SLOW_S if webhook.reaction == "slow" else 0.002)
        finally:
            self._busy[token] -= at_once and arrival.method in IN_ORDER
        match webhook.reaction:
            case "closes":
                writer.close()
            case "garbage":
                writer.write(b"\0\xff nonsense" + _HEAD)
                writer.close()
            case "cut":
                writer.write(_answer(200, b"cut", length=99))
                writer.close()
            case "huge":
                writer.write(_answer(200, _HUGE))
            case "trickle":
                writer.write(_answer(200, b"late", length=4)[:-4])
                await asyncio.sleep(_SLOW_S)
                writer.write(b"late")
            case reaction:
                location = f"location: http://127.0.0.1:{self.port}/hook/{token}?again\r\n"
                writer.write(_answer(STATUS.get(reaction, 200), b"ok", location if reaction == "redirect" else ""))

    def _agent(self, body: bytes) -> bytes:
        try:
            request = json.loads(body)
        except ValueError:
            return _answer(404, b"")
        params = request.get("params", request)
        text = json.dumps(params)
        named = re.search(r'client-of-([\w-]+)|"taskId": "([^"]+)"', text)
        token = next(filter(None, named.groups())) if named else ""
        webhook = self.webhooks[token]
        url = re.search(r'"url": "([^"]+)"', text)
        if url is not None:
            self.addresses[token] = url[1]
        return self._responded(webhook, request, params, url[1] if url else "")

    def _responded(self, webhook: Webhook, request: Any, params: Any, url: str) -> bytes:
        task = {"id": webhook.token, "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}
        if webhook.answer == "garbage":
            return _answer(200, b"\0 neither JSON nor anything")
        legacy = webhook.shape.endswith("0.3")
        if webhook.answer == "error":
            result: dict[str, Any] = {"error": {"code": -32603, "message": "no"}}
        elif webhook.shape.startswith("create"):
            result = {"result": {} if url == "" else params}
        elif webhook.answer == "message":
            message = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "hi"}]}
            result = {"result": {**message, "kind": "message"} if legacy else {"message": message}}
        else:
            if webhook.answer == "echo":
                task["artifacts"] = [{"artifactId": "a", "parts": [{"text": f"I notify {url} then"}]}]  # type: ignore[assignment]
            result = {"result": {**task, "kind": "task"} if legacy else {"task": task}}
        if webhook.shape == "rest":
            return _answer(200, json.dumps(result.get("result", result)).encode())
        content = json.dumps({"jsonrpc": "2.0", "id": request["id"], **result}).encode()
        if webhook.shape == "stream":
            return _answer(200, b"data: " + content + b"\n\n", "content-type: text/event-stream\r\n")
        return _answer(200, content)


def _parsed(head: bytes) -> tuple[str, str, dict[str, str]]:
    first, *lines = head.decode("latin-1").rstrip().split("\r\n")
    method, target, _ = first.split(" ")
    return method, target, {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}


def _answer(status: int, body: bytes, fields: str = "", length: int | None = None) -> bytes:
    fields += "" if "content-type" in fields else "content-type: application/json\r\n"
    size = len(body) if length is None else length
    return f"HTTP/1.1 {status} Said\r\nx-from: peer\r\n{fields}content-length: {size}\r\n\r\n".encode() + body
