"""Fragments that are made once for all pages at the same address: those of the list of turns take 50 ms."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from ..long_computations import seen

T = TypeVar("T")

REST_S = 0.08
"""Least time from the begin of fragments to that of the next ones of their address: what a page itself waits."""


class SharedFragments(Generic[T]):
    """Begins to make the fragments of an address every `REST_S` at most. Single event loop."""

    def __init__(self) -> None:
        self._next: dict[Hashable, asyncio.Task[T]] = {}
        """By address: those that are not begun yet."""
        self._free_at: dict[Hashable, float] = {}
        """By address: when the next may be begun, on the clock of the event loop."""

    async def of(self, address: Hashable, make: Callable[[], Awaitable[T]]) -> T:
        """What `make` of this or of a concurrent request returns. It is begun after this call: no news is missed.

        Raises what it raises.
        """
        task = self._next.get(address)
        if task is None:
            task = self._next[address] = asyncio.create_task(self._make(address, make))
            task.add_done_callback(seen)
        return await asyncio.shield(task)

    async def _make(self, address: Hashable, make: Callable[[], Awaitable[T]]) -> T:
        now = asyncio.get_running_loop().time
        await asyncio.sleep(self._free_at.get(address, 0.0) - now())
        del self._next[address]
        self._free_at = {other: at for other, at in self._free_at.items() if at > now()} | {address: now() + REST_S}
        return await make()
