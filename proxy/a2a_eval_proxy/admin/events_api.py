"""The route of live events: server-sent events as turns close and results arrive."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from ..store.encoding import json_text
from .api_operation import ApiAnswer, ApiOperation, Given
from .control import Control


class EventsApi:
    """Handles `/api/events`."""

    def __init__(self, control: Control) -> None:
        self._control = control

    def operations(self) -> list[ApiOperation]:
        stream = ApiAnswer("A stream of server-sent events, without end", media_type="text/event-stream")
        return [ApiOperation("GET", "/api/events", "Follow live events", self.events, {200: stream})]

    async def events(self, _: Request, given: Given) -> Response:
        async def stream() -> AsyncIterator[bytes]:
            async with self._control.bus.listen() as events:
                yield b": listening\n\n"
                while True:
                    try:
                        event = await asyncio.wait_for(events.get(), 15.0)
                    except TimeoutError:
                        yield b": ping\n\n"
                        continue
                    if event is None:
                        return
                    yield f"event: {event.name}\ndata: {json_text(event.data)}\n\n".encode()

        return StreamingResponse(stream(), media_type="text/event-stream", headers={"cache-control": "no-store"})
