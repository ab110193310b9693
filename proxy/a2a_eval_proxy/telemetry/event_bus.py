"""Live events for the listeners of /api/events. Listeners read from one bounded log: a slow one holds no memory."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, NamedTuple, TypeVar, get_args

from ..store.encoding import json_bytes

T = TypeVar("T")

_SHORT_BYTES = 8_000  # events with at most this much JSON are not shortened
_TEXT_CHARS = 1_000
_MEMBER_CHARS = 32_000  # for each member of the data: its texts together. Beyond that, lists and objects end early.
_RECORD_KEYS, _KEY_CHARS = 30, 50
"""Objects keep this many keys in any case, so that e.g. a call has all its fields; short keys are never cut."""

_ITEM_CHARS = 8  # what an item counts in addition to its texts


def shortened(data: Mapping[str, Any]) -> dict[str, Any]:
    """`data` with long texts and lists cut, and `"cut": true` if any was."""
    short: dict[str, Any] = {}
    cut = False
    for key, value in data.items():
        shortening = _Shortening()
        short[key] = shortening.value(value)
        cut = cut or shortening.cut
    return short | {"cut": True} if cut else short


class _Shortening:
    def __init__(self) -> None:
        self._left = _MEMBER_CHARS
        self.cut = False

    def value(self, value: Any) -> Any:
        """The short form of a value."""
        self._left -= _ITEM_CHARS
        if self._left < -_MEMBER_CHARS:
            self.cut = True
            return None
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, Mapping):
            return {self._key(str(key)): self.value(item) for key, item in self._fitting(value.items(), _RECORD_KEYS)}
        if isinstance(value, list | tuple):
            return [self.value(item) for item in self._fitting(value, 0)]
        if isinstance(value, int):
            self._left -= value.bit_length() // 3  # its digits, about
        return value

    def _fitting(self, items: Iterable[T], least: int) -> Iterator[T]:
        """The items for as long as there is room, and the first ones in any case, as many as `least`."""
        for number, item in enumerate(items):
            if self._left <= 0 and number >= least:
                self.cut = True
                return
            yield item

    def _key(self, key: str) -> str:
        if len(key) > _KEY_CHARS:
            return self._text(key)
        self._left -= len(key)
        return key

    def _text(self, text: str) -> str:
        kept = min(len(text), _TEXT_CHARS, max(self._left, 0))
        self._left -= kept
        if kept == len(text):
            return text
        self.cut = True
        return f"{text[:kept]}… [{len(text) - kept:,} more characters]"


MAX_EVENTS = 10_000
MAX_BYTES = 32 * 1024 * 1024


class Event(NamedTuple):
    """One live event. `whole` is the JSON of its data; `short` is the same, or its short form if it is large."""

    number: int  # the first event of a log is number 1
    name: str
    run: str
    case_id: str | None
    whole: bytes
    short: bytes
    turn_id: str | None = None
    agent_name: str | None = None

    @property
    def size(self) -> int:
        return len(self.whole) + (0 if self.short is self.whole else len(self.short))


class EventLog:
    """Keeps the latest events, at most `max_events` of at most `max_bytes`; always at least one."""

    def __init__(self, max_events: int = MAX_EVENTS, max_bytes: int = MAX_BYTES) -> None:
        self._max_events = max_events
        self._max_bytes = max_bytes
        self._events: deque[Event] = deque()
        self._bytes = 0
        self.last = 0  # the number of the latest event; 0 before the first

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
    """Records events while there are listeners, and for `linger_s` seconds afterwards. Single event loop.

    Ids are those of this process: a random part, and the number of the event.
    """

    def __init__(self, log: EventLog | None = None, linger_s: float = LINGER_S) -> None:
        self._log = EventLog() if log is None else log
        self._linger_s = linger_s
        self._origin = secrets.token_hex(4)
        self._listeners: set[Listener] = set()
        self.recording = False  # plain: each turn asks several times
        self._leaving: asyncio.TimerHandle | None = None  # ends the recording a while after the last listener has left
        self.closed = False  # whether nothing is recorded any more
        self.on_recording: Callable[[bool], None] = lambda recording: None  # called when `recording` changes

    @property
    def last_id(self) -> str:
        return self.id_of(self._log.last)

    def id_of(self, number: int) -> str:
        return f"{self._origin}-{number}"

    def publish(self, name: str, data: Mapping[str, Any]) -> None:
        """Record an event with the JSON-like `data`, and wake the listeners."""
        whole = json_bytes(data)
        short = whole if len(whole) <= _SHORT_BYTES else json_bytes(shortened(data))
        of = data.get("turn_id"), data.get("agent_name")
        self._log.add(Event(self._log.last + 1, name, data["run"], data["case_id"], whole, short, *of))
        self._wake()

    def lose(self) -> None:
        """An event cannot be recorded: listeners learn that some are missing."""
        self._log.forget()
        self._wake()

    @contextmanager
    def listen(self, selection: EventFilter = EVERYTHING, after: str | None = None) -> Iterator[Listener]:
        """A listener, from now on, or from the event with the id `after` on."""
        listener = Listener(self, self._log, selection)
        self._listeners.add(listener)
        if not self.closed:
            self._record(True)
        listener.number = self._log.last if after is None else self._number(after)
        try:
            yield listener
        finally:
            self._listeners.discard(listener)
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
                self._log.forget()
            self.recording = recording
            self.on_recording(recording)

    def _number(self, event_id: str) -> int:
        """The number in an id; -1 for an id of another process, and for any other text."""
        origin, _, number = event_id.rpartition("-")
        return int(number) if origin == self._origin and _NUMBER.fullmatch(number) else -1

    def _wake(self) -> None:
        for listener in self._listeners:
            listener.wake()


class Listener:
    """Reads the events that `selection` takes from the log of `bus`. It holds nothing but its place in the log."""

    def __init__(self, bus: EventBus, log: EventLog, selection: EventFilter) -> None:
        self._bus = bus
        self._log = log
        self._woken = asyncio.Event()
        self.selection = selection
        self.number = -1  # that of the last event that was read; -1 if it is not known

    @property
    def last_id(self) -> str:
        return self._bus.id_of(self.number)

    def wake(self) -> None:
        self._woken.set()

    def now(self) -> News:
        """What is new, without waiting."""
        unread = self._log.after(self.number)
        if unread is None:
            self.number = self._log.last
            return News([], "the events that follow the last one received are not available", False)
        taken: list[Event] = []
        size = 0
        for event in unread:
            if size > _NEWS_BYTES:
                return News(taken, "", False)
            self.number = event.number
            if self.selection.takes(event):
                taken.append(event)
                size += event.size
        return News(taken, "", self._bus.closed)

    async def news(self) -> News:
        """What is new; waits for an event, a loss or the end."""
        while True:
            news = self.now()
            if news.events or news.lost or news.ended:
                return news
            self._woken.clear()
            await self._woken.wait()
