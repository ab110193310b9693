"""Answers of judges, kept in the database of the store: what one worker asked, no other asks again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tool_call_evaluators.judge.cache import JudgeCacheError

from ..base import StoreError
from .database import Database, named

_GET = named("SELECT entry FROM judge_answers WHERE key = :key")
_PUT = named(
    "INSERT INTO judge_answers (key, entry) VALUES (:key, :entry)"
    " ON CONFLICT (key) DO UPDATE SET entry = excluded.entry, kept_at = now()"
)


class PostgresJudgeCache:
    """See `JudgeCache`. Usable from any event loop."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, key: str) -> Mapping[str, Any] | None:
        try:
            rows = await self._database.rows(_GET, {"key": key})
        except StoreError as error:
            raise JudgeCacheError(str(error)) from error
        return json.loads(rows[0][0]) if rows else None

    async def put(self, key: str, entry: Mapping[str, Any]) -> None:
        try:  # JSON in ASCII, which PostgreSQL takes whatever it says
            await self._database.change(_PUT, {"key": key, "entry": json.dumps(entry)})
        except StoreError as error:
            raise JudgeCacheError(str(error)) from error
