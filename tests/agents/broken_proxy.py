"""A reverse proxy that breaks one thing: `Breakage` says what. It has no code of the proxy under test."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

Events = list[bytes]
"""Server-sent events of a stream, each without its blank line."""

URI = b"https://arksim.arklex.ai/a2a/tool-call-capture/v1"
_HOP_BY_HOP = {"connection", "transfer-encoding", "content-length", "date", "server", "host"}


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True)
class Breakage:
    """What happens to each part of a request or response; by default nothing."""

    request_headers: Callable[[dict[str, str]], dict[str, str]] = _same
    headers: Callable[[dict[str, str]], dict[str, str]] = _same
    status: Callable[[int], int] = _same
    body: Callable[[Any], Any] = _same
    """Of the JSON of a body that is no card."""
    events: Callable[[Events], Events] = _same
    card: Callable[[dict[str, Any]], dict[str, Any]] = _same


class BrokenProxy:
    """The ASGI application in front of the agent at `upstream`, reached at `url`."""

    def __init__(self, upstream: str, url: str) -> None:
        self.breakage = Breakage()
        self._upstream, self._url = upstream, url
        self.app = Starlette(routes=[Route("/{path:path}", self._answer, methods=["GET", "POST", "DELETE"])])

    async def _answer(self, request: Request) -> Response:
        broken = self.breakage
        sent = {name: value for name, value in request.headers.items() if name not in _HOP_BY_HOP}
        async with httpx.AsyncClient(base_url=self._upstream, timeout=60) as client:
            answer = await client.request(
                request.method,
                request.url.path,
                params=request.query_params,
                headers=broken.request_headers(sent),
                content=await request.body(),
            )
        headers = {name: value for name, value in answer.headers.items() if name not in _HOP_BY_HOP}
        body = answer.content.replace(self._upstream.encode(), self._url.encode())
        if request.url.path.startswith("/.well-known/"):
            body = json.dumps(broken.card(json.loads(body))).encode() if answer.is_success else body
        elif headers.get("content-type", "").startswith("text/event-stream"):
            events = broken.events([event for event in body.split(b"\r\n\r\n") if event])
            body = b"".join(event + b"\r\n\r\n" for event in events)
        elif body.startswith(b"{"):
            body = json.dumps(broken.body(json.loads(body))).encode()
        return Response(body, broken.status(answer.status_code), broken.headers(headers))


def without(*names: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Removes headers, or members of a card."""
    return lambda fields: {name: value for name, value in fields.items() if name.lower() not in names}
