"""A store as a whole, and what pages through its turns or waits until they can be read."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from tool_call_evaluators.judge.cache import JudgeCache

from ..turn import rfc3339_at
from .base import StoreError, TurnJson, TurnQuery
from .reads import StoreReads
from .webhooks import StoreTable, WebhookTable
from .write_queue import QueuedWrites

if TYPE_CHECKING:
    from .postgres.work import WorkStore

logger = logging.getLogger(__name__)

T = TypeVar("T")

_READ_AGAIN_S = 1.0


class _JudgeAnswers(StoreTable):
    """A `JudgeCache`. What it says is JSON in ASCII, which every database takes."""

    async def get(self, key: str) -> Mapping[str, Any] | None:
        rows = await self._read("SELECT entry FROM judge_answers WHERE key = :key", {"key": key}, list)
        return json.loads(rows[0][0]) if rows else None

    async def put(self, key: str, entry: Mapping[str, Any]) -> None:
        statement = (
            "INSERT INTO judge_answers (key, entry, kept_at) VALUES (:key, :entry, :kept_at)"
            " ON CONFLICT (key) DO UPDATE SET entry = excluded.entry, kept_at = excluded.kept_at"
        )
        await self._change(statement, {"key": key, "entry": json.dumps(entry), "kept_at": rfc3339_at(time.time())})


class Store(StoreReads, QueuedWrites):
    """Writes are queued and never wait; `committed` callbacks come from another thread. Reads are awaited, and raise
    StoreError while the store cannot be read."""

    work: WorkStore | None = None  # what workers share; None where only this process scores

    @property
    def judge_cache(self) -> JudgeCache:
        """The answers of judges: scoring a turn again sends no request. Usable from any event loop."""
        return _JudgeAnswers(self._read, self._change)

    @property
    def webhooks(self) -> WebhookTable:
        """The webhooks of clients that the proxy relays."""
        return WebhookTable(self._read, self._change, self._change_later)


async def every_turn(store: Store, query: TurnQuery, page: int = 500) -> AsyncIterator[TurnJson]:
    """All turns that match, oldest first; `page` of them are in memory at a time."""
    query = replace(query, limit=page)
    while True:
        found = await store.turns(query)
        for turn in found.items:
            yield turn
        if found.next_cursor is None:
            return
        query = replace(query, cursor=found.next_cursor)


async def once_readable(store: Store, read: Callable[[], Awaitable[T]], problem: type[StoreError] = StoreError) -> T:
    """What `read` returns, which is called again after each `problem`, until the patience of the store ends: then it is
    raised."""
    deadline = time.monotonic() + store.patience_s
    while True:
        try:
            return await read()
        except problem as error:
            if time.monotonic() >= deadline:
                raise
            logger.debug("%s; reading again", error)  # how the store does is logged where it is written
        await asyncio.sleep(_READ_AGAIN_S)
