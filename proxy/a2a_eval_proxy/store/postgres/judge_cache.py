"""Answers of judges, kept in the database of the store: what one worker asked, no other asks again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection
from tool_call_evaluators.judge.cache import JudgeCacheError

from .database import TROUBLE, Database, Work, reason

_GET = text("SELECT entry FROM judge_answers WHERE key = :key")
_PUT = text(
    "INSERT INTO judge_answers (key, entry) VALUES (:key, :entry)"
    " ON CONFLICT (key) DO UPDATE SET entry = excluded.entry, kept_at = now()"
)


class PostgresJudgeCache:
    """See `JudgeCache`. Usable from any event loop."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, key: str) -> Mapping[str, Any] | None:
        async def select(connection: AsyncConnection) -> str | None:
            entry: str | None = (await connection.execute(_GET, {"key": key})).scalar_one_or_none()
            return entry

        kept = await self._run(select)
        return None if kept is None else json.loads(kept)

    async def put(self, key: str, entry: Mapping[str, Any]) -> None:
        kept = json.dumps(entry)  # escapes what PostgreSQL would not take

        async def insert(connection: AsyncConnection) -> None:
            await connection.execute(_PUT, {"key": key, "entry": kept})

        await self._run(insert)

    async def _run(self, work: Work[Any]) -> Any:
        try:
            return await self._database.run(work)
        except TROUBLE as error:
            raise JudgeCacheError(reason(error)) from error
