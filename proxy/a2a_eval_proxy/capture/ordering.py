"""The order of what several processes report, each in an order of its own. Sans-io."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count
from typing import Generic, TypeVar

Item = TypeVar("Item")


class InOrder(Generic[Item]):
    """Releases items in the order of their times, once every source has said that it has none that is earlier.

    An item that comes too late for that is released at once.
    """

    def __init__(self, release: Callable[[Item], None]) -> None:
        self._release = release
        self._numbers = count()
        self._waiting: list[tuple[float, int, Item]] = []
        self._marks: dict[str, float] = {}
        """By source: it has reported everything up to this time."""

    def reported_until(self, *, but: str = "") -> float:
        """The time up to which all sources have reported everything, or all `but` one; infinite without any."""
        return min((mark for source, mark in self._marks.items() if source != but), default=float("inf"))

    @property
    def waiting(self) -> bool:
        """Whether an item waits for marks."""
        return bool(self._waiting)

    def behind(self) -> list[str]:
        """The sources that the next item waits for."""
        if not self._waiting:
            return []
        first = self._waiting[0][0]
        return [source for source, mark in self._marks.items() if mark < first]

    def join(self, source: str) -> None:
        self._marks[source] = float("-inf")

    def leave(self, source: str) -> None:
        self._marks.pop(source, None)
        self._go_on()

    def put(self, at: float, item: Item) -> None:
        heapq.heappush(self._waiting, (at, next(self._numbers), item))
        self._go_on()

    def mark(self, source: str, at: float) -> None:
        """`source` has reported everything up to this time."""
        if source in self._marks:
            self._marks[source] = max(self._marks[source], at)
            self._go_on()

    def _go_on(self) -> None:
        until = self.reported_until()
        while self._waiting and self._waiting[0][0] <= until:
            self._release(heapq.heappop(self._waiting)[2])
