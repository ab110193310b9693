"""The writing half of a store: one thread that takes what is queued in groups, and tries until it is committed."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from contextvars import copy_context
from queue import Empty, SimpleQueue
from types import MappingProxyType
from typing import Any

from ..memory import share
from ..turn import Turn, rfc3339_at
from .base import (
    Evaluations,
    Limits,
    Scored,
    ScoredConversation,
    StoreError,
    StoreFileError,
    StoreHealth,
    StoreUnreachableError,
)
from .dialects import SqlDialect
from .encoding import (
    Add,
    Change,
    Discard,
    Finish,
    FinishConversations,
    Item,
    Prune,
    encoded_conversation,
    encoded_or_unknown,
    encoded_scored,
    nothing,
)
from .writes import DELETE_ANSWERS, OLDEST, delete_oldest, delete_orphans

logger = logging.getLogger(__name__)

MAX_QUEUED = 20_000  # turns waiting to be written; more than that, and the database does not keep up
MAX_WAITING_BYTES = share(8)
"""Of memory, for everything that waits to be written; with more, no further turns are taken."""

MAX_GROUP = 100  # batches that are written in one transaction
_GATHER_S = 0.004
"""Groups are at least this far apart, unless somebody waits: each commit costs what several turns do."""

MAX_GROUP_BYTES = 4 * 1024 * 1024
"""After as many bytes no further batch joins a transaction: a backlog is written in pieces that take little memory."""

PATIENCE_S = 20.0  # how long each write of a store that is not patient is tried before the store ends
RETRY_S = 1.0

_GIVING_UP_S = 0.5  # for the writing thread to notice that its time is over


class StoreLostError(Exception):
    """The open database is damaged or was deleted; the message says which, and what happens next."""


class QueuedWrites(ABC):
    """The writing half of a store, which says how it is opened, and a group of items is written.

    All of that happens in one thread. What waits is held as encoded text, and counted in bytes.
    """

    _dialect: SqlDialect
    trouble: tuple[type[Exception], ...] = ()
    """Errors that pass, such as a full disk or a database that is away: the group is written again until it works."""

    def __init__(self, name: str, *, patient: bool) -> None:
        self._name = name
        self.patience_s = math.inf if patient else PATIENCE_S  # how long it may fail until the work that needs it ends
        self.health = StoreHealth()
        self._on_opened: Callable[[], object] = nothing
        self.on_ended: set[Callable[[], object]] = set()  # called in the store's thread when it has `ended_by`
        self.ended_by: StoreError | None = None
        """Why nothing more is ever written; None as long as the store is written, or tried again."""
        self._queue: SimpleQueue[Item] = SimpleQueue()
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._awaited_now = threading.Event()
        """Whether something is to be written at once."""
        self._next_group_at = 0.0
        self._attempted = threading.Event()
        self._first_error: StoreError | None = None
        self._awaited = True  # whether `first_attempt` reports the first error, in place of the log
        self._opened = False
        self._failing_since: float | None = None
        self._give_up_at = math.inf
        self._writer = threading.Thread(
            target=copy_context().run, args=(self._write_forever,), name="store-writer", daemon=True
        )

    @abstractmethod
    def _open(self) -> None:
        """Prepare it for writing; create missing tables. Raises StoreError."""

    def _check(self) -> None:  # noqa: B027  # a database on a server needs none
        """Called before each write. If the opened file is no longer the store, raises StoreLostError to reopen it, or
        StoreError to stop writing."""

    @abstractmethod
    def _writing(self, group: list[Item]) -> Callable[[], None]:
        """What writes these items, whole or not at all, and raises `trouble`: called until it works."""

    @abstractmethod
    def _execute(self, statement: str, values: dict[str, Any]) -> int:
        """Run a statement with parameters `:name` in a transaction; how many rows it changed. May raise `trouble`."""

    @abstractmethod
    def _value(self, statement: str, values: dict[str, Any]) -> Any:
        """The first value that a statement selects; None where it selects no row. May raise `trouble`."""

    @abstractmethod
    def _reclaim(self, *, deleted: bool) -> None:
        """Free the space of what was deleted. May raise `trouble`."""

    def _describe(self, error: Exception) -> str:
        return " ".join(str(error).split()) or type(error).__name__

    def start(self, on_opened: Callable[[], object]) -> None:
        """Open it in the background, and keep trying; for one that was opened `patiently`.

        `on_opened` is called in the store's thread.
        """
        self._on_opened = on_opened
        self._writer.start()

    def first_attempt(self, timeout_s: float) -> StoreError | None:
        """Waits for the first attempt to open it: why that failed. None if it worked or is still in progress."""
        self._attempted.wait(timeout_s)
        self._awaited = False
        return self._first_error

    def _open_now(self) -> None:
        """Open it and begin to write. Raises StoreError."""
        self._open()
        self._is_open()
        self._writer.start()

    def add(
        self,
        turns: Sequence[Turn],
        committed: Callable[[], object],
        results: Mapping[str, Evaluations] = MappingProxyType({}),
        held: Collection[str] = (),
        *,
        again: bool = False,
    ) -> bool:
        """Keep closed turns as pending, and `open` ones as open. False where they were not taken: the queue is full, or
        nothing more is written.

        A turn that the store has as open is replaced; one that it has as closed is replaced `again`, and pending again,
        else it stays as it is, so that of several processes that close a turn the first does.

        Those whose ids are `held` are not for workers yet: they are going to be added again.

        `results` has the evaluations of turns that are scored already, by turn id: these are done, in one write instead
        of two.
        """
        if self._is_full:
            return False
        self._put(Add([encoded_or_unknown(turn, results.get(turn.turn_id)) for turn in turns], committed, held, again))
        return True

    @property
    def _is_full(self) -> bool:
        waits = self.health
        return waits.ended or waits.waiting_bytes >= MAX_WAITING_BYTES or waits.waiting_turns >= MAX_QUEUED

    def _change_later(self, statement: str, values: dict[str, Any]) -> asyncio.Future[None]:
        """Run a statement after what is queued. The result is there once it is committed; a caller need not wait."""
        changed: Future[None] = Future()
        changed.set_running_or_notify_cancel()
        if self._is_full:
            logger.error("store %s: a change is lost: it takes nothing more", self._name)
        else:
            self._put(Change([(statement, values)], lambda: changed.set_result(None)))
        return asyncio.wrap_future(changed)

    def finish(self, scored: Sequence[Scored], committed: Callable[[], object]) -> None:
        """Replace the evaluations of these turns (and what was merged into them) and mark them done."""
        self._put(Finish([encoded_scored(one) for one in scored], committed))

    def finish_conversations(self, scored: Sequence[ScoredConversation], committed: Callable[[], object]) -> None:
        """Replace the results of these conversations."""
        self._put(FinishConversations([encoded_conversation(one) for one in scored], committed))

    def discard(self, turn_ids: Sequence[str], committed: Callable[[], object]) -> None:
        """Delete these turns, and the evaluations of their conversations."""
        self._put(Discard(turn_ids, committed))

    def prune(self, limits: Limits) -> None:
        """Delete turns beyond these limits, with their evaluations, and overwrite the deleted data in a file."""
        self._put(Prune(limits=limits))

    async def pruned(self, limits: Limits) -> int:
        """As `prune`; returns the number of deleted turns. Raises StoreError."""
        outcome: Future[int] = Future()
        outcome.set_running_or_notify_cancel()
        self._put(Prune(limits=limits, reported=outcome))
        return await asyncio.wrap_future(outcome)

    async def drained(self) -> None:
        """Returns when everything queued before the call is committed. Raises `ended_by`."""
        reached: Future[None] = Future()
        reached.set_running_or_notify_cancel()
        self._put(Item(committed=lambda: reached.set_result(None)))
        await asyncio.wrap_future(reached)
        if self.ended_by is not None:
            raise self.ended_by

    def close(self, timeout_s: float = 30.0) -> None:
        """Commit what is queued and close. Blocks until that is done, or for `timeout_s`: what is not written by then
        is lost, and logged."""
        self._give_up_at = time.monotonic() + timeout_s
        self._closing.set()
        self._put(Item())
        if self._writer.is_alive():
            self._writer.join(timeout_s + _GIVING_UP_S)
        if self._writer.is_alive():  # in a call that does not return; the thread ends with the process
            self._log_lost("it does not answer")

    @property
    def closed(self) -> bool:
        """Whether nothing is written any more: `close` was called, and the writing thread has ended."""
        return self._closing.is_set() and not self._writer.is_alive()

    def _put(self, item: Item) -> None:
        self._count(item.size, item.turns)
        self._queue.put(item)
        if not item.rows:
            self._awaited_now.set()

    def _count(self, more_bytes: int, more_turns: int) -> None:
        if more_bytes:
            with self._lock:
                self.health.waiting_bytes += more_bytes
                self.health.waiting_turns += more_turns

    # ── in the writing thread ───────────────────────────────────────────────────────────────────────────

    def _write_forever(self) -> None:
        while self._goes_on():
            pass
        if self.ended_by is None:
            self._log_lost(self.health.problem)

    def _goes_on(self) -> bool:
        """Open it, or write a group; False at the end, or where there is no more time for it."""
        group: list[Item] = []
        try:
            if not self._opened and self.ended_by is None:
                return self._open_until_it_works()
            group = self._next_group()
            if self.ended_by is None and not self._commit(group):
                return False
        except Exception as problem:  # noqa: BLE001  # a thread that ended without a word would lose turns
            self._end(problem if isinstance(problem, StoreError) else self._unexpected(problem))
        if self.ended_by is not None:
            for item in group:
                if isinstance(item, Prune) and item.reported is not None:
                    item.reported.set_exception(self.ended_by)
                elif not item.rows:
                    item.committed()
        return not (self._closing.is_set() and self._queue.empty())

    def _end(self, error: StoreError) -> None:
        waiting = self.health.waiting_turns
        self.ended_by = type(error)(f"{error}; {waiting} turn(s) are lost" if waiting else str(error))
        self.health.problem = str(error).removeprefix(f"store {self._name}: ")
        self.health.ended = True
        self._first_error = self.ended_by
        self._attempted.set()
        for ended in list(self.on_ended):
            ended()

    def _log_lost(self, problem: str | None) -> None:
        if self.health.waiting_turns:
            logger.error(
                "store %s: %s; it is closed, and %d turn(s) are lost", self._name, problem, self.health.waiting_turns
            )

    def _open_until_it_works(self) -> bool:
        """False where there is no more time for it."""
        while True:
            try:
                self._open()
            except StoreError as error:
                if not self._attempted.is_set():
                    self._first_error = error
                    self._attempted.set()
                    if self._awaited and not error.may_pass:
                        return False
                if not self._tries_again(str(error).removeprefix(f"store {self._name}: ")):
                    return False
            else:
                self._is_open()
                return True

    def _is_open(self) -> None:
        self._opened = True
        self._works()
        self._attempted.set()
        self._on_opened()

    def _next_group(self) -> list[Item]:
        group = [self._queue.get()]
        size = group[0].size
        if (pause := self._next_group_at - time.monotonic()) > 0:
            self._awaited_now.wait(pause)
        self._awaited_now.clear()
        self._next_group_at = time.monotonic() + _GATHER_S
        while len(group) < MAX_GROUP and size < MAX_GROUP_BYTES:
            try:
                group.append(self._queue.get_nowait())
            except Empty:
                break
            size += group[-1].size
        return group

    def _commit(self, queued: list[Item]) -> bool:
        """False where there is no more time for it."""
        group = [item for item in queued if item.rows]
        if not self._try_until_written(self._writing(group) if group else nothing):
            return False
        if group:
            self.health.writes += 1
            self.health.last_write_at = time.time()
        for item in queued:
            self._count(-item.size, -item.turns)
            try:
                if isinstance(item, Prune):
                    self._prune(item)
                else:
                    item.committed()
            except Exception:  # a callback does not end the writer
                logger.exception("store %s: who waits for it could not be told", self._name)
        return True

    def _unexpected(self, problem: Exception) -> StoreError:
        logger.error("store %s: nothing more is written", self._name, exc_info=problem)
        told = f"{type(problem).__name__}: {problem}"
        return StoreError(f"store {self._name}: a write failed for a reason of this program; report it: {told}")

    def _prune(self, item: Prune) -> None:
        try:
            deleted = self._delete(item.limits)
            if deleted:
                for statement in delete_orphans(self._dialect):
                    self._execute(statement, {})
            self._reclaim(deleted=deleted > 0)
        except Exception as error:  # it is tried again next time
            self.health.prune_problem = f"old turns could not be deleted: {self._describe(error)}"
            problem = f"store {self._name}: {self.health.prune_problem}"
            if item.reported is not None:
                item.reported.set_exception(StoreFileError(problem))
            else:
                logger.error("%s", problem, exc_info=None if isinstance(error, self.trouble) else error)
            return
        self.health.prune_problem = None
        if item.reported is not None:
            item.reported.set_result(deleted)
        elif deleted:
            logger.info("store %s: %d old turn(s) were deleted", self._name, deleted)

    def _delete(self, limits: Limits) -> int:
        deleted, answers_before = 0, limits.before
        if limits.before is not None:
            while count := self._execute(*delete_oldest(before=limits.before)):
                deleted += count
        if limits.max_bytes is not None:
            too_much = 0
            while (excess := self._value(self._dialect.used, {}) - limits.max_bytes) > 0:
                count = self._execute(*delete_oldest(excess=excess))
                if not count:
                    break
                too_much += count
            if too_much:
                deleted += too_much
                oldest = self._value(OLDEST, {})
                answers_before = time.time() if oldest is None else max(oldest, answers_before or 0)
        if answers_before is not None:
            self._execute(DELETE_ANSWERS, {"before": rfc3339_at(max(answers_before, 0.0))})
        return deleted

    def _try_until_written(self, write: Callable[[], None]) -> bool:
        while True:
            try:
                self._check()
                write()
            except StoreLostError as lost:
                self._opened = False
                self.health.replaced += 1
                self.health.problem = str(lost)
                logger.error("store %s: %s", self._name, lost)
                if not self._open_until_it_works():
                    return False
            except self.trouble as error:  # nothing may be lost, so try until it works
                if not self._tries_again(self._describe(error)):
                    return False
            else:
                self._works()
                return True

    def _tries_again(self, problem: str) -> bool:
        """After a failure: waits for the next attempt; False where there is no more time for it.

        Raises StoreUnreachableError where the store has failed for as long as its patience lasts."""
        now = time.monotonic()
        if self._failing_since is None:
            self._failing_since = now
            logger.error("store %s: %s; retrying, turns wait in memory", self._name, problem)
        self.health.failed_writes += 1
        self.health.problem = problem
        if now >= self._give_up_at:
            return False
        if now - self._failing_since >= self.patience_s:
            raise StoreUnreachableError(
                f"store {self._name}: {problem}, for {self.patience_s:g} s; repeat the command when it can be written"
            )
        self._pause()
        return True

    def _works(self) -> None:
        if self._failing_since is not None:
            logger.info("store %s: it can be written again", self._name)
        self._failing_since = None
        self.health.problem = None

    def _pause(self) -> None:
        if self._closing.is_set():
            time.sleep(min(RETRY_S, 0.2))
        else:
            self._closing.wait(RETRY_S)
