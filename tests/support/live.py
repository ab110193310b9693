"""Reads the live events of a proxy: from its port as a browser does, or from its bus."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Self

import httpx
from a2a_eval_proxy.telemetry.event_bus import Listener


def _no_json(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


@dataclass(frozen=True)
class LiveEvent:
    """One event; `id` is "" if it has none."""

    name: str
    data: Any
    id: str


class LiveStream:
    """An open response of /api/events."""

    def __init__(self, response: httpx.Response) -> None:
        self._lines = response.aiter_lines()
        self.last_id = ""

    async def begun(self) -> Self:
        """Returns once the proxy listens for this client."""
        assert [await anext(self._lines) for _ in range(3)] == [": listening", "", "retry: 2000"]
        while line := await anext(self._lines):
            self.last_id = line.removeprefix("id: ")
        return self

    async def next(self) -> LiveEvent:
        """The next event. Raises StopAsyncIteration at the end of the response."""
        name, data = "", ""
        while True:
            line = await anext(self._lines)
            field, _, value = line.partition(": ")
            if field == "event":
                name = value
            elif field == "data":
                data = value
            elif field == "id":
                self.last_id = value
            elif not line and data:
                return LiveEvent(name, json.loads(data, parse_constant=_no_json), self.last_id)

    async def until(self, name: str) -> list[LiveEvent]:
        """The next events, up to the first one with this name."""
        events = [await self.next()]
        while events[-1].name != name:
            events.append(await self.next())
        return events


@asynccontextmanager
async def live(
    admin: httpx.AsyncClient, headers: Mapping[str, str] | None = None, **query: str
) -> AsyncIterator[LiveStream]:
    """The live events of the proxy with this admin port."""
    async with admin.stream("GET", "/api/events", params=query, headers=headers) as response:
        assert response.status_code == 200
        yield await LiveStream(response).begun()


def heard(listener: Listener) -> list[LiveEvent]:
    """What a listener of the bus has to read now."""
    events = []
    while news := listener.now().events:
        events += [LiveEvent(event.name, json.loads(event.data), str(event.number)) for event in news]
    return events
