"""A client's webhook, on a port of its own."""

from __future__ import annotations

import asyncio
import json
import queue
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from agents.serving import ServerThread
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from support.patience import awaited

METHODS = ["GET", "OPTIONS", "POST", "PUT"]


@dataclass
class Received:
    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Endpoint:
    """A client's webhook; `status` is what it answers, and it echoes the `validationToken` of a query."""

    url: str = ""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    says: bytes = b"said the client"
    arrived: queue.SimpleQueue[Received] = field(default_factory=queue.SimpleQueue)
    before: list[Received] = field(default_factory=list)

    async def take(self, request: Request) -> Response:
        body = await request.body()
        target = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        says = request.query_params.get("validationToken", self.says)
        answer = Response(says, self.status, self.headers)
        self.arrived.put(Received(request.method, target, dict(request.headers), body))
        return answer

    def take_next(self) -> Received:
        return awaited(self.arrived, self.before)

    async def next(self) -> Received:
        return await asyncio.to_thread(self.take_next)

    async def until_ended(self) -> list[Received]:
        """All that came, up to the end of the task."""
        found: list[Received] = []
        while not found or not re.search(rb"COMPLETED|FAILED|completed|failed", found[-1].body):
            found.append(await self.next())
        return found


@contextmanager
def served_endpoint() -> Iterator[Endpoint]:
    endpoint = Endpoint()
    routes = [Route("/{rest:path}", endpoint.take, methods=METHODS)]
    with ServerThread(lambda url: Starlette(routes=routes)) as server:
        endpoint.url = server.url
        yield endpoint
