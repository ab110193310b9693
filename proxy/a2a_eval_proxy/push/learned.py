"""What responses and notifications show about webhooks, on its way to the store."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from ..store import StoreError
from ..telemetry.problem_log import ProblemLog

logger = logging.getLogger(__name__)

_MOST_WAITING = 10_000
_PAUSE_S = 1.0
_CLOSE_S = 2.0

_Change = tuple[Any, ...]
"""A method of a table, and its arguments."""


class LearnedFacts:
    """Stores facts in order, in the background; while the store does not take one, it is tried again. Belongs to one
    event loop."""

    def __init__(self) -> None:
        self._waiting: dict[_Change, asyncio.Future[None]] = {}
        self._storing: asyncio.Task[None] | None = None
        self._dropped = ProblemLog(logger, "{count} fact(s) about webhooks were dropped: the store takes none")

    def add(self, change: Callable[..., Awaitable[object]], *arguments: str | float) -> asyncio.Future[None]:
        """Store a fact by a method of a table. The result is there once it is stored; a caller need not wait for it."""
        stored = self._waiting.setdefault((change, *arguments), asyncio.get_running_loop().create_future())
        if len(self._waiting) > _MOST_WAITING:
            self._dropped.seen()
            self._done(next(iter(self._waiting)))
        if self._storing is None or self._storing.done():
            self._storing = asyncio.create_task(self._store())
        return asyncio.shield(stored)

    async def close(self) -> None:
        """Store what waits, unless that takes more than 2 s."""
        if self._storing is not None:
            await asyncio.wait([self._storing], timeout=_CLOSE_S)
            self._storing.cancel()
        self._dropped.close()

    async def _store(self) -> None:
        while self._waiting:
            change, *arguments = fact = next(iter(self._waiting))
            try:
                await change(*arguments)
            except StoreError as error:
                logger.debug("a fact about a webhook cannot be stored yet: %s", error)
                await asyncio.sleep(_PAUSE_S)
            else:
                self._done(fact)

    def _done(self, fact: _Change) -> None:
        stored = self._waiting.pop(fact, None)
        if stored is not None:
            stored.set_result(None)
