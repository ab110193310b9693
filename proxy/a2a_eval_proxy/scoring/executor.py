"""Where turns and conversations are scored that take more than a moment: not on the event loop of traffic."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

from ..errors import UNREACHABLE
from .scorer import Scorer

T = TypeVar("T")


Call = Callable[[Scorer], Awaitable[T]]
"""What is asked of a scorer: a `methodcaller`, so that it can be sent to another process."""


class ExecutorLostError(Exception):
    """The executor cannot be reached any more; the message says which one, and why."""

    exit_code = UNREACHABLE


class ScoringExecutor(Protocol):
    """Asks a scorer elsewhere."""

    async def ask(self, calls: Sequence[Call[T]]) -> list[T]:
        """What each returns, concurrently. May raise ExecutorLostError: nothing is scored after that."""

    def close(self) -> None:
        """Blocks until nothing runs any more."""


class ThreadExecutor:
    """Scores in one thread, which has an event loop for judges, so that traffic continues."""

    def __init__(self, scorer: Scorer) -> None:
        self._scorer = scorer
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="scoring")
        self._runner = asyncio.Runner()
        self._waiting: asyncio.Task[Any] | None = None
        """What the event loop runs."""

    async def ask(self, calls: Sequence[Call[T]]) -> list[T]:
        async def run() -> list[T]:
            self._waiting = asyncio.current_task()
            try:
                return await gathered(call(self._scorer) for call in calls)
            finally:
                self._waiting = None

        return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: self._runner.run(run()))

    def close(self) -> None:
        if (waiting := self._waiting) is not None:  # for a judge, which may take its time
            waiting.get_loop().call_soon_threadsafe(waiting.cancel)
        self._thread.submit(self._runner.close)
        self._thread.shutdown(wait=True)


def at_once(results: Coroutine[Any, Any, T]) -> T:
    """What a coroutine returns that waits for nothing."""
    try:
        results.send(None)
    except StopIteration as returned:
        value: T = returned.value
        return value
    results.close()
    raise RuntimeError("an evaluator waits that only computes")


async def gathered(results: Iterable[Awaitable[T]]) -> list[T]:
    """The results, which are awaited side by side."""
    return await asyncio.gather(*results)
