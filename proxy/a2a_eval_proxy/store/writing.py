"""The writing half of a store: one thread that takes what is queued in groups, and tries until it is committed."""

from __future__ import annotations

import asyncio
import logging
import math
import queue
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from ..capture.turn import Turn
from .base import Score, Scored, ScoredConversation

logger = logging.getLogger(__name__)

MAX_QUEUED = 20_000
"""Turns waiting to be written; more than that, and the database does not keep up."""

MAX_QUEUED_CHARACTERS = 256 * 1024 * 1024
"""Of the texts of these turns."""

MAX_GROUP = 100
"""Batches that are written in one transaction."""

_RETRY_S = 1.0


@dataclass(frozen=True, slots=True)
class Add:
    turns: Sequence[Turn]
    committed: Callable[[], object]
    score: Score | None
    held: Collection[str]
    characters: int


@dataclass(frozen=True, slots=True)
class Settle:
    turns: Sequence[Turn]
    committed: Callable[[], object]


@dataclass(frozen=True, slots=True)
class Finish:
    scored: Sequence[Scored]
    committed: Callable[[], object]


@dataclass(frozen=True, slots=True)
class FinishConversations:
    scored: Sequence[ScoredConversation]
    committed: Callable[[], object]


@dataclass(frozen=True, slots=True)
class Discard:
    turn_ids: Sequence[str]
    committed: Callable[[], object]


@dataclass(frozen=True, slots=True)
class Prune:
    before: datetime | None
    max_bytes: int | None


@dataclass(frozen=True, slots=True)
class Mark:
    """Reached when everything before it is committed."""

    committed: Callable[[], object]
    last: bool = False


Item = Add | Settle | Finish | FinishConversations | Discard | Mark
"""What is written in groups; a `Prune` is done between them."""


class QueuedWrites(ABC):
    """Implements what `base.Store` says of writing; a store says how a group of items is written."""

    trouble: tuple[type[Exception], ...] = ()
    """Errors that pass, such as a full disk or a database that is away: the group is written again until it works."""

    patience_s = math.inf
    """Seconds after `close` that a group is still tried again; what is not written by then is lost."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._queue: queue.SimpleQueue[Item | Prune] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._waiting_turns = 0
        self._waiting_characters = 0
        self._closing = threading.Event()
        self._give_up_at = math.inf
        self._writer = threading.Thread(target=self._write_forever, name="store-writer", daemon=True)

    @abstractmethod
    def _writing(self, group: list[Item]) -> Callable[[], None]:
        """What writes these items, whole or not at all, and raises `trouble`: called until it works.

        Turns are scored here, where they are to be: once, not at each try."""

    @abstractmethod
    def _pruned(self, item: Prune) -> int:
        """Delete what is too old or too much; how many turns that were. May raise `trouble`."""

    def _told(self, error: Exception) -> str:
        """What went wrong, in one line."""
        return " ".join(str(error).split()) or type(error).__name__

    def add(
        self,
        turns: Sequence[Turn],
        committed: Callable[[], object],
        score: Score | None = None,
        held: Collection[str] = (),
    ) -> bool:
        characters = sum(map(_characters, turns))
        with self._lock:
            if self._waiting_turns >= MAX_QUEUED or self._waiting_characters >= MAX_QUEUED_CHARACTERS:
                return False
            self._waiting_turns += len(turns)
            self._waiting_characters += characters
        self._queue.put(Add(turns, committed, score, held, characters))
        return True

    def settle(self, turns: Sequence[Turn], committed: Callable[[], object]) -> None:
        self._queue.put(Settle(turns, committed))

    def finish(self, scored: Sequence[Scored], committed: Callable[[], object]) -> None:
        self._queue.put(Finish(scored, committed))

    def finish_conversations(self, scored: Sequence[ScoredConversation], committed: Callable[[], object]) -> None:
        self._queue.put(FinishConversations(scored, committed))

    def discard(self, turn_ids: Sequence[str], committed: Callable[[], object]) -> None:
        self._queue.put(Discard(turn_ids, committed))

    def prune(self, before: datetime | None, max_bytes: int | None) -> None:
        self._queue.put(Prune(before, max_bytes))

    async def drained(self) -> None:
        loop = asyncio.get_running_loop()
        reached = asyncio.Event()
        self._queue.put(Mark(lambda: loop.call_soon_threadsafe(reached.set)))
        await reached.wait()

    def close(self) -> None:
        self._give_up_at = time.monotonic() + self.patience_s
        self._closing.set()
        self._queue.put(Mark(lambda: None, last=True))
        self._writer.join()

    def _write_forever(self) -> None:
        while True:
            group = self._next_group()
            self._commit(group)
            if any(isinstance(item, Mark) and item.last for item in group):
                return

    def _next_group(self) -> list[Item | Prune]:
        group = [self._queue.get()]
        while len(group) < MAX_GROUP:
            try:
                group.append(self._queue.get_nowait())
            except queue.Empty:
                break
        return group

    def _commit(self, queued: list[Item | Prune]) -> None:
        group = [item for item in queued if not isinstance(item, Prune)]
        added = [item for item in group if isinstance(item, Add)]
        turns = sum(len(item.turns) for item in added)
        if any(not isinstance(item, Mark) for item in group):
            self._try_until_written(self._writing(group), turns)
        with self._lock:
            self._waiting_turns -= turns
            self._waiting_characters -= sum(item.characters for item in added)
        for item in queued:
            if isinstance(item, Prune):
                self._prune(item)
            else:
                item.committed()

    def _prune(self, item: Prune) -> None:
        try:
            deleted = self._pruned(item)
        except self.trouble as error:  # it is tried again next time
            logger.error("store %s: old turns could not be deleted: %s", self._name, self._told(error))
        else:
            if deleted:
                logger.info("store %s: %d old turn(s) were deleted", self._name, deleted)

    def _try_until_written(self, write: Callable[[], None], turns: int) -> None:
        reported = False
        while True:
            try:
                write()
            except self.trouble as error:  # nothing may be lost, so try until it works
                if time.monotonic() >= self._give_up_at:
                    message = "store %s: %s; it is closed, and %d turn(s) are lost"
                    logger.error(message, self._name, self._told(error), turns)
                    return
                if not reported:
                    logger.error("store %s: %s; retrying, turns wait in memory", self._name, self._told(error))
                    reported = True
                self._pause()
            else:
                if reported:
                    logger.info("store %s: it can be written again", self._name)
                return

    def _pause(self) -> None:
        if self._closing.is_set():
            time.sleep(min(_RETRY_S, 0.2))
        else:
            self._closing.wait(_RETRY_S)


def latest_results(finished: Iterable[Finish]) -> list[Scored]:
    """One for each turn: its last results, and what was last merged into it."""
    latest: dict[str, Scored] = {}
    for scored in (scored for item in finished for scored in item.scored):
        before = latest.get(scored.turn_id)
        if before is not None and scored.merged is None:
            scored = replace(scored, merged=before.merged)
        latest[scored.turn_id] = scored
    return list(latest.values())


def _characters(turn: Turn) -> int:
    """About how large a turn is: its texts, in characters."""
    return len(turn.user_text) + len(turn.response_text) + sum(len(call.result or "") for call in turn.tool_calls)
