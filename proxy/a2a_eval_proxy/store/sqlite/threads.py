"""A store's own threads. A file that is locked or a disk that stalls keeps only a bounded number of its operations
waiting, and none of the event loop's threads, which resolve names, for one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, InvalidStateError, ThreadPoolExecutor
from contextlib import suppress
from threading import BoundedSemaphore
from typing import Any, TypeVar

from ..base import StoreFileError
from ..reads import MOST_WAITING

T = TypeVar("T")

Begin = Callable[[], None]
"""Called by an operation before it has any effect; raises CancelledError if its caller has given it up."""


class StoreThreads:
    """Runs operations of one kind, in the order in which they came."""

    def __init__(self, name: str, threads: int) -> None:
        self._name = name
        self._threads = ThreadPoolExecutor(threads, name)
        self._places = BoundedSemaphore(MOST_WAITING)

    async def run(self, work: Callable[[Begin], T]) -> T:
        """Do `work`; from any event loop. Once cancelled, it does not begin. Raises what `work` raises, and
        StoreFileError at once if too many operations wait."""
        if not self._places.acquire(blocking=False):
            raise StoreFileError(f"{MOST_WAITING} {self._name} wait for the file already")
        answer: Future[T] = Future()
        held = [work]
        answer.add_done_callback(lambda _: held.clear())  # one that is given up holds its place, but no memory
        self._threads.submit(self._do, held, answer)
        return await asyncio.wrap_future(answer)

    def _do(self, held: list[Callable[[Begin], Any]], answer: Future[Any]) -> None:
        def begin() -> None:
            if not answer.set_running_or_notify_cancel():
                raise CancelledError

        try:
            with suppress(InvalidStateError):  # it is given up
                try:
                    for work in tuple(held):
                        answer.set_result(work(begin))
                except Exception as error:  # noqa: BLE001  # for the caller
                    answer.set_exception(error)
        finally:
            self._places.release()
