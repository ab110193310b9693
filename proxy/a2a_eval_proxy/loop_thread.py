"""Daemon threads, which do not keep the process from ending: one with an event loop, and one for a function."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
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


async def in_daemon_thread(function: Callable[[], T], name: str) -> T:
    """Like `asyncio.to_thread`, in a daemon thread of its own: one that hangs does not keep the process from ending."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def settle(outcome: Callable[[], None]) -> None:
        if not done.done():  # it is after a timeout
            outcome()

    def work() -> None:
        try:
            result = context.run(function)
        except StopIteration as stop:  # a future refuses it
            outcome = partial(done.set_exception, RuntimeError(f"StopIteration: {stop}"))
        except BaseException as error:  # noqa: BLE001  # raised again in the task that waits
            outcome = partial(done.set_exception, error)
        else:
            outcome = partial(done.set_result, result)
        with suppress(RuntimeError):  # the loop was closed meanwhile
            loop.call_soon_threadsafe(settle, outcome)

    threading.Thread(target=work, name=name, daemon=True).start()
    return await done
