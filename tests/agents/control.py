"""ASGI wrapper around a test agent: records requests, opens gates, cuts connections on a mark.

Control paths, spoken by tests directly to the agent (never through the proxy):
`GET /_control/requests?containing=TEXT` (in the body) and `POST /_control/open?gate=NAME[&subscribed=TASK_ID]`.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from agents.scenarios import CUT_MARK
from starlette.requests import Request
from starlette.responses import JSONResponse

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]


class ConnectionCutError(Exception):
    """Raised inside the application so that the server aborts the connection without a clean end."""


class Control:
    """The state of one agent that tests read and change. All methods run on the agent's event loop."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self._gates: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._subscribed: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)

    @property
    def subscribers(self) -> int:
        """Number of tasks that have, or had, a subscriber."""
        return sum(event.is_set() for event in self._subscribed.values())

    async def wait_at_gate(self, name: str) -> None:
        await self._gates[name].wait()

    async def open(self, gate: str, *subscribed: str) -> None:
        """Open a gate, once each of these tasks has a subscriber."""
        for task_id in subscribed:
            await self._subscribed[task_id].wait()
        self._gates[gate].set()

    def mark_subscribed(self, task_id: str) -> None:
        """Records that a subscriber will not miss what the task does from now on."""
        self._subscribed[task_id].set()

    def wrap(self, app: App) -> App:
        """The application with recording, control paths and the cut."""

        async def wrapped(scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
            elif scope["path"].startswith("/_control/"):
                await JSONResponse(await self._answer(Request(scope)))(scope, receive, send)
            else:
                await self._pass(app, scope, receive, send)

        return wrapped

    async def _pass(self, app: App, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        record = {
            "method": scope["method"],
            "path": scope["path"],
            "query": scope["query_string"].decode(),
            "headers": [[name.decode("latin-1"), value.decode("latin-1")] for name, value in scope["headers"]],
            "body": "",
        }
        self.requests.append(record)

        async def recording_receive() -> Message:
            message = await receive()
            record["body"] += message.get("body", b"").decode(errors="replace")
            return message

        async def cutting_send(message: Message) -> None:
            body = message.get("body", b"")
            if CUT_MARK.encode() not in body or '"cut ' not in record["body"]:
                await send(message)
                return
            await send({**message, "body": body[: body.index(CUT_MARK.encode())], "more_body": True})
            raise ConnectionCutError

        await app(scope, recording_receive, cutting_send)

    async def _answer(self, request: Request) -> Any:
        query = request.query_params
        if request.url.path == "/_control/open":
            await self.open(query["gate"], *query.getlist("subscribed"))
            return {}
        return [one for one in self.requests if query.get("containing", "") in one["body"]]
