"""The latest live events, numbered, for listeners that read late or come back. Pure."""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import NamedTuple

MAX_EVENTS = 10_000
MAX_BYTES = 32 * 1024 * 1024


class Event(NamedTuple):
    """One live event. `whole` is the JSON of its data; `short` is the same, or its short form if it is large.

    Both are empty if no listener wanted the data when it happened.
    """

    number: int
    """The first event of a log is number 1."""
    name: str
    run: str
    case_id: str | None
    whole: bytes
    short: bytes
    turn_id: str | None = None

    @property
    def size(self) -> int:
        """Bytes of its JSON texts."""
        return len(self.whole) + (0 if self.short is self.whole else len(self.short))


class EventLog:
    """Keeps the latest events, at most `max_events` of at most `max_bytes`; always at least one."""

    def __init__(self, max_events: int = MAX_EVENTS, max_bytes: int = MAX_BYTES) -> None:
        self._max_events = max_events
        self._max_bytes = max_bytes
        self._events: deque[Event] = deque()
        self._bytes = 0
        self.last = 0
        """The number of the latest event; 0 before the first."""

    def add(self, event: Event) -> None:
        """Keep an event, whose number follows `last`."""
        self.last = event.number
        self._events.append(event)
        self._bytes += event.size
        while len(self._events) > self._max_events or (self._bytes > self._max_bytes and len(self._events) > 1):
            self._bytes -= self._events.popleft().size

    def after(self, number: int) -> list[Event] | None:
        """The events with higher numbers, in order; None if one of them is not kept any more, or never existed."""
        wanted = self.last - number
        if not 0 <= wanted <= len(self._events):
            return None
        return list(islice(reversed(self._events), wanted))[::-1]

    def forget(self) -> None:
        """Drop all events, and one number: what happens now is not recorded, and no reader has it."""
        self._events.clear()
        self._bytes = 0
        self.last += 1
