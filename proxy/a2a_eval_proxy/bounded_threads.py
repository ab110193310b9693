"""Threads for one kind of work that may stall: only a bounded number of its operations waits, and none of the event
loop's own threads, which resolve names and render pages, for example."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, InvalidStateError, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from threading import BoundedSemaphore
from typing import Any, TypeVar

T = TypeVar("T")

MOST_WAITING = 1_000
"""Operations, those in progress included; further ones fail at once."""

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
