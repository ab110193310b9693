"""Live events for whoever listens to /api/events; a listener that is too slow loses the oldest."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple


class Event(NamedTuple):
    name: str
    data: dict[str, Any]


class EventBus:
    """Publishes to any number of bounded queues. Single event loop."""

    def __init__(self, backlog: int = 1_000) -> None:
        self._backlog = backlog
        self._queues: set[asyncio.Queue[Event | None]] = set()

    @property
    def listened(self) -> bool:
        """Whether anybody listens, so that nobody builds events for nobody."""
        return bool(self._queues)

    def publish(self, name: str, data: dict[str, Any]) -> None:
        for waiting in self._queues:
            if waiting.full():
                waiting.get_nowait()
            waiting.put_nowait(Event(name, data))

    @asynccontextmanager
    async def listen(self) -> AsyncIterator[asyncio.Queue[Event | None]]:
        """A queue of events from now on; None ends it."""
        waiting: asyncio.Queue[Event | None] = asyncio.Queue(self._backlog)
        self._queues.add(waiting)
        try:
            yield waiting
        finally:
            self._queues.discard(waiting)

    def close(self) -> None:
        """Tell every listener that it is over."""
        for waiting in self._queues:
            if waiting.full():
                waiting.get_nowait()
            waiting.put_nowait(None)
