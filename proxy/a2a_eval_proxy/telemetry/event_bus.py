"""Live events for the listeners of /api/events. Listeners read from one bounded log: a slow one holds no memory."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, NamedTuple, get_args

from ..store.encoding import json_bytes

_SHORT_BYTES = 8_000  # events with at most this much JSON are not shortened
_SHORTENED_BYTES = 100_000
_LIMITS = ((1_000, 150), (300, 40), (100, 12), (30, 4), (10, 0))
"""What a short form has at most of each text, in characters, and of each list and object within the data: the first
that make it small enough."""


def shortened(data: Mapping[str, Any]) -> dict[str, Any]:
    """`data` with long texts and lists cut, and `"cut": true` if any was."""
    for characters, items in _LIMITS:
        short = {key: _cut(value, characters, items) for key, value in data.items()}
        if len(json_bytes(short)) <= _SHORTENED_BYTES:
            break
    return short if short == data else short | {"cut": True}


def _cut(value: Any, characters: int, items: int) -> Any:
    if isinstance(value, str) and len(value) > characters:
        return f"{value[:characters]}… [{len(value) - characters:,} more characters]"
    if isinstance(value, Mapping):
        return {
            _cut(str(key), characters, items): _cut(item, characters, items)
            for key, item in islice(value.items(), items)
        }
    if isinstance(value, list | tuple):
        return type(value)(_cut(item, characters, items) for item in islice(value, items))
    return value


MAX_EVENTS = 10_000
MAX_BYTES = 32 * 1024 * 1024


class Event(NamedTuple):
    """One live event."""

    number: int  # the first event of a log is number 1
    name: str
    run: str
    case_id: str | None
    data: bytes  # JSON; its short form if it is large
    turn_id: str | None = None
    agent_name: str | None = None


EventType = Literal["turn.opened", "tool_call", "text", "state", "turn.closed", "turn.done", "conversation.done"]
TYPES: frozenset[EventType] = frozenset(get_args(EventType))

LINGER_S = 60.0  # how long events are recorded after the last listener has left: it may only reload its page

_NEWS_BYTES = 256 * 1024

_NUMBER = re.compile(r"[0-9]{1,18}")


@dataclass(frozen=True, slots=True)
class EventFilter:
    """The events a listener wants; None: of every run, of every case, of every turn, of every one of several agents."""

    types: frozenset[EventType] = TYPES
    run: str | None = None
    case: str | None = None
    turn: str | None = None
    agent: str | None = None

    def takes(self, event: Event) -> bool:
        return (
            event.name in self.types
            and (self.run is None or event.run == self.run)
            and (self.case is None or event.case_id == self.case)
            and (self.turn is None or event.turn_id == self.turn)
            and (self.agent is None or event.agent_name == self.agent)
        )


EVERYTHING = EventFilter()


class News(NamedTuple):
    """What a listener has not read yet."""

    events: list[Event]  # at most about `_NEWS_BYTES`; the next ones follow
    lost: str  # why events are missing; "" if none are
    ended: bool  # whether no further event will come


class EventBus:
    """Keeps the latest events while there are listeners, and for `linger_s` seconds afterwards: at most `max_events` of
    at most `max_bytes`, always at least one. Single event loop.

    Ids are those of this process: a random part, and the number of the event.
    """

    def __init__(self, linger_s: float = LINGER_S, *, max_events: int = MAX_EVENTS, max_bytes: int = MAX_BYTES) -> None:
        self._linger_s, self.max_events, self._max_bytes = linger_s, max_events, max_bytes
        self._origin = secrets.token_hex(4)
        self._events: deque[Event] = deque()
        self._bytes = 0
        self.last = 0
        """The number of the latest event; 0 before the first."""
        self._listeners = 0
        self.came = asyncio.Event()
        """Set with the next event, loss or end; then there is another one."""
        self.recording = False  # plain: each turn asks several times
        self._leaving: asyncio.TimerHandle | None = None  # ends the recording a while after the last listener has left
        self.closed = False  # whether nothing is recorded any more
        self.on_recording: Callable[[bool], None] = lambda recording: None  # called when `recording` changes

    def id_of(self, number: int) -> str:
        return f"{self._origin}-{number}"

    def publish(self, name: str, data: Mapping[str, Any]) -> None:
        """Record an event with the JSON-like `data`, and wake the listeners."""
        text = json_bytes(data)
        if len(text) > _SHORT_BYTES:
            text = json_bytes(shortened(data))
        of = data.get("turn_id"), data.get("agent_name")
        self.last += 1
        self._events.append(Event(self.last, name, data["run"], data["case_id"], text, *of))
        self._bytes += len(text)
        while len(self._events) > self.max_events or (self._bytes > self._max_bytes and len(self._events) > 1):
            self._bytes -= len(self._events.popleft().data)
        self._wake()

    def lose(self) -> None:
        """An event cannot be recorded: listeners learn that some are missing."""
        self._forget()
        self._wake()

    def after(self, number: int) -> list[Event] | None:
        """The events with higher numbers, in order; None if one of them is not kept any more, or never existed."""
        wanted = self.last - number
        if not 0 <= wanted <= len(self._events):
            return None
        return list(islice(reversed(self._events), wanted))[::-1]

    @contextmanager
    def listen(self, selection: EventFilter = EVERYTHING, after: str | None = None) -> Iterator[Listener]:
        """A listener, from now on, or from the event with the id `after` on."""
        self._listeners += 1
        if not self.closed:
            self._record(True)
        try:
            yield Listener(self, selection, self.last if after is None else self._number(after))
        finally:
            self._listeners -= 1
            if not (self._listeners or self.closed):
                self._leaving = asyncio.get_running_loop().call_later(self._linger_s, self._record, False)

    def close(self) -> None:
        """End every listener, and record nothing from now on."""
        self.closed = True
        self._wake()
        self._record(False)

    def _record(self, recording: bool) -> None:
        if self._leaving is not None:
            self._leaving.cancel()
            self._leaving = None
        if self.recording != recording:
            if not recording and not self.closed:
                self._forget()
            self.recording = recording
            self.on_recording(recording)

    def _forget(self) -> None:
        """Drop all events, and one number: what happens now is not recorded, and no reader has it."""
        self._events.clear()
        self._bytes = 0
        self.last += 1

    def _number(self, event_id: str) -> int:
        """The number in an id; -1 for an id of another process, and for any other text."""
        origin, _, number = event_id.rpartition("-")
        return int(number) if origin == self._origin and _NUMBER.fullmatch(number) else -1

    def _wake(self) -> None:
        self.came.set()
        self.came = asyncio.Event()


class Listener:
    """Reads the events that `selection` takes. It holds nothing but the number of the last one that was read."""

    def __init__(self, bus: EventBus, selection: EventFilter, number: int) -> None:
        """`number`: -1 if it is not known."""
        self._bus, self._selection, self._number = bus, selection, number

    @property
    def last_id(self) -> str:
        return self._bus.id_of(self._number)

    def now(self) -> News:
        """What is new, without waiting."""
        unread = self._bus.after(self._number)
        if unread is None:
            self._number = self._bus.last
            return News([], "the events that follow the last one received are not available", False)
        taken: list[Event] = []
        size = 0
        for event in unread:
            if size > _NEWS_BYTES:
                return News(taken, "", False)
            self._number = event.number
            if self._selection.takes(event):
                taken.append(event)
                size += len(event.data)
        return News(taken, "", self._bus.closed)

    async def news(self) -> News:
        """What is new; waits for an event, a loss or the end."""
        while not any(news := self.now()):
            await self._bus.came.wait()
        return news
