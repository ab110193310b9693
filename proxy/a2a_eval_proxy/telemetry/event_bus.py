"""Live events for whoever listens to /api/events; a listener that is too slow loses the oldest."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from ..store import ScoredConversation
from ..turn import Turn
from .turn_listener import TurnListener


class Event(NamedTuple):
    name: str
    data: dict[str, Any]


class EventBus(TurnListener):
    """Publishes to any number of bounded queues. Single event loop."""

    def __init__(self, backlog: int = 1_000) -> None:
        self._backlog = backlog
        self._queues: set[asyncio.Queue[Event | None]] = set()

    def closed(self, turn: Turn) -> None:
        if self._queues:  # building an event takes time
            self.publish("turn.closed", {**turn.to_dict(), "evaluations": []})

    def scored(self, turn: Turn, results: Sequence[Mapping[str, Any]], again: bool) -> None:
        if self._queues:
            self.publish("turn.done", {**turn.to_dict(), "status": "done", "evaluations": results})

    def conversation_scored(self, scored: ScoredConversation) -> None:
        if self._queues:
            self.publish("conversation.done", {**scored.key._asdict(), "evaluations": scored.evaluations})

    def publish(self, name: str, data: dict[str, Any]) -> None:
        self._put(Event(name, data))

    def _put(self, event: Event | None) -> None:
        for waiting in self._queues:
            if waiting.full():
                waiting.get_nowait()
            waiting.put_nowait(event)

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
        """Send every listener the end."""
        self._put(None)
