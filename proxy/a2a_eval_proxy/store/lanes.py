"""A queue with a lane for each agent: first come, first served within a lane, and the lanes take turns."""

from __future__ import annotations

import itertools
import threading
from collections import deque
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

T = TypeVar("T")


class Lanes(Generic[T]):
    """Filled by any thread, emptied by one. An item without a lane of its own comes after all that came before it."""

    def __init__(self) -> None:
        self._lanes: dict[str | None, deque[tuple[int, T]]] = {}
        """Those that are not empty, the one whose turn it is first."""
        self._behind_all: deque[tuple[int, T]] = deque()
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._filled: SimpleQueue[None] = SimpleQueue()
        """An entry for each item: it waits in C, where a `Condition` takes several times the interpreter lock."""

    def put(self, item: T, lane: str | None) -> None:
        with self._lock:
            self._lanes.setdefault(lane, deque()).append((next(self._numbers), item))
        self._filled.put(None)

    def put_behind_all(self, item: T) -> None:
        """What is put later may still come before it."""
        with self._lock:
            self._behind_all.append((next(self._numbers), item))
        self._filled.put(None)

    def get(self) -> T:
        """The next one, once there is one."""
        self._filled.get()
        return self._next()

    def get_nowait(self) -> T | None:
        """The next one; None while nothing waits."""
        try:
            self._filled.get_nowait()
        except Empty:
            return None
        return self._next()

    def _next(self) -> T:
        """There is one: `_filled` said so."""
        with self._lock:
            if self._behind_all and all(self._behind_all[0][0] < lane[0][0] for lane in self._lanes.values()):
                return self._behind_all.popleft()[1]
            name = next(iter(self._lanes))
            lane = self._lanes.pop(name)
            item = lane.popleft()[1]
            if lane:
                self._lanes[name] = lane
            return item
