"""Caches answers by content hash, so that scoring again costs nothing."""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Protocol

from .answers import misfit
from .question import Answer, Judge, Question, Usage

logger = logging.getLogger(__name__)


_TABLE = "CREATE TABLE IF NOT EXISTS judge_answers (key TEXT PRIMARY KEY, entry TEXT, kept_at TEXT NOT NULL)"
_PUT = "INSERT OR REPLACE INTO judge_answers VALUES (?, ?, strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))"


class JudgeCacheError(Exception):
    """A cache cannot be read or written. Judging continues without it."""


class JudgeCache(Protocol):
    """Stores JSON objects by key (64 hex digits). Entries contain verdicts, never an API key."""

    async def get(self, key: str) -> Mapping[str, Any] | None:
        """The stored entry, or None. May raise JudgeCacheError."""

    async def put(self, key: str, entry: Mapping[str, Any]) -> None:
        """Store `entry`, replacing an earlier one. May raise JudgeCacheError."""


_sample: ContextVar[str] = ContextVar("judge_sample", default="")


@contextmanager
def judged_apart(sample: str) -> Iterator[None]:
    """Context in which answers are cached for one sample only: other samples ask the judge again, so that repetitions
    show how much it varies. An empty string: answers are shared."""
    token = _sample.set(sample and f"#{sample}")
    try:
        yield
    finally:
        _sample.reset(token)


class CachingJudge:
    """A judge with a cache: a repeated question costs nothing.

    `identity` is the judge with everything on which its answers depend; answers of other models are never used.
    """

    def __init__(self, judge: Judge, cache: JudgeCache, identity: str) -> None:
        self._judge = judge
        self._cache = cache
        self.identity = identity

    async def ask(self, question: Question) -> Answer:
        """Answer. Raises JudgeError. A failure of the cache is logged, and the judge is asked."""
        key = question.key(self.identity + _sample.get())
        try:
            kept = await self._cache.get(key)
        except JudgeCacheError as error:
            logger.warning("judge cache: %s", error)
            kept = None
        if kept is not None and not misfit(kept.get("value"), question.schema):
            return Answer(kept["value"], str(kept.get("model") or ""), Usage(), cached=True)
        answer = await self._judge.ask(question)
        try:
            await self._cache.put(key, {"value": dict(answer.value), "model": answer.model})
        except JudgeCacheError as error:
            logger.warning("judge cache: %s", error)
        return answer


class MemoryJudgeCache:
    """Stores answers in memory until the process ends."""

    def __init__(self) -> None:
        self._entries: dict[str, Mapping[str, Any]] = {}

    async def get(self, key: str) -> Mapping[str, Any] | None:
        return self._entries.get(key)

    async def put(self, key: str, entry: Mapping[str, Any]) -> None:
        self._entries[key] = entry


class SqliteJudgeCache:
    """Stores answers in an SQLite file, which several processes may share.

    The file is opened for each access, which is fast compared with a verdict and leaves nothing to close.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)

    async def get(self, key: str) -> Mapping[str, Any] | None:
        rows = await asyncio.to_thread(self._run, "SELECT entry FROM judge_answers WHERE key = ?", (key,))
        try:
            entry = json.loads(rows[0][0]) if rows else None
        except ValueError:
            return None
        return entry if isinstance(entry, dict) else None

    async def put(self, key: str, entry: Mapping[str, Any]) -> None:
        text = json.dumps(entry, ensure_ascii=False)
        await asyncio.to_thread(self._run, _PUT, (key, text))

    def _run(self, statement: str, values: tuple[str, ...]) -> list[Any]:
        try:
            with closing(sqlite3.connect(self._path, timeout=10.0)) as connection, connection:
                connection.execute("PRAGMA secure_delete = ON")
                connection.execute(_TABLE)
                return connection.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise JudgeCacheError(f"{self._path}: {error}") from error
