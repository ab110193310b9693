"""Long computations, one at a time, that outlive the request that began them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, TypeVar

from a2a_tool_capture.recent import Recent

T = TypeVar("T")


_MOST_KEPT = 8
"""Values in memory."""


class LongComputations:
    """Runs computations in turn: each may have thousands of turns in memory."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._tasks: dict[Hashable, asyncio.Task[Any]] = {}
        self._kept: Recent[Hashable, Any] = Recent(_MOST_KEPT)

    async def run(
        self, key: Hashable, compute: Callable[[], Awaitable[T]], within_s: float | None = None, *, keep: bool = False
    ) -> T | None:
        """The value of `compute`, or None if it is not there `within_s` seconds; then it is computed further.

        A computation with the same `key` that waits or runs is shared. `keep`: so is its value, afterwards, one of the
        last `_MOST_KEPT`. Raises what `compute` raises.
        """
        if key in self._kept:
            value: T = self._kept[key]
            return value
        task = self._tasks.get(key)
        if task is None:
            task = self._tasks[key] = asyncio.create_task(self._in_turn(key, compute, keep))
            task.add_done_callback(seen)
        done, _ = await asyncio.wait({task}, timeout=within_s)
        return task.result() if done else None

    async def _in_turn(self, key: Hashable, compute: Callable[[], Awaitable[T]], keep: bool) -> T:
        try:
            async with self._lock:
                value = await compute()
            if keep:
                self._kept[key] = value
            return value
        finally:
            del self._tasks[key]


def seen(task: asyncio.Task[Any]) -> None:
    """The error of a computation whose requests are gone is raised again for the next one that needs the value."""
    if not task.cancelled():
        task.exception()
