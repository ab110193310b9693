"""Caches answers by content hash, so that scoring again costs nothing."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

from .answers import misfit
from .question import Answer, Judge, Question, Usage

logger = logging.getLogger(__name__)


class JudgeCache(Protocol):
    """Stores JSON objects by key (64 hex digits). Entries contain verdicts, never an API key."""

    async def get(self, key: str) -> Mapping[str, Any] | None:
        """The stored entry, or None. May raise: then the judge is asked."""

    async def put(self, key: str, entry: Mapping[str, Any]) -> None:
        """Store `entry`, replacing an earlier one. May raise: then it is not kept."""


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
        except Exception as error:  # noqa: BLE001  # the cache's code; the judge answers without it
            logger.warning("judge cache: %s", error)
            kept = None
        if kept is not None and not misfit(kept.get("value"), question.schema):
            return Answer(kept["value"], str(kept.get("model") or ""), Usage(), cached=True)
        answer = await self._judge.ask(question)
        try:
            await self._cache.put(key, {"value": dict(answer.value), "model": answer.model})
        except Exception as error:  # noqa: BLE001  # the cache's code; the judge answers without it
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
