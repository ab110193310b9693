"""Long computations, one at a time, that outlive the request that began them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")


class LongComputations:
    """Runs computations in turn: each may have thousands of turns in memory."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._tasks: dict[Hashable, asyncio.Task[Any]] = {}

    async def run(self, key: Hashable, compute: Callable[[], Awaitable[T]], within_s: float | None = None) -> T | None:
        """The value of `compute`, or None if it is not there `within_s` seconds; then it is computed further.

        A computation with the same `key` that waits or runs is shared. Raises what `compute` raises.
        """
        task = self._tasks.get(key)
        if task is None:
            task = self._tasks[key] = asyncio.create_task(self._in_turn(key, compute))
            task.add_done_callback(seen)
        done, _ = await asyncio.wait({task}, timeout=within_s)
        return task.result() if done else None

    async def _in_turn(self, key: Hashable, compute: Callable[[], Awaitable[T]]) -> T:
        try:
            async with self._lock:
                return await compute()
        finally:
            del self._tasks[key]


def seen(task: asyncio.Task[Any]) -> None:
    """The error of a computation whose requests are gone is raised again for the next one that needs the value."""
    if not task.cancelled():
        task.exception()
