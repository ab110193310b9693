"""A thread with an event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class LoopThread:
    """An event loop that runs in a daemon thread until it is closed."""

    def __init__(self, name: str) -> None:
        """`name`: what runs there."""
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), name=name, daemon=True)
        self._thread.start()
        self._ready.wait()

    @property
    def runs(self) -> bool:
        return self._thread.is_alive()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` there and wait for it. Raises what it raises, RuntimeError where the loop is closed."""
        if not self.runs:
            work.close()
            raise RuntimeError(f"{self._thread.name} was stopped")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` there and await it, from another event loop."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def close(self, timeout_s: float | None = None) -> None:
        """Stop the loop, and wait until its thread has ended, or at most `timeout_s`."""
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(timeout_s)

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self._ready.set()
        await self._stop.wait()
