"""The route of live events: what happens to turns, as server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Literal

from pydantic import BeforeValidator
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from ..telemetry.event_bus import TYPES, Event, EventBus, EventFilter, EventType
from .api_route import api_route
from .control import Api
from .turns_api import OfTurns


class EventsQuery(OfTurns):
    """Which events, of which turns."""

    types: Annotated[frozenset[EventType], BeforeValidator(lambda text: text.split(","))] = TYPES
    turn: str | None = None
    view: Literal["short", "count"] = "short"
    """Events, of which large ones are cut, or only their number."""
    last_event_id: str | None = None
    """As the header Last-Event-ID: events after the one with this id."""


_PING_S = 15.0
_PAUSE_S, _LONG_PAUSE_S, _MANY = 0.05, 0.12, 20
"""Seconds between two writes to a listener, at least; the second after a write of many events."""

_RETRY_MS = 2_000


class EventsApi(Api):
    def routes(self) -> list[Route]:
        return [api_route("GET", "/api/events", self.events, EventsQuery)]

    async def events(self, request: Request, given: EventsQuery) -> Response:
        selection = EventFilter(given.types, given.run, given.case, given.turn, given.agent)
        after = request.headers.get("last-event-id") or given.last_event_id or None
        stream = _stream(self._control.bus, selection, after, given.view)
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}  # nginx would collect events
        return StreamingResponse(stream, media_type="text/event-stream", headers=headers)


async def _stream(bus: EventBus, selection: EventFilter, after: str | None, view: str) -> AsyncIterator[bytes]:
    with bus.listen(selection, after) as listener:
        known = "" if after else f"id: {listener.last_id}\n"  # for a client that loses its connection before an event
        yield f": listening\n\nretry: {_RETRY_MS}\n{known}\n".encode()
        while True:
            try:
                async with asyncio.timeout(_PING_S):
                    news = await listener.news()
            except TimeoutError:
                yield f": ping\nid: {listener.last_id}\n\n".encode()
                continue
            if news.lost:
                yield f'event: reset\ndata: {{"reason":"{news.lost}"}}\nid: {listener.last_id}\n\n'.encode()
            if news.events and view == "count":
                count, last = len(news.events), listener.last_id
                yield f'event: changes\ndata: {{"count":{count}}}\nid: {last}\n\n'.encode()
            elif news.events:
                yield b"".join(_message(bus, event) for event in news.events)
            if news.ended:
                return
            await asyncio.sleep(_PAUSE_S if len(news.events) < _MANY else _LONG_PAUSE_S)


def _message(bus: EventBus, event: Event) -> bytes:
    return b"event: %b\ndata: %b\nid: %b\n\n" % (event.name.encode(), event.data, bus.id_of(event.number).encode())
