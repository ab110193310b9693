"""Where turns and conversations are scored that take more than a moment: not on the event loop of traffic."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

from tool_call_evaluators.agent_tree import AgentTurn

from ..errors import UNREACHABLE
from ..turn import Turn
from .scorer import NO_TREES, Results, Scorer, TurnJson

T = TypeVar("T")


class ToScore(NamedTuple):
    """What `Scorer.score` is given of a turn."""

    turn: Turn
    earlier: Sequence[TurnJson] | None
    tree: AgentTurn | None


class ExecutorLostError(Exception):
    """The executor cannot be reached any more; the message says which one, and why."""

    exit_code = UNREACHABLE


class ScoringExecutor(Protocol):
    """Calls `Scorer.score` elsewhere. Both methods may raise ExecutorLostError: nothing is scored after that."""

    async def score(self, work: Sequence[ToScore]) -> list[Results]:
        """The results of each turn."""

    async def score_conversations(
        self, conversations: Sequence[Sequence[TurnJson]], trees: Mapping[str, AgentTurn] = NO_TREES
    ) -> list[Results | None]:
        """`Scorer.score_conversation` for each of them, concurrently."""

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

    async def score(self, work: Sequence[ToScore]) -> list[Results]:
        return await self._run(self._scorer.score(*one) for one in work)

    async def score_conversations(
        self, conversations: Sequence[Sequence[TurnJson]], trees: Mapping[str, AgentTurn] = NO_TREES
    ) -> list[Results | None]:
        return await self._run(map(partial(self._scorer.score_conversation, trees=trees), conversations))

    def close(self) -> None:
        if (waiting := self._waiting) is not None:  # for a judge, which may take its time
            waiting.get_loop().call_soon_threadsafe(waiting.cancel)
        self._thread.submit(self._runner.close)
        self._thread.shutdown(wait=True)

    async def _run(self, results: Iterable[Awaitable[T]]) -> list[T]:
        async def run() -> list[T]:
            self._waiting = asyncio.current_task()
            try:
                return await gathered(results)
            finally:
                self._waiting = None

        return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: self._runner.run(run()))


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
