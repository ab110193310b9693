"""Threads: bounded ones for work that may stall, one with an event loop, and one for a function."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future, InvalidStateError, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from threading import BoundedSemaphore
from typing import Any, TypeVar

T = TypeVar("T")

MOST_WAITING = 1_000  # operations, those in progress included; further ones fail at once
Begin = Callable[[], None]
"""Called by an operation before it has any effect; raises CancelledError if its caller has given it up."""


class BoundedThreads:
    """Runs operations of one kind, in the order in which they came."""

    def __init__(self, name: str, threads: int, too_many: Callable[[], Exception]) -> None:
        """`too_many` is raised where `MOST_WAITING` operations wait."""
        self._too_many = too_many
        self._new_threads = partial(ThreadPoolExecutor, threads, name)
        self._threads = self._new_threads()
        self._places = BoundedSemaphore(MOST_WAITING)

    async def run(self, work: Callable[[Begin], T]) -> T:
        """Do `work`; from any event loop. Once cancelled, it does not begin. Raises what `work` raises."""
        if not self._places.acquire(blocking=False):
            raise self._too_many()
        answer: Future[T] = Future()
        held = [work]
        answer.add_done_callback(lambda _: held.clear())  # one that is given up holds its place, but no memory
        self._threads.submit(self._do, held, answer)
        return await asyncio.wrap_future(answer)

    def end(self) -> None:
        """End the threads once they have nothing to do, without waiting for them. A later operation starts others."""
        ending, self._threads = self._threads, self._new_threads()
        ending.shutdown(wait=False)

    def _do(self, held: list[Callable[[Begin], Any]], answer: Future[Any]) -> None:
        def begin() -> None:
            if not answer.set_running_or_notify_cancel():
                raise CancelledError

        tell: Callable[[], object] = answer.cancel
        try:
            for work in tuple(held):
                tell = partial(answer.set_result, work(begin))
        except Exception as error:  # noqa: BLE001  # for the caller
            tell = partial(answer.set_exception, error)
        finally:
            self._places.release()  # before its caller goes on, who may have more to do
        with suppress(InvalidStateError):  # it is given up
            tell()


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
